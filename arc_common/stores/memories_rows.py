"""Memories as rows and back. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from arc_common.memories import Memory, MemoryOutline, MemorySource, MemoryStatus, MemoryType, Wording
from arc_common.protocols.search_index import Scope
from arc_common.serialization import loads
from arc_common.stores.conversations_rows import from_microseconds, to_microseconds

__all__ = ["memory_from_row", "memory_row", "memory_scope", "outline_from_row", "source_rows"]


def memory_scope(scope: Scope) -> dict[str, str]:
    """The parameters that name a scope."""
    return {"caller_id": scope.caller_id, "session_id": scope.session_id or "", "user_id": scope.user_id or ""}


def memory_row(memory: Memory, metadata: str | None) -> dict[str, Any]:
    """The columns of a memory, apart from its place and version."""
    accessed = memory.last_accessed_at
    return {
        "memory_id": memory.id,
        "text": memory.text,
        "type": memory.type.value,
        "importance": memory.importance,
        "status": memory.status.value,
        "superseded_by": memory.superseded_by,
        "created_at": to_microseconds(memory.created_at),
        "valid_from": to_microseconds(memory.valid_from),
        "last_accessed_at": None if accessed is None else to_microseconds(accessed),
        "sources": json.dumps(_sources_of(memory), ensure_ascii=False, separators=(",", ":")),
        "metadata": metadata,
    }


def source_rows(memory: Memory) -> list[dict[str, str]]:
    """The sessions that a memory comes from, apart from its place."""
    sessions = dict.fromkeys(session_id for session_id, _ in memory.sources)
    return [{"memory_id": memory.id, "session_id": session_id} for session_id in sessions]


def memory_from_row(row: Sequence[Any]) -> Memory:
    """Read a row of `MEMORY_COLUMNS`."""
    memory_id, text, created, valid, kind, importance, status, superseded_by, accessed, sources, metadata = row
    named, wordings = _sources_from(json.loads(sources))
    return Memory(
        id=memory_id,
        text=text,
        created_at=from_microseconds(created),
        valid_from=from_microseconds(valid),
        type=MemoryType(kind),
        importance=importance,
        status=MemoryStatus(status),
        sources=named,
        superseded_by=superseded_by,
        last_accessed_at=None if accessed is None else from_microseconds(accessed),
        metadata=loads(metadata) if metadata else {},
        wordings=wordings,
    )


def _sources_of(memory: Memory) -> Sequence[Any]:
    """Pairs of ids; of a memory that was said in several ways, objects with the words of each."""
    if not memory.wordings:
        return memory.sources
    return [{"text": one.text, "said_by": one.said_by, "sources": one.sources} for one in memory.wordings]


def _sources_from(stored: Sequence[Any]) -> tuple[tuple[MemorySource, ...], tuple[Wording, ...]]:
    if not stored or not isinstance(stored[0], dict):
        return _pairs(stored), ()
    wordings = tuple(Wording(one["text"], _pairs(one["sources"]), one["said_by"]) for one in stored)
    return tuple(dict.fromkeys(source for one in wordings for source in one.sources)), wordings


def _pairs(stored: Sequence[Any]) -> tuple[MemorySource, ...]:
    return tuple((session_id, message_id) for session_id, message_id in stored)


def outline_from_row(row: Sequence[Any]) -> MemoryOutline:
    """Read a row of `OUTLINE_COLUMNS`."""
    memory_id, text, importance, status, superseded_by, valid, accessed = row
    return MemoryOutline(
        memory_id,
        text,
        importance,
        MemoryStatus(status),
        superseded_by,
        from_microseconds(valid),
        None if accessed is None else from_microseconds(accessed),
    )
