"""Summaries and facts in SQLite or PostgreSQL."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from arc_common.exceptions import SessionNotFoundError
from arc_common.facts import Fact
from arc_common.messages import Role
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Commit, Lease, Outline, Segment, SegmentOutline, SessionState, View
from arc_common.stores.conversations_rows import stored_from_row, to_microseconds
from arc_common.stores.conversations_statements import Statement
from arc_common.stores.database import Database, scope
from arc_common.stores.drivers import Call, Row
from arc_common.stores.summaries_edits import taken_back
from arc_common.stores.summaries_plan import (
    Mark,
    checked_commit,
    checked_fact_ids,
    checked_lease,
    checked_view,
    epoch_of,
    may_store,
)
from arc_common.stores.summaries_rows import (
    fact_from_row,
    fact_row,
    folded,
    folded_key,
    may_concern,
    outline_from_row,
    segment_from_row,
    segment_row,
    view_from_text,
    view_text,
)
from arc_common.stores.summaries_statements import summary_statements_for
from arc_common.stores.validation import checked_limit, checked_place

__all__ = ["SqlSummaries"]

_EVERY_ROW = 2**62


@dataclass(frozen=True, slots=True)
class _Locked:
    """A session's row under its lock."""

    row_id: int
    epoch: int
    view: View | None
    summarized: int
    lease_owner: str | None
    lease_fence: int


