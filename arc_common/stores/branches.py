"""Forks, rewinds, switches and deletes branches of conversations in SQLite or PostgreSQL."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arc_common.exceptions import InvalidInputError
from arc_common.messages import check_identifier
from arc_common.protocols import Branch, CountedMessage, SessionKey, StoredMessage
from arc_common.protocols.conversations import MAIN, After, Path
from arc_common.stores.branch_paths import Locked, locked_from_row, parts_of, place_on
from arc_common.stores.codec import MOST, edits_text, from_microseconds, stored_from_row, to_microseconds
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Row, SingleCall, Transaction
from arc_common.stores.statements.conversations import BRANCH_COLUMNS, SUMS, statements_along, statements_for
from arc_common.stores.statements.records import record_statements_for


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A row of `BRANCH_COLUMNS`."""

    path: Path
    parent: int | None
    forked_seq: int | None
    name: str | None
    live: bool
    sums: Mapping[str, int]
    remembered: int
    created_at: int
    last_at: int | None

    @property
    def id(self) -> int:
        """The branch's number."""
        return self.path.branch

    @property
    def fork_point(self) -> tuple[int, int]:
        """The branch and place of the last message that it shares with its parent."""
        seq = self.path.before[-1][1] if self.path.before else 0
        return self.path.branch_at(seq), seq

    def public(self, current: int, points: Mapping[tuple[int, int], str], others: Collection[int]) -> Branch:
        """Return the branch as callers see it, given the ids of the messages at forks and the branches that exist."""
        ancestors = (self.parent, *(branch for branch, _ in reversed(self.path.before)))
        return Branch(
            id=self.id,
            name=self.name,
            parent=next((branch for branch in ancestors if branch in others), None),
            forked_at=points.get(self.fork_point),
            message_count=self.sums["message_count"],
            created_at=from_microseconds(self.created_at),
            last_message_at=None if self.last_at is None else from_microseconds(self.last_at),
            is_current=self.id == current,
            is_live=self.live,
        )


def branch_from_row(row: Row) -> BranchRow:
    """Read a row of `BRANCH_COLUMNS`."""
    branch, path, parent, forked, name, live, *sums, _, remembered, created_at, last_at = row
    counted = dict(zip(SUMS, sums, strict=True))
    return BranchRow(
        Path.from_text(branch, path), parent, forked, name, bool(live), counted, remembered, created_at, last_at
    )


def places_of(rows: Iterable[Row]) -> list[tuple[int, int]]:
    """Return all places, as (branch, seq), that some branches show or have shown; rows of `BRANCH_COLUMNS`."""
    last: dict[int, int] = {}
    for row in rows:
        head = row[BRANCH_COLUMNS.index("head_seq")]
        for branch, end in Path.from_text(row[0], row[1]).parts:
            last[branch] = max(last.get(branch, 0), min(end, head))
    return [(branch, seq) for branch, end in last.items() for seq in range(1, end + 1)]


def lines_of(paths: Iterable[Path]) -> dict[int, Path]:
    """Return, for each branch that a path shows messages of, the path of these messages."""
    lines: dict[int, Path] = {}
    for path in paths:
        for place, (branch, _) in enumerate(path.parts):
            lines.setdefault(branch, Path(branch, path.parts[:place]))
    return lines


def kept_of(paths: Iterable[Path]) -> dict[int, tuple[int, int]]:
    """Return, for each branch that paths show, the last place that they show and the last fork from there."""
    kept: dict[int, tuple[int, int]] = {}
    for path in paths:
        for branch, last, fork in path.forks:
            kept[branch] = max((last, fork), kept.get(branch, (0, 0)))
    return kept


