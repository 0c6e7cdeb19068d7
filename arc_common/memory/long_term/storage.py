"""MemoryKeeper: adds, finds and forgets long-term memories, in their store and in the index."""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from threading import Lock

from cachetools import LRUCache

from arc_common.concurrency import BackgroundQueue, begin_in_each_process
from arc_common.exceptions import InvalidInputError
from arc_common.memories import Memory, MemoryStatus, ProposedMemory, ScoredMemory
from arc_common.memory.long_term.contradictions import Contradictions
from arc_common.memory.long_term.index import MemoryIndex
from arc_common.memory.long_term.policy import ranked
from arc_common.memory.long_term.writer import MemoryWriter, WriteResult
from arc_common.observability import Observer
from arc_common.protocols import Embedder, SessionKey
from arc_common.protocols.memories import MemoryStore
from arc_common.protocols.search_index import IndexStore, Scope
from arc_common.settings import ArcSettings

_log = logging.getLogger("arc.memory")

_SETTLE_SECONDS = 5.0
"""The delay before access times are written: a commit for each turn would block appends."""


class Touches:
    """Writes memories' access times in the background, so that no search waits for a disk."""

    def __init__(self, store: MemoryStore, *, observer: Observer) -> None:
        self._store = store
        self._observer = observer
        begin_in_each_process(self._begin)
        self._queue: BackgroundQueue[Scope] = BackgroundQueue(
            self._write, threads=1, on_error=self._count, settle=_SETTLE_SECONDS
        )

    def _begin(self) -> None:
        self._lock = Lock()
        self._noted: dict[Scope, dict[str, datetime]] = {}

    def note(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> None:
        """Note that memories were returned."""
        with self._lock:
            self._noted.setdefault(scope, {}).update(dict.fromkeys(ids, at))
        self._queue.schedule(scope)

    def flush(self, scope: Scope | None = None) -> None:
        """Write the noted access times (of this scope) and wait for running writes; never raises."""
        with self._lock:
            scopes = list(self._noted) if scope is None else [scope] if scope in self._noted else []
        for place in scopes:
            try:
                self._write(place)
            except Exception as error:  # noqa: BLE001 - a lost access time must not raise
                _log.warning("times of access were not stored: %s", error)
                self._count(error)
        self._queue.wait(1.0)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all access times are written; return whether they were within `timeout` seconds."""
        return self._queue.wait(timeout)

    def close(self) -> None:
        """Write the noted access times and stop."""
        self.flush()
        self._queue.close()

    def _write(self, scope: Scope) -> None:
        with self._lock:
            noted = self._noted.pop(scope, {})
        by_time: dict[datetime, list[str]] = {}
        for memory_id, at in noted.items():
            by_time.setdefault(at, []).append(memory_id)
        for at in sorted(by_time):
            self._store.touch(scope, by_time[at], at=at)

    def _count(self, error: Exception) -> None:
        self._observer.count("memory.touch_errors", error=type(error).__name__)


_ASKED = 10_000

_CANDIDATES = 4
_LEAST_CANDIDATES = 20
"""Fetch four candidates per memory requested, and at least 20: a slightly less relevant one may be more important."""


class MemoryKeeper:
    """Keeps the memories of scopes in their store and in the index."""

    def __init__(
        self,
        store: MemoryStore,
        *,
        index_store: Callable[[], IndexStore],
        embedder: Embedder | None,
        settings: ArcSettings,
        observer: Observer,
        clock: Callable[[], datetime],
        new_id: Callable[[], str] | None = None,
        contradictions: Contradictions | None = None,
    ) -> None:
        self._store = store
        self._index = MemoryIndex(index_store, embedder=embedder, settings=settings, observer=observer)
        self._writer = MemoryWriter(
            store,
            self._index,
            settings=settings.memory,
            observer=observer,
            clock=clock,
            new_id=new_id,
            contradictions=contradictions,
        )
        self._observer = observer
        self._clock = clock
        self._touches = Touches(store, observer=observer)
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()
        self._had_some: LRUCache[Scope, bool] = LRUCache(_ASKED)

    def add(
        self, scope: Scope, proposed: ProposedMemory, *, by_hand: bool = False, follows: str | None = None
    ) -> WriteResult:
        """Store a memory, or merge it with an existing one that says the same. See `MemoryWriter.add`."""
        added = self._writer.add(scope, proposed, by_hand=by_hand, follows=follows)
        with self._lock:
            self._had_some[scope] = True
        return added

    def add_all(
        self, scope: Scope, proposed: Sequence[ProposedMemory], *, follows: str | None = None
    ) -> list[WriteResult | InvalidInputError]:
        """Store memories in order, in few transactions. See `MemoryWriter.add_all`."""
        added = self._writer.add_all(scope, proposed, follows=follows)
        with self._lock:
            self._had_some[scope] = True
        return added

    def set_status(self, scope: Scope, memory_id: str, status: MemoryStatus) -> Memory | None:
        """Approve a memory, reject it or set it to pending. See `MemoryWriter.set_status`."""
        self._touches.flush(scope)
        return self._writer.set_status(scope, memory_id, status)

    def search(self, scope: Scope, query: str, *, limit: int) -> list[ScoredMemory]:
        """Return the memories that match a question, ranked by relevance, importance and recency."""
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidInputError("limit", limit, "a whole number of at least 1")
        found = self._index.search(scope, query, top_k=max(_LEAST_CANDIDATES, _CANDIDATES * limit))
        if not found:
            return []
        relevance = {str(one.document.id): one.score or 0.0 for one in found}
        now = self._clock()
        best = ranked(self._store.get(scope, list(relevance)), relevance, now=now, limit=limit)
        if best:
            self._observer.count("memory.retrieved.count", len(best))
            self._touches.note(scope, [one.memory.id for one in best], at=now)
        return best

    def related(self, scope: Scope, text: str, *, limit: int) -> list[Memory]:
        """Return the memories that hold and match a text, best first, without recording access times."""
        ids = [str(one.document.id) for one in self._index.search(scope, text, top_k=limit)]
        return [memory for memory in self._store.get(scope, ids) if memory.holds] if ids else []

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Return the memories that exist, in the order of the ids."""
        self._touches.flush(scope)
        return self._store.get(scope, ids)

    @property
    def store(self) -> MemoryStore:
        """The store, with all noted access times written."""
        self._touches.flush()
        return self._store

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all access times are written; return whether they were within `timeout` seconds."""
        return self._touches.wait(timeout)

    def delete(self, scope: Scope, ids: Sequence[str]) -> int:
        """Remove memories; return how many existed."""
        there = [memory.id for memory in self._store.get(scope, ids)]
        if not there:
            return 0
        self._index.erase((scope, name) for name in there)  # first: even if the next step fails, no search finds them
        self._writer.remove(scope, there)
        return len(there)

    def erase(self, scope: Scope) -> int:
        """Remove all memories of the scope and of every scope within it, also from the index; return how many."""
        self._index.erase_within(scope)
        removed = self._store.erase(scope)
        self._index.erase_within(scope)  # entries added between the two calls
        return removed

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove memories whose only sources are a session, or some of its messages; return how many."""
        is_beside = self._index.is_beside(self._store)
        if not is_beside:
            self._index.erase(self._store.resting_on(key, message_ids))
        if message_ids is None:
            done = self._store.forget_session(key)
        else:
            done = self._store.forget_messages(key, message_ids)
        for scope in _scopes_of(key):
            self._writer.settle(scope)
            if not is_beside:
                self._writer.follow(scope)
            self._index.complete(scope)
        return len(done.removed)

    def count(self, scope: Scope) -> int:
        """Return how many memories hold."""
        return self._store.count(scope)

    def has_any(self, scope: Scope) -> bool:
        """Return whether a search may find memories; a scope known to have had some is not counted again."""
        with self._lock:
            known = self._had_some.get(scope, False)
        if not known and self.count(scope) > 0:
            with self._lock:
                known = self._had_some[scope] = True
        return known

    def close(self) -> None:
        """Write the noted access times and stop."""
        self._touches.close()


def _scopes_of(key: SessionKey) -> Iterator[Scope]:
    """Yield the scopes whose memories may come from a session."""
    for user_id in dict.fromkeys((None, key.user_id)):
        for session_id in (None, key.session_id):
            yield Scope(key.caller_id, user_id, session_id)
