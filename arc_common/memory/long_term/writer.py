"""MemoryWriter: changes a scope's memories by decisions that are still valid when they are committed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from secrets import randbelow
from threading import Lock
from time import sleep
from typing import Any, TypeVar

from arc_common.caches import LRUCache
from arc_common.concurrency import begin_in_each_process
from arc_common.exceptions import InvalidInputError, MemoryConflictError, StoreError
from arc_common.memories import Memory, MemoryStatus, ProposedMemory
from arc_common.memory.long_term.deduplication import Holdings, own_copy
from arc_common.memory.long_term.index import MemoryIndex
from arc_common.memory.long_term.policy import (
    Decision,
    Outcome,
    approved,
    decide,
    is_firm,
    leaving,
    merged,
    placed,
    revised,
)
from arc_common.memory.services import Services
from arc_common.protocols.records import IndexChange, RecordChange
from arc_common.protocols.search_index import IndexEntry, Scope

T = TypeVar("T")

_SCOPES = 256
_ATTEMPTS = 20
"""The most attempts to commit despite concurrent writers. With two processes, the second attempt succeeds."""


def _wait_after(attempts: int) -> None:
    """Wait up to 64 ms, longer after each attempt, so that writers that met do not meet again."""
    sleep(randbelow(2 ** min(attempts, 6)) / 1_000)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of a proposed memory, and the memory that represents it."""

    outcome: Outcome
    memory: Memory


@dataclass(slots=True)
class _Known:
    """The cached holdings of a scope, guarded by a lock."""

    holdings: Holdings
    lock: Lock = field(default_factory=Lock)


