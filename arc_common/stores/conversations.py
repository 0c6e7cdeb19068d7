"""Conversations in SQLite or PostgreSQL."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Engine

from arc_common.exceptions import ConversationDeletedError, InvalidInputError, SessionNotFoundError
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
    NO_EDITS,
    After,
    BranchAction,
    ConversationStatus,
    EditReader,
    Edits,
    Idle,
    Path,
)
from arc_common.settings import ArchiveSettings, StorageSettings
from arc_common.stores.appends import SqlAppends
from arc_common.stores.archive.objects import ArchiveObjects
from arc_common.stores.archive.store import SqlArchive
from arc_common.stores.branch_paths import FOLLOW, locked_from_row
from arc_common.stores.branches import SqlBranches, places_of
from arc_common.stores.codec import (
    EVERYWHERE,
    MOST,
    bounds_of,
    checked_ids,
    checked_limit,
    checked_place,
    checked_scope,
    checked_seqs,
    conversation_from_row,
    edits_from,
    key_from_hex,
    page_position,
    page_token,
    recalled_from_row,
    stored_from_row,
    to_microseconds,
)
from arc_common.stores.database.connection import Database, shown_address
from arc_common.stores.database.drivers import Row, Transaction
from arc_common.stores.deletions import SqlDeletions, StoreParts
from arc_common.stores.erasure import SqlTraces
from arc_common.stores.receipts import SqlReceipts
from arc_common.stores.records import SqlRecords
from arc_common.stores.reviews import SqlReviews
from arc_common.stores.search_index.store import SqlIndexStore
from arc_common.stores.statements.conversations import EDITS, statements_along, statements_for
from arc_common.stores.summaries import SqlSummaries
from arc_common.stores.transfer import SqlTransfer

_PAGE = 200
_IN_USE = [ConversationStatus.ACTIVE.value, ConversationStatus.ARCHIVED.value]


class SqlStore:
    """A `ConversationStore` on SQLite or PostgreSQL.

    - Messages get their `seq` inside the transaction, from a counter in the session's locked row: any number of
      processes may write without losing, duplicating or reordering messages.
    - An append is one transaction: one fsync, and on PostgreSQL one round trip (more for messages that are already
      stored, or if another writer interferes). There, appends of several threads to different sessions share both.
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
        self._database = Database(url, settings or StorageSettings(), cipher)
        self.engine = self._database.engine
        self._clock = clock or (lambda: datetime.now(UTC))
        self._sql = statements_for(self._database.dialect)
        self._along = statements_along(self._database.dialect)
        self._branches = SqlBranches(self._database)
        self.summaries = SqlSummaries(self._database, clock=self._clock)
        self.index = SqlIndexStore(self._database)
        given = archive or ArchiveSettings()
        objects = None if given.location is None else ArchiveObjects(given.location)
        keeps = not given.cleanup_after_archive
        self._archive = SqlArchive(self._database, self.summaries, objects, keeps_messages=keeps, clock=self._clock)
        self._database.restore = self._archive.restore
        self.records = SqlRecords(self._database, clock=self._clock, index=self.index)
        self.receipts = SqlReceipts(self._database)
        self.reviews = SqlReviews(self._database, clock=self._clock, index=self.index)
        parts = StoreParts(
            self._database,
            self._branches,
            self.summaries,
            self.records,
            self.receipts,
            self.reviews,
            self._archive,
            self._clock,
        )
        self._deletions = SqlDeletions(parts)
        self._appends = SqlAppends(parts, self._deletions, max_sessions=max_sessions)

    def __repr__(self) -> str:
        return f"SqlStore({shown_address(self.engine)})"

    def check(self) -> None:
        """See `Store.check`."""
        self._database.check()

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
        return SqlTransfer(self._database, self.index, self._archive.messages_of)

    def reencrypt(self) -> int:
        """Re-encrypt all text under the cipher's first key, while others may write; return the number of rows.

        Raises:
            ConfigurationError: The database is not encrypted.
        """
        return self._transfer().reencrypt()

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
        return self._appends.append(
            key, messages, max_messages=max_messages, keep_unsummarized=keep_unsummarized, after=after
        )

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
            "before": MOST if before is None else before,
            "after": -1 if after is None else after,
            "row_limit": MOST if limit is None else limit,
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
        return self._deletions.remove(key, message_ids)

    def delete(
        self, key: SessionKey, *, keep_session: bool = False, soft: bool = False, idle: Idle | None = None
    ) -> int | None:
        """See `ConversationStore.delete`."""
        return self._deletions.delete(key, keep_session=keep_session, soft=soft, idle=idle)

    def branch(
        self, key: SessionKey, action: BranchAction, *, at: str | None = None, name: str | None = None
    ) -> list[Branch]:
        """See `ConversationStore.branch`."""
        if action == "list":
            return self._listed(key)
        if action in ("switch", "delete") and key.branch is None:
            raise InvalidInputError("key.branch", None, "the number of a branch")

        def work(transaction: Transaction) -> list[Branch]:
            now = to_microseconds(self._clock())
            locked = self._branches.lock(transaction, key, now=now)
            if locked is None:
                raise SessionNotFoundError(key.session_id)
            place = self._database.place(key, locked.path)
            if action in ("fork", "rewind"):
                is_rewind = action == "rewind"
                made, calls = self._branches.forking(
                    transaction, key, locked, at=at, name=name, is_rewind=is_rewind, now=now
                )
                transaction.run(*calls)
                transaction.commit(*(self._branches.refreshing(transaction, place) if is_rewind else ()))
                return [made]
            rows = self._branches.all(transaction, place)
            points = self._branches.points(transaction, place, rows)
            current, chosen = locked.current_branch, next(row for row in rows if row.id == locked.path.branch)
            if action == "delete":
                calls, lost = self._branches.deleting(place, locked, rows, now, derived=self.summaries.dropping_after)
                calls += [*self.records.forgetting(transaction, key, lost)[1], *self.receipts.dropping(place)]
            else:
                current, chosen = chosen.id, replace(chosen, live=True)
                calls = self._branches.switching(place, locked, now)
            transaction.run(*calls)
            transaction.commit(*self._branches.refreshing(transaction, place))
            return [chosen.public(current, points, {row.id for row in rows})]

        return self._database.transact(work)

    def _listed(self, key: SessionKey) -> list[Branch]:
        key = replace(key, branch=None)
        place = self._database.place(key, MAIN)

        def work(transaction: Transaction) -> list[Branch]:
            (found,) = transaction.run((self._sql.locked, place))
            if not found:
                return []
            current = locked_from_row(key, found[0]).current_branch
            rows = self._branches.all(transaction, place)
            points = self._branches.points(transaction, place, rows)
            ids = {row.id for row in rows}
            return [row.public(current, points, ids) for row in rows]

        return self._database.reading(work)

    def path(self, key: SessionKey, *, known: bool = False) -> Path:
        """See `ConversationStore.path`."""
        return self._database.last_path(key) if known else self._database.path_of(key, active=False)

    def edits(self, key: SessionKey, *, reader: EditReader, done: Edits = NO_EDITS) -> Edits:
        """See `Store.edits`."""
        place, noted = self._database.place(key, MAIN), EDITS[reader].name
        if done.note:
            settling = self._sql.by_name[f"settle_{noted}"], {**place, "done": done.note}
            self._database.transact(lambda transaction: transaction.commit(settling))
        rows = self._database.read((self._sql.by_name[noted], place))
        text = (rows[0][0] if rows else None) or ""
        if EVERYWHERE not in text:
            return edits_from(text) if rows else NO_EDITS
        if reader == "memories":  # those of removed messages are gone, and what nobody edited need not be read again
            return edits_from(text, ((branch, seq) for branch, seq in self._database.read((self._sql.revised, place))))
        return edits_from(text, places_of(self._database.read((self._sql.branches, place))))

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
        before_time, before_key = (MOST, b"") if cursor is None else page_position(cursor, key_from_hex)
        parameters: dict[str, Any] = {
            "caller_id": caller_id,
            "wanted": FOLLOW,
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
        return ConversationPage(page, page_token(page[-1].created_at, rows[limit - 1][-1].hex()) if more else None)

    def idle(self, which: Idle) -> Iterator[SessionKey]:
        """See `Store.idle`."""
        given = {"status": which.status, "since": to_microseconds(which.since), "row_limit": _PAGE}
        after = {"after_time": -MOST, "after_key": b""}
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

    def sweep(self) -> int:
        """See `Store.sweep`."""
        return self._archive.sweep()

    def close(self) -> None:
        """See `ConversationStore.close`."""
        self.index.close()
        self._database.close()
