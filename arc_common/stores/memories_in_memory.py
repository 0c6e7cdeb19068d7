"""Long-term memories in this process's memory."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Protocol

from cachetools import LRUCache

from arc_common.exceptions import InvalidInputError, SessionNotFoundError
from arc_common.memories import Memory, MemoryOutline, MemoryStatus, MemoryType
from arc_common.protocols import SessionKey
from arc_common.protocols.memories import Forgotten, IndexChange, MemoryChange, MemoryUpdates, memory_entry
from arc_common.protocols.search_index import IndexStore, Scope
from arc_common.serialization import dumps, loads
from arc_common.stores.memories_statements import (
    NEWEST_SESSIONS,
    Loss,
    checked_change,
    checked_memory_ids,
    heir,
    is_within_reach,
    loss,
)
from arc_common.stores.validation import checked_ids, checked_limit, checked_place

__all__ = ["InMemoryMemories"]

_SCOPES = 10_000


@dataclass(slots=True)
class _Kept:
    """A memory, its metadata as text, and the version that it came with."""

    memory: Memory
    metadata: str | None
    version: int

    def shown(self) -> Memory:
        """A copy that shares nothing."""
        return replace(self.memory, metadata=loads(self.metadata) if self.metadata else {})


@dataclass(slots=True)
class _Shelf:
    """What one scope holds."""

    version: int = 0
    purged: int = 0
    kept: dict[str, _Kept] = field(default_factory=dict)

    def put(self, memory: Memory, metadata: str | None) -> None:
        self.kept[memory.id] = _Kept(replace(memory, metadata={}), metadata, self.version)


class _Session(Protocol):
    """What is read of a session's record, and noted beside it."""

    key: SessionKey
    next_seq: int
    remembered: int


