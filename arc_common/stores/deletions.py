"""Removes messages and conversations, with everything derived from them, from SQLite or PostgreSQL."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import MAIN, ConversationStatus, Idle, Path
from arc_common.protocols.search_index import Scope
from arc_common.stores.archive.store import SqlArchive
from arc_common.stores.branch_paths import objects_of
from arc_common.stores.branches import SqlBranches, lines_of
from arc_common.stores.codec import MAIN_BRANCH, checked_ids, edits_text, to_microseconds
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Transaction
from arc_common.stores.receipts import SqlReceipts
from arc_common.stores.records import SqlRecords
from arc_common.stores.reviews import SqlReviews
from arc_common.stores.search_index.entries import session_index_calls
from arc_common.stores.statements.conversations import statements_for
from arc_common.stores.summaries import Changed, SqlSummaries


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of a `SqlStore` that appends and deletions change together."""

    database: Database
    branches: SqlBranches
    summaries: SqlSummaries
    records: SqlRecords
    receipts: SqlReceipts
    reviews: SqlReviews
    archive: SqlArchive
    clock: Callable[[], datetime]


class SqlDeletions:
    """Removes from the conversations of a `SqlStore`."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self._database, self._clock = parts.database, parts.clock
        self._sql = statements_for(self._database.dialect)

    def remove(self, key: SessionKey, message_ids: Sequence[str]) -> int:
        """See `ConversationStore.remove`."""
        ids = checked_ids(message_ids)

        def work(transaction: Transaction) -> int:
            locked = self._parts.branches.lock(transaction, key, now=to_microseconds(self._clock()))
            if locked is None:
                return 0
            place = self._database.place(key, locked.path)
            paths = [locked.path]
            if locked.is_forked:
                paths = [row.path for row in self._parts.branches.all(transaction, place)]
            lines = lines_of(paths)
            named = {"message_ids": self._database.many(ids), "lines": self._database.many(list(lines))}
            (removed,) = transaction.run((self._sql.remove_messages, {**place, **named}))
            if not removed:
                return 0
            points = [(row[0], row[1]) for row in removed]
            changed = Changed(tuple(seq for _, seq in points), tuple(ids), removed=True)
            if locked.is_forked:
                undo = self.undoing_on_lines(transaction, key, lines.values(), points, changed)
            else:
                undo = self._parts.summaries.undoing(transaction, place, changed, summarized=locked.summarized)
            transaction.commit(
                *self._parts.branches.recounting(place, paths, removed),
                *self._noting(place, points),
                *undo,
                *self._parts.records.forgetting_messages(transaction, key, MAIN, ids)[1],
                *self._parts.records.unpinning(key, ids),
                *self._parts.receipts.dropping(place),
            )
            return len({row[4] for row in removed})

        count = self._database.transact(work)
        self._parts.archive.tidy(key)
        return count

    def delete(
        self, key: SessionKey, *, keep_session: bool = False, soft: bool = False, idle: Idle | None = None
    ) -> int | None:
        """See `ConversationStore.delete`."""
        gone: set[str] = set()

        def work(transaction: Transaction) -> int | tuple[str, ...] | None:
            if idle is not None and not transaction.run((self._sql.lock_idle, self._idle_on(key, idle)))[0]:
                return None
            locked = self._parts.branches.lock(
                transaction, key, now=to_microseconds(self._clock()), active=keep_session
            )
            if locked is None or (soft and locked.status == ConversationStatus.DELETED):
                return None
            if soft:
                transaction.commit((self._sql.delete_softly, self._database.place(key, MAIN)))
            elif keep_session:
                place = {**self._database.place(key, locked.path), "branch": MAIN_BRANCH}
                transaction.commit(
                    (self._sql.remove_all_messages, place),
                    *self._noting(place),
                    *self._parts.branches.clearing(transaction, place, locked, to_microseconds(self._clock())),
                    *self._parts.summaries.clearing(place),
                    *self._derived(transaction, key),
                )
            elif left := tuple(path for path in objects_of(locked.archive_path) if path not in gone):
                if locked.status == ConversationStatus.ACTIVE:
                    named = locked.incarnation, locked.archive_path or ""
                    transaction.commit(self._parts.archive.disowning(key, *named))
                return left
            else:
                strays = objects_of(locked.archive_path)[int(locked.archive_checksum is not None) :]
                transaction.commit(*self._parts.archive.noting(key, strays), *self.deleting(transaction, key))
            return locked.message_count

        # objects first: with the row, their names would be lost
        while isinstance(found := self._database.transact(work), tuple):
            self._parts.archive.remove(found)
            gone.update(found)
        if keep_session:
            self._parts.archive.tidy(key)
        return found

    def deleting(self, transaction: Transaction, key: SessionKey) -> list[Call]:
        """Return the calls that delete a locked session and everything derived from it."""
        place = self._database.place(key, MAIN)
        return [
            (self._sql.remove_all_messages, place),
            *self._parts.summaries.deleting(place),
            *self._derived(transaction, key),
            (self._sql.delete_branches, place),
            (self._sql.delete_session, place),
        ]

    def _derived(self, transaction: Transaction, key: SessionKey) -> list[Call]:
        """Return the calls that remove a session's memories, answers under review and index entries."""
        calls = self._parts.records.forgetting_messages(transaction, key, MAIN, None)[1]
        return [
            *calls,
            *self._parts.receipts.dropping(self._database.place(key, MAIN)),
            *self._parts.reviews.erasing(transaction, Scope(key.caller_id, key.user_id, key.session_id)),
            *session_index_calls(self._database.dialect, caller_id=key.caller_id, session_id=key.session_id),
        ]

    def undoing_on_lines(
        self,
        transaction: Transaction,
        key: SessionKey,
        lines: Iterable[Path],
        points: Sequence[tuple[int, int]],
        changed: Changed,
    ) -> list[Call]:
        """Return the calls that undo the data that some branches derived from changed messages."""
        calls: list[Call] = []
        for path in lines:
            places = tuple(sorted(seq for branch, seq in points if path.shows(branch, seq)))
            if places:
                calls += self._parts.summaries.undoing_along(transaction, key, path, replace(changed, places=places))
        return calls

    def _noting(self, place: Mapping[str, Any], points: Sequence[tuple[int, int]] = ()) -> list[Call]:
        """Return the calls that note removed messages in their session; without points, nothing is left."""
        change = {"more_main": 0, "more_epoch": 1, "edits": edits_text(points), "last_at": None}
        change |= {**place, "now": to_microseconds(self._clock())}
        return [(self._sql.update_session, change), (self._sql.make_due, change)]

    def _idle_on(self, key: SessionKey, idle: Idle) -> dict[str, Any]:
        place = self._database.place(key, MAIN)
        return {**place, "status": idle.status, "since": to_microseconds(idle.since)}