class MemoryWriter:
    """Adds memories, changes their status and removes them."""

    def __init__(self, services: Services, index: MemoryIndex) -> None:
        self._contradictions = services.contradictions
        self._store = services.store.records
        self._index = index
        self._settings = services.settings.memory
        self._observer = services.observer
        self._clock = services.clock
        self._new_id = services.new_id
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()
        self._known: LRUCache[Scope, _Known] = LRUCache(_SCOPES)

    def add(self, scope: Scope, proposed: ProposedMemory, *, by_hand: bool = False) -> WriteResult:
        """Store a memory, or merge it with an existing one that says the same."""
        return self._with_holdings(scope, lambda holdings: self._added(scope, holdings, proposed, by_hand=by_hand))

    def add_all(
        self, scope: Scope, proposed: Sequence[ProposedMemory], *, follows: str | None = None
    ) -> list[WriteResult | InvalidInputError]:
        """Store memories in order, each as `add` does; those that affect no other memory share a transaction."""

        def add(holdings: Holdings) -> list[WriteResult | InvalidInputError]:
            results: list[WriteResult | InvalidInputError] = []
            together: list[tuple[ProposedMemory, Memory, IndexEntry]] = []
            if not holdings.version:
                self._refresh(scope, holdings)
            for one in proposed:
                if (new := self._independent(holdings, one)) is not None:
                    holdings.add([new[1]])
                    together.append(new)
                    continue
                results += self._added_together(scope, holdings, together, follows=follows)
                results += self._added_alone(scope, holdings, [one], follows=follows)
                together = []
            return results + self._added_together(scope, holdings, together, follows=follows)

        return self._with_holdings(scope, add)

    def _independent(
        self, holdings: Holdings, proposed: ProposedMemory
    ) -> tuple[ProposedMemory, Memory, IndexEntry] | None:
        """Return a memory with its entry if it is new, replaces no other and is replaced by none; else `None`."""
        try:
            new = proposed.stored_as(self._new_id(), self._clock())
            entry = self._index.entry(new)
        except InvalidInputError:  # adding it alone raises this again
            return None
        if entry.vector is not None or self._opposed(holdings, proposed, said=new.valid_from):
            return None
        known = replace(proposed, valid_from=new.valid_from)
        decision = decide(known, holdings, now=new.valid_from, merge_similarity=self._settings.merge_similarity)
        return (proposed, new, entry) if decision == Decision(Outcome.NEW) else None

    def _added_together(
        self,
        scope: Scope,
        holdings: Holdings,
        together: Sequence[tuple[ProposedMemory, Memory, IndexEntry]],
        *,
        follows: str | None,
    ) -> list[WriteResult | InvalidInputError]:
        """Store new memories in one transaction, or one by one if another writer interfered."""
        if not together:
            return []
        names = [memory.id for _, memory, _ in together]
        gone = set(self._leaving(holdings, [memory for _, memory, _ in together], keep=set()))
        put = tuple(memory for _, memory, _ in together if memory.id not in gone)
        entries = tuple(entry for _, memory, entry in together if _is_searched(memory) and memory.id not in gone)
        stated = {memory.id: one for one, memory, _ in together if memory.id not in gone}
        removed = tuple(sorted(gone.difference(names)))
        try:
            is_stored = not put or self._commit(
                scope, holdings, RecordChange(put, removed, stated), IndexChange(entries, removed)
            )
        except InvalidInputError:  # storing them one by one shows which of them can't be stored
            is_stored = False
        if is_stored:
            holdings.drop(gone.intersection(names))
            self._observer.count("memory.saved.count", len(put))
            return [
                WriteResult(Outcome.FULL if memory.id in gone else Outcome.NEW, memory) for _, memory, _ in together
            ]
        holdings.drop(names)
        self._refresh(scope, holdings)
        return self._added_alone(scope, holdings, [proposed for proposed, _, _ in together], follows=follows)

    def _added_alone(
        self, scope: Scope, holdings: Holdings, proposed: Sequence[ProposedMemory], *, follows: str | None
    ) -> list[WriteResult | InvalidInputError]:
        results: list[WriteResult | InvalidInputError] = []
        for one in proposed:
            try:
                results.append(self._added(scope, holdings, one, by_hand=False, follows=follows))
            except InvalidInputError as error:
                results.append(error)
        return results

    def _added(
        self, scope: Scope, holdings: Holdings, proposed: ProposedMemory, *, by_hand: bool, follows: str | None = None
    ) -> WriteResult:
        now = self._clock()
        new = proposed.stored_as(self._new_id(), now)
        entry = self._index.entry(new)
        is_own = by_hand and proposed.valid_from is None
        if not holdings.version:
            self._refresh(scope, holdings)
        for attempt in range(_ATTEMPTS):
            _wait_after(attempt)
            known = holdings.version
            opposed = self._opposed(holdings, proposed, said=new.valid_from)
            said = _said_after(opposed, new.valid_from, is_own=is_own, follows=follows)
            decision = decide(
                replace(proposed, valid_from=said),
                holdings,
                now=now,
                merge_similarity=self._settings.merge_similarity,
                alike=self._index.alike(scope, entry) if len(holdings) else (),
                by_hand=by_hand,
                outranked=() if proposed.supersedes else [one.id for one in opposed if is_firm(one)],
                overruled=[one.id for one in opposed if not is_firm(one)] if proposed.supersedes else (),
            )
            if decision.twin is None:
                memory = replace(new, valid_from=said, superseded_by=decision.superseded_by)
                done = self._insert(scope, holdings, decision, memory, entry, proposed=proposed, by_hand=by_hand)
            else:
                done = self._join(scope, holdings, decision, decision.twin, proposed)
            if done is not None and holdings.version != known:
                return done
            self._refresh(scope, holdings)
            if done is not None and holdings.version == known:  # the current state needs no write
                return done
        raise StoreError(f"a memory was not stored: others changed its scope {_ATTEMPTS} times meanwhile")

    def set_status(
        self, scope: Scope, memory_id: str, status: MemoryStatus, *, review: Mapping[str, Any] | None = None
    ) -> Memory | None:
        """Set the status of a memory (with `review`, of a pending one); return it, or `None` if there is none."""

        def change(holdings: Holdings) -> list[Memory] | None:
            found = self._store.find(scope, [memory_id])
            if review is not None and found and found[0].status is not MemoryStatus.PENDING:
                return []
            if not found or found[0].status is status:
                return found
            reviewed = replace(found[0], status=status, metadata={**found[0].metadata, **(review or {})})
            changed = self._change(scope, holdings, reviewed, is_own=False)
            return None if changed is None else [changed]

        changed = self._retried(scope, change)
        return changed[0] if changed else None

    def pin(self, scope: Scope, memory_id: str, *, pinned: bool) -> Memory | None:
        """Pin or unpin a memory; return it as stored, or `None` if the id is unknown."""

        def change(holdings: Holdings) -> list[Memory] | None:
            found = [replace(one, pinned=pinned) for one in self._store.find(scope, [memory_id])]
            return found if not found or self._commit(scope, holdings, RecordChange(tuple(found))) else None

        changed = self._retried(scope, change)
        return changed[0] if changed else None

    def edit(
        self, scope: Scope, memory_id: str, values: Mapping[str, Any], *, revision: int | None = None
    ) -> Memory | None:
        """Store a new revision of a memory with other values; return it, or `None` if the id is unknown."""

        def change(holdings: Holdings) -> list[Memory] | None:
            found = self._store.find(scope, [memory_id])
            if not found:
                return found
            if revision is not None and found[0].revision != revision:
                raise MemoryConflictError(memory_id, expected=revision, found=found[0].revision)
            edited = revised(found[0], values, now=self._clock())
            changed = self._change(scope, holdings, edited, is_own="text" in values)
            return None if changed is None else [changed]

        changed = self._retried(scope, change)
        return changed[0] if changed else None

    def remove(self, scope: Scope, ids: Sequence[str]) -> None:
        """Remove the memories that exist."""

        def change(holdings: Holdings) -> bool | None:
            there = tuple(name for name in ids if holdings.get(name) is not None)
            index = IndexChange(removed=there)
            return not there or self._commit(scope, holdings, RecordChange(removed=there), index) or None

        self._retried(scope, change)

    def settle(self, scope: Scope) -> None:
        """Let one of each contradicting pair supersede the other, after a removal made both valid again."""

        def change(holdings: Holdings) -> bool | None:
            ended = _given_way(holdings)
            return not ended or self._commit(scope, holdings, RecordChange(tuple(ended))) or None

        self._retried(scope, change)

    def drop(self, scope: Scope) -> None:
        """Drop the cached memories of a caller or one of its users."""
        with self._lock:
            for one in self._known:
                if one.caller_id == scope.caller_id and scope.user_id in (None, one.user_id):
                    del self._known[one]

    def _retried(self, scope: Scope, change: Callable[[Holdings], T | None]) -> T:
        """Return the result of a change, made again after each conflict with another writer (`None`)."""

        def attempt(holdings: Holdings) -> T | None:
            for attempt in range(_ATTEMPTS):
                _wait_after(attempt)
                self._refresh(scope, holdings)
                if (done := change(holdings)) is not None:
                    return done
            return None

        if (done := self._with_holdings(scope, attempt)) is not None:
            return done
        raise StoreError(f"memories were not changed: others changed their scope {_ATTEMPTS} times meanwhile")

    def _join(
        self, scope: Scope, holdings: Holdings, decision: Decision, twin: str, proposed: ProposedMemory
    ) -> WriteResult | None:
        """Merge a proposed memory into an existing one; `None` after a conflict with another writer."""
        found = own_copy(holdings[twin])
        waits = proposed.status is MemoryStatus.PENDING
        if decision.outcome is Outcome.REJECTED or (waits and found.status is MemoryStatus.ACTIVE):
            return WriteResult(decision.outcome, found)  # pending content never enters an active memory
        if decision.outcome is Outcome.APPROVED:
            entered = approved(found, proposed, now=self._clock())
            own = proposed.valid_from is None
            changed = self._change(scope, holdings, entered, is_own=own, proposed=proposed)
            return None if changed is None else WriteResult(decision.outcome, changed)
        memory = merged(found, proposed, now=self._clock(), known=decision.outcome is Outcome.KNOWN)
        put = [replace(holdings[name], superseded_by=memory.id) for name in decision.superseded]
        put += [memory] if memory is not found else []
        stated = {memory.id: proposed}
        if put:
            is_found = (memory.text, memory.tags) != (found.text, found.tags) and _is_searched(memory)
            index = IndexChange((self._index.entry(memory),) if is_found else ())
            if not self._commit(scope, holdings, RecordChange(tuple(put), stated=stated), index):
                return None
        elif proposed.branch:  # it may be known from another one
            self._store.commit(scope, RecordChange(stated=stated), version=None)
        return WriteResult(decision.outcome, memory)

    def _opposed(self, holdings: Holdings, proposed: ProposedMemory, *, said: datetime) -> list[Memory]:
        """Return the memories that a proposed one contradicts or replaces and that times alone do not decide."""
        names = dict.fromkeys((*holdings.contradicted(proposed.text, proposed.speaker), *proposed.replaces))
        opposed = [one for name in names if (one := holdings.get(name)) is not None and one.is_current]
        return [one for one in opposed if one.valid_from > said] if proposed.supersedes else opposed

    def _change(
        self,
        scope: Scope,
        holdings: Holdings,
        memory: Memory,
        *,
        is_own: bool,
        proposed: ProposedMemory | None = None,
    ) -> Memory | None:
        """Store a changed memory and its consequences; `None` after a conflict with another writer."""
        superseded: tuple[str, ...] = ()
        if memory.is_current:
            names = [name for name in holdings.contradicted(memory.text, memory.speaker) if name != memory.id]
            opposed = [holdings[name] for name in names] if is_own else []
            said = _said_after(opposed, memory.valid_from, is_own=is_own)
            decision = placed(memory, holdings, said=said, overruled=(memory.id,))
            memory = replace(memory, valid_from=said, superseded_by=decision.superseded_by)
            superseded = tuple(name for name in decision.superseded if name != memory.id)
        is_searched = _is_searched(memory)
        index = IndexChange((self._index.entry(memory),)) if is_searched else IndexChange(removed=(memory.id,))
        done = self._write(scope, holdings, memory, superseded, index, proposed=proposed, keeps=True)
        return None if done is None else memory

    def _insert(
        self,
        scope: Scope,
        holdings: Holdings,
        decision: Decision,
        new: Memory,
        entry: IndexEntry,
        *,
        proposed: ProposedMemory,
        by_hand: bool,
    ) -> WriteResult | None:
        """Store a new memory and its consequences; `None` after a conflict with another writer."""
        index = IndexChange((entry,) if _is_searched(new) else ())
        keeps = by_hand or bool(decision.superseded)
        gone = self._write(scope, holdings, new, decision.superseded, index, proposed=proposed, keeps=keeps)
        if gone is None:
            return None
        if new.id in gone:
            return WriteResult(Outcome.FULL, new)
        self._observer.count("memory.saved.count")
        return WriteResult(Outcome.NEW, new)

    def _write(
        self,
        scope: Scope,
        holdings: Holdings,
        memory: Memory,
        superseded: Sequence[str],
        index: IndexChange,
        *,
        proposed: ProposedMemory | None,
        keeps: bool,
    ) -> list[str] | None:
        """Store a memory that supersedes others; return the evicted ids, or `None` if another writer was first."""
        put = (memory, *(replace(holdings[name], superseded_by=memory.id) for name in superseded))
        gone = self._leaving(holdings, put, keep={memory.id} if keeps else set())
        if memory.id in gone:
            return gone
        stated = {} if proposed is None else {memory.id: proposed}
        change = RecordChange(tuple(one for one in put if one.id not in gone), tuple(gone), stated)
        index = replace(index, removed=tuple(dict.fromkeys((*index.removed, *gone))))
        return gone if self._commit(scope, holdings, change, index) else None

    def _leaving(self, holdings: Holdings, put: Sequence[Memory], *, keep: set[str]) -> list[str]:
        most = self._settings.max_per_scope
        if len(holdings) < most:
            return []
        after = {memory.id: memory for memory in (*holdings.values(), *put)}
        return leaving(after.values(), now=self._clock(), most=most, keep=keep)

    def _commit(self, scope: Scope, holdings: Holdings, change: RecordChange, index: IndexChange | None = None) -> bool:
        """Commit a change with its index change in one transaction; return `False` if another writer was first."""
        before = holdings.version
        if index is None or not (index.put or index.removed):
            version = self._store.commit(scope, change, version=before)
        else:
            version = self._index.committed(
                index, lambda joined: self._store.commit(scope, change, version=before, index=joined)
            )
        if version is None:
            return False
        holdings.change(version, put=change.put, removed=change.removed)
        return True

    def _refresh(self, scope: Scope, holdings: Holdings) -> None:
        """Read the changes of a scope, or all its memories at its first use."""
        holdings.apply(self._store.changes(scope, after=holdings.version))

    def _with_holdings(self, scope: Scope, work: Callable[[Holdings], T]) -> T:
        """Call `work` with a scope's cached holdings, locked; after a failure they are read again."""
        with self._lock:
            known = self._known.get(scope)
            if known is None:
                known = self._known[scope] = _Known(Holdings(self._contradictions))
        with known.lock:
            try:
                return work(known.holdings)
            except (InvalidInputError, MemoryConflictError):  # raised before anything changes
                raise
            except BaseException:
                known.holdings = Holdings(self._contradictions)
                raise


def _is_searched(memory: Memory) -> bool:
    """Return whether a memory is in the index: also a superseded one, which may be valid on another branch."""
    return memory.status is MemoryStatus.ACTIVE


def _said_after(
    opposed: Sequence[Memory], said: datetime, *, is_own: bool = False, follows: str | None = None
) -> datetime:
    """Return when a memory was said: no earlier than the memories it contradicts that are known to be older."""
    before = [
        one.valid_from for one in opposed if is_own or any(session_id == follows for session_id, _ in one.sources)
    ]
    return max([said, *before])


def _given_way(holdings: Holdings) -> list[Memory]:
    """Return the weaker one of each contradicting pair, superseded by the other."""
    ended: dict[str, Memory] = {}
    for pair in holdings.at_odds():
        if ended.keys().isdisjoint(pair):
            less, more = sorted(map(holdings.__getitem__, pair), key=lambda one: (is_firm(one), one.valid_from, one.id))
            ended[less.id] = replace(less, superseded_by=more.id)
    return list(ended.values())
