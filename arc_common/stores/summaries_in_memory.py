"""Summaries and facts in this process's memory."""

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from arc_common.exceptions import StoreError
from arc_common.facts import Fact
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.summaries import Commit, Lease, Outline, Segment, SegmentOutline, SessionState, View
from arc_common.stores.conversations_statements import detached, to_microseconds
from arc_common.stores.summaries_plan import (
    UNGROUNDED,
    Changed,
    Mark,
    checked_commit,
    checked_fact_ids,
    checked_lease,
    checked_view,
    epoch_of,
    inherited,
    may_store,
    rests_on,
    without_text,
)
from arc_common.stores.summaries_statements import folded, folded_key
from arc_common.stores.validation import checked_limit, checked_place

__all__ = ["InMemorySummaries", "Ledger"]


@dataclass(slots=True)
class _Kept:
    """A segment, and whether a higher one stands for it."""

    segment: Segment
    covered: bool = False

    def outline(self) -> SegmentOutline:
        one = self.segment
        return SegmentOutline(
            one.level, one.start, one.end, one.tokens, one.made_by, one.parts, self.covered, one.created_at
        )


@dataclass(slots=True)
class _KeptFact:
    """A fact, and the leaf that said that it no longer holds, or `UNGROUNDED`."""

    fact: Fact
    removed_by: int | None

    def seen(self) -> Fact:
        removed = self.removed_by not in (None, UNGROUNDED)
        return self.fact if self.fact.removed == removed else replace(self.fact, removed=removed)


@dataclass(frozen=True, slots=True)
class _Summed:
    """The tokens of a session's first messages, as they were after some edits."""

    edits: int
    count: int
    first: int
    last: int
    tokens: int

    def begins(self, messages: Sequence[StoredMessage], edits: int) -> bool:
        """Whether these messages begin with those: none of them was edited, and none left by a cap."""
        return (
            self.edits == edits
            and 0 < self.count <= len(messages)
            and (messages[0].seq, messages[self.count - 1].seq) == (self.first, self.last)
        )


