"""Conversations in SQLite or PostgreSQL."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Engine

from arc_common.exceptions import (
    ConversationDeletedError,
    InvalidInputError,
    SessionNotFoundError,
    StoreError,
)
from arc_common.messages import same_content
from arc_common.protocols import (
    Branch,
    Cipher,
    Conversation,
    ConversationFilter,
    ConversationPage,
    CountedMessage,
    SessionKey,
    StoredMessage,
)
from arc_common.protocols.conversations import (
    EVERY_CONVERSATION,
    MAIN,
    After,
    BranchAction,
    ConversationStatus,
    Idle,
    Path,
)
from arc_common.protocols.search_index import Scope
from arc_common.settings import ArchiveSettings, StorageSettings
from arc_common.stores.archive.objects import ArchiveObjects
from arc_common.stores.archive.store import SqlArchive
from arc_common.stores.branches import SqlBranches, lines_of
from arc_common.stores.codec import (
    MAIN_BRANCH,
    bounds_of,
    checked_after,
    checked_counts,
    checked_ids,
    checked_limit,
    checked_place,
    checked_scope,
    checked_seqs,
    conversation_from_row,
    message_row,
    new_incarnation,
    page_position,
    page_token,
    recalled_from_row,
    stored_from_row,
    to_microseconds,
)
from arc_common.stores.database.connection import Database, shown_address
from arc_common.stores.database.drivers import Call, Row, Transaction, is_conflict
from arc_common.stores.paths import (
    LOCKED_COLUMNS,
    ArchivedConversationError,
    Locked,
    check_owner,
    check_status,
    locked_from_row,
    objects_of,
)
from arc_common.stores.receipts import SqlReceipts
from arc_common.stores.records import SqlRecords
from arc_common.stores.reviews import SqlReviews
from arc_common.stores.search_index.entries import session_index_calls
from arc_common.stores.search_index.store import SqlIndexStore
from arc_common.stores.statements.conversations import REVISED_COLUMNS, statements_along, statements_for
from arc_common.stores.summaries import Changed, SqlSummaries, edited
from arc_common.stores.traces import SqlTraces
from arc_common.stores.transfer import SqlTransfer

_WIDTH = len(LOCKED_COLUMNS)


@dataclass(frozen=True, slots=True)
class Look:
    """A session and the requested messages that its branch stores itself."""

    locked: Locked
    existing: Mapping[str, StoredMessage]


def look_from_rows(key: SessionKey, rows: Sequence[Row]) -> Look | None:
    """Read the rows of `look_up`: one for each message, or one without a message; none if there is no session."""
    if not rows:
        return None
    known = [stored_from_row(row[_WIDTH:]) for row in rows if row[_WIDTH] is not None]
    return Look(locked_from_row(key, rows[0][:_WIDTH]), {stored.message.id or "": stored for stored in known})


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """The rows to write and the changes to the session's sums."""

    results: list[StoredMessage]
    inserted: list[StoredMessage]
    revised: list[StoredMessage]
    tokens: int
    tool_calls: int


def plan_append(
    incoming: Sequence[CountedMessage],
    *,
    existing: Mapping[str, StoredMessage],
    next_seq: int,
    branch: int = 0,
    thread: str | None = None,
) -> AppendPlan:
    """Decide for each message whether it is new, known, or a new revision of a known one."""
    current: dict[str, StoredMessage] = {}
    first: dict[str, StoredMessage | None] = {}
    ids: list[str] = []
    for counted in incoming:
        message = counted.message
        message_id = message.id or ""
        ids.append(message_id)
        if message_id not in first:
            first[message_id] = existing.get(message_id)
        known = current.get(message_id) or first[message_id]
        if known is None:
            current[message_id] = StoredMessage(
                message, next_seq, counted.tokens, counted.counter, branch=branch, thread=thread
            )
            next_seq += 1
        elif same_content(known.message, message):
            current[message_id] = known
        else:
            current[message_id] = StoredMessage(
                replace(message, created_at=known.message.created_at),
                known.seq,
                counted.tokens,
                counted.counter,
                known.revision + 1,
                edited=True,
                branch=known.branch,
                thread=known.thread,
            )
    changed = [(first[message_id], stored) for message_id, stored in current.items() if first[message_id] is not stored]
    return AppendPlan(
        results=[current[message_id] for message_id in ids],
        inserted=[stored for before, stored in changed if before is None],
        revised=[stored for before, stored in changed if before is not None],
        tokens=sum(after.tokens - (before.tokens if before else 0) for before, after in changed),
        tool_calls=sum(
            len(after.message.tool_calls) - (len(before.message.tool_calls) if before else 0)
            for before, after in changed
        ),
    )


