"""Long-term memories: statements about a user that are useful beyond one conversation."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from arc_common.exceptions import InvalidInputError
from arc_common.messages import check_identifier, member_of
from arc_common.serialization import json_copy
from arc_common.trust import Trust

MemorySource = tuple[str, str]
"""The ids of a session and of a message in it."""

MAX_MEMORY_CHARACTERS = 4_000
"""A memory is one or two sentences; longer texts are documents."""

_TYPE_NAME = re.compile(r"[^\W\d_][\w -]{0,31}")
SAID_BY = "said_by"
"""The metadata key of a memory's author: "user" if the text is a user's own words, "assistant" if only the assistant
said or concluded it."""


MEMORY_TOOLS = ("search_memory", "save_memory", "forget_memory")
"""The names of the tools by which models use memories. Unlike other tools' results, theirs are not untrusted."""


class MemoryType(StrEnum):
    """The kind of statement of a memory: a built-in one, or any other name. Parsed case-insensitively.

    `hint` describes it to a model that extracts memories; `settings.memory.types` does so for other names.
    """

    hint: str

    def __new__(cls, name: str, hint: str = "") -> Self:
        """Create a kind from its row: name and hint."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.hint = hint
        return kind

    FACT = "fact", "specific data: names, dates, numbers, circumstances"
    """Specific data such as dates, names and numbers."""
    PREFERENCE = "preference", "how the user likes things"
    """The user's preferences."""
    INSIGHT = "insight", "a conclusion or connection that follows from what was said"
    """Conclusions and connections."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        name = " ".join(value.casefold().split()) if isinstance(value, str) else ""
        for kind in cls:
            if name == kind.value:
                return kind
        if not _TYPE_NAME.fullmatch(name):
            raise InvalidInputError("memory.type", value, f"{', '.join(cls)}, or a name of up to 32 characters")
        return cls.described(name, "")

    @classmethod
    def described(cls, name: str, hint: str) -> Self:
        """Return the type of this name with a description for models."""
        kind = str.__new__(cls, name)
        kind._name_ = kind._value_ = name
        kind.hint = hint
        return kind


class MemoryStatus(StrEnum):
    """The review status of a memory. Parsed case-insensitively."""

    ACTIVE = "ACTIVE"
    PENDING = "PENDING"
    """Awaiting a review: stored, but neither found nor shown."""
    REJECTED = "REJECTED"
    """Rejected by a review: neither found nor shown, and not extracted again."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return member_of(cls, value, "memory.status")


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that every request of a session shows word for word.

    Args:
        id: The pin's id, or that of the pinned memory.
        text: The text, exactly as written.
        created_at: When it was pinned, or when the pinned memory was stored (with zone).
        message_id: The pinned message; `None` for a text or a memory.
        said_by: Who said the pinned message: its name or role.
        said_at: When the pinned message was said (with zone).
    """

    id: str
    text: str
    created_at: datetime
    message_id: str | None = None
    said_by: str | None = None
    said_at: datetime | None = None

    @property
    def line(self) -> str:
        """The pin as an item of the prompt: its text, after day and speaker if it is from a message."""
        day = f"{self.said_at:%Y-%m-%d}, " if self.said_at else ""
        return f"- {day}{' '.join(self.said_by.split())}: {self.text}" if self.said_by else f"- {self.text}"


@dataclass(frozen=True, slots=True)
class Wording:
    """One wording of a memory, with its sources and speaker."""

    text: str
    sources: tuple[MemorySource, ...] = ()
    said_by: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """One statement that outlasts its conversation.

    A wording is deleted with its source messages, and the memory with its last wording.

    Args:
        id: The memory's id, unique within its scope.
        text: The statement, in one or two sentences.
        created_at: When the memory was stored (with zone).
        valid_from: When it was last said (with zone).
        type: The kind of statement.
        importance: From 0 to 1; values outside are clamped.
        status: The review status.
        sources: The messages that state the memory; empty for one only entered by hand.
        superseded_by: The id of the superseding memory (which may have been deleted since); `None` if there is none.
        last_accessed_at: When a search last returned the memory; `None` if none did.
        metadata: JSON values of the application's own.
        wordings: All wordings of the memory, the text's first; empty if the text is the only one.
        pinned: True if every request of the scope's sessions shows the text.
        tags: The application's own labels, by which searches filter.
        valid_until: When it ends (with zone); `None` if it is valid until it is superseded.
        revision: 1 for the memory as stored first, one more with each edit.
        revised_at: When it was last edited (with zone); `None` if it never was.
        speaker: The name of the user who said it, as on the messages; `None` if these have none.

    Raises:
        InvalidInputError: A value is not acceptable.
    """

    id: str
    text: str
    created_at: datetime
    valid_from: datetime
    type: MemoryType = MemoryType.FACT
    importance: float = 0.5
    status: MemoryStatus = MemoryStatus.ACTIVE
    sources: tuple[MemorySource, ...] = ()
    superseded_by: str | None = None
    last_accessed_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    wordings: tuple[Wording, ...] = ()
    pinned: bool = False
    tags: tuple[str, ...] = ()
    valid_until: datetime | None = None
    revision: int = 1
    revised_at: datetime | None = None
    speaker: str | None = None

    def __post_init__(self) -> None:
        check_identifier("memory.id", self.id)
        if self.speaker is not None:
            check_identifier("memory.speaker", self.speaker)
        check_identifier("memory.text", self.text, longest=MAX_MEMORY_CHARACTERS)
        object.__setattr__(self, "type", MemoryType(self.type))
        object.__setattr__(self, "status", MemoryStatus(self.status))
        object.__setattr__(self, "importance", clamped(self.importance))
        if self.superseded_by is not None:
            check_identifier("memory.superseded_by", self.superseded_by)
        object.__setattr__(self, "tags", checked_tags(self.tags))
        for name in ("created_at", "valid_from", "last_accessed_at", "valid_until", "revised_at"):
            moment = getattr(self, name)
            if moment is None and name not in ("created_at", "valid_from"):
                continue
            if not isinstance(moment, datetime) or moment.tzinfo is None:
                raise InvalidInputError(f"memory.{name}", moment, "a time with zone")
        object.__setattr__(self, "sources", _checked_sources(self.sources))
        for wording in self.wordings:
            check_identifier("memory.text", wording.text, longest=MAX_MEMORY_CHARACTERS)
            _checked_sources(wording.sources)
        if self.wordings and self.wordings[0].text != self.text:
            raise InvalidInputError("memory.wordings", self.wordings[0].text, "the memory's text as the first wording")
        if not isinstance(self.metadata, Mapping):
            raise InvalidInputError("memory.metadata", self.metadata, "a mapping")

    @property
    def attributed(self) -> str:
        """The text that is searched: the memory's, after its speaker's name if it has one."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text

    @property
    def is_current(self) -> bool:
        """Return whether the memory is active and not superseded."""
        return self.status is MemoryStatus.ACTIVE and self.superseded_by is None

    def has_ended(self, now: datetime) -> bool:
        """Return whether `valid_until` has passed."""
        return self.valid_until is not None and self.valid_until <= now

    @property
    def trust(self) -> Trust:
        """The trust of the memory: `ASSISTANT` for an assistant's conclusion, otherwise `USER`."""
        return Trust.ASSISTANT if self.metadata.get(SAID_BY) == Trust.ASSISTANT.value else Trust.USER

    @property
    def said(self) -> tuple[Wording, ...]:
        """All wordings of the memory, the text's first."""
        said_by = self.metadata.get(SAID_BY)
        return self.wordings or (Wording(self.text, self.sources, said_by if isinstance(said_by, str) else None),)

    def worded(self, wordings: Sequence[Wording]) -> "Memory":
        """Return the memory with these wordings, at least one; the longest becomes its text, unless it is pinned."""
        first = max(wordings, key=lambda wording: (self.pinned and wording.text == self.text, len(wording.text)))
        said_by = {} if first.said_by is None else {SAID_BY: first.said_by}
        return replace(
            self,
            text=first.text,
            sources=tuple(dict.fromkeys(source for wording in wordings for source in wording.sources)),
            metadata={**{name: value for name, value in self.metadata.items() if name != SAID_BY}, **said_by},
            wordings=(first, *(one for one in wordings if one is not first)) if len(wordings) > 1 else (),
        )

    def without(self, is_gone: Callable[[MemorySource], bool]) -> "Memory | None":
        """Return the memory without the wordings stated only by removed messages; `None` if none is left.

        Wordings entered by hand are kept.
        """
        if not any(map(is_gone, self.sources)):
            return self
        left = []
        for wording in self.said:
            sources = tuple(source for source in wording.sources if not is_gone(source))
            if sources or not wording.sources:
                left.append(replace(wording, sources=sources))
        return self.worded(left) if left else None


