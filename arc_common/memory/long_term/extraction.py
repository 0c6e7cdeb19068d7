"""Extracts memories from an exchange: by a model, checked against the messages, or by rules."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from arc_common.concurrency import giving_way
from arc_common.exceptions import ModelCallError
from arc_common.facts import FactCategory, ProposedFact
from arc_common.memories import SAID_BY, Memory, MemorySource, MemoryType, ProposedMemory
from arc_common.memory.facts.extraction import extract_facts, parts_said, without_forgotten, without_quoted
from arc_common.memory.facts.fidelity import invents, is_grounded
from arc_common.memory.services import Services
from arc_common.memory.summaries.summarizers import with_sources
from arc_common.messages import Message, Role
from arc_common.model_calls import GuardedChatModel
from arc_common.prompts.context import parse_fences
from arc_common.prompts.memories import (
    InteractionMode,
    MemoryFormatError,
    parse_extraction,
    render_extraction_request,
    without_memories,
)
from arc_common.text.languages.registry import detect, with_other_scripts
from arc_common.text.sentences import Mood, clauses_of

_log = logging.getLogger("arc.memory")

_JOINT = re.compile(r",?\s(?:and|but)\s(?=(?:i|i'm|i've|i'd|my|we)\s)", re.IGNORECASE)
_SECOND_SUBJECT = re.compile(r"^\S+\s\S+\s.{0,120}\s(?:i|we|you|he|she|they|it|then|please|never|do)\s", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_PREFERENCE_IMPORTANCE = 0.6
_LONGEST = 300
_MOST_SENTENCES = 40


@dataclass(frozen=True, slots=True)
class Extracted:
    """The memories extracted from an exchange."""

    memories: tuple[ProposedMemory, ...]
    failed: bool = False


class Extractor:
    """Extracts memories from messages, by a model if there is one, else by rules."""

    def __init__(self, services: Services) -> None:
        model, self._observer = services.chat_model, services.observer
        self._model = (
            None
            if model is None
            else GuardedChatModel(model, settings=services.settings, observer=self._observer, name="memory.model")
        )
        self._settings = services.settings.memory

    @property
    def has_model(self) -> bool:
        """`True` if a model extracts memories; otherwise only rules do."""
        return self._model is not None

    def extract(
        self,
        messages: Sequence[Message],
        *,
        mode: InteractionMode = "chat",
        session_id: str | None = None,
        known: Sequence[Memory] = (),
    ) -> Extracted:
        """Extract the memories of messages that are important enough to keep."""
        request = render_extraction_request((), mode=mode)
        said = as_said(messages)
        if not any(message.role is Role.USER for message in said):
            return Extracted(())
        self._observer.count("memory.extraction.count")
        if self._model is None:
            extracted = Extracted(self._by_rules(said, session_id))
        else:
            request = render_extraction_request(said, mode=mode, known=[memory.text for memory in known])
            try:
                proposed = parse_extraction(self._model.complete(request), known=[memory.id for memory in known])
            except (ModelCallError, MemoryFormatError) as error:
                _log.warning("memories are extracted by rules: %s", error)
                self._observer.count("memory.extraction.errors", error=type(error).__name__)
                extracted = Extracted(self._by_rules(said, session_id), failed=True)
            else:
                extracted = self._checked(proposed, said, session_id)
        if not extracted.failed:
            self._observer.count("memory.extraction.success")
        enough = [memory for memory in extracted.memories if memory.importance >= self._settings.min_importance]
        return replace(extracted, memories=tuple(enough))

    def _by_rules(self, said: Sequence[Message], session_id: str | None) -> tuple[ProposedMemory, ...]:
        return tuple(memories_by_rules(said, session_id=session_id))

    def _checked(
        self,
        proposed: Sequence[ProposedMemory],
        said: Sequence[Message],
        session_id: str | None,
    ) -> Extracted:
        """Keep the model's memories that the messages support; if there are none, extract memories by rules."""
        grounded = [memory for memory in proposed if _is_grounded(memory, _text(said))]
        if ungrounded := len(proposed) - len(grounded):
            self._observer.count("memory.extraction.ungrounded", ungrounded)
        if proposed and not grounded:
            _log.warning("memories are extracted by rules: the model says what nobody said")
            self._observer.count("memory.extraction.errors", error="Ungrounded")
            return Extracted(self._by_rules(said, session_id), failed=True)
        return Extracted(tuple(self._with_sources(grounded, said, session_id)))

    def _with_sources(
        self, memories: Sequence[ProposedMemory], said: Sequence[Message], session_id: str | None
    ) -> list[ProposedMemory]:
        """Return the memories, each with the messages that state it."""
        facts = [ProposedFact("memory", memory.text, FactCategory.GENERAL) for memory in memories]
        by_user, everybody = _text([message for message in said if message.role is Role.USER]), _text(said)
        times = {message.id: message.created_at for message in said if message.id and message.created_at}
        found = []
        for memory, fact in zip(memories, with_sources(facts, said), strict=True):
            sources: tuple[MemorySource, ...] = ()
            if session_id is not None:
                sources = tuple((session_id, message_id) for message_id in fact.sources)
            said_at = max((times[name] for name in fact.sources if name in times), default=None)
            is_users = is_grounded(memory.text, by_user)
            by_others = not is_users and is_grounded(memory.text, everybody)
            reinforces = _is_grounded(memory, by_user) and not by_others
            supersedes = is_users or (reinforces and memory.type is MemoryType.PREFERENCE)
            found.append(
                replace(
                    memory,
                    sources=sources,
                    valid_from=said_at,
                    metadata=memory.metadata if supersedes else {SAID_BY: Role.ASSISTANT.value},
                    reinforces=reinforces,
                    supersedes=supersedes,
                    replaces=memory.replaces if is_users else (),
                )
            )
        return found