def _new_session(key: SessionKey, place: Mapping[str, Any], now: int) -> dict[str, Any]:
    return {
        **place,
        "branch": MAIN_BRANCH,
        "session_id": key.session_id,
        "account_id": key.account_id,
        "incarnation": new_incarnation(),
        "status": ConversationStatus.ACTIVE.value,
        "created_at": now,
        "updated_at": now,
    }


def _change(plan: AppendPlan, inserts: list[dict[str, Any]], branch: int = MAIN_BRANCH) -> dict[str, Any]:
    """Return the changes of an append to a session's sums."""
    return {
        "more_seq": len(inserts),
        "more_main": len(inserts) if branch == MAIN_BRANCH else 0,
        "more_messages": len(inserts),
        "more_tokens": plan.tokens,
        "more_tool_calls": plan.tool_calls,
        "more_epoch": int(bool(plan.revised)),
        "last_at": max((row["created_at"] for row in inserts), default=None),
    }


def _placed_row(stored: StoredMessage, place: Mapping[str, Any], row: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        **(row or message_row(stored)),
        "conversation": place["conversation"],
        "branch": stored.branch,
        "channel": stored.thread,
        "caller_id": place["caller_id"],
        "seq": stored.seq,
        "revision": stored.revision,
    }


_log = logging.getLogger("arc.stores")


_EVERY_ROW = 2**62
_PAGE = 200
_IN_USE = [ConversationStatus.ACTIVE.value, ConversationStatus.ARCHIVED.value]


