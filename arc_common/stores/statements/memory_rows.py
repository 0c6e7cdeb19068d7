"""Memories and pins as rows and back, and the losses of a scope that loses some sources. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from arc_common.memories import Memory, MemorySource, MemoryStatus, MemoryType, Pin, Wording
from arc_common.prompts.context import pin_words
from arc_common.protocols import SessionKey
from arc_common.stores.codec import (
    MESSAGE_COLUMNS,
    from_body,
    from_microseconds,
    row_key,
    stored_from_row,
    to_body,
    to_microseconds,
)

MEMORY = "memory"
"""The kind of the scopes and records of memories."""

REVISION = "revision"
"""The kind of the records of memories' earlier revisions."""

PIN = "pin"
"""The kind of the records of a session's own pins, in its scope of memories."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The effect on a scope of removing some sources."""

    removed: Mapping[str, str | None]
    changed: tuple[Memory, ...]
    reworded: frozenset[str] = frozenset()


def loss(memories: Iterable[Memory], key: SessionKey, left: Collection[tuple[str, str]] | None) -> Loss:
    """Return the losses of a scope if a session keeps only these sources (memory and message ids); `None`: none."""
    removed: dict[str, str | None] = {}
    changed = []
    reworded = set()

    for memory in memories:

        def is_gone(source: MemorySource, memory_id: str = memory.id) -> bool:
            return source[0] == key.session_id and (memory_id, source[1]) not in (left or ())

        kept = None if left is None else memory.without(is_gone)
        if kept is None:
            removed[memory.id] = memory.superseded_by
        elif kept is not memory:
            changed.append(kept)
            reworded |= {kept.id} if kept.text != memory.text else set()
    return Loss(removed, tuple(changed), frozenset(reworded))


def heir(superseded_by: str | None, removed: Mapping[str, str | None]) -> str | None:
    """Return the id of the memory that supersedes one after some are removed; `None` if it is valid again."""
    seen: set[str] = set()
    while superseded_by is not None and superseded_by in removed and superseded_by not in seen:
        seen.add(superseded_by)
        superseded_by = removed[superseded_by]
    return None if superseded_by in seen else superseded_by


def memory_body(memory: Memory) -> str:
    """Return the parts of a memory that no statement compares."""
    body: dict[str, Any] = {"text": memory.text, "sources": _sources_of(memory)}
    if memory.metadata:
        body["metadata"] = dict(memory.metadata)
    if memory.tags:
        body["tags"] = list(memory.tags)
    if memory.revised_at is not None:
        body["revised_at"] = to_microseconds(memory.revised_at)
    if memory.speaker is not None:
        body["speaker"] = memory.speaker
    return to_body(body, field="memory")


def memory_row(memory: Memory, body: str) -> dict[str, Any]:
    """Return the columns of a memory, without scope and version."""
    accessed = memory.last_accessed_at
    return {
        "record_id": memory.id,
        "revision": memory.revision,
        "kind": MEMORY,
        "type": memory.type.value,
        "importance": memory.importance,
        "status": memory.status.value,
        "superseded_by": memory.superseded_by,
        "created_at": to_microseconds(memory.created_at),
        "valid_from": to_microseconds(memory.valid_from),
        "valid_until": None if memory.valid_until is None else to_microseconds(memory.valid_until),
        "last_accessed_at": None if accessed is None else to_microseconds(accessed),
        "name": None,
        "pinned": int(memory.pinned),
        "body": body,
    }


def source_rows(memory: Memory, caller_id: str) -> dict[MemorySource, dict[str, Any]]:
    """Return the rows of the messages that state a memory, without its scope and their places."""
    return {
        (session_id, message_id): {
            "record_id": memory.id,
            "conversation": row_key(caller_id, session_id),
            "message_id": message_id,
        }
        for session_id, message_id in memory.sources
    }