def _is_grounded(memory: ProposedMemory, text: str) -> bool:
    """Return whether a text supports a memory that a model extracted from it."""
    if memory.type is MemoryType.FACT:
        return is_grounded(memory.text, text)
    return not invents(memory.text, text)


def as_said(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of users and assistants without arc's insertions and requests to forget."""
    said = []
    is_forgotten = False
    for message in messages:
        if message.role not in (Role.USER, Role.ASSISTANT) or (is_forgotten and message.role is Role.ASSISTANT):
            continue
        text = message.text
        if message.made_by_arc and (message.role is not Role.USER or "<arc:" not in text):
            continue
        own = without_memories(parse_fences(text)[0]) if "<arc:" in text or "[" in text else text
        if message.role is Role.USER:
            remembered = without_forgotten(own)
            is_forgotten, own = remembered != own, remembered
        if own.strip():
            said.append(Message(message.role, own, id=message.id, created_at=message.created_at))
    return said


def memories_by_rules(
    messages: Sequence[Message],
    *,
    session_id: str | None = None,
) -> list[ProposedMemory]:
    """Extract the facts and preferences that users state, in their own words and order; deterministic."""
    users = [
        Message(Role.USER, without_quoted(message.text), id=message.id)
        for message in messages
        if message.role is Role.USER
    ]
    found = {
        text.casefold(): (text, MemoryType.PREFERENCE, _PREFERENCE_IMPORTANCE, ids)
        for text, ids in _preferences(giving_way(users)).items()
    }
    preferences = list(found)
    for fact in extract_facts(giving_way(users)):
        for text in _joined(fact.value) if not _is_condition(fact.value) else ():
            same = [name for name in preferences if name in text.casefold() or text.casefold() in name]
            for name in same:
                said, kind, importance, ids = found[name]
                found[name] = said, kind, max(importance, fact.importance), ids
            if not same:
                _, _, _, ids = found.get(text.casefold(), ("", None, 0.0, ()))
                ids = tuple(dict.fromkeys((*ids, *fact.sources)))
                found[text.casefold()] = text, MemoryType.FACT, fact.importance, ids
    times = {message.id: message.created_at for message in messages if message.id and message.created_at}
    return [
        ProposedMemory(
            text,
            kind,
            importance,
            sources=tuple((session_id, name) for name in ids) if session_id is not None else (),
            valid_from=max((times[name] for name in ids if name in times), default=None),
            metadata={SAID_BY: Role.USER.value},
        )
        for text, kind, importance, ids in found.values()
        if _names_something(text)
    ]


def _names_something(text: str) -> bool:
    """Return whether a statement names its subject: by any specific word, or by a name ("Go", "The Who")."""
    words = _WORD.findall(text.replace("’", "'"))
    is_named = any(word[0].isupper() and not word.startswith(("I'", "I’")) and word != "I" for word in words[1:])
    language = detect(text)
    empty = language.stop_words | language.attitudes
    return is_named or any(word not in empty for word in map(str.casefold, words))


def _is_condition(text: str) -> bool:
    """Return whether a text is only a condition, without a statement."""
    is_one = len(clauses_of(text)) == 1 and not _SECOND_SUBJECT.search(text)
    return is_one and detect(text).condition.search(text) is not None


def _joined(text: str) -> list[str]:
    """Split a text into the first-person statements that "and" or "but" joins."""
    return [part for part in (part.strip(" ,;:") for part in _JOINT.split(text)) if part]


def _preferences(messages: Sequence[Message]) -> dict[str, tuple[str, ...]]:
    """Find the statements of preferences, with the ids of their messages."""
    found: dict[str, tuple[str, ...]] = {}
    for message in messages:
        ids = (message.id,) if message.id else ()
        for parts in parts_said(message.text)[:_MOST_SENTENCES]:
            for part, _ in parts:
                for text in _joined(part.text) if part.mood is Mood.STATED else ():
                    if len(text) <= _LONGEST and _is_preference(text):
                        found[text] = tuple(dict.fromkeys((*found.get(text, ()), *ids)))
    return found


def _is_preference(text: str) -> bool:
    plain = text.replace("’", "'")
    return any(language.preference.search(plain) for language in with_other_scripts(detect(text)))


def _text(messages: Sequence[Message]) -> str:
    return "\n".join(message.text for message in messages)
