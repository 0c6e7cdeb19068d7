"""Long-term memories, as a session reads and adds them."""

from typing import Annotated

from fastapi import Path

from arc_common.server.models import MemoryIn, MemoryOut
from arc_common.server.routes.parameters import Caller, Limit, SessionId, StoredSession, UserId

MemoryId = Annotated[str, Path(alias="memoryId", min_length=1, max_length=255, description="The memory's id.")]


async def list_memories(
    access: Caller, _: StoredSession, session_id: SessionId, user_id: UserId = None, limit: Limit = 50
) -> list[MemoryOut]:
    """Return the memories that a session's requests may show, the newest first."""
    found = await access.memories(session_id, user_id).alist(limit=limit)
    return [MemoryOut.in_session(one, session_id) for one in found]


async def add_memory(
    access: Caller, _: StoredSession, session_id: SessionId, body: MemoryIn, user_id: UserId = None
) -> MemoryOut:
    """Add a memory where the session reads them: to its user's, if it has one.

    Repeating a memory raises its importance instead of storing it again.
    """
    memories = access.memories(session_id, user_id)
    return MemoryOut.in_session(
        await memories.aadd(body.content, type=body.type, importance=body.importance), session_id
    )


async def get_memory(
    access: Caller, _: StoredSession, session_id: SessionId, memory_id: MemoryId, user_id: UserId = None
) -> MemoryOut:
    """Return one memory, whatever its status."""
    return MemoryOut.in_session(await access.memories(session_id, user_id).aget(memory_id), session_id)


async def delete_memory(
    access: Caller, _: StoredSession, session_id: SessionId, memory_id: MemoryId, user_id: UserId = None
) -> None:
    """Delete a memory."""
    await access.memories(session_id, user_id).adelete(memory_id)
