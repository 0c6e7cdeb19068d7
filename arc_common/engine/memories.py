"""The long-term memories of a caller, a user or a conversation: added, found, and shown to a model."""

import builtins
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from arc_common.concurrency import async_form
from arc_common.documents import checked_items
from arc_common.exceptions import InvalidInputError, MemoryNotFoundError
from arc_common.memories import (
    Memory,
    MemorySource,
    MemoryStatus,
    MemoryType,
    ProposedMemory,
    ScoredMemory,
)
from arc_common.messages import Message, Role
from arc_common.prompts.memories import InteractionMode, render_memories
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope

if TYPE_CHECKING:  # rapidfuzz and numpy, which importing arc must not cost
    from arc_common.engine.runtime import Runtime
    from arc_common.memory.long_term.service import LongTermMemory

_log = logging.getLogger("arc.memory")

_Kind = TypeVar("_Kind", bound=StrEnum)


class Memories:
    """The memories of one scope: a caller's, one of its users', or one conversation's.

    - Each method has an async form. What one scope holds, no other sees.
    - Those of a conversation are its user's: for anybody else each method raises `SessionNotFoundError`. One that has
      no messages yet has memories like any other.
    - Said again, a memory becomes more important instead of coming twice; contradicted, it becomes history.
    - At most `settings.memory.max_per_scope` hold, and as many wait for a review; the weakest leave. What is gathered
      may be the weakest itself; what is added by hand stays.
    - What waits is neither found nor shown and changes no memory that holds, until `set_status` approves it.

    Args:
        runtime: What the engine's parts share.
        scope: Whose memories.
    """

    def __init__(self, runtime: "Runtime", scope: Scope) -> None:
        self._runtime = runtime
        self._workers = runtime.workers
        self._scope = scope

    @property
    def scope(self) -> Scope:
        """Whose they are."""
        return self._scope

    def extract(
        self,
        user_message: Message | str,
        assistant_message: Message | str | None = None,
        mode: InteractionMode = "chat",
        *,
        session_id: str | None = None,
    ) -> list[Memory]:
        """Find what of an exchange is worth remembering, and store it.

        - By the chat model, checked against what was said; by rules without one, or where it fails.
        - What arc itself put into the messages is not read.
        - Sessions do this by themselves, in the background, for what they save.

        Args:
            user_message: What the user said.
            assistant_message: The answer.
            mode: What kind of interaction it was: "chat", "rag" or "agent".
            session_id: Where it was said; with it, memories name the messages (that have ids) as their sources.

        Returns:
            The memories that stand for it now: new ones, and those that say the same.

        Raises:
            InvalidInputError: A message is none, or the mode is unknown.
            StoreError: The store failed.
        """
        messages = [_as_message("user_message", user_message, Role.USER)]
        if assistant_message is not None:
            messages.append(_as_message("assistant_message", assistant_message, Role.ASSISTANT))
        return self._service().extract(
            self._scope, messages, mode=mode, session_id=session_id or self._scope.session_id
        )

    aextract = async_form(extract)

    def add(
        self,
        text: str,
        *,
        type: MemoryType | str = MemoryType.FACT,  # noqa: A002 - the field's name
        importance: float = 0.5,
        metadata: Mapping[str, Any] | None = None,
        sources: Sequence[MemorySource] = (),
        status: MemoryStatus | str = MemoryStatus.ACTIVE,
        valid_from: datetime | None = None,
    ) -> Memory:
        """Store a memory, or raise the importance of one of its status that says the same.

        What waits for a review in the same words is approved by adding it as "ACTIVE".

        Args:
            text: One or two sentences, at most 4,000 characters.
            type: "fact", "preference" or "insight".
            importance: From 0 to 1; what lies outside is brought inside.
            metadata: JSON values of your own.
            sources: The messages that say it, as pairs of a session's and a message's id: it goes when they go.
            status: "PENDING" holds it back until a review.
            valid_from: When it was said (with zone); by default now, after all that it contradicts.

        Returns:
            The memory that stands for it now.

        Raises:
            InvalidInputError: A value is not acceptable. Nothing was written.
            StoreError: The store failed.
        """
        proposed = ProposedMemory(
            text=text,
            type=_member(MemoryType, "memory.type", type),
            importance=importance,
            sources=tuple(checked_items("memory.sources", sources, tuple, expected="pairs of ids")),
            status=_member(MemoryStatus, "memory.status", status),
            valid_from=valid_from,
            metadata=metadata or {},
        )
        return self._service().keeper.add(self._scope, proposed, by_hand=True).memory

    aadd = async_form(add)

    def get(self, memory_id: str) -> Memory:
        """One memory, whatever its status; also one that was superseded.

        Raises:
            MemoryNotFoundError: There is none by that id in this scope.
            StoreError: The store failed.
        """
        found = self._service().keeper.get(self._scope, [memory_id])
        if not found:
            raise MemoryNotFoundError(memory_id)
        return found[0]

    aget = async_form(get)

    def set_status(self, memory_id: str, status: MemoryStatus | str) -> Memory:
        """Approve a memory ("ACTIVE"), reject it ("REJECTED"), or hold it back ("PENDING").

        What is approved takes the place of what it contradicts, unless that was said later. What is rejected is not
        gathered again.

        Returns:
            The memory as it is now.

        Raises:
            InvalidInputError: There is no such status.
            MemoryNotFoundError: There is none by that id in this scope.
            StoreError: The store failed.
        """
        memory = self._service().keeper.set_status(
            self._scope, memory_id, _member(MemoryStatus, "memory.status", status)
        )
        if memory is None:
            raise MemoryNotFoundError(memory_id)
        return memory

    aset_status = async_form(set_status)

    def delete(self, memory_id: str) -> None:
        """Remove a memory for good. What it had taken the place of stays history.

        Raises:
            MemoryNotFoundError: There is none by that id in this scope.
            StoreError: The store failed.
        """
        if not self._service().keeper.delete(self._scope, [memory_id]):
            raise MemoryNotFoundError(memory_id)

    adelete = async_form(delete)

    def search(self, query: str, limit: int = 5) -> list[ScoredMemory]:
        """The memories that a question is about, by relevance, importance and recency; best first.

        Notes for each of them that it was returned (`last_accessed_at`), in the background.

        Args:
            query: The question.
            limit: At most so many.

        Raises:
            InvalidInputError: The query is no text, or the limit less than 1.
            StoreError: The store failed.
        """
        return self._service().keeper.search(self._scope, query, limit=limit)

    asearch = async_form(search)

    def context(self, query: str, limit: int = 5) -> str:
        """What `search` finds, as a block of text for a prompt; `""` for nothing. Raises as `search`.

        The memories' text is data: it makes no line of its own and no marker of arc's.
        """
        return render_memories(self.search(query, limit))

    acontext = async_form(context)

    def count(self) -> int:
        """How many memories hold."""
        return self._service().keeper.count(self._scope)

    acount = async_form(count)

    def list(
        self,
        *,
        status: MemoryStatus | str | None = MemoryStatus.ACTIVE,
        type: MemoryType | str | None = None,  # noqa: A002 - the field's name
        limit: int | None = None,
        include_superseded: bool = False,
    ) -> list[Memory]:
        """Memories, the newest first.

        Args:
            status: "ACTIVE", "PENDING" or "REJECTED"; `None` for all.
            type: "fact", "preference" or "insight"; `None` for all.
            limit: At most so many; `None` for all.
            include_superseded: Also those that others took the place of.

        Raises:
            InvalidInputError: A value is not acceptable.
            StoreError: The store failed.
        """
        return self._service().keeper.store.newest(
            self._scope,
            status=None if status is None else _member(MemoryStatus, "memory.status", status),
            type=None if type is None else _member(MemoryType, "memory.type", type),
            include_superseded=bool(include_superseded),
            limit=limit,
        )

    alist = async_form(list)  # noqa: A003 - the method above

    def _service(self) -> "LongTermMemory":
        """What keeps them, once it is clear that the session is not another user's."""
        service, scope = self._runtime.long_term, self._scope
        if scope.session_id is not None:
            self._runtime.store.conversation(SessionKey(scope.session_id, scope.caller_id, scope.user_id))
        return service


def memories_of_turn(runtime: "Runtime", key: SessionKey | None, query: str) -> list[ScoredMemory]:
    """The memories that a turn is about, best first: none where they are off or there are none; never raises."""
    settings = runtime.settings.memory
    if key is None or not settings.enabled or not query.strip():
        return []
    try:
        service = runtime.long_term
        scope = service.scope_of(key)
        if runtime.gathers(key):
            service.catch_up(key)
        return service.keeper.search(scope, query, limit=settings.top_k) if service.keeper.has_any(scope) else []
    except Exception as error:  # noqa: BLE001 - the turn goes on without memories; the counter says so
        _log.warning("a turn goes on without memories: %s", error, exc_info=error)
        runtime.observer.count("memory.errors")
        return []


def _as_message(name: str, value: object, role: Role) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        return Message(role, value)
    raise InvalidInputError(name, value, "text or a Message")


def _member(kind: builtins.type[_Kind], field: str, value: object) -> _Kind:
    """Return the enumeration's member of this name."""
    if not isinstance(value, str):
        raise InvalidInputError(field, value, f"one of {', '.join(kind)}")
    return kind(value)