class InMemoryMemories:
    """A `MemoryStore` that lasts as long as the process, with the 10,000 scopes used last.

    Args:
        guarded: Gives the store's lock.
        session: Finds a session; called under the lock.
        sessions: Gives all sessions, the newest last; called under the lock.
        index: Gives the index of the same store, if it has one by now; called under the lock.
    """

    def __init__(
        self,
        guarded: Callable[[], AbstractContextManager[None]],
        session: Callable[[SessionKey], _Session | None],
        sessions: Callable[[], Iterable[_Session]],
        index: Callable[[], IndexStore | None] = lambda: None,
    ) -> None:
        self._guarded = guarded
        self._session = session
        self._sessions = sessions
        self._index = index
        self._shelves: LRUCache[Scope, _Shelf] = LRUCache(_SCOPES)
        self._versions = count(1)  # never used again, whatever is removed meanwhile

    def updates(self, scope: Scope, *, after: int = 0) -> MemoryUpdates:
        """See `MemoryStore.updates`."""
        checked_place("after", after)
        with self._guarded():
            shelf = self._shelves.get(scope)
            if shelf is None:
                return MemoryUpdates(0, (), is_whole=True)
            if shelf.version == after:
                return MemoryUpdates(after, (), is_whole=False)
            since = 0 if shelf.purged > after else after
            changed = [MemoryOutline.of(kept.memory) for kept in shelf.kept.values() if kept.version > since]
            return MemoryUpdates(shelf.version, tuple(changed), is_whole=not since)

    def is_beside(self, index: IndexStore) -> bool:  # noqa: ARG002 - the protocol's
        """See `MemoryStore.is_beside`: two objects in memory have no transaction together."""
        return False

    def commit(
        self, scope: Scope, change: MemoryChange, *, version: int, index: IndexChange | None = None
    ) -> int | None:
        """See `MemoryStore.commit`."""
        if index is not None:
            raise InvalidInputError("index", index, "None: the index is not beside these memories")
        metadata = checked_change(change)
        checked_place("version", version)
        with self._guarded():
            shelf = self._shelves.get(scope)
            if version != (shelf.version if shelf else 0):
                return None
            if shelf is None:
                shelf = self._shelves[scope] = _Shelf(purged=next(self._versions))
            shelf.version = next(self._versions)
            for memory, text in zip(change.put, metadata, strict=True):
                shelf.put(memory, text)
            for memory_id in change.removed:
                if shelf.kept.pop(memory_id, None) is not None:
                    shelf.purged = shelf.version
            return shelf.version

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """See `MemoryStore.get`."""
        names = checked_memory_ids(ids)
        with self._guarded():
            shelf = self._shelves.get(scope) or _Shelf()
            return [shelf.kept[name].shown() for name in names if name in shelf.kept]

    def newest(
        self,
        scope: Scope,
        *,
        status: MemoryStatus | None = MemoryStatus.ACTIVE,
        type: MemoryType | None = None,  # noqa: A002 - the field's name
        include_superseded: bool = False,
        limit: int | None = None,
    ) -> list[Memory]:
        """See `MemoryStore.newest`."""
        checked_limit("limit", limit)
        with self._guarded():
            found = [
                kept
                for kept in (self._shelves.get(scope) or _Shelf()).kept.values()
                if status in (None, kept.memory.status)
                and type in (None, kept.memory.type)
                and (include_superseded or kept.memory.superseded_by is None)
            ]
            found.sort(key=lambda kept: kept.memory.id)
            found.sort(key=lambda kept: kept.memory.valid_from, reverse=True)
            return [kept.shown() for kept in found[:limit]]

    def touch(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> int:
        """See `MemoryStore.touch`."""
        names = checked_memory_ids(ids)
        with self._guarded():
            shelf = self._shelves.get(scope) or _Shelf()
            touched = [shelf.kept[name] for name in names if name in shelf.kept]
            for kept in touched:
                before = kept.memory.last_accessed_at
                kept.memory = replace(kept.memory, last_accessed_at=at if before is None else max(at, before))
            return len(touched)

    def count(self, scope: Scope) -> int:
        """See `MemoryStore.count`."""
        with self._guarded():
            return sum(kept.memory.holds for kept in (self._shelves.get(scope) or _Shelf()).kept.values())

    def erase(self, scope: Scope) -> int:
        """See `MemoryStore.erase`."""
        with self._guarded():
            inside = [place for place in self._shelves if scope.contains(place)]
            return sum(len(self._shelves.pop(place).kept) for place in inside)

    def let_go(self, scope: Scope) -> None:
        """Drop what this very scope holds; for who has the lock."""
        self._shelves.pop(scope, None)

    def forget(self, key: SessionKey, ids: Sequence[str] | None) -> Forgotten:
        """Remove what rests on a session, or on some of its messages; for who has the lock."""
        removed: list[tuple[Scope, str]] = []
        renewed: list[tuple[Scope, str]] = []
        for scope, shelf, lost in self._losses(key, ids):
            if not lost.removed and not lost.changed:
                continue
            shelf.version = next(self._versions)
            for gone in lost.removed:
                del shelf.kept[gone]
                removed.append((scope, gone))
                shelf.purged = shelf.version
            changed = {memory.id: memory for memory in lost.changed}
            anew = set(lost.reworded)
            for name, kept in shelf.kept.items():
                if kept.memory.superseded_by in lost.removed:
                    memory = changed.get(name) or kept.shown()
                    changed[name] = replace(memory, superseded_by=heir(memory.superseded_by, lost.removed))
                    anew.add(name)
            for memory in changed.values():
                shelf.put(memory, dumps(dict(memory.metadata), field="memory.metadata") if memory.metadata else None)
            again = [memory for memory in changed.values() if memory.id in anew and memory.holds]
            renewed += [(scope, memory.id) for memory in again]
            if (index := self._index()) is not None:
                index.remove(scope, "memory", list(lost.removed))
                index.put(scope, "memory", list(map(memory_entry, again)))
            if not shelf.kept:
                del self._shelves[scope]
        return Forgotten(tuple(removed), tuple(renewed))

    def resting_on(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> list[tuple[Scope, str]]:
        """See `MemoryStore.resting_on`."""
        ids = None if message_ids is None else checked_ids(message_ids)
        with self._guarded():
            return [(scope, gone) for scope, _, lost in self._losses(key, ids) for gone in lost.removed]

    def forget_session(self, key: SessionKey) -> Forgotten:
        """See `MemoryStore.forget_session`."""
        with self._guarded():
            return self.forget(key, None)

    def forget_messages(self, key: SessionKey, message_ids: Sequence[str]) -> Forgotten:
        """See `MemoryStore.forget_messages`."""
        ids = checked_ids(message_ids)
        with self._guarded():
            return self.forget(key, ids)

    def read_to(self, key: SessionKey) -> int:
        """See `MemoryStore.read_to`."""
        with self._guarded():
            session = self._known(key)
            return session.remembered if session else 0

    def mark_read(self, key: SessionKey, *, after: int, to: int) -> bool:
        """See `MemoryStore.mark_read`."""
        checked_place("after", after)
        checked_place("to", to)
        with self._guarded():
            session = self._known(key)
            if session is None or session.remembered != after:
                return False
            session.remembered = to
            return True

    def unread(self, scope: Scope) -> list[SessionKey]:
        """See `MemoryStore.unread`."""
        with self._guarded():
            callers = (one for one in self._sessions() if one.key.caller_id == scope.caller_id)
            theirs = [one for one in callers if scope.user_id in (None, one.key.user_id)]
            return [
                SessionKey(one.key.session_id, scope.caller_id, one.key.user_id)
                for one in theirs[: -NEWEST_SESSIONS - 1 : -1]
                if one.next_seq - 1 > one.remembered and scope.session_id in (None, one.key.session_id)
            ]

    def _known(self, key: SessionKey) -> _Session | None:
        with suppress(SessionNotFoundError):  # another user's is none
            return self._session(key)
        return None

    def _losses(self, key: SessionKey, ids: Sequence[str] | None) -> list[tuple[Scope, _Shelf, Loss]]:
        found = []
        for scope in list(self._shelves):
            if is_within_reach(scope, key) and (shelf := self._shelves.get(scope)) is not None:
                memories = [kept.shown() for kept in shelf.kept.values()]
                found.append((scope, shelf, loss(memories, key, ids, is_own=bool(scope.session_id))))
        return found
