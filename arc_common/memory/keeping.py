"""MemoryKeeper: adds, finds and forgets long-term memories, in their store and in the index."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock
from uuid import uuid4

from cachetools import LRUCache, TTLCache

from arc_common.documents import ScoredDocument
from arc_common.exceptions import InvalidInputError, StoreError
from arc_common.indexing import IndexEntry, IndexStore, Scope
from arc_common.memories import Memory, MemoryOutline, ProposedMemory, ScoredMemory
from arc_common.memory.holdings import Holdings
from arc_common.memory.long_term import Decision, Outcome, decide, leaving, merged, ranked
from arc_common.memory.touching import Touches
from arc_common.memory_stores import MemoryChange, MemoryStore
from arc_common.observability import Observer
from arc_common.protocols import Embedder, SessionKey
from arc_common.retrieval import HybridIndex
from arc_common.retrieval.embedding import GuardedEmbedder
from arc_common.settings import ArcSettings

__all__ = ["Added", "MemoryKeeper"]

_log = logging.getLogger("arc.memory")

_SCOPES = 256
_ATTEMPTS = 20
"""Commits that others may be in the way of. With two processes at once, the second attempt succeeds."""

_CANDIDATES = 4
_LEAST_CANDIDATES = 20
"""Of the index, four for each memory wanted and at least 20: what is a little less relevant may matter more."""

_NEAREST = 3
_LOOK_AGAIN = 60.0
"""Seconds: so long a scope without memories is taken to have none, unless this process adds some."""
_ASKED = 10_000
_PAGE = 256


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a proposed memory.

    Args:
        outcome: That.
        memory: The memory that stands for it now.
    """

    outcome: Outcome
    memory: Memory


