"""Summaries and facts in SQLite or PostgreSQL."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any

from arc_common.facts import Fact
from arc_common.messages import Role
from arc_common.protocols import SessionKey, StoredMessage
from arc_common.protocols.conversations import MAIN, Path
from arc_common.protocols.summaries import Commit, Lease, Outline, Segment, SegmentPart, SessionState, View
from arc_common.stores.branch_paths import check_owner, place_on
from arc_common.stores.branches import SqlBranches
from arc_common.stores.codec import MESSAGE_COLUMNS, MOST, from_body, stored_from_row, to_microseconds
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Row, Transaction
from arc_common.stores.statements.compiler import Statements
from arc_common.stores.statements.memory_rows import pins_from_text
from arc_common.stores.statements.records import pin_scopes
from arc_common.stores.statements.summaries import DERIVED, summary_statements_along, summary_statements_for
from arc_common.stores.statements.summary_rows import (
    LEAF_COLUMNS,
    FactRow,
    fact_from_row,
    fact_row,
    folded,
    folded_key,
    may_concern,
    segment_from_row,
    segment_row,
    slot_of,
    view_from_text,
    view_text,
)

_RANK = {None: 0, "rules": 1, "model": 2}


@dataclass(frozen=True, slots=True)
class Changed:
    """Messages that were edited or removed."""

    places: tuple[int, ...]
    message_ids: tuple[str, ...]
    removed: bool


def edited(revised: Sequence[StoredMessage]) -> Changed:
    """Return new revisions as a change."""
    return Changed(
        tuple(stored.seq for stored in revised), tuple(stored.message.id or "" for stored in revised), removed=False
    )


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact of another leaf: its slot and key, the slots that it ended, and the columns of its leaf."""

    slot: str
    folded_key: str
    ended: frozenset[str]
    is_later: bool
    leaf: Mapping[str, int]


def fact_rows(commit: Commit, known: Mapping[str, KnownFact], hash_key: bytes = b"") -> list[FactRow]:
    """Return the rows of a leaf's facts, and those that end facts, each in the leaf of the fact that ends it."""
    own = {
        fact.id: FactRow(slot_of(fact, hash_key), fact, folded_key=folded_key(fact.slot, hash_key))
        for fact in commit.facts
    }
    slots = {fact_id: {row.slot} for fact_id, row in own.items()}
    ends: list[FactRow] = []
    for fact_id, heir in commit.ends:
        before, after = known.get(fact_id), known.get(heir or "")
        if fact_id in own and after is not None and after.is_later:
            ends += [FactRow(slot, heir=heir, leaf=after.leaf) for slot in slots[fact_id]]
        elif fact_id in own and heir in own:
            ends += [FactRow(slot, heir=heir, ends_own=True) for slot in slots[fact_id]]
            slots[heir] |= slots[fact_id]
        elif before is not None and not before.is_later and heir is None:
            ends += [FactRow(slot) for slot in {before.slot, before.folded_key, *before.ended}]
        elif before is not None and not before.is_later and heir in own:
            is_of_key = own[heir].ends == before.folded_key  # ended without a row, or the rows of a chain would add up
            taken = before.ended if is_of_key else {before.slot, *before.ended}
            ends += [FactRow(slot, heir=heir) for slot in taken]
            slots[heir] |= taken
    once = {(row.slot, row.ends_own, *row.leaf.values()): row for row in ends}
    return [*own.values(), *(once[place] for place in sorted(once))]


def may_store(new: Segment, overlapping: Iterable[Segment]) -> bool:
    """Return whether a segment may be stored beside the overlapping ones of its level."""
    for old in overlapping:
        if old.start != new.start or old.end > new.end or _RANK[new.made_by] < _RANK[old.made_by]:
            return False
        if old.end < new.end and new.level < 2:
            return False
        if old.end == new.end and _RANK[new.made_by] == _RANK[old.made_by]:
            return False
    return True


