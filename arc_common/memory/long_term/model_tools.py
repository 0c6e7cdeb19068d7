"""Judges the memories that a model saves and forgets by its tools: by what the user said, and what else it saw."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from arc_common.facts import FactCategory, ProposedFact
from arc_common.memories import MEMORY_TOOLS, SAID_BY, Memory, MemoryStatus, ProposedMemory
from arc_common.memory.answer_sources import Shown
from arc_common.memory.facts.fidelity import is_grounded, is_retold, is_stated, names_only, rests_on
from arc_common.memory.long_term.extraction import one_speaker
from arc_common.memory.own_words import foreign_texts, forget_requests, learnable
from arc_common.memory.summaries.summarizers import with_sources
from arc_common.messages import Message, Role
from arc_common.prompts.context import spoken
from arc_common.text.languages.registry import detect
from arc_common.trust import Trust


def saved_by_model(
    proposed: ProposedMemory,
    *,
    stored: Sequence[Message],
    running: Sequence[Message],
    session_id: str | None,
    shown: Shown,
) -> ProposedMemory:
    """Return a memory that a model saves by a tool, with the trust that the user's own words give it.

    - It is the user's if they stated it: in one whole statement, if untrusted text may have prompted it.
    - Otherwise it waits for a review if untrusted text has all of it, or anything that nobody else said.
    - Otherwise it is the assistant's: it ends, replaces and confirms nothing that a user said.
    """
    messages = without_memory_tools((*stored, *running))
    own = learnable(messages)
    users = [message for message in own if message.role is Role.USER]
    foreign = [*foreign_texts(messages), *shown.texts]
    rests = (
        shown.is_used
        or rests_on(proposed.text, spoken(messages), spoken(own))
        or any(is_grounded(proposed.text, text, share=1.0) for text in foreign)
    )
    language = detect(proposed.text)
    if rests or any(is_grounded(proposed.text, text) or detect(text) is not language for text in foreign):
        is_users = is_retold(proposed.text, [message.text for message in users])
    else:
        is_users = is_stated(proposed.text, spoken(users))
    asked = [message.id for message in stored if message.role is Role.USER and message.id]
    sources: Sequence[str] = asked[-1:]
    if is_users and (stating := [message for message in users if message.id in asked]):
        sources = with_sources([ProposedFact("memory", proposed.text, FactCategory.GENERAL)], stating)[0].sources
    return replace(
        proposed,
        sources=tuple((session_id, name) for name in sources) if session_id is not None else (),
        status=MemoryStatus.PENDING if rests and not is_users else proposed.status,
        metadata=proposed.metadata if is_users else {**proposed.metadata, SAID_BY: Role.ASSISTANT.value},
        reinforces=is_users,
        supersedes=is_users,
        speaker=one_speaker([one for one in users if one.id in sources] or users) if is_users else None,
    )


def without_memory_tools(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without what the memory tools gave a model."""
    return [one for one in messages if one.role is not Role.TOOL or one.name not in MEMORY_TOOLS]


def may_forget(memory: Memory, messages: Sequence[Message], *, shown: Shown) -> bool:
    """Return whether a model may delete a memory: one of its own, or one that only the user can have asked to forget.

    That is so if the user asks for it in their own words since they said it, or if there is no untrusted text that can
    have asked.
    """
    users = [one for one in messages if one.role is Role.USER and one.trust is Trust.USER and not one.made_by_arc]
    if memory.trust is not Trust.USER or (users and not foreign_texts(messages) and not shown.texts):
        return True
    since = [one for one in users if one.created_at is None or one.created_at >= memory.valid_from]
    return any(names_only(asked, memory.text) for message in since for asked in forget_requests(message.text))