class MemoryKeeper:
    """Keeps the memories of scopes. Thread-safe; exact also with other processes at work on the same scope.

    - A decision is stored only if the scope is still what it was decided by; else it is made again.
    - What a scope holds is read once; after that, what has changed. Adding to a scope of any size reads no text that
      this process has seen, and one whole memory at most; a search reads no more than its candidates.
    - The index holds exactly the memories that hold. A failing index or embedder loses no memory: what it lacks is put
      there when a process uses the scope for the first time.

    Args:
        store: Where memories are.
        index_store: Gives the index's.
        embedder: Makes vectors; without one, memories are found by their words.
        settings: The knobs (`memory`, `embeddings`).
        observer: Receives counts.
        clock: Gives the time with zone.
        new_id: Mints a memory's id.
    """

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
    ) -> None:
        self._store = store
        self._index_store = index_store
        self._embedder = embedder
        self._guarded = None if embedder is None else GuardedEmbedder(embedder, observer)
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._new_id = new_id or _new_id
        self._touches = Touches(store, observer=observer)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._known: LRUCache[Scope, tuple[Lock, Holdings]] = LRUCache(_SCOPES)
        self._has_any: TTLCache[Scope, bool] = TTLCache(_ASKED, ttl=_LOOK_AGAIN)

    def add(self, scope: Scope, proposed: ProposedMemory, *, by_hand: bool = False) -> Added:
        """Store a memory, or find that one that is there says the same.

        Args:
            scope: Whose.
            proposed: The memory.
            by_hand: Whether somebody entered it: then it is stored also if a review rejected the same.

        Raises:
            InvalidInputError: Something in it can't be stored. Nothing was written.
            StoreError: The store failed, or others were in the way all the time. Nothing was written.
        """
        now = self._clock()
        new = proposed.stored_as(self._new_id(), now)
        vector = None if self._guarded is None else self._guarded.of_query(new.text)
        entry = IndexEntry(
            new.id,
            new.text,
            metadata={"type": new.type.value},
            vector=vector,
            embedder=None if vector is None or self._guarded is None else self._guarded.name,
        )
        lock, holdings = self._holdings(scope)
        with lock:
            alike: list[str] | None = None
            for _ in range(_ATTEMPTS):
                self._refresh(scope, holdings)
                if alike is None:
                    alike = self._alike(scope, entry, holdings)
                decision = decide(
                    proposed,
                    holdings,
                    now=now,
                    merge_similarity=self._settings.memory.merge_similarity,
                    alike=alike,
                    heeds_rejected=not by_hand,
                )
                if decision.twin is None:
                    done = self._insert(scope, holdings, decision, new, entry)
                else:
                    done = self._join(scope, holdings, decision, proposed)
                if done is not None:
                    return done
        raise StoreError(f"a memory was not stored: others changed its scope {_ATTEMPTS} times meanwhile")

    def search(self, scope: Scope, query: str, *, limit: int) -> list[ScoredMemory]:
        """The memories that a question is about, by relevance, importance and recency; best first.

        Raises:
            InvalidInputError: The query is no text, or the limit less than 1.
            StoreError: The store failed.
        """
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        _check_limit(limit)
        found = self._find(scope, query, top_k=max(_LEAST_CANDIDATES, _CANDIDATES * limit))
        if not found:
            return []
        relevance = {str(one.document.id): one.score or 0.0 for one in found}
        now = self._clock()
        best = ranked(self._store.get(scope, list(relevance)), relevance, now=now, limit=limit)
        if best:
            self._observer.count("memory.retrieved.count", len(best))
            self._touches.note(scope, [one.memory.id for one in best], at=now)
        return best

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Those of the memories that are there, in the order of the ids."""
        self._touches.flush(scope)
        return self._store.get(scope, ids)

    @property
    def store(self) -> MemoryStore:
        """The store, after what searches noted has been written."""
        self._touches.flush()
        return self._store

    def delete(self, scope: Scope, ids: Sequence[str]) -> int:
        """Remove memories; how many were there. What they had taken the place of stays history.

        Raises:
            StoreError: The store failed.
        """
        there = [memory.id for memory in self._store.get(scope, ids)]
        if not there:
            return 0
        self._index(scope).delete(there)  # first: what is removed must not be found, whatever happens on the way
        lock, holdings = self._holdings(scope)
        with lock:
            for _ in range(_ATTEMPTS):
                self._refresh(scope, holdings)
                change = MemoryChange(removed=tuple(name for name in there if holdings.get(name) is not None))
                if not change.removed or self._commit(scope, holdings, change):
                    return len(there)
        raise StoreError(f"memories were not removed: others changed their scope {_ATTEMPTS} times meanwhile")

    def erase(self, scope: Scope) -> int:
        """Remove all memories of the scope and of every scope within it, from the index too; how many there were."""
        self._index_store().erase(scope, kind="memory")
        removed = self._store.erase(scope)
        self._index_store().erase(scope, kind="memory")
        return removed

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove what rests on a session, or on some of its messages, alone; how many memories that were.

        Call it after the messages are gone.
        """
        self._unindex(self._store.resting_on(key, message_ids))
        done = self._store.forget_session(key) if message_ids is None else self._store.forget_messages(key, message_ids)
        self._unindex(done.removed)
        for scope in dict.fromkeys(scope for scope, _ in done.restored):
            ids = [memory_id for place, memory_id in done.restored if place == scope]
            self._put(scope, [_entry(memory) for memory in self._store.get(scope, ids) if memory.holds])
        return len(done.removed)

    def count(self, scope: Scope) -> int:
        """How many memories hold."""
        return self._store.count(scope)

    def has_any(self, scope: Scope) -> bool:
        """Whether any hold; looked up once in a while, so that turns of users without memories stay cheap."""
        with self._guarded_caches():
            known = self._has_any.get(scope)
        if known is None:
            known = self.count(scope) > 0
            with self._guarded_caches():
                self._has_any[scope] = known or self._has_any.get(scope, False)
        return bool(known)

    def close(self) -> None:
        """Write what searches noted."""
        self._touches.close()

    def _join(self, scope: Scope, holdings: Holdings, decision: Decision, proposed: ProposedMemory) -> Added | None:
        """Add to a memory that is there; `None` if another was in the way."""
        found = self._store.get(scope, [decision.twin] if decision.twin else [])
        if not found:
            return None
        if decision.outcome is Outcome.REJECTED:
            return Added(decision.outcome, found[0])
        memory = merged(found[0], proposed, now=self._clock(), known=decision.outcome is Outcome.KNOWN)
        if memory is not found[0]:
            if not self._commit(scope, holdings, MemoryChange((memory,))):
                return None
            if memory.text != found[0].text and memory.holds:
                self._put(scope, [_entry(memory)])
        return Added(decision.outcome, memory)

    def _insert(
        self, scope: Scope, holdings: Holdings, decision: Decision, new: Memory, entry: IndexEntry
    ) -> Added | None:
        """Store a new memory with what follows from it; `None` if another was in the way."""
        new = replace(new, superseded_by=decision.superseded_by)
        superseded = self._store.get(scope, decision.superseded)
        if len(superseded) < len(decision.superseded):
            return None
        put = (new, *(replace(memory, superseded_by=new.id) for memory in superseded))
        after = {outline.id: outline for outline in holdings.outlines} if self._may_overflow(holdings) else {}
        after.update((memory.id, MemoryOutline.of(memory)) for memory in put)
        most = self._settings.memory.max_per_scope
        gone = leaving(after.values(), now=new.created_at, most=most, keep={new.id})
        change = MemoryChange(tuple(memory for memory in put if memory.id not in gone), tuple(gone))
        if not self._commit(scope, holdings, change):
            return None
        self._observer.count("memory.saved.count")
        with self._guarded_caches():
            self._has_any[scope] = True
        try:
            self._unindex((scope, name) for name in {*decision.superseded, *gone})
        except StoreError as error:
            self._say_index_failed(error)
        if new.holds:
            self._put(scope, [entry])
        return Added(Outcome.NEW, new)

    def _may_overflow(self, holdings: Holdings) -> bool:
        return len(holdings) >= self._settings.memory.max_per_scope

    def _commit(self, scope: Scope, holdings: Holdings, change: MemoryChange) -> bool:
        version = self._store.commit(scope, change, version=holdings.version)
        if version is None:
            return False
        holdings.change(version, put=map(MemoryOutline.of, change.put), removed=change.removed)
        return True

    def _holdings(self, scope: Scope) -> tuple[Lock, Holdings]:
        with self._guarded_caches():
            known = self._known.get(scope)
            if known is None:
                known = self._known[scope] = (Lock(), Holdings())
            return known

    def _guarded_caches(self) -> Lock:
        if self._process != os.getpid():  # a lock that another thread of the parent held would stay held for good
            self._begin()
        return self._lock

    def _refresh(self, scope: Scope, holdings: Holdings) -> None:
        first = not holdings.version
        holdings.apply(self._store.updates(scope, after=holdings.version))
        if first and holdings.version:
            self._mend(scope, holdings)

    def _mend(self, scope: Scope, holdings: Holdings) -> None:
        """Put the index right where a process ended, or the index failed, between a change of the two."""
        index = self._index(scope)
        holding = {outline.id for outline in holdings.outlines if outline.holds}
        if index.count() == len(holding):
            return
        there = {str(document.id) for document in index.get(sorted(holding))}
        self._put(scope, [_entry(memory) for memory in self._store.get(scope, sorted(holding - there))])
        after = ""
        while page := self._index_store().scan(scope, "memory", after=after, limit=_PAGE):
            after = page[-1].id
            self._unindex((scope, entry.id) for entry in page if entry.id not in holding)

    def _alike(self, scope: Scope, entry: IndexEntry, holdings: Holdings) -> list[str]:
        """The ids of the memories that mean the same, the nearest first."""
        if entry.vector is None or not len(holdings):
            return []
        try:
            found = self._index(scope).search(
                entry.text,
                top_k=_NEAREST,
                mode="dense",
                vector=entry.vector.tolist(),
                threshold=self._settings.memory.merge_cosine,
            )
        except InvalidInputError as error:  # vectors of another embedder
            _log.warning("memories are not compared by meaning: %s", error)
            return []
        return [str(one.document.id) for one in found]

    def _find(self, scope: Scope, query: str, *, top_k: int) -> list[ScoredDocument]:
        index = self._index(scope)
        try:
            return index.search(query, top_k=top_k)
        except InvalidInputError as error:
            _log.warning("memories are searched by words only: %s", error)
            return index.search(query, top_k=top_k, mode="lexical")

    def _put(self, scope: Scope, entries: Sequence[IndexEntry]) -> None:
        """Put memories into the index; a failure is logged and counted, and mended later."""
        if not entries:
            return
        try:
            self._index(scope, embeds=any(entry.vector is None for entry in entries)).add(entries)
        except InvalidInputError as error:
            _log.warning("memories are indexed by their words only: %s", error)
            plain = [IndexEntry(entry.id, entry.text, metadata=entry.metadata) for entry in entries]
            self._index(scope, embeds=False).add(plain)
        except StoreError as error:
            self._say_index_failed(error)

    def _say_index_failed(self, error: Exception) -> None:
        _log.warning("the index of memories is not up to date: %s", error, exc_info=error)
        self._observer.count("memory.index_errors")

    def _unindex(self, places: Iterable[tuple[Scope, str]]) -> None:
        by_scope: dict[Scope, list[str]] = {}
        for scope, memory_id in places:
            by_scope.setdefault(scope, []).append(memory_id)
        for scope, ids in by_scope.items():
            self._index(scope, embeds=False).delete(ids)

    def _index(self, scope: Scope, *, embeds: bool = True) -> HybridIndex:
        return HybridIndex(
            self._index_store(),
            scope=scope,
            kind="memory",
            embedder=self._embedder if embeds else None,
            batch_size=self._settings.embeddings.batch_size,
            observer=self._observer,
        )


def _entry(memory: Memory) -> IndexEntry:
    return IndexEntry(memory.id, memory.text, metadata={"type": memory.type.value})


def _check_limit(limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInputError("limit", limit, "a whole number of at least 1")


def _new_id() -> str:
    return f"mem_{uuid4().hex}"