@dataclass(frozen=True, slots=True)
class ProposedMemory:
    """A memory proposed by a model, the rules or a person, before it is compared with the stored ones."""

    text: str
    type: MemoryType = MemoryType.FACT
    importance: float = 0.5
    sources: tuple[MemorySource, ...] = ()
    status: MemoryStatus = MemoryStatus.ACTIVE
    valid_from: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reinforces: bool = True
    supersedes: bool = True
    replaces: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    valid_until: datetime | None = None
    speaker: str | None = None
    branch: int | None = None  # the branch that was read; `None` for the current one

    def stored_as(self, memory_id: str, now: datetime) -> Memory:
        """Return the memory to store."""
        json_copy("memory.metadata", self.metadata)
        memory = Memory(
            id=memory_id,
            text=self.text,
            created_at=now,
            valid_from=self.valid_from or now,
            type=self.type,
            importance=self.importance,
            status=self.status,
            sources=self.sources,
            metadata=self.metadata,
            tags=self.tags,
            valid_until=self.valid_until,
            speaker=self.speaker,
        )
        if self.valid_from is not None:
            check_span(memory)
        return memory


def check_span(memory: Memory) -> None:
    """Raise `InvalidInputError` if a memory ends before it begins, so that no time would find it."""
    if memory.valid_until is not None and memory.valid_until < memory.valid_from:
        raise InvalidInputError(
            "memory.valid_until", memory.valid_until, f"a time not before memory.valid_from, {memory.valid_from}"
        )


