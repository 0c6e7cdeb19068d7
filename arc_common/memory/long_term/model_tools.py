"""Judges the memories that a model saves and forgets by its tools: by what the user said, and what else it saw."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from arc_common.exceptions import SessionNotFoundError
from arc_common.memories import MEMORY_TOOLS, SAID_BY, Memory, MemoryStatus, ProposedMemory
from arc_common.memory.answer_sources import Shown
from arc_common.memory.facts.fidelity import is_grounded, is_retold, is_stated, names_only, rests_on
from arc_common.memory.long_term.extraction import one_speaker
from arc_common.memory.own_words import foreign_texts, forget_requests, learnable
from arc_common.memory.summaries.summarizers import sources_in
from arc_common.messages import Message, Role
from arc_common.prompts.context import spoken
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import ConversationStore
from arc_common.text.languages.registry import detect
from arc_common.trust import Trust

_SEEN = 256
"""The newest messages in which a page may ask a model to save or forget something: a window shows no more, mostly."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The stored and running messages that a model sees as it calls a memory tool, and other untrusted texts."""

    session_id: str | None
    stored: Sequence[Message]
    messages: Sequence[Message]
    shown: Shown

    @classmethod
    def read(
        cls,
        conversations: ConversationStore,
        key: SessionKey | None,
        running: Sequence[Message],
        shown: Callable[[SessionKey], Shown],
    ) -> "ToolContext":
        """Read the newest stored messages; of the running ones, those that are not among them follow."""
        stored: Sequence[Message] = ()
        if key is not None:
            with suppress(SessionNotFoundError):  # there is none yet, or it is another user's
                stored = [one.message for one in conversations.read(key, limit=_SEEN)]
        known = {message.id for message in stored}
        seen = (*stored, *(one for one in running if one.id is None or one.id not in known))
        messages = [one for one in seen if one.role is not Role.TOOL or one.name not in MEMORY_TOOLS]
        if key is None or not stored:
            return cls(None, stored, messages, Shown())
        return cls(key.session_id, stored, messages, shown(key))


def saved_by_model(proposed: ProposedMemory, context: ToolContext) -> ProposedMemory:
    """Return a memory that a model saves by a tool, with the trust that the user's own words give it.

    - It is the user's if they stated it: in one whole statement, if untrusted text may have prompted it.
    - Otherwise it waits for a review if untrusted text has all of it, or anything that nobody else said.
    - Otherwise it is the assistant's: it ends, replaces and confirms nothing that a user said.
    """
    messages, session_id = context.messages, context.session_id
    own = learnable(messages)
    users = [message for message in own if message.role is Role.USER]
    foreign = [*foreign_texts(messages), *context.shown.texts]
    rests = (
        context.shown.is_used
        or rests_on(proposed.text, spoken(messages), spoken(own))
        or any(is_grounded(proposed.text, text, share=1.0) for text in foreign)
    )
    language = detect(proposed.text)
    if rests or any(is_grounded(proposed.text, text) or detect(text) is not language for text in foreign):
        is_users = is_retold(proposed.text, [message.text for message in users])
    else:
        is_users = is_stated(proposed.text, spoken(users))
    asked = [message.id for message in context.stored if message.role is Role.USER and message.id]
    sources: Sequence[str] = asked[-1:]
    if is_users and (stating := [message for message in users if message.id in asked]):
        sources = sources_in(stating)(proposed.text)
    return replace(
        proposed,
        sources=tuple((session_id, name) for name in sources) if session_id is not None else (),
        status=MemoryStatus.PENDING if rests and not is_users else proposed.status,
        metadata=proposed.metadata if is_users else {**proposed.metadata, SAID_BY: Role.ASSISTANT.value},
        reinforces=is_users,
        supersedes=is_users,
        speaker=one_speaker([one for one in users if one.id in sources] or users) if is_users else None,
    )


def may_forget(memory: Memory, context: ToolContext) -> bool:
    """Return whether a model may delete a memory: one of its own, or one that only the user can have asked to forget.

    That is so if the user asks for it in their own words since they said it, or if there is no untrusted text that can
    have asked.
    """
    messages = context.messages
    users = [one for one in messages if one.role is Role.USER and one.trust is Trust.USER and not one.made_by_arc]
    if memory.trust is not Trust.USER or (users and not foreign_texts(messages) and not context.shown.texts):
        return True
    since = [one for one in users if one.created_at is None or one.created_at >= memory.valid_from]
    return any(names_only(asked, memory.text) for message in since for asked in forget_requests(message.text))