class SqlStore:
    """A `ConversationStore` on SQLite or PostgreSQL.

    - Messages get their `seq` inside the transaction, from a counter in the session's locked row: any number of
      processes may write without losing, duplicating or reordering messages.
    - An append is one transaction: one fsync, and on PostgreSQL two round trips (one if all messages are already stored
      unchanged; more for revisions, or if another writer interferes).
    - Messages are removed together with the memories derived from them alone, in one transaction.
    - A read is one statement that reads as many rows as it returns.
    - Tables are created at first use, under a lock (unless `auto_migrate` is off).
    - Safe across `os.fork`: parent and child both continue, each with its own connections.

    Args:
        url: A SQLAlchemy address or an `Engine`. An engine passed in is used as it is and not closed.
        clock: Returns the time with zone; the system's time by default.
        settings: The settings of the database and its connections.
        max_sessions: The maximum number of sessions that a SQLite database keeps. A new one beyond it
            deletes the session written longest ago, with everything derived from it; the first deletion is logged.
            `None` keeps all.
        cipher: Encrypts all text in the database; optional. A database is encrypted from its beginning, or not at all.
        archive: Where conversations are archived to and restored from; nowhere by default.

    Raises:
        ConfigurationError: The address is not one of SQLite or PostgreSQL.
    """

    def __init__(
        self,
        url: str | Engine = "sqlite://",
        *,
        clock: Callable[[], datetime] | None = None,
        settings: StorageSettings | None = None,
        max_sessions: int | None = None,
        cipher: Cipher | None = None,
        archive: ArchiveSettings | None = None,
    ) -> None:
        checked_limit("max_sessions", max_sessions, least=1)
        self._max_sessions = max_sessions
        self._deletes_sessions = False
        self._database = Database(url, settings or StorageSettings(), cipher)
        self._clock = clock or (lambda: datetime.now(UTC))
        self._sql = statements_for(self._database.dialect)
        self._along = statements_along(self._database.dialect)
        self._branches = SqlBranches(self._database)
        self._summaries = SqlSummaries(self._database, clock=self._clock)
        self._index = SqlIndexStore(self._database)
        given = archive or ArchiveSettings()
        objects = None if given.location is None else ArchiveObjects(given.location)
        keeps = not given.cleanup_after_archive
        self._archive = SqlArchive(self._database, self._summaries, objects, keeps_messages=keeps, clock=self._clock)
        self._database.restore = self._archive.restore
        self._records = SqlRecords(self._database, clock=self._clock, index=self._index)
        self._receipts = SqlReceipts(self._database)
        self._reviews = SqlReviews(self._database, clock=self._clock, index=self._index)

    def __repr__(self) -> str:
        return f"SqlStore({shown_address(self.engine)})"

    @property
    def engine(self) -> Engine:
        """The store's SQLAlchemy engine."""
        return self._database.engine

    @property
    def summaries(self) -> SqlSummaries:
        """The summaries and facts of its conversations."""
        return self._summaries

    @property
    def records(self) -> SqlRecords:
        """The long-term memories and pins, in the same database."""
        return self._records

    @property
    def index(self) -> SqlIndexStore:
        """The search index, in the same database. Deleting a session also deletes its entries."""
        return self._index

    @property
    def reviews(self) -> SqlReviews:
        """The review queue, in the same database. Deleting a session also deletes its answers."""
        return self._reviews

    @property
    def receipts(self) -> SqlReceipts:
        """The receipts that last, in the same database. Deleting a session also deletes its receipts."""
        return self._receipts

    def traces(self, caller_id: str, user_id: str | None) -> SqlTraces:
        """See `Store.traces`."""
        return SqlTraces(self._database, caller_id, user_id, self._archive)

    def dump(self, caller_id: str, user_id: str | None) -> Iterator[dict[str, Any]]:
        """See `Store.dump`."""
        return self._transfer().dump(caller_id, user_id)

    def load(self, record: Mapping[str, Any]) -> bool:
        """See `Store.load`."""
        return self._transfer().load(record)

    def _transfer(self) -> SqlTransfer:
        return SqlTransfer(self._database, self._index, self._archive.messages_of)

    def reencrypt(self) -> int:
        """Encrypt all text anew under the cipher's first key; return the number of rows. Others may write meanwhile.

        Raises:
            ConfigurationError: The database is not encrypted.
        """
        return SqlTransfer(self._database, self._index).reencrypt()

    def append(
        self,
        key: SessionKey,
        messages: Sequence[CountedMessage],
        *,
        max_messages: int | None = None,
        keep_unsummarized: bool = False,
        after: After | None = None,
    ) -> list[StoredMessage]:
        """See `ConversationStore.append`."""
        checked_limit("max_messages", max_messages, least=1)
        if after is not None:
            checked_after(after)
        rows = checked_counts(messages)
        if not messages:
            self._check_owner(key)
            return []
        now = to_microseconds(self._clock())
        ids = dict.fromkeys(counted.message.id for counted in messages)
        names = {"message_ids": self._database.many(list(ids))}
        wanted = {**self._database.place(key, MAIN), **names}
        if self._database.dialect == "postgresql" and max_messages is None and key.branch is None and after is None:
            results = self._without_lock(key, messages, rows, wanted, now)
            if results is not None:
                return results

        def work(transaction: Transaction, key: SessionKey = key, after: After | None = after) -> list[StoredMessage]:
            wanted = {**self._database.place(key, MAIN), **names}
            look = self._lock(transaction, key, wanted, now)
            locked = look.locked
            place: Mapping[str, Any] = wanted
            existing = look.existing
            edge = self._branches.edge(transaction, key, locked, after)
            if after is not None and edge is not None and not after.without:
                begun = self._branches.begun(transaction, key, locked, messages, edge=edge, thread=after.thread)
                if begun is not None:
                    return work(transaction, replace(key, branch=begun), replace(after, seq=None))
            if locked.path is not MAIN or key.branch is not None:
                place = self._database.place(key, locked.path)
            if locked.path is not MAIN:
                (found,) = transaction.run((self._along.of_ids, {**wanted, **place}))
                existing = {stored.message.id or "": stored for stored in map(stored_from_row, found)}
            if edge is not None:
                existing = {name: stored for name, stored in existing.items() if stored.seq <= edge}
            plan = plan_append(
                messages,
                existing=existing,
                next_seq=locked.next_seq if edge is None else edge + 1,
                branch=locked.path.branch,
                thread=after.thread if after else None,
            )
            leaves = edge is not None or (after is not None and after.without)
            if leaves or (plan.revised and locked.is_forked):
                fork = self._branches.editing(
                    transaction,
                    key,
                    locked,
                    revised=plan.revised,
                    inserted=plan.inserted,
                    now=now,
                    after=after,
                    edge=edge,
                )
                if fork is not None:
                    new = self._write_fork(transaction, place, *fork)
                    results = [new.get(one.seq, one) for one in plan.results]
                    return results if after is None else [replace(one, branch=locked.next_branch) for one in results]
            moving = [] if after is None else self._branches.resuming(key, locked, now)
            if plan.inserted or plan.revised or moving:
                undo = self._undo(transaction, key, locked, plan)
                if not locked.head and not locked.is_forked:
                    undo += self._make_room(transaction, key)
                is_capped = max_messages is not None and not (
                    locked.is_forked and len(self._branches.all(transaction, place)) > 1
                )
                writes = self._writes(
                    plan,
                    place,
                    now,
                    locked,
                    max_messages if is_capped else None,
                    keep_unsummarized=keep_unsummarized,
                    written=rows,
                )
                if moving:
                    transaction.run(*moving)
                    moving = self._branches.refreshing(transaction, place)
                transaction.commit(*writes, *moving, *undo)
            return plan.results if after is None else [replace(one, branch=locked.path.branch) for one in plan.results]

        return self._database.transact(work)

    def read(
        self,
        key: SessionKey,
        *,
        ids: Sequence[str] | None = None,
        seqs: Sequence[int] | None = None,
        beside: bool = False,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        """See `ConversationStore.read`."""
        checked_limit("limit", limit)
        checked_place("before", before)
        checked_place("after", after)
        parameters = {
            "before": _EVERY_ROW if before is None else before,
            "after": -1 if after is None else after,
            "row_limit": _EVERY_ROW if limit is None else limit,
        }
        name = "newest" if after is None or before is not None else "oldest"
        if ids is not None:
            name, parameters = "of_ids", {"message_ids": self._database.many(checked_ids(ids))}
        elif seqs is not None:
            name = "of_seqs_beside" if beside else "of_seqs"
            parameters = {"seqs": self._database.many(checked_seqs(seqs))}

        def rows_on(path: Path) -> list[Row]:
            place = self._database.place(key, path)
            statements = self._along if "path" in place else self._sql
            return self._database.read((statements.by_name[name], {**place, **parameters}))

        rows = self._database.along(key, rows_on)
        stored = map(stored_from_row, rows) if seqs is None else map(recalled_from_row, rows)
        return sorted(stored, key=attrgetter("seq"))

    def remove(self, key: SessionKey, message_ids: Sequence[str]) -> int:
        """See `ConversationStore.remove`."""
        ids = checked_ids(message_ids)

        def work(transaction: Transaction) -> int:
            locked = self._lock_session(transaction, key)
            if locked is None:
                return 0
            place = self._database.place(key, locked.path)
            if locked.is_forked:
                return self._remove_everywhere(transaction, key, place, ids)
            names = self._database.many(ids)
            (removed,) = transaction.run((self._sql.remove_messages, {**place, "message_ids": names}))
            undo: list[Call] = []
            if removed:
                changed = Changed(tuple(row[2] for row in removed), tuple(ids), removed=True)
                undo = self._summaries.undoing(transaction, place, changed, summarized=locked.summarized)
                undo += self._records.forgetting(transaction, key, self._records.lost(key, locked.path, ids))[1]
                undo += [*self._records.unpinning(key, ids), *self._receipts.dropping(place)]
            transaction.commit(*self._without(removed, place, edits=int(bool(removed))), *undo)
            return len(removed)

        count = self._database.transact(work)
        self._archive.tidy(key)
        return count

    def _remove_everywhere(
        self, transaction: Transaction, key: SessionKey, place: Mapping[str, Any], ids: Sequence[str]
    ) -> int:
        """Remove messages from all branches; return the number of ids that were stored."""
        rows = self._branches.all(transaction, place)
        lines = lines_of(row.path for row in rows)
        named = {"message_ids": self._database.many(ids), "lines": self._database.many(list(lines))}
        (removed,) = transaction.run((self._sql.remove_everywhere, {**place, **named}))
        if not removed:
            return 0
        calls = [*self._branches.recounting(place, rows, removed), *self._without([], place, edits=1)]
        points = [(row[0], row[1]) for row in removed]
        calls += self._undo_on_lines(transaction, key, lines.values(), points, Changed((), tuple(ids), removed=True))
        calls += self._records.forgetting(transaction, key, self._records.lost(key, MAIN, ids))[1]
        transaction.commit(*calls, *self._records.unpinning(key, ids), *self._receipts.dropping(place))
        return len({row[4] for row in removed})

    def _undo_on_lines(
        self,
        transaction: Transaction,
        key: SessionKey,
        lines: Iterable[Path],
        points: Sequence[tuple[int, int]],
        changed: Changed,
    ) -> list[Call]:
        """Return the calls that undo what each of some branches derived from changed messages."""
        calls: list[Call] = []
        for path in lines:
            places = tuple(sorted(seq for branch, seq in points if path.shows(branch, seq)))
            if places:
                calls += self._summaries.undoing_along(transaction, key, path, replace(changed, places=places))
        return calls

    def _without(self, removed: list[Row], place: Mapping[str, Any], *, edits: int) -> list[Call]:
        """Return the calls that subtract removed rows (their tokens and tool calls) from a session's sums."""
        change = {
            **place,
            "more_seq": 0,
            "more_main": 0,
            "more_messages": -len(removed),
            "more_tokens": -sum(row[0] for row in removed),
            "more_tool_calls": -sum(row[1] for row in removed),
            "more_epoch": edits,
            "last_at": None,
            "now": to_microseconds(self._clock()),
        }
        return [(self._sql.update_session, change), (self._sql.update_branch, change)]

    def delete(
        self, key: SessionKey, *, keep_session: bool = False, soft: bool = False, idle: Idle | None = None
    ) -> int | None:
        """See `ConversationStore.delete`."""
        gone: set[str] = set()

        def work(transaction: Transaction) -> int | tuple[str, ...] | None:
            if idle is not None and not transaction.run((self._sql.lock_idle, self._idle_on(key, idle)))[0]:
                return None
            locked = self._lock_session(transaction, key, active=keep_session)
            if locked is None or (soft and locked.status == ConversationStatus.DELETED):
                return None
            if soft:
                transaction.commit((self._sql.delete_softly, self._database.place(key, MAIN)))
            elif keep_session:
                place = {**self._database.place(key, locked.path), "branch": MAIN_BRANCH}
                (removed,) = transaction.run((self._sql.remove_all_messages, place))
                derived = [*self._summaries.clearing(place), *self._derived(transaction, key)]
                own = [row[1:] for row in removed if row[0] == MAIN_BRANCH]
                transaction.commit(
                    *self._without(own, place, edits=1),
                    *self._branches.clearing(transaction, place, locked, to_microseconds(self._clock())),
                    *derived,
                )
            elif left := tuple(path for path in objects_of(locked.archive_path) if path not in gone):
                return left
            else:
                transaction.commit(*self._deletion(transaction, key))
            return locked.message_count

        # objects first: with the row, their names would be lost
        while isinstance(found := self._database.transact(work), tuple):
            self._archive.remove(found)
            gone.update(found)
        if keep_session:
            self._archive.tidy(key)
        return found

    def branch(
        self, key: SessionKey, action: BranchAction, *, at: str | None = None, name: str | None = None
    ) -> list[Branch]:
        """See `ConversationStore.branch`."""
        if action == "list":
            return self._listed(key)
        if action in ("switch", "delete") and key.branch is None:
            raise InvalidInputError("key.branch", None, "the number of a branch")

        def work(transaction: Transaction) -> list[Branch]:
            locked = self._lock_session(transaction, key)
            if locked is None:
                raise SessionNotFoundError(key.session_id)
            now = to_microseconds(self._clock())
            if action in ("fork", "rewind"):
                is_rewind = action == "rewind"
                made, calls = self._branches.forking(
                    transaction, key, locked, at=at, name=name, is_rewind=is_rewind, now=now
                )
                place = self._database.place(key, locked.path)
                transaction.run(*calls)
                transaction.commit(*(self._branches.refreshing(transaction, place) if is_rewind else ()))
                return [made]
            place = self._database.place(key, locked.path)
            rows = self._branches.all(transaction, place)
            points = self._branches.points(transaction, place, rows)
            current, chosen = locked.current_branch, next(row for row in rows if row.id == locked.path.branch)
            if action == "delete":
                calls, lost = self._branches.deleting(place, locked, rows, now, derived=self._summaries.dropping_after)
                calls += self._records.forgetting(transaction, key, lost)[1]
            else:
                current, chosen = chosen.id, replace(chosen, live=True)
                calls = self._branches.switching(place, locked, now)
            transaction.run(*calls)
            transaction.commit(*self._branches.refreshing(transaction, place))
            return [chosen.public(current, points, {row.id for row in rows})]

        return self._database.transact(work)

    def _listed(self, key: SessionKey) -> list[Branch]:
        place = self._database.place(key, MAIN)

        def work(transaction: Transaction) -> list[Branch]:
            (record,) = transaction.run((self._sql.current, place))
            if not record:
                return []
            user_id, status, current = record[0]
            check_owner(key, user_id)
            check_status(key, status)
            rows = self._branches.all(transaction, place)
            points = self._branches.points(transaction, place, rows)
            ids = {row.id for row in rows}
            return [row.public(current, points, ids) for row in rows]

        return self._database.reading(work)

    def path(self, key: SessionKey, *, known: bool = False) -> Path:
        """See `ConversationStore.path`."""
        return self._database.last_path(key) if known else self._database.path_of(key, active=False)

    def get(self, key: SessionKey) -> Conversation | None:
        """See `ConversationStore.get`."""
        rows = self._database.read((self._sql.conversation, self._database.place(key, MAIN)))
        if rows:
            found = conversation_from_row(rows[0])
            if found.status is ConversationStatus.DELETED:
                raise ConversationDeletedError(key.session_id)
            return found
        self._database.path_of(key, active=False)
        return None

    def page(
        self,
        caller_id: str,
        *,
        user_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        which: ConversationFilter = EVERY_CONVERSATION,
    ) -> ConversationPage:
        """See `ConversationStore.page`."""
        checked_scope(caller_id, user_id, limit)
        before_time, before_key = page_position(cursor)
        parameters: dict[str, Any] = {
            "caller_id": caller_id,
            "before_time": before_time,
            "before_key": before_key,
            "row_limit": limit + 1,
            **bounds_of(which),
            "statuses": self._database.many([which.status] if which.status else _IN_USE),
        }
        statement = self._sql.conversations
        if user_id is not None:
            statement = self._sql.conversations_of_user
            parameters["user_id"] = user_id
        rows = self._database.read((statement, parameters))
        page = tuple(conversation_from_row(row[:-1]) for row in rows[:limit])
        more = len(rows) > limit
        return ConversationPage(page, page_token(page[-1].created_at, rows[limit - 1][-1]) if more else None)

    def idle(self, which: Idle) -> Iterator[SessionKey]:
        """See `Store.idle`."""
        given = {"status": which.status, "since": to_microseconds(which.since), "row_limit": _PAGE}
        after = {"after_time": -_EVERY_ROW, "after_key": b""}
        while rows := self._database.read((self._sql.idle, {**given, **after})):
            for session_id, caller_id, user_id, *_ in rows:
                yield SessionKey(session_id, caller_id, user_id)
            after = dict(zip(after, rows[-1][-2:], strict=True))

    def restore(self, key: SessionKey) -> bool:
        """See `Store.restore`."""
        return self._archive.restore(key)

    def archive(self, key: SessionKey, *, idle: Idle | None = None) -> bool:
        """See `Store.archive`."""
        return self._archive.archive(key, transfer=self._transfer(), idle=idle)

    def _idle_on(self, key: SessionKey, idle: Idle) -> dict[str, Any]:
        place = self._database.place(key, MAIN)
        return {**place, "status": idle.status, "since": to_microseconds(idle.since)}

    def close(self) -> None:
        """See `ConversationStore.close`."""
        self._index.close()
        self._database.close()

    def _make_room(self, transaction: Transaction, key: SessionKey) -> list[Call]:
        """Return the calls that delete the sessions written longest ago, to make room for a new one."""
        if self._max_sessions is None:
            return []
        stale = {**self._database.place(key, MAIN), "kept_others": self._max_sessions - 1}
        (rows,) = transaction.run((self._sql.stale_sessions, stale))
        if rows and not self._deletes_sessions:
            self._deletes_sessions = True
            _log.warning(
                "more than %d sessions in memory: those written longest ago are deleted from now on; "
                "a database URL keeps all of them",
                self._max_sessions,
            )
        return [call for row in rows for call in self._deletion(transaction, SessionKey(*row))]

    def _deletion(self, transaction: Transaction, key: SessionKey) -> list[Call]:
        """Return the calls that delete a locked session and everything derived from it."""
        place = self._database.place(key, MAIN)
        return [
            (self._sql.remove_all_messages, place),
            *self._summaries.deleting(place),
            *self._derived(transaction, key),
            (self._sql.delete_branches, place),
            (self._sql.delete_session, place),
        ]

    def _derived(self, transaction: Transaction, key: SessionKey) -> list[Call]:
        """Return the calls that remove a session's memories, answers under review and index entries."""
        calls = self._records.forgetting(transaction, key, self._records.lost(key, MAIN, None), whole=True)[1]
        return [
            *calls,
            *self._receipts.dropping(self._database.place(key, MAIN)),
            *self._reviews.erasing(transaction, Scope(key.caller_id, key.user_id, key.session_id)),
            *session_index_calls(self._database.dialect, caller_id=key.caller_id, session_id=key.session_id),
        ]

    def _without_lock(
        self,
        key: SessionKey,
        messages: Sequence[CountedMessage],
        rows: Mapping[int, dict[str, Any]],
        wanted: Mapping[str, Any],
        now: int,
    ) -> list[StoredMessage] | None:
        """Store new messages with one statement that assigns their places; return `None` if a lock is needed."""
        try:
            look = look_from_rows(key, self._database.read((self._sql.look_up, wanted)))
        except ArchivedConversationError:
            return None
        if look is not None and look.locked.path is not MAIN:
            return None
        existing = look.existing if look else {}
        plan = plan_append(messages, existing=existing, next_seq=0)
        if plan.revised:
            return None
        if not plan.inserted:
            return plan.results
        given = [
            {**(rows.get(id(stored.message)) or message_row(stored)), "place": stored.seq, "revision": stored.revision}
            for stored in plan.inserted
        ]
        seal = self._database.seal
        if seal.is_on:
            given = [{**row, "body": seal.closed(row["body"])} for row in given]
        statement = self._sql.append_new if look else self._sql.append_first
        parameters = {**_new_session(key, wanted, now), **_change(plan, given), "now": now, "rows": json.dumps(given)}
        try:
            places = self._database.read((statement, parameters))
        except StoreError as error:
            if is_conflict(error):
                return None
            raise
        if not places:
            return None
        first = min(row[0] for row in places)
        return plan_append(messages, existing=existing, next_seq=first).results

    def _write_fork(
        self, transaction: Transaction, place: Mapping[str, Any], told: Sequence[StoredMessage], calls: Sequence[Call]
    ) -> dict[int, StoredMessage]:
        """Store a fork with the messages that it copies; return these by place."""
        written = [_placed_row(one, place) for one in told]
        transaction.run(*([(self._sql.insert_message, written)] if written else []), *calls)
        transaction.commit(*self._branches.refreshing(transaction, place))
        return {one.seq: one for one in told}

    def _lock(self, transaction: Transaction, key: SessionKey, wanted: Mapping[str, Any], now: int) -> Look:
        """Lock the session, creating it if it does not exist; return it with the given messages that it holds."""
        look = None
        if self._database.dialect == "sqlite":  # SQLite has one writer at a time, so its reads are locked
            look = look_from_rows(key, transaction.run((self._sql.look_up, wanted))[0])
        if look is None:
            new = _new_session(key, wanted, now)
            *_, rows = transaction.run(
                (self._sql.open_session, new), (self._sql.open_branch, new), (self._sql.look_up, wanted)
            )
            look = look_from_rows(key, rows)
        assert look is not None  # noqa: S101 - it was opened
        return look

    def _undo(self, transaction: Transaction, key: SessionKey, locked: Locked, plan: AppendPlan) -> list[Call]:
        """Return the calls that undo what was derived from revised messages; requires the lock."""
        if not plan.revised:
            return []
        changed = edited(plan.revised)
        if locked.path is MAIN:
            place = self._database.place(key, MAIN)
            # forks may have summarised messages of the main branch
            summarized = _EVERY_ROW if locked.is_forked else locked.summarized
            undo = self._summaries.undoing(transaction, place, changed, summarized=summarized)
        else:
            points = [(stored.branch, stored.seq) for stored in plan.revised]
            undo = self._undo_on_lines(transaction, key, lines_of([locked.path]).values(), points, changed)
        lost = self._records.lost(key, locked.path, changed.message_ids)
        return [*undo, *self._records.forgetting(transaction, key, lost)[1]]

    def _writes(
        self,
        plan: AppendPlan,
        place: Mapping[str, Any],
        now: int,
        locked: Locked,
        max_messages: int | None,
        *,
        keep_unsummarized: bool,
        written: Mapping[int, dict[str, Any]],
    ) -> Iterator[Call]:
        """Yield the calls that carry out a plan; `written` holds rows already made, by the `id()` of their messages."""
        rows = [_placed_row(stored, place, written.get(id(stored.message))) for stored in plan.inserted]
        if rows:
            yield self._sql.insert_message, rows
        for revised in plan.revised:
            row = _placed_row(revised, place)
            values = {name: row[name] for name in REVISED_COLUMNS}
            yield self._sql.revise_message, {**values, **place, "branch": revised.branch, "at_seq": revised.seq}
        change = {**_change(plan, rows, locked.path.branch), **place, "now": now}
        excess = 0 if max_messages is None else locked.message_count + len(rows) - max_messages
        yield self._sql.update_session, change
        if excess > 0:
            dropping = self._along if "path" in place else self._sql
            leaves_to = locked.summarized if keep_unsummarized else _EVERY_ROW
            leaving = {"excess_less_one": excess - 1, "leaves_to": leaves_to}
            yield dropping.update_branch_dropping, {**change, **leaving}
            yield dropping.drop_oldest, {**place, **leaving}
        else:
            yield self._sql.update_branch, change

    def _lock_session(self, transaction: Transaction, key: SessionKey, *, active: bool = True) -> Locked | None:
        """Lock a session; return it with its branch, or `None` if it does not exist."""
        place = self._database.place(key, MAIN)
        # Two statements: on PostgreSQL, a single one would see the branch as it was before waiting for the lock.
        found, rows = transaction.run(
            (self._sql.lock_session, {**place, "now": to_microseconds(self._clock())}), (self._sql.locked, place)
        )
        return locked_from_row(key, rows[0], active=active) if found else None

    def _check_owner(self, key: SessionKey) -> None:
        self._database.path_of(key)