@dataclass(slots=True)
class Ledger:
    """One session's segments, facts, view and lease. The rules are those of the SQL store's transactions."""

    view: View | None = None
    edits: int = 0
    facts_version: int = 0
    lease_owner: str | None = None
    lease_fence: int = 0
    lease_until: datetime | None = None
    segments: dict[tuple[int, int], _Kept] = field(default_factory=dict)
    facts: dict[str, _KeptFact] = field(default_factory=dict)
    summed: _Summed | None = None

    def total(self, messages: Sequence[StoredMessage]) -> int:
        """The messages' tokens; what was summed before is not summed again."""
        known = self.summed
        if known is None or not known.begins(messages, self.edits):
            known = _Summed(self.edits, 0, 0, 0, 0)
        tokens = known.tokens + sum(stored.tokens for stored in messages[known.count :])
        if messages:
            self.summed = _Summed(self.edits, len(messages), messages[0].seq, messages[-1].seq, tokens)
        return tokens

    def after(self, changed: Changed, messages: Sequence[StoredMessage]) -> None:
        """Undo what was made from messages that were edited or removed; `messages` are those that are there now."""
        self.edits += 1
        leaves = self._leaves_over(changed)
        gone: list[Mark] = []
        if leaves:
            for level, start in [place for place in self.segments if place[0] > 0]:
                segment = self.segments[level, start].segment
                if any(segment.start <= leaf <= segment.end for leaf in leaves):
                    self.mark_parts(segment, covered=False)
                    del self.segments[level, start]
            for leaf in leaves:
                self._empty(leaf, messages)
            gone = self.take_back(leaves)
            self.facts_version += 1
        places = (*changed.places, *leaves)
        if self.view and rests_on(self.view, places=places, fact_ids=[mark.fact_id for mark in gone]):
            self.view = without_text(self.view, changed)

    def clear(self) -> None:
        """Forget everything; the lease stays."""
        self.view = None
        self.edits += 1
        self.facts_version += 1
        self.segments = {}
        self.facts = {}

    def _leaves_over(self, changed: Changed) -> set[int]:
        """The leaves that hold such a message, and those with a fact that names one as its source."""
        ids = set(changed.message_ids)
        over = {
            kept.segment.start
            for kept in self.segments.values()
            if kept.segment.level == 0
            and any(kept.segment.start <= place <= kept.segment.end for place in changed.places)
        }
        citing = {
            kept.fact.segment
            for kept in self.facts.values()
            if kept.fact.segment > min(changed.places) and not ids.isdisjoint(kept.fact.sources)
        }
        return over | citing

    def _empty(self, leaf: int, messages: Sequence[StoredMessage]) -> None:
        kept = self.segments.get((0, leaf))
        if kept is None:
            return
        segment = kept.segment
        if any(segment.start <= stored.seq <= segment.end for stored in messages):
            kept.segment = replace(segment, narrative="", tokens=0, made_by=None, sources=(), created_at=None)
        else:
            del self.segments[0, leaf]

    def take_back(self, leaves: Collection[int]) -> list[Mark]:
        """Take the leaves' facts from the ledger, with what they superseded and removed."""
        for kept in self.facts.values():
            if kept.removed_by in leaves:
                kept.removed_by = None
        gone = [
            Mark(fact_id, kept.fact.superseded_by, kept.removed_by)
            for fact_id, kept in self.facts.items()
            if kept.fact.segment in leaves
        ]
        for mark in gone:
            del self.facts[mark.fact_id]
        heirs = {mark.fact_id: mark for mark in inherited(gone, leaves=leaves)}
        for kept in self.facts.values():
            heir = heirs.get(kept.fact.superseded_by or "")
            if heir is not None:
                kept.fact = replace(kept.fact, superseded_by=heir.superseded_by)
                kept.removed_by = heir.removed_by if kept.removed_by is None else kept.removed_by
        return gone

    def mark_parts(self, segment: Segment, *, covered: bool) -> None:
        """Say whether the segment stands for those below it."""
        for part in self.within(segment):
            part.covered = covered

    def within(self, segment: Segment) -> list[_Kept]:
        """What lies below a segment, oldest first."""
        return sorted(
            (
                kept
                for (level, start), kept in self.segments.items()
                if level == segment.level - 1 and segment.start <= start <= segment.end
            ),
            key=lambda kept: kept.segment.start,
        )

    def store(self, commit: Commit, now: datetime) -> bool:
        """Store a segment and what follows from it, if it may take its place."""
        segment = commit.segment
        overlapping = [
            kept.segment
            for (level, _), kept in self.segments.items()
            if level == segment.level and kept.segment.start <= segment.end and kept.segment.end >= segment.start
        ]
        if not may_store(segment, overlapping):
            return False
        taken = {fact_id for fact_id, kept in self.facts.items() if kept.fact.segment != segment.start}
        if not taken.isdisjoint(fact.id for fact in commit.facts):
            raise StoreError("a fact of another leaf has the same id")
        there = self.segments.get((segment.level, segment.start))
        stamped = replace(segment, created_at=segment.created_at or now)
        self.segments[segment.level, segment.start] = _Kept(stamped, there.covered if there else False)
        if segment.level > 0:
            self.mark_parts(segment, covered=True)
            return True
        self.take_back([segment.start])
        for fact in commit.facts:
            removed_by = fact.segment if fact.removed else None
            self.facts[fact.id] = _KeptFact(fact, removed_by if fact.grounded else UNGROUNDED)
        others = {fact_id: kept for fact_id, kept in self.facts.items() if kept.fact.segment != segment.start}
        for which, successor in commit.superseded.items():
            if which in others:
                others[which].fact = replace(others[which].fact, superseded_by=successor)
        for which in commit.removed:
            if which in others and others[which].removed_by != UNGROUNDED:
                others[which].removed_by = segment.start
        if overlapping or commit.facts or commit.superseded or commit.removed:
            self.facts_version += 1
        return True


