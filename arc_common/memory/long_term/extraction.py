"""Extracts memories from an exchange: by a model, checked against the messages, or by rules."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from arc_common.exceptions import ModelCallError
from arc_common.memories import SAID_BY, Memory, MemoryStatus, MemoryType, ProposedMemory
from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.facts.fidelity import is_concluded, is_grounded, is_in_own_words, rests_on
from arc_common.memory.own_words import learnable
from arc_common.memory.services import Services
from arc_common.memory.summaries.summarizers import sources_in
from arc_common.messages import Message, Role
from arc_common.model_calls import GuardedChatModel, SpentError
from arc_common.prompts.context import spoken, user_name
from arc_common.prompts.memories import (
    InteractionMode,
    MemoriesAnswer,
    MemoryFormatError,
    parse_extraction,
    render_extraction_request,
)
from arc_common.text.languages.registry import detect

_log = logging.getLogger("arc.memory")


class Extractor:
    """Extracts memories from messages, by a model if there is one, else by rules."""

    def __init__(self, services: Services) -> None:
        model, self._observer = services.chat_model, services.observer
        self._models = services.models
        self._model: GuardedChatModel | None = None
        if model is not None:
            self._model = GuardedChatModel(
                model,
                settings=services.settings,
                observer=self._observer,
                name="memory.model",
                health=services.models,
                count=services.token_counter.count,
            )
        self._settings = services.settings.memory

    @property
    def has_model(self) -> bool:
        """`True` if a model extracts memories; otherwise only rules do."""
        return self._model is not None

    @property
    def waits(self) -> bool:
        """`True` while the model may not be called, because the hour's tokens are spent."""
        return self.has_model and not self._models.may_spend()

    def extract(
        self,
        messages: Sequence[Message],
        *,
        mode: InteractionMode = "chat",
        session_id: str | None = None,
        known: Sequence[Memory] = (),
        before: Message | None = None,
        may_wait: bool = False,
    ) -> list[ProposedMemory]:
        """Extract the memories of messages that are important enough; the first message answers `before`.

        Once the hour's tokens are spent, rules extract them; with `may_wait`, `SpentError` is raised instead.
        """
        own, said = self._settings, learnable(messages)
        request = render_extraction_request(
            said if self._model is not None else (),
            mode=mode,
            known=[memory.attributed for memory in known],
            types=own.types,
            instructions=own.instructions,
        )
        if not any(message.role is Role.USER for message in said):
            return []
        self._observer.count("memory.extraction.count")
        memories: Sequence[ProposedMemory] | None = None
        try:
            if self._model is not None:
                answer = self._model.complete(request, schema=MemoriesAnswer)
                proposed = parse_extraction(answer, known=[memory.id for memory in known], types=own.types)
                memories = self._checked(proposed, messages, said, session_id)
        except (ModelCallError, MemoryFormatError) as error:
            if may_wait and isinstance(error, SpentError):
                raise
            self._failed(error, type(error).__name__)
        if self._model is None or memories is not None:
            self._observer.count("memory.extraction.success")
        if memories is None:
            memories = memories_by_rules(said if before is None else [before, *said], session_id=session_id)
        return [memory for memory in memories if memory.importance >= own.min_importance]

    def _failed(self, reason: object, error: str) -> None:
        _log.warning("memories are extracted by rules: %s", reason)
        self._observer.count("memory.extraction.errors", error=error)

    def _checked(
        self,
        proposed: Sequence[ProposedMemory],
        messages: Sequence[Message],
        said: Sequence[Message],
        session_id: str | None,
    ) -> list[ProposedMemory] | None:
        """Return the model's memories that trusted words support, with their sources; `None` if none is supported."""
        text, untrusted = spoken(said), spoken(messages)
        grounded = [one for one in proposed if _is_grounded(one, text) and not rests_on(one.text, untrusted, text)]
        if ungrounded := len(proposed) - len(grounded):
            self._observer.count("memory.extraction.ungrounded", ungrounded)
        if proposed and not grounded:
            self._failed("the model states things that nobody said", "Ungrounded")
            return None
        users = [message for message in said if message.role is Role.USER]
        by_user, sources_of = spoken(users), sources_in(said)
        times = {message.id: message.created_at for message in said if message.id and message.created_at}
        found = []
        for memory in grounded:
            ids = sources_of(memory.text)
            stating = [message for message in users if message.id in ids]
            is_users = is_grounded(memory.text, by_user)
            by_others = not is_users and is_grounded(memory.text, text)
            reinforces = _is_grounded(memory, by_user) and not by_others
            supersedes = is_users or (reinforces and memory.type == MemoryType.PREFERENCE)
            found.append(
                replace(
                    memory,
                    sources=() if session_id is None else tuple((session_id, message_id) for message_id in ids),
                    status=MemoryStatus.PENDING if is_in_own_words(memory.text, text) else memory.status,
                    valid_from=max((times[name] for name in ids if name in times), default=None),
                    metadata=memory.metadata if supersedes else {SAID_BY: Role.ASSISTANT.value},
                    reinforces=reinforces,
                    supersedes=supersedes,
                    replaces=memory.replaces if is_users else (),
                    speaker=one_speaker(stating or users) if supersedes else None,
                )
            )
        return found


def _is_grounded(memory: ProposedMemory, text: str) -> bool:
    """Return whether a text supports a memory that a model extracted from it."""
    is_looser = memory.type in (MemoryType.PREFERENCE, MemoryType.INSIGHT)
    return (is_concluded if is_looser else is_grounded)(memory.text, text)


def memories_by_rules(
    messages: Sequence[Message],
    *,
    session_id: str | None = None,
) -> list[ProposedMemory]:
    """Extract the facts that users state as memories, in their own words and order; deterministic."""
    users = [message for message in learnable(messages) if message.role is Role.USER]
    times = {message.id: message.created_at for message in users if message.id and message.created_at}
    return [
        ProposedMemory(
            fact.value,
            MemoryType.PREFERENCE if _is_preference(fact.value) else MemoryType.FACT,
            fact.importance,
            sources=tuple((session_id, name) for name in fact.sources) if session_id is not None else (),
            valid_from=max((times[name] for name in fact.sources if name in times), default=None),
            metadata={SAID_BY: Role.USER.value},
            speaker=speaker,
        )
        for speaker in dict.fromkeys(map(user_name, users))
        for fact in extract_facts(messages, told_by=partial(_is_of, speaker))
    ]


def _is_of(speaker: str | None, message: Message) -> bool:
    return message.role is Role.USER and user_name(message) == speaker


def one_speaker(stating: Iterable[Message]) -> str | None:
    """Return the name of the user who said all these messages; `None` if several did, or without a name."""
    names = set(map(user_name, stating))
    return names.pop() if len(names) == 1 else None


def _is_preference(text: str) -> bool:
    return detect(text).preferring.search(text.replace("’", "'")) is not None