@dataclass(frozen=True, slots=True)
class ScoredMemory:
    """A memory found by a search, with its score.

    Args:
        memory: The memory.
        score: Higher is better, from 0 to 1.
        score_parts: The parts of the score: "relevance", "importance" and "recency", each from 0 to 1.
    """

    memory: Memory
    score: float
    score_parts: Mapping[str, float]


def clamped(importance: object) -> float:
    """Clamp an importance to the range from 0 to 1."""
    nan = isinstance(importance, float) and math.isnan(importance)
    if nan or isinstance(importance, bool) or not isinstance(importance, int | float):
        raise InvalidInputError("memory.importance", importance, "a number from 0 to 1")
    return float(min(1, max(0, importance)))


def checked_tags(tags: object, name: str = "memory.tags") -> tuple[str, ...]:
    """Return each tag once, in their order."""
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidInputError(name, tags, "a sequence of texts")
    return tuple(dict.fromkeys(check_identifier(name, tag) for tag in tags))


def checked_memory_tags(tags: object) -> tuple[str, ...]:
    """Return the tags of which a prompt's memories must have one; an empty tuple shows all."""
    found = () if tags is None else checked_tags(tags, "memory_tags")
    if tags is not None and not found:
        raise InvalidInputError("memory_tags", tags, "at least one tag, or None for all memories")
    return found


def _checked_sources(sources: object) -> tuple[MemorySource, ...]:
    if isinstance(sources, str) or not isinstance(sources, Sequence):
        raise InvalidInputError("memory.sources", sources, "pairs of a session's and a message's id")
    checked: dict[MemorySource, None] = {}
    for source in sources:
        if isinstance(source, str) or not isinstance(source, Sequence) or len(source) != 2:
            raise InvalidInputError("memory.sources", source, "pairs of a session's and a message's id")
        session_id, message_id = source
        checked[check_identifier("memory.sources", session_id), check_identifier("memory.sources", message_id)] = None
    return tuple(checked)