class SqlBranches:
    """The branches of a `SqlStore`; everything but `lock` requires the conversation's lock."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = statements_for(database.dialect)
        self._along = statements_along(database.dialect)
        self._records = record_statements_for(database.dialect)

    def lock(self, transaction: Transaction, key: SessionKey, *, now: int, active: bool = True) -> Locked | None:
        """Lock a session; return it with its branch, or `None` if it does not exist."""
        place = place_on(key, MAIN, self._database.dialect)
        # Two statements: on PostgreSQL, a single one would see the branch as it was before waiting for the lock.
        found, rows = transaction.run((self._sql.lock_session, {**place, "now": now}), (self._sql.locked, place))
        return locked_from_row(key, rows[0], active=active) if found else None

    def all(self, transaction: Transaction, place: Mapping[str, Any]) -> list[BranchRow]:
        """Read the conversation's branches."""
        return list(map(branch_from_row, transaction.run((self._sql.branches, place))[0]))

    def points(
        self, transaction: Transaction, place: Mapping[str, Any], rows: Iterable[BranchRow]
    ) -> dict[tuple[int, int], str]:
        """Read the ids of the messages at which branches were forked."""
        points = parts_of({(*row.fork_point, 0) for row in rows}, self._database.dialect)
        (found,) = transaction.run((self._along.ids_at, {**place, **points}))
        return {(branch, seq): message_id for branch, seq, message_id in found}

    def forking(
        self,
        transaction: Transaction,
        key: SessionKey,
        locked: Locked,
        *,
        at: str | None,
        name: str | None,
        is_rewind: bool,
        now: int,
    ) -> tuple[Branch, list[Call]]:
        """Return a new branch and the calls that make it; a rewind that nothing follows makes none."""
        place = self._place(key, locked.path)
        rows = {row.id: row for row in self.all(transaction, place)}
        if name is not None and check_identifier("name", name) in [row.name for row in rows.values()]:
            raise InvalidInputError("name", name, "a name that no other branch of this session has")
        seq = locked.head
        if at is not None:
            named = self._database.many([check_identifier("at", at)])
            (found,) = transaction.run((self._along.of_ids, {**place, "message_ids": named}))
            if not found:
                raise InvalidInputError("at", at, "the id of a message of this session")
            seq = found[0][_SEQ]
        ((after,),) = transaction.run((self._along.sums_after, {**place, "after": seq}))
        before = rows[locked.path.branch]
        if is_rewind and not after[0]:
            return before.public(locked.current_branch, self.points(transaction, place, [before]), rows), []
        sums = {name: before.sums[name] - (after[i] or 0) for i, name in enumerate(SUMS)}
        path = locked.path.forked(seq, locked.next_branch)
        name = locked.name if is_rewind else name
        row = BranchRow(path, locked.path.branch, seq, name, True, sums, min(before.remembered, seq), now, None)
        moves = is_rewind and locked.path.branch == locked.current_branch
        current = path.branch if moves else locked.current_branch
        calls = [
            self.inserting(place, row, head=seq, summarized=min(locked.summarized, seq)),
            self.conversation(place, locked, next_branch=path.branch + 1, current=current, now=now),
        ]
        if is_rewind:
            calls.append((self._sql.retire_branch, {**place, "which": locked.path.branch}))
        return row.public(current, self.points(transaction, place, [row]), rows), calls

    def editing(
        self,
        transaction: Transaction,
        key: SessionKey,
        locked: Locked,
        *,
        revised: Sequence[StoredMessage],
        inserted: Sequence[StoredMessage],
        now: int,
        after: After | None = None,
        fork_at: int | None = None,
    ) -> tuple[list[StoredMessage], list[Call]] | None:
        """Return the messages of a fork before the first edited one, and the calls that make it.

        A run's fork copies nothing after the place `fork_at`, nor the messages that the run no longer has. Returns
        `None` if there is neither, and no other branch shows an edited message.
        """
        path = locked.path
        place = self._place(key, path)
        rows = self.all(transaction, place)
        without = after.without if after else ()
        first = min([*(stored.seq for stored in revised), *without, *(() if fork_at is None else (fork_at + 1,))])
        others = (row.path for row in rows if row.id != path.branch)
        if fork_at is None and not without and first > path.shared_with(others):
            return None
        old = next(row for row in rows if row.id == path.branch)
        forked = path.forked(first - 1, locked.next_branch)
        last = MOST if fork_at is None else fork_at
        between = {"after": first - 1, "before": last + 1, "row_limit": MOST}
        following, (lost,) = transaction.run(
            (self._along.oldest, {**place, **between}), (self._along.sums_after, {**place, "after": first - 1})
        )
        new = {stored.seq: stored for stored in revised}
        kept = (stored for stored in map(stored_from_row, following) if stored.seq not in without)
        copied = (new.get(stored.seq, stored) for stored in kept)
        told = [replace(stored, branch=forked.branch) for stored in (*copied, *inserted)]
        times = [to_microseconds(one.message.created_at) for one in told if one.message.created_at]
        more = len(told), sum(one.tokens for one in told), sum(len(one.message.tool_calls) for one in told)
        sums = {name: old.sums[name] - (lost[i] or 0) + more[i] for i, name in enumerate(SUMS)}
        read = min(old.remembered, last)
        row = BranchRow(forked, path.branch, first - 1, locked.name, True, sums, read, now, max(times, default=None))
        moves = after is not None or key.branch in (None, locked.current_branch)
        current = forked.branch if moves else locked.current_branch
        head = (locked.head if fork_at is None else fork_at) + len(inserted)
        lost = self._database.many([*(stored.seq for stored in revised), *without])
        # memories of copied messages rest on the copies, too
        copies = {**place, **parts_of(path.forks, self._database.dialect), "after": first - 1, "before": last}
        copies["seqs"] = lost
        edits = [(forked.branch, stored.seq) for stored in revised]
        return told, [
            (self._records.copy_sources, {**copies, "forked": forked.branch}),
            self.inserting(place, row, head=head, summarized=min(locked.summarized, first - 1)),
            self.conversation(place, locked, next_branch=forked.branch + 1, current=current, now=now, edits=edits),
            (self._sql.retire_branch, {**place, "which": path.branch}),
            *([(self._sql.abandon_branch, {**place, "which": locked.current_branch})] if after else ()),
        ]

    def refreshing(self, transaction: Transaction, place: Mapping[str, Any]) -> list[Call]:
        """Return the call that notes which sources of records live branches show."""
        kept = kept_of(row.path for row in self.all(transaction, place) if row.live)
        forks = ((branch, last, fork) for branch, (last, fork) in kept.items())
        return [(self._records.refresh_live, {**place, **parts_of(forks, self._database.dialect)})]

    def fork_place(self, transaction: Transaction, key: SessionKey, locked: Locked, after: After | None) -> int | None:
        """Return the place at which a run must fork, as its thread has stored more since; `None` if it has not."""
        if after is None or after.seq is None or after.seq >= locked.head:
            return None
        place = self._place(key, locked.path)
        call = (self._along.newest_of_thread, {**place, "after": after.seq, "thread": after.thread})
        (((newest,),),) = transaction.run(call)
        return None if newest is None else after.seq

    def earlier_fork(
        self,
        transaction: Transaction,
        key: SessionKey,
        locked: Locked,
        messages: Sequence[CountedMessage],
        *,
        fork_at: int,
        thread: str,
    ) -> int | None:
        """Return the number of the fork that an earlier try of a run made for its first messages, if there is one."""
        ids = [counted.message.id for counted in messages]
        for row in self.all(transaction, self._place(key, locked.path)):
            if row.path.before != locked.path.forked(fork_at, row.id).before:
                continue
            after = {**self._place(key, row.path), "after": fork_at, "before": MOST, "row_limit": len(ids) + 1}
            own = list(map(stored_from_row, transaction.run((self._along.oldest, after))[0]))
            is_run = all(one.thread == thread for one in own) if own else row.id == locked.current_branch
            if is_run and [one.message.id for one in own] == ids[: len(own)]:
                return row.id
        return None

    def resuming(self, key: SessionKey, locked: Locked, now: int) -> list[Call]:
        """Return the calls that make the locked branch current for a run."""
        if locked.path.branch == locked.current_branch:
            return []
        place = self._place(key, locked.path)
        left = {**place, "which": locked.current_branch}
        return [*self.switching(place, locked, now), (self._sql.abandon_branch, left)]

    def clearing(self, transaction: Transaction, place: Mapping[str, Any], locked: Locked, now: int) -> list[Call]:
        """Return the calls that leave only the main branch of a cleared conversation."""
        if not locked.is_forked:
            return []
        calls: list[Call] = [(self._sql.delete_forks, place)]
        if MAIN not in [row.path for row in self.all(transaction, place)]:
            empty = BranchRow(MAIN, None, None, None, True, dict.fromkeys(SUMS, 0), 0, now, None)
            calls.append(self.inserting(place, empty, head=locked.next_main_seq - 1, summarized=0))
        return [*calls, self.conversation(place, locked, current=MAIN.branch, now=now)]

    def _place(self, key: SessionKey, path: Path) -> Mapping[str, Any]:
        """Return the parameters for reading along a path under the lock."""
        return place_on(replace(key, branch=path.branch), path, self._database.dialect)

    def inserting(self, place: Mapping[str, Any], row: BranchRow, *, head: int, summarized: int) -> Call:
        """Return the call that stores a new branch."""
        values = {
            **row.sums,
            "conversation": place["conversation"],
            "caller_id": place["caller_id"],
            "branch": row.id,
            "parent": row.parent,
            "forked_seq": row.forked_seq,
            "path": row.path.text,
            "name": row.name,
            "head_seq": head,
            "summarized_seq": summarized,
            "remembered_seq": row.remembered,
            "created_at": row.created_at,
            "last_message_at": row.last_at,
        }
        return self._sql.insert_branch, values

    def conversation(
        self,
        place: Mapping[str, Any],
        locked: Locked,
        *,
        current: int,
        now: int,
        next_branch: int | None = None,
        edits: Iterable[tuple[int, int]] | None = None,
    ) -> Call:
        """Return the call that changes the conversation's branch; its epoch changes if it shows other messages."""
        epoch = int(edits is not None or current != locked.current_branch)
        change = {"next_branch": next_branch or locked.next_branch, "current": current, "more_epoch": epoch, "now": now}
        return self._sql.forked_conversation, {**place, **change, "unread_edits": edits_text(edits or ())}

    def switching(self, place: Mapping[str, Any], locked: Locked, now: int) -> list[Call]:
        """Return the calls that make the locked branch current and live."""
        branch = locked.path.branch
        return [
            self.conversation(place, locked, current=branch, now=now),
            (self._sql.revive_branch, {**place, "which": branch}),
        ]

    def deleting(
        self,
        place: Mapping[str, Any],
        locked: Locked,
        rows: Sequence[BranchRow],
        now: int,
        *,
        derived: Callable[[Mapping[str, Any]], list[Call]],
    ) -> tuple[list[Call], list[SingleCall]]:
        """Return the calls that delete the locked branch and data that only it shows, and those for its sources."""
        branch = locked.path.branch
        if branch == locked.current_branch:
            raise InvalidInputError("branch", branch, "a branch that is not current: switch to another one first")
        calls: list[Call] = [(self._sql.delete_branch, {**place, "which": branch})]
        lost: list[SingleCall] = []
        others = kept_of(row.path for row in rows if row.id != branch)
        for line, _ in locked.path.parts:
            kept, fork = others.get(line, (0, 0))
            after = {**place, "which": line, "kept": kept, "fork": fork}
            calls += [(self._sql.drop_after, after), *derived(after)]
            lost.append((self._records.drop_sources_after, after))
        calls.append(self.conversation(place, locked, current=locked.current_branch, now=now, edits=()))
        return calls, lost

    def recounting(self, place: Mapping[str, Any], paths: Iterable[Path], removed: Sequence[Row]) -> list[Call]:
        """Return the calls that subtract removed messages (branch, seq, tokens, tool calls) from branches' sums."""
        calls: list[Call] = []
        for path in paths:
            gone = [one for one in removed if path.shows(one[0], one[1])]
            change = {
                "more_message_count": -len(gone),
                "more_total_tokens": -sum(one[2] for one in gone),
                "more_tool_calls_count": -sum(one[3] for one in gone),
            }
            if gone:
                calls.append((self._sql.count_branch, {**place, "which": path.branch, **change}))
        return calls


_SEQ = 4
"""The place of `seq` in `MESSAGE_COLUMNS`."""
