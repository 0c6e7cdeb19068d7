"""Long-term memories, as a session reads and adds them."""

from typing import Annotated

from fastapi import Depends, Path

from arc_common.engine.memories import Memories
from arc_common.server.models import MemoryIn, MemoryOut
from arc_common.server.routes.parameters import Caller, Limit, SessionId, StoredSession, UserId


async def _memories(access: Caller, _: StoredSession, session_id: SessionId, user_id: UserId = None) -> Memories:
    return access.memories(session_id, user_id)


SessionMemories = Annotated[Memories, Depends(_memories)]
MemoryId = Annotated[str, Path(alias="memoryId", min_length=1, max_length=255, description="The memory's id.")]


async def list_memories(memories: SessionMemories, session_id: SessionId, limit: Limit = 50) -> list[MemoryOut]:
    """Return the memories that a session's requests may show, the newest first."""
    return [MemoryOut.in_session(one, session_id) for one in await memories.alist(limit=limit)]


async def add_memory(memories: SessionMemories, session_id: SessionId, body: MemoryIn) -> MemoryOut:
    """Add a memory where the session reads them: to its user's, if it has one.

    Repeating a memory raises its importance instead of storing it again.
    """
    added = await memories.aadd(body.content, type=body.type, importance=body.importance)
    return MemoryOut.in_session(added, session_id)


async def get_memory(memories: SessionMemories, session_id: SessionId, memory_id: MemoryId) -> MemoryOut:
    """Return one memory, whatever its status."""
    return MemoryOut.in_session(await memories.aget(memory_id), session_id)


async def delete_memory(memories: SessionMemories, memory_id: MemoryId) -> None:
    """Delete a memory."""
    await memories.adelete(memory_id)