def pin_row(pin: Pin) -> dict[str, Any]:
    """Return the columns of a session's own pin, without scope and version."""
    created = to_microseconds(pin.created_at)
    return {
        "record_id": pin.id,
        "revision": 1,
        "kind": PIN,
        "type": "",
        "importance": 1.0,
        "status": MemoryStatus.ACTIVE.value,
        "superseded_by": None,
        "name": pin.message_id,
        "created_at": created,
        "valid_from": created,
        "valid_until": None,
        "last_accessed_at": None,
        "pinned": 1,
        "body": to_body({"text": "" if pin.message_id else pin.text}, field="pin"),
    }


def pins_from_text(text: str | None, now: datetime, opened: Callable[[str], str] = str) -> tuple[Pin, ...]:
    """Read the column that `pins_of` selects; the oldest come first; those that are no longer valid are left out."""
    rows = from_body(text) if text else []
    valid = [_opened(row, opened) for *row, until in rows if until is None or until > to_microseconds(now)]
    return tuple(_pin_from(*row) for row in sorted(valid, key=lambda row: (row[1], row[0])))


_BODY = MESSAGE_COLUMNS.index("body")


def _opened(row: list[Any], opened: Callable[[str], str]) -> list[Any]:
    """Return a pin's row with its own body, or that of its message, decrypted."""
    *columns, body, message = row
    if message is None:
        return [*columns, opened(body), None]
    return [*columns, body, [opened(value) if place == _BODY else value for place, value in enumerate(message)]]


def _pin_from(record_id: str, created: int, message_id: str | None, body: str, message: list[Any] | None) -> Pin:
    if message is None:
        said = from_body(body)
        return Pin(record_id, said["text"], from_microseconds(created), said_by=said.get("speaker"))
    pinned = stored_from_row(message).message
    text, who = pin_words(pinned)
    return Pin(record_id, text, from_microseconds(created), message_id, who, pinned.created_at)


def memory_from_row(row: Sequence[Any]) -> Memory:
    """Read a row of `MEMORY_COLUMNS`."""
    memory_id, body, created, valid, kind, importance, status, superseded_by, accessed, pinned, until, revision = row
    said = from_body(body)
    revised = said.get("revised_at")
    named, wordings = _sources_from(said["sources"])
    return Memory(
        id=memory_id,
        text=said["text"],
        created_at=from_microseconds(created),
        valid_from=from_microseconds(valid),
        type=MemoryType(kind),
        importance=importance,
        status=MemoryStatus(status),
        sources=named,
        superseded_by=superseded_by,
        last_accessed_at=None if accessed is None else from_microseconds(accessed),
        metadata=said.get("metadata", {}),
        wordings=wordings,
        pinned=bool(pinned),
        tags=tuple(said.get("tags", ())),
        valid_until=None if until is None else from_microseconds(until),
        revision=revision,
        revised_at=None if revised is None else from_microseconds(revised),
        speaker=said.get("speaker"),
    )


def _sources_of(memory: Memory) -> Sequence[Any]:
    """Return a memory's sources as pairs of ids, or its wordings as objects if there are several."""
    if not memory.wordings:
        return list(map(list, memory.sources))
    return [
        {"text": one.text, "said_by": one.said_by, "sources": list(map(list, one.sources))} for one in memory.wordings
    ]


def _sources_from(stored: Sequence[Any]) -> tuple[tuple[MemorySource, ...], tuple[Wording, ...]]:
    if not stored or not isinstance(stored[0], dict):
        return _pairs(stored), ()
    wordings = tuple(Wording(one["text"], _pairs(one["sources"]), one["said_by"]) for one in stored)
    return tuple(dict.fromkeys(source for one in wordings for source in one.sources)), wordings


def _pairs(stored: Sequence[Any]) -> tuple[MemorySource, ...]:
    return tuple((session_id, message_id) for session_id, message_id in stored)


MEMORY_COLUMNS = (
    "record_id", "body", "created_at", "valid_from", "type", "importance", "status", "superseded_by",
    "last_accessed_at", "pinned", "valid_until", "revision",
)  # fmt: skip
"""The columns that `memory_from_row` reads, in its order."""