def point_for(end: int, path: Path, others: Sequence[Path], points: Iterable[Sequence[int]]) -> tuple[int, int]:
    """Return the branch and place at which to store a segment, given the points of all that start before its end."""
    branch = path.branch_at(end)
    read = [tuple(point) for point in points]
    unlike = [
        other
        for other in others
        if other.shows(branch, end) and any(path.shows(*point) != other.shows(*point) for point in read)
    ]
    if not unlike:  # all other branches share the segment
        return branch, end
    seen = [last for other in unlike for one, last in other.parts if one == path.branch]
    return path.branch, max([end, *(last + 1 for last in seen)])


def rests_on(view: View, *, places: Iterable[int], fact_ids: Iterable[str]) -> bool:
    """Return whether a view shows one of these facts or content from one of these messages or leaves."""
    return any(place <= view.boundary for place in places) or not set(fact_ids).isdisjoint(view.fact_ids)


def without_text(view: View, changed: Changed) -> View:
    """Return the view as stale, without its texts but with its boundary, after a source has changed."""
    gone = sum(place <= view.boundary for place in changed.places) if changed.removed else 0
    return replace(
        view,
        facts=(),
        fact_ids=(),
        narrative="",
        instructions=(),
        covered=max(0, view.covered - gone),
        stale=True,
        unshown=0,
        unshown_tokens=0,
    )


def epoch_of(incarnation: int, edits: int) -> int:
    """Return a session's epoch, which differs after each edit and for a new session with the same id."""
    return (incarnation << 32) + edits


@dataclass(frozen=True, slots=True)
class _Session:
    """A row of the statement `session`."""

    user_id: str | None
    incarnation: int
    edits: int
    facts_version: int
    message_count: int | None
    total_tokens: int
    head: int
    summarized: int
    lease_owner: str | None
    lease_fence: int
    next_branch: int
    view_text: str | None

    @property
    def epoch(self) -> int:
        return epoch_of(self.incarnation, self.edits)

    @property
    def view(self) -> View | None:
        return None if self.view_text is None else view_from_text(self.view_text)


_INCARNATION, _COUNT = 1, 4
"""The places of two columns: one is null if the session is missing, the other also if it is on another path."""
_ERA = 2
_seq_of = itemgetter(MESSAGE_COLUMNS.index("seq"))