class RememberedSession(Protocol):
    """What a session in memory offers its summaries."""

    number: int
    messages: list[StoredMessage]
    ledger: Ledger

    def index_of(self, seq: int) -> int:
        """How many messages lie before a place."""


class InMemorySummaries:
    """A `SummaryStore` that lasts as long as the process.

    Args:
        guarded: Gives the context in which every operation runs.
        find: Gives the session of a key, or refuses it.
        clock: Gives the time with zone; leases are measured by it.
    """

    def __init__(
        self,
        guarded: Callable[[], AbstractContextManager[None]],
        find: Callable[[SessionKey], RememberedSession | None],
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._guarded = guarded
        self._find = find
        self._clock = clock

    def state(self, key: SessionKey, *, limit: int, after: int = 0) -> SessionState:
        """See `SummaryStore.state`."""
        checked_limit("limit", limit)
        checked_place("after", after)
        with self._guarded():
            session = self._find(key)
            if session is None:
                return SessionState()
            ledger = session.ledger
            boundary = max(ledger.view.boundary if ledger.view else 0, after)
            first = max(session.index_of(boundary + 1), len(session.messages) - limit)
            return SessionState(
                view=ledger.view,
                messages=tuple(map(detached, session.messages[first:])),
                message_count=len(session.messages),
                total_tokens=ledger.total(session.messages),
                epoch=epoch_of(session.number, ledger.edits),
                facts_version=ledger.facts_version,
            )

    def cover(self, key: SessionKey) -> list[Segment]:
        """See `SummaryStore.cover`."""
        with self._guarded():
            kept = self._ledger(key).segments.values()
            return sorted(
                (one.segment for one in kept if not one.covered), key=lambda segment: (segment.start, segment.level)
            )

    def segments(self, key: SessionKey) -> list[SegmentOutline]:
        """See `SummaryStore.segments`."""
        with self._guarded():
            every = [kept.outline() for kept in self._ledger(key).segments.values()]
        return sorted(every, key=lambda segment: (segment.start, segment.level))

    def parts(self, key: SessionKey, segment: Segment) -> list[Segment]:
        """See `SummaryStore.parts`."""
        with self._guarded():
            return [kept.segment for kept in self._ledger(key).within(segment)]

    def unfinished(self, key: SessionKey, *, limit: int) -> list[Segment]:
        """See `SummaryStore.unfinished`."""
        checked_limit("limit", limit)
        with self._guarded():
            session = self._find(key)
            if session is None:
                return []
            found = [
                kept.segment
                for kept in session.ledger.segments.values()
                if kept.segment.level < 2
                and kept.segment.made_by != "model"
                and session.index_of(kept.segment.start) < session.index_of(kept.segment.end + 1)
            ]
        return sorted(found, key=lambda segment: (segment.made_by or "", segment.start, segment.level))[:limit]

    def outlines(self, key: SessionKey, *, after: int, limit: int) -> list[Outline]:
        """See `SummaryStore.outlines`."""
        checked_place("after", after)
        checked_limit("limit", limit)
        with self._guarded():
            session = self._find(key)
            first = session.index_of(after + 1) if session else 0
            messages = session.messages[first : first + limit] if session else []
        return [Outline(stored.seq, stored.message.role, stored.tokens) for stored in messages]

    def acquire(self, key: SessionKey, *, owner: str, seconds: float) -> Lease | None:
        """See `SummaryStore.acquire`."""
        checked_lease(owner, seconds)
        now = self._clock()
        with self._guarded():
            session = self._find(key)
            if session is None:
                return None
            ledger = session.ledger
            if ledger.lease_owner not in (None, owner) and ledger.lease_until and ledger.lease_until > now:
                return None
            if ledger.lease_owner != owner:
                ledger.lease_fence += 1
            ledger.lease_owner = owner
            ledger.lease_until = now + timedelta(seconds=seconds)
            return Lease(owner, ledger.lease_fence, epoch_of(session.number, ledger.edits))

    def release(self, key: SessionKey, lease: Lease) -> None:
        """See `SummaryStore.release`."""
        with self._guarded():
            ledger = self._ledger(key)
            if (ledger.lease_owner, ledger.lease_fence) == (lease.owner, lease.fence):
                ledger.lease_owner = None

    def commit(self, key: SessionKey, commit: Commit, *, lease: Lease | None, epoch: int) -> bool:
        """See `SummaryStore.commit`."""
        checked_commit(commit)
        now = self._clock()
        with self._guarded():
            session = self._find(key)
            if session is None or epoch_of(session.number, session.ledger.edits) != epoch:
                return False
            ledger = session.ledger
            if lease is not None and (lease.owner, lease.fence) != (ledger.lease_owner, ledger.lease_fence):
                return False
            return ledger.store(commit, now)

    def adopt(self, key: SessionKey, view: View, *, epoch: int) -> bool:
        """See `SummaryStore.adopt`."""
        checked_view(view)
        with self._guarded():
            session = self._find(key)
            if session is None or epoch_of(session.number, session.ledger.edits) != epoch:
                return False
            before = session.ledger.view
            if view.version != (before.version if before else 0) + 1:
                return False
            session.ledger.view = view
            return True

    def facts(
        self,
        key: SessionKey,
        *,
        include_superseded: bool = False,
        include_ungrounded: bool = False,
        limit: int | None = None,
    ) -> list[Fact]:
        """See `SummaryStore.facts`."""
        checked_limit("limit", limit)
        with self._guarded():
            facts = [kept.seen() for kept in self._ledger(key).facts.values()]
        return _sorted(
            fact for fact in facts if fact.holds or (include_superseded if fact.grounded else include_ungrounded)
        )[:limit]

    def fact_ids(self, key: SessionKey, *, limit: int) -> list[str]:
        """See `SummaryStore.fact_ids`."""
        return [fact.id for fact in self.facts(key, limit=limit)]

    def facts_of_ids(self, key: SessionKey, ids: Sequence[str]) -> list[Fact]:
        """See `SummaryStore.facts_of_ids`."""
        names = set(checked_fact_ids(ids))
        with self._guarded():
            kept = self._ledger(key).facts
            found = [kept[name].seen() for name in names & kept.keys()]
        return _sorted(found)

    def facts_of_keys(
        self,
        key: SessionKey,
        keys: Sequence[str],
        *,
        without: int | None = None,
        saying: Collection[str] | None = None,
    ) -> list[Fact]:
        """See `SummaryStore.facts_of_keys`."""
        checked_place("without", without)
        names = {folded_key(name) for name in keys}
        with self._guarded():
            kept = list(self._ledger(key).facts.values())
        own = {one.fact.id for one in kept if one.fact.segment == without and one.seen().holds}
        asked = [one for one in kept if one.fact.segment != without and folded_key(one.fact.key) in names]
        if saying is not None:
            said = set(map(folded, saying))
            asked = [one for one in asked if one.fact.made_by != "rules" or folded(one.fact.value) in said]
        return _sorted(fact for one in asked if (fact := _unread(one, own, without)).holds)

    def _ledger(self, key: SessionKey) -> Ledger:
        session = self._find(key)
        return Ledger() if session is None else session.ledger


def _unread(one: _KeptFact, own: Set[str], leaf: int | None) -> Fact:
    """A fact as it would be if a leaf, whose own facts these are, had not been read."""
    fact = one.seen()
    if fact.superseded_by in own:
        fact = replace(fact, superseded_by=None)
    return replace(fact, removed=False) if one.removed_by == leaf else fact


def _sorted(facts: Iterable[Fact]) -> list[Fact]:
    """The most important first, then the newest."""
    return sorted(
        facts,
        key=lambda fact: (fact.importance, to_microseconds(fact.valid_from), fact.segment, fact.id),
        reverse=True,
    )