class SqlSummaries:
    """A `SummaryStore` on the tables of a `SqlStore`.

    - A turn's state is one snapshot, one round trip, and as many rows as it returns.
    - A commit and an adoption are one transaction and two round trips each, under the session's row lock.

    Args:
        database: Where the tables are.
        clock: Gives the time with zone; leases are measured by it.
    """

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._sql = summary_statements_for(database.dialect)

    def state(self, key: SessionKey, *, limit: int, after: int = 0) -> SessionState:
        """See `SummaryStore.state`."""
        checked_limit("limit", limit)
        checked_place("after", after)
        behind = {**scope(key), "after": after, "row_limit": limit}
        found, newest_first = self._database.snapshot(
            (self._sql.session, scope(key)), (self._sql.messages_behind, behind)
        )
        if not found:
            return SessionState()
        user_id, row_id, epoch, view, message_count, total_tokens, facts_version = found[0]
        if user_id != key.user_id:
            raise SessionNotFoundError(key.session_id)
        return SessionState(
            view=view_from_text(view),
            messages=tuple(stored_from_row(row) for row in reversed(newest_first)),
            message_count=message_count,
            total_tokens=total_tokens,
            epoch=epoch_of(row_id, epoch),
            facts_version=facts_version,
        )

    def cover(self, key: SessionKey) -> list[Segment]:
        """See `SummaryStore.cover`."""
        segments = map(segment_from_row, self._rows(key, self._sql.cover))
        return sorted(segments, key=lambda segment: (segment.start, segment.level))  # the index leaves ties open

    def segments(self, key: SessionKey) -> list[SegmentOutline]:
        """See `SummaryStore.segments`."""
        outlines = map(outline_from_row, self._rows(key, self._sql.segments))
        return sorted(outlines, key=lambda segment: (segment.start, segment.level))

    def parts(self, key: SessionKey, segment: Segment) -> list[Segment]:
        """See `SummaryStore.parts`."""
        return [segment_from_row(row) for row in self._rows(key, self._sql.parts, **_within(segment))]

    def unfinished(self, key: SessionKey, *, limit: int) -> list[Segment]:
        """See `SummaryStore.unfinished`."""
        checked_limit("limit", limit)
        return [segment_from_row(row) for row in self._rows(key, self._sql.unfinished, row_limit=limit)]

    def outlines(self, key: SessionKey, *, after: int, limit: int) -> list[Outline]:
        """See `SummaryStore.outlines`."""
        checked_place("after", after)
        checked_limit("limit", limit)
        rows = self._rows(key, self._sql.outlines, after=after, row_limit=limit)
        return [Outline(seq, Role(role), tokens) for seq, role, tokens in rows]

    def acquire(self, key: SessionKey, *, owner: str, seconds: float) -> Lease | None:
        """See `SummaryStore.acquire`."""
        checked_lease(owner, seconds)
        now = self._clock()
        times = {"now": to_microseconds(now), "until": to_microseconds(now + timedelta(seconds=seconds))}
        taken = self._lease(key, self._sql.acquire, {"owner": owner, **times})
        if not taken:
            return None
        row_id, epoch, fence = taken[0]
        return Lease(owner, fence, epoch_of(row_id, epoch))

    def release(self, key: SessionKey, lease: Lease) -> None:
        """See `SummaryStore.release`."""
        self._lease(key, self._sql.release, {"owner": lease.owner, "fence": lease.fence})

    def commit(self, key: SessionKey, commit: Commit, *, lease: Lease | None, epoch: int) -> bool:
        """See `SummaryStore.commit`."""
        checked_commit(commit)
        segment = commit.segment
        leaves = [segment.start] if segment.level == 0 else []
        row = segment_row(segment, now=self._clock())
        stretch = {name: row[name] for name in ("level", "start_seq", "end_seq")}
        with self._database.transaction() as transaction:
            found, overlapping, read_before = transaction.run(
                (self._sql.lock, scope(key)),
                (self._sql.overlapping, {**scope(key), **stretch}),
                (self._sql.marks, {**scope(key), "leaves": self._database.many(leaves)}),
            )
            locked = _locked(key, found)
            if locked is None or locked.epoch != epoch:
                return False
            if lease is not None and (lease.owner, lease.fence) != (locked.lease_owner, locked.lease_fence):
                return False
            if not may_store(segment, [segment_from_row(other) for other in overlapping]):
                return False
            place = {"row_id": locked.row_id, "caller_id": key.caller_id}
            calls: Iterable[Call]
            if segment.level:
                calls = [(self._sql.mark_parts, {**place, **_within(segment), "is_covered": 1})]
            else:
                calls = self._ledger(commit, place, [Mark(*mark) for mark in read_before], redone=bool(overlapping))
            # of a block too, though it changes nothing then: by its row an append sees that summaries have changed
            reached = {**place, "summarized_to": max(locked.summarized, segment.end)}
            calls = [*calls, (self._sql.set_summarized, reached)]
            owner = {"session": locked.row_id, "caller_id": key.caller_id}
            transaction.commit((self._sql.write_segment, {**row, **owner}), *calls)
        return True

    def _ledger(self, commit: Commit, place: Mapping[str, Any], before: list[Mark], *, redone: bool) -> Iterator[Call]:
        """What changes the ledger for a leaf, in order."""
        leaf = commit.segment.start
        yield from taken_back(self._sql, {**place, "leaves": self._database.many([leaf])}, before, [leaf])
        if commit.facts:
            owner = {"session": place["row_id"], "caller_id": place["caller_id"]}
            now = self._clock()
            yield self._sql.insert_fact, [{**fact_row(fact, now=now), **owner} for fact in commit.facts]
        for which, successor in commit.superseded.items():
            yield self._sql.supersede, {**place, "which": which, "leaf": leaf, "successor": successor}
        for which in commit.removed:
            yield self._sql.remove_fact, {**place, "which": which, "leaf": leaf}
        if redone or commit.facts or commit.superseded or commit.removed:
            yield self._sql.change_ledger, place

    def adopt(self, key: SessionKey, view: View, *, epoch: int) -> bool:
        """See `SummaryStore.adopt`."""
        checked_view(view)
        with self._database.transaction() as transaction:
            (found,) = transaction.run((self._sql.lock, scope(key)))
            locked = _locked(key, found)
            if locked is None or locked.epoch != epoch:
                return False
            if view.version != (locked.view.version if locked.view else 0) + 1:
                return False
            place = {"row_id": locked.row_id, "caller_id": key.caller_id}
            adopted = {"new_view": view_text(view), "new_boundary": view.boundary}
            reached = max(locked.summarized, view.boundary)
            transaction.commit(
                (self._sql.save_view, {**place, **adopted}),
                (self._sql.set_summarized, {**place, "summarized_to": reached}),
            )
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
        statement = {
            (False, False): self._sql.facts_that_hold,
            (False, True): self._sql.facts_not_superseded,
            (True, False): self._sql.facts_grounded,
            (True, True): self._sql.facts,
        }[bool(include_superseded), bool(include_ungrounded)]
        rows = self._rows(key, statement, row_limit=_EVERY_ROW if limit is None else limit)
        return [fact_from_row(row) for row in rows]

    def fact_ids(self, key: SessionKey, *, limit: int) -> list[str]:
        """See `SummaryStore.fact_ids`."""
        checked_limit("limit", limit)
        return [row[0] for row in self._rows(key, self._sql.fact_ids, row_limit=limit)]

    def facts_of_ids(self, key: SessionKey, ids: Sequence[str]) -> list[Fact]:
        """See `SummaryStore.facts_of_ids`."""
        names = self._database.many(checked_fact_ids(ids))
        return [fact_from_row(row) for row in self._rows(key, self._sql.facts_of_ids, ids=names)]

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
        names = self._database.many([folded_key(name) for name in keys])
        if without is None:
            rows = self._rows(key, self._sql.facts_of_keys, keys=names)
        else:
            rows = self._rows(key, self._sql.facts_of_keys_without, keys=names, leaf=without)
        if saying is not None:  # most of what there may be is not even read
            said = set(map(folded, saying))
            rows = [row for row in rows if may_concern(row, said)]
        if without is None:
            return [fact_from_row(row) for row in rows]
        return [replace(fact_from_row(row), superseded_by=None, removed=False) for row in rows]

    def _rows(self, key: SessionKey, statement: Statement, **parameters: Any) -> list[Row]:
        rows = self._database.read((statement, {**scope(key), **parameters}))
        if not rows:
            self._check_owner(key)
        return rows

    def _lease(self, key: SessionKey, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        with self._database.transaction() as transaction:
            (rows,) = transaction.run((statement, {**scope(key), **parameters}))
            if rows:
                transaction.commit()
        if not rows:
            self._check_owner(key)
        return rows

    def _check_owner(self, key: SessionKey) -> None:
        found = self._database.read((self._sql.session, scope(key)))
        if found and found[0][0] != key.user_id:
            raise SessionNotFoundError(key.session_id)


def _locked(key: SessionKey, found: list[Row]) -> _Locked | None:
    if not found:
        return None
    user_id, row_id, epoch, view, summarized, owner, fence = found[0]
    if user_id != key.user_id:
        raise SessionNotFoundError(key.session_id)
    return _Locked(row_id, epoch_of(row_id, epoch), view_from_text(view), summarized, owner, fence)


def _within(segment: Segment) -> dict[str, int]:
    return {"level_below": segment.level - 1, "from_seq": segment.start, "to_seq": segment.end}