class SqlSummaries:
    """A `SummaryStore` on the tables of a `SqlStore`."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._sql = summary_statements_for(database.dialect)
        self._along = summary_statements_along(database.dialect)
        self._branches = SqlBranches(database)

    def state(
        self, key: SessionKey, *, limit: int, after: int = 0, outlines: int = 0, view: bool = True
    ) -> SessionState:
        """See `SummaryStore.state`."""
        given = {**pin_scopes(key), "after": after}

        def work(path: Path) -> list[Row]:
            place, sql = self._on(key, path)
            place = {**place, **given}
            calls = [(sql.state_and_messages, {**place, "row_limit": limit}) if limit else (sql.state, place)]
            if outlines:
                calls.append((sql.outlines, {**place, "row_limit": outlines}))
            rows, *outlined = self._database.snapshot(*calls)
            if limit:
                rows.sort(key=_seq_of)  # that of the session's row is 0
            session = from_body(rows[0][0])
            found.append((session, rows, *outlined))
            is_elsewhere = session[_COUNT] is None and (session[_INCARNATION] is not None or key.branch)
            return [] if is_elsewhere else rows

        found: list[Sequence[Any]] = []
        self._database.along(key, work)
        about, ((_, pinned, view_body, *_), *messages), *outlined = found[-1]
        pins = pins_from_text(pinned, self._clock(), self._database.seal.opened) if pinned and pinned != "[]" else ()
        session = _session(key, [[*about, view_body]] if about[_INCARNATION] is not None else [])
        if session is None or session.message_count is None:
            return SessionState(pins=pins)
        return SessionState(
            view=session.view if view else None,
            messages=tuple(map(stored_from_row, messages)),
            message_count=session.message_count,
            total_tokens=session.total_tokens,
            epoch=session.epoch,
            facts_version=session.facts_version,
            summarized_to=session.summarized,
            pins=pins,
            outlines=tuple(Outline(seq, Role(role), tokens) for rows in outlined for seq, role, tokens in rows),
        )

    def segments(
        self, key: SessionKey, *, part: SegmentPart = "cover", within: Segment | None = None, limit: int | None = None
    ) -> list[Segment]:
        """See `SummaryStore.segments`."""
        if within is not None:
            rows = self._rows(key, "parts", **_within(within.level, within.start, within.end))
        elif part == "unfinished":
            most = MOST if limit is None else limit
            return [segment_from_row(row) for row in self._rows(key, "unfinished", row_limit=most)]
        else:
            rows = self._rows(key, "cover" if part == "cover" else "segments")
        return sorted(map(segment_from_row, rows), key=lambda segment: (segment.start, segment.level))

    def claim(self, key: SessionKey | None, *, owner: str, seconds: float) -> Lease | None:
        """See `SummaryStore.claim`."""
        now = self._clock()
        times = {"now": to_microseconds(now), "until": to_microseconds(now + timedelta(seconds=seconds))}
        asked = {"owner": owner, **times}
        taken = self._next_due(asked) if key is None else self._lease(key, "claim", asked)
        if not taken:
            return None
        incarnation, edits, fence, *named = taken[0]
        return Lease(owner, fence, epoch_of(incarnation, edits), SessionKey(*named) if key is None else key)

    def _next_due(self, asked: Mapping[str, Any]) -> list[Row]:
        """Claim the conversation whose work has been due longest; looks first, as a claim takes SQLite's only lock."""
        return self._commit_if_any((self._sql.claim_due, asked)) if self._database.read((self._sql.due, asked)) else []

    def release(
        self, key: SessionKey, lease: Lease, *, worked: bool = False, due_again: datetime | None = None
    ) -> None:
        """See `SummaryStore.release`."""
        again = None if due_again is None else to_microseconds(due_again)
        held = {"owner": lease.owner, "fence": lease.fence, "worked": int(worked), "due_again": again}
        self._lease(key, "release", held)

    def commit(self, key: SessionKey, commit: Commit, *, lease: Lease | None, epoch: int) -> bool:
        """See `SummaryStore.commit`."""
        segment = commit.segment
        row = segment_row(segment, now=self._clock())
        stretch = {name: row[name] for name in ("level", "start_seq", "end_seq")}
        judged = sorted({fact_id for pair in commit.ends for fact_id in pair if fact_id is not None})
        named = {"ids": self._database.many(judged), "leaf": segment.start}

        def work(path: Path, transaction: Transaction) -> tuple[bool, ...]:
            place, sql = self._on(key, path)
            _, found, overlapping, known = transaction.run(
                (self._sql.lock, place),
                (sql.session, place),
                (sql.overlapping, {**place, **stretch}),
                (sql.known_facts, {**place, **named}),
            )
            locked = _session(key, found)
            if locked is None:
                return ()
            if locked.epoch != epoch or commit.facts_version not in (None, locked.facts_version):
                return (False,)
            if lease is not None and (lease.owner, lease.fence) != (locked.lease_owner, locked.lease_fence):
                return (False,)
            if not may_store(segment, [segment_from_row(other[:-2]) for other in overlapping]):
                return (False,)
            at = {"branch": path.branch, "point_seq": segment.end}
            if locked.next_branch > 1:
                at = self._point(transaction, place, path, segment, overlapping)
            calls: Iterable[Call]
            if segment.level:
                within = _within(segment.level, segment.start, segment.end)
                calls = [(self._sql.mark_parts, {**place, **within, "branch": at["branch"], "is_covered": 1})]
            else:
                facts = fact_rows(commit, _known_facts(known), self._database.seal.hash_key)
                calls = self._ledger({**place, **at}, commit, facts, redone=bool(overlapping))
            reached = {**place, "summarized_to": max(locked.summarized, segment.end)}
            transaction.commit(
                (self._sql.write_segment, {**row, **place, **at}), *calls, (self._sql.set_summarized, reached)
            )
            return (True,)

        return any(self._database.along(key, lambda path: self._database.transact(partial(work, path))))

    def _point(
        self,
        transaction: Transaction,
        place: Mapping[str, Any],
        path: Path,
        segment: Segment,
        overlapping: Sequence[Row],
    ) -> dict[str, int]:
        """Return the point at which a segment is stored: it is shared with branches that have read the same so far."""
        if segment.level < _ERA and overlapping:  # an emptied one is written again
            return dict(zip(("branch", "point_seq"), overlapping[0][-2:], strict=True))
        others = [row.path for row in self._branches.all(transaction, place) if row.id != path.branch]
        (points,) = transaction.run((self._along.segment_points, {**place, "end_seq": segment.end}))
        return dict(zip(("branch", "point_seq"), point_for(segment.end, path, others, points), strict=True))

    def _ledger(
        self, place: Mapping[str, Any], commit: Commit, rows: Sequence[FactRow], *, redone: bool
    ) -> Iterator[Call]:
        """Yield the calls that change the ledger for a leaf, in order."""
        if redone:
            yield self._sql.drop_facts, {**place, "leaves": self._database.many([commit.segment.start])}
        if rows:
            yield (
                self._sql.write_fact,
                [{**fact_row(row, number, commit.segment), **place, **row.leaf} for number, row in enumerate(rows)],
            )
        if rows or redone:
            yield self._sql.change_ledger, place

    def adopt(self, key: SessionKey, view: View, *, epoch: int) -> bool:
        """See `SummaryStore.adopt`."""

        def work(path: Path, transaction: Transaction) -> tuple[bool, ...]:
            place, sql = self._on(key, path)
            _, found = transaction.run((self._sql.lock, place), (sql.session, place))
            locked = _session(key, found)
            if locked is None:
                return ()
            if locked.epoch != epoch or view.version != (locked.view.version if locked.view else 0) + 1:
                return (False,)
            adopted = {"version": view.version, "boundary": view.boundary, "body": view_text(view)}
            transaction.commit(
                (self._sql.write_view, {**place, **adopted, "at_seq": locked.head}),
                (self._sql.drop_old_views, place),
                (self._sql.set_summarized, {**place, "summarized_to": max(locked.summarized, view.boundary)}),
            )
            return (True,)

        return any(self._database.along(key, lambda path: self._database.transact(partial(work, path))))

    def facts(
        self,
        key: SessionKey,
        *,
        keys: Sequence[str] | None = None,
        leaf: int = 0,
        saying: Collection[str] | None = None,
        include_superseded: bool = False,
        include_ungrounded: bool = False,
        known: Mapping[str, Fact] | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """See `SummaryStore.facts`."""
        most = {"row_limit": MOST if limit is None else limit}
        if keys is not None:
            return self._facts_of_keys(key, keys, saying, leaf=leaf, **most)
        wanted = {"superseded": int(include_superseded), "ungrounded": int(include_ungrounded)}
        before = known or {}
        rows = self._rows(key, "facts", **wanted, **most, leaf=leaf)
        return [before.get(row[0]) or fact_from_row(row) for row in rows]

    def _facts_of_keys(
        self, key: SessionKey, keys: Sequence[str], saying: Collection[str] | None, **given: int
    ) -> list[Fact]:
        names = self._database.many([folded_key(name, self._database.seal.hash_key) for name in keys])
        rows = self._rows(key, "facts_of_keys", keys=names, **given)
        if saying is not None:  # avoids decoding most rows
            said = set(map(folded, saying))
            rows = [row for row in rows if may_concern(row, said)]
        return [replace(fact_from_row(row), superseded_by=None, removed=False) for row in rows]

    def undoing(
        self, transaction: Transaction, place: Mapping[str, Any], changed: Changed, *, summarized: int
    ) -> list[Call]:
        """Return the calls that undo everything derived from changed messages; requires the session's row lock."""
        if min(changed.places) > summarized:
            return []
        return self._undoing(transaction, place, changed, self._sql)

    def undoing_along(self, transaction: Transaction, key: SessionKey, path: Path, changed: Changed) -> list[Call]:
        """Return the calls that undo everything that a path's last branch derived from changed messages on the path."""
        place = place_on(replace(key, branch=path.branch), path, self._database.dialect)
        return self._undoing(transaction, place, changed, self._along)

    def dropping_after(self, after: Mapping[str, Any]) -> list[Call]:
        """Return the calls that remove everything that a branch derived after a place."""
        return [(self._sql.by_name[f"drop_{name}_after"], after) for name in DERIVED]

    def _undoing(
        self, transaction: Transaction, place: Mapping[str, Any], changed: Changed, sql: Statements
    ) -> list[Call]:
        many = self._database.many
        ids, least = many(changed.message_ids), min(changed.places)
        over, citing, stored_view = transaction.run(
            (sql.leaves_over, {**place, "places": many(changed.places)}),
            (sql.leaves_citing, {**place, "least": least, "message_ids": ids}),
            (sql.view, place),
        )
        leaves = sorted({row[0] for row in (*over, *citing)})
        these = {**place, "leaves": many(leaves)}
        higher, read_from = transaction.run(
            (sql.higher_over, {**place, "leaves": many([*leaves, *changed.places])}),
            (sql.fact_ids_inside, these),
        )
        calls: list[Call] = []
        for level, start, end in higher:
            calls.append((self._sql.mark_parts, {**place, **_within(level, start, end), "is_covered": 0}))
        calls += [(sql.drop_segment, {**place, "level": level, "start_seq": start}) for level, start, _ in higher]
        if leaves or higher:
            calls += [(sql.empty_leaves, these), (sql.drop_bare_leaves, these)]
            calls += [(sql.drop_facts, these), (self._sql.change_ledger, place)]
        view = view_from_text(stored_view[0][0]) if stored_view else None
        if view and rests_on(view, places=(*changed.places, *leaves), fact_ids=(row[0] for row in read_from)):
            calls.append((sql.empty_view, {**place, "body": view_text(without_text(view, changed))}))
        if not view:
            return calls
        # A view past the end would hide all that is left; the next reader adopts another.
        return [*calls, (sql.drop_earlier_views, place), (sql.drop_views_past_end, place)]

    def clearing(self, place: Mapping[str, Any]) -> list[Call]:
        """Return the calls that remove all segments, facts and views and reset the session's state."""
        return [*self.deleting(place), (self._sql.reset, place), (self._sql.change_ledger, place)]

    def deleting(self, place: Mapping[str, Any]) -> list[Call]:
        """Return the calls that remove all segments, facts and views, before the session's row is deleted."""
        return [(self._sql.by_name[f"drop_all_{name}"], place) for name in DERIVED]

    def _on(self, key: SessionKey, path: Path) -> tuple[Mapping[str, Any], Statements]:
        """Return the parameters of a path, and the statements that read along it."""
        place = self._database.place(key, path)
        return place, self._along if "path" in place else self._sql

    def _rows(self, key: SessionKey, name: str, **parameters: Any) -> list[Row]:
        def work(path: Path) -> list[Row]:
            place, sql = self._on(key, path)
            return self._database.read((sql.by_name[name], {**place, **parameters}))

        return self._database.along(key, work)

    def _lease(self, key: SessionKey, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        rows = self._commit_if_any((self._sql.by_name[name], {**self._database.place(key, MAIN), **parameters}))
        if not rows:
            self._database.path_of(key, active=False)
        return rows

    def _commit_if_any(self, call: Call) -> list[Row]:
        """Run a call that changes rows and returns them; commit only if there are any."""

        def work(transaction: Transaction) -> list[Row]:
            (rows,) = transaction.run(call)
            if rows:
                transaction.commit()
            return rows

        return self._database.transact(work)


def _session(key: SessionKey, found: list[Row]) -> _Session | None:
    if not found:
        return None
    session = _Session(*found[0])
    if session.user_id != key.user_id:
        check_owner(key, session.user_id)
    return session


def _known_facts(rows: list[Row]) -> dict[str, KnownFact]:
    ended: dict[str, set[str]] = {}
    for fact_id, *_, slot in rows:
        ended.setdefault(fact_id, set()).update([slot] if slot else [])
    return {
        fact_id: KnownFact(
            slot, key, frozenset(ended[fact_id]), bool(later), dict(zip(LEAF_COLUMNS, leaf, strict=True))
        )
        for fact_id, slot, key, later, *leaf, _ in rows
    }


def _within(level: int, start: int, end: int) -> dict[str, int]:
    """Return the parameters for the segments that one is made from."""
    return {"level_below": level - 1, "from_seq": start, "to_seq": end}
