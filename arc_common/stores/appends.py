"""Appends messages to conversations in SQLite or PostgreSQL."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arc_common.concurrency import Batcher
from arc_common.exceptions import StoreError, StoreUnavailableError
from arc_common.messages import same_content
from arc_common.protocols import CountedMessage, SessionKey, StoredMessage
from arc_common.protocols.conversations import MAIN, After, ConversationStatus
from arc_common.stores.branch_paths import LOCKED_COLUMNS, ArchivedConversationError, Locked, locked_from_row
from arc_common.stores.branches import lines_of
from arc_common.stores.codec import (
    MAIN_BRANCH,
    MOST,
    checked_after,
    checked_counts,
    checked_limit,
    edits_text,
    json_text,
    message_row,
    new_incarnation,
    stored_from_row,
    to_microseconds,
)
from arc_common.stores.database.drivers import Call, Row, Transaction, is_conflict
from arc_common.stores.deletions import SqlDeletions, StoreParts
from arc_common.stores.statements.appends import append_statements
from arc_common.stores.statements.conversations import REVISED_COLUMNS, statements_along, statements_for
from arc_common.stores.summaries import edited

_WIDTH = len(LOCKED_COLUMNS)
_SMALL = 65_536
"""Characters of the appends that are stored together with others."""


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session and the requested messages that its branch stores itself."""

    locked: Locked
    existing: Mapping[str, StoredMessage]


def found_session(key: SessionKey, rows: Sequence[Row]) -> FoundSession | None:
    """Read the rows of `look_up`: one for each message, or one without a message; none if there is no session."""
    if not rows:
        return None
    known = [stored_from_row(row[_WIDTH:]) for row in rows if row[_WIDTH] is not None]
    return FoundSession(locked_from_row(key, rows[0][:_WIDTH]), {stored.message.id or "": stored for stored in known})


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
    current: dict[str | None, StoredMessage] = {}
    for counted in incoming:
        message = counted.message
        known = current.get(message.id) or existing.get(message.id or "")
        if known is None:
            current[message.id] = StoredMessage(
                message, next_seq, counted.tokens, counted.counter, branch=branch, thread=thread
            )
            next_seq += 1
        elif same_content(known.message, message):
            current[message.id] = known
        else:
            current[message.id] = StoredMessage(
                replace(message, created_at=known.message.created_at),
                known.seq,
                counted.tokens,
                counted.counter,
                known.revision + 1,
                edited=True,
                branch=known.branch,
                thread=known.thread,
            )
    before = [existing.get(message_id or "") for message_id in current]
    changed = [(one, stored) for one, stored in zip(before, current.values(), strict=True) if one is not stored]
    return AppendPlan(
        results=[current[counted.message.id] for counted in incoming],
        inserted=[stored for one, stored in changed if one is None],
        revised=[stored for one, stored in changed if one is not None],
        tokens=sum([stored.tokens - (one.tokens if one else 0) for one, stored in changed]),
        tool_calls=sum(
            [len(stored.message.tool_calls) - (len(one.message.tool_calls) if one else 0) for one, stored in changed]
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
    edits = edits_text((one.branch, one.seq) for one in plan.revised)
    return {
        "more_seq": len(inserts),
        "more_main": len(inserts) if branch == MAIN_BRANCH else 0,
        "more_messages": len(inserts),
        "more_tokens": plan.tokens,
        "more_tool_calls": plan.tool_calls,
        "more_epoch": int(bool(plan.revised)),
        "edits": edits,
        "unread_edits": edits,
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


@dataclass(frozen=True, slots=True)
class _Request:
    """An append: the messages, their rows by the `id()` of each, the time, and the options."""

    messages: Sequence[CountedMessage]
    rows: Mapping[int, dict[str, Any]]
    now: int
    max_messages: int | None
    keep_unsummarized: bool
    after: After | None


class SqlAppends:
    """Appends to the conversations of a `SqlStore`, each in one transaction."""

    def __init__(self, parts: StoreParts, deletions: SqlDeletions, *, max_sessions: int | None) -> None:
        self._parts = parts
        self._database, self._clock = parts.database, parts.clock
        self._deletions = deletions
        self._max_sessions = max_sessions
        self._deletes_sessions = False
        self._sql = statements_for(self._database.dialect)
        self._along = statements_along(self._database.dialect)
        self._together: Batcher[bytes, str, int | StoreUnavailableError] = Batcher(self._append_new)

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
            self._database.path_of(key)
            return []
        request = _Request(messages, rows, to_microseconds(self._clock()), max_messages, keep_unsummarized, after)
        if self._database.dialect == "postgresql" and max_messages is None and key.branch is None and after is None:
            results = self._without_lock(key, request)
            if results is not None:
                return results
        return self._database.transact(lambda transaction: self._append(transaction, key, request))

    def _append(self, transaction: Transaction, key: SessionKey, request: _Request) -> list[StoredMessage]:
        """Store the messages on the key's branch, or on a fork of it; return them as stored."""
        wanted, after = self._wanted(key, request), request.after
        session = self._lock(transaction, key, wanted, request.now)
        locked = session.locked
        place: Mapping[str, Any] = wanted
        existing = session.existing
        fork_at = self._parts.branches.fork_place(transaction, key, locked, after)
        if after is not None and fork_at is not None and not after.without:
            made = self._parts.branches.earlier_fork(
                transaction, key, locked, request.messages, fork_at=fork_at, thread=after.thread
            )
            if made is not None:
                retried = replace(request, after=replace(after, seq=None))
                return self._append(transaction, replace(key, branch=made), retried)
        if locked.path is not MAIN or key.branch is not None:
            place = self._database.place(key, locked.path)
        if locked.path is not MAIN:
            (found,) = transaction.run((self._along.of_ids, {**wanted, **place}))
            existing = {stored.message.id or "": stored for stored in map(stored_from_row, found)}
        if fork_at is not None:
            existing = {name: stored for name, stored in existing.items() if stored.seq <= fork_at}
        plan = plan_append(
            request.messages,
            existing=existing,
            next_seq=locked.next_seq if fork_at is None else fork_at + 1,
            branch=locked.path.branch,
            thread=after.thread if after else None,
        )
        must_fork = fork_at is not None or (after is not None and after.without)
        if must_fork or (plan.revised and locked.is_forked):
            fork = self._parts.branches.editing(
                transaction,
                key,
                locked,
                revised=plan.revised,
                inserted=plan.inserted,
                now=request.now,
                after=after,
                fork_at=fork_at,
            )
            if fork is not None:
                new = self._write_fork(transaction, place, *fork)
                results = [new.get(one.seq, one) for one in plan.results]
                return results if after is None else [replace(one, branch=locked.next_branch) for one in results]
        self._write(transaction, key, place, locked, plan, request=request)
        return plan.results if after is None else [replace(one, branch=locked.path.branch) for one in plan.results]

    def _wanted(self, key: SessionKey, request: _Request) -> dict[str, Any]:
        """Return the parameters that look a session and the given messages up."""
        ids = dict.fromkeys(counted.message.id for counted in request.messages)
        return {**self._database.place(key, MAIN), "message_ids": self._database.many(list(ids))}

    def _write(
        self,
        transaction: Transaction,
        key: SessionKey,
        place: Mapping[str, Any],
        locked: Locked,
        plan: AppendPlan,
        *,
        request: _Request,
    ) -> None:
        """Carry out a plan on the branch, undo everything derived from revised messages, and commit."""
        moving = [] if request.after is None else self._parts.branches.resuming(key, locked, request.now)
        if not (plan.inserted or plan.revised or moving):
            return
        undo = self._undo(transaction, key, locked, plan)
        if not locked.head and not locked.is_forked:
            undo += self._make_room(transaction, key)
        is_capped = request.max_messages is not None and not (
            locked.is_forked and len(self._parts.branches.all(transaction, place)) > 1
        )
        writes = self._writes(plan, place, locked, request, max_messages=request.max_messages if is_capped else None)
        if moving:
            transaction.run(*moving)
            moving = self._parts.branches.refreshing(transaction, place)
        transaction.commit(*writes, *moving, *undo)

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
        return [call for row in rows for call in self._deletions.deleting(transaction, SessionKey(*row))]

    def _without_lock(self, key: SessionKey, request: _Request) -> list[StoredMessage] | None:
        """Store new messages with one statement that assigns their places; return `None` if a lock is needed."""
        existing: Mapping[str, StoredMessage] = {}
        while True:
            held: dict[str, CountedMessage | StoredMessage] = {**existing}
            new: list[CountedMessage] = []
            for counted in request.messages:
                message_id = counted.message.id or ""
                if message_id not in held:
                    held[message_id] = counted
                    new.append(counted)
                elif not same_content(held[message_id].message, counted.message):
                    return None
            try:
                end = self._store_new(key, new, request) if new else 0
            except StoreError as error:
                if is_conflict(error):
                    return None
                raise
            if end is not None:
                stored = dict(existing)
                for seq, one in enumerate(new, end - len(new)):
                    stored[one.message.id or ""] = StoredMessage(one.message, seq, one.tokens, one.counter)
                return [stored[counted.message.id or ""] for counted in request.messages]
            try:
                session = found_session(key, self._database.read((self._sql.look_up, self._wanted(key, request))))
            except ArchivedConversationError:
                return None
            if session is None or session.locked.path is not MAIN or session.existing.keys() <= existing.keys():
                return None
            existing = session.existing

    def _store_new(self, key: SessionKey, new: Sequence[CountedMessage], request: _Request) -> int | None:
        """Store new messages, small ones together with other threads'; return the session's next place, if stored."""
        rows = [{**request.rows[id(one.message)], "place": place, "revision": 1} for place, one in enumerate(new)]
        seal = self._database.seal
        if seal.is_on:
            rows = [{**row, "body": seal.closed(row["body"])} for row in rows]
        place = self._database.place(key, MAIN)
        conversation: bytes = place["conversation"]
        given = json_text(
            {
                "conversation": rf"\x{conversation.hex()}",
                "caller_id": key.caller_id,
                "session_id": key.session_id,
                "user_id": key.user_id,
                "account_id": key.account_id,
                "incarnation": new_incarnation(),
                "now": request.now,
                "last_at": max([row["created_at"] for row in rows]),
                "message_count": len(rows),
                "total_tokens": sum([row["tokens"] for row in rows]),
                "tool_calls_count": sum([row["tool_calls"] for row in rows]),
                "message_ids": [row["message_id"] for row in rows],
                "rows": rows,
            }
        )
        if len(given) <= _SMALL:
            end = self._together.run(conversation, given)
        else:
            end = self._append_new({conversation: given}).get(conversation)
        if isinstance(end, StoreUnavailableError):
            raise StoreUnavailableError(*end.args) from end.__cause__  # one for each thread
        return end

    def _append_new(self, given: Mapping[bytes, str]) -> dict[bytes, int | StoreUnavailableError]:
        """Store new messages of sessions; return the next places of those that need no lock."""
        sql = append_statements()
        statement = sql.append_new if len(given) == 1 else sql.append_together
        try:
            rows = self._database.read((statement, {"given": f"[{','.join(given.values())}]"}))
        except StoreUnavailableError as error:
            return dict.fromkeys(given, error)
        return {row[0]: row[1] for row in rows}

    def _write_fork(
        self, transaction: Transaction, place: Mapping[str, Any], copied: Sequence[StoredMessage], calls: Sequence[Call]
    ) -> dict[int, StoredMessage]:
        """Store a fork with the messages that it copies; return these by place."""
        written = [_placed_row(one, place) for one in copied]
        transaction.run(*([(self._sql.insert_message, written)] if written else []), *calls)
        transaction.commit(*self._parts.branches.refreshing(transaction, place))
        return {one.seq: one for one in copied}

    def _lock(self, transaction: Transaction, key: SessionKey, wanted: Mapping[str, Any], now: int) -> FoundSession:
        """Lock the session, creating it if it does not exist; return it with the given messages that it holds."""
        session = None
        if self._database.dialect == "sqlite":  # SQLite has one writer at a time, so its reads are locked
            session = found_session(key, transaction.run((self._sql.look_up, wanted))[0])
        if session is None:
            new = _new_session(key, wanted, now)
            *_, rows = transaction.run(
                (self._sql.open_session, new), (self._sql.open_branch, new), (self._sql.look_up, wanted)
            )
            session = found_session(key, rows)
        assert session is not None  # noqa: S101 - it was opened
        return session

    def _undo(self, transaction: Transaction, key: SessionKey, locked: Locked, plan: AppendPlan) -> list[Call]:
        """Return the calls that undo everything derived from revised messages; requires the lock."""
        if not plan.revised:
            return []
        changed = edited(plan.revised)
        if locked.path is MAIN:
            place = self._database.place(key, MAIN)
            # forks may have summarised messages of the main branch
            summarized = MOST if locked.is_forked else locked.summarized
            undo = self._parts.summaries.undoing(transaction, place, changed, summarized=summarized)
        else:
            points = [(stored.branch, stored.seq) for stored in plan.revised]
            undo = self._deletions.undoing_on_lines(transaction, key, lines_of([locked.path]).values(), points, changed)
        return [*undo, *self._parts.records.forgetting_messages(transaction, key, locked.path, changed.message_ids)[1]]

    def _writes(
        self,
        plan: AppendPlan,
        place: Mapping[str, Any],
        locked: Locked,
        request: _Request,
        *,
        max_messages: int | None,
    ) -> Iterator[Call]:
        """Yield the calls that carry out a plan and keep at most `max_messages`."""
        rows = [_placed_row(stored, place, request.rows.get(id(stored.message))) for stored in plan.inserted]
        if rows:
            yield self._sql.insert_message, rows
        for revised in plan.revised:
            row = _placed_row(revised, place)
            values = {name: row[name] for name in REVISED_COLUMNS}
            yield self._sql.revise_message, {**values, **place, "branch": revised.branch, "at_seq": revised.seq}
        change = {**_change(plan, rows, locked.path.branch), **place, "now": request.now}
        excess = 0 if max_messages is None else locked.message_count + len(rows) - max_messages
        yield self._sql.update_session, change
        yield self._sql.make_due, change
        if excess > 0:
            dropping = self._along if "path" in place else self._sql
            leaves_to = locked.summarized if request.keep_unsummarized else MOST
            oldest = {"excess_less_one": excess - 1, "leaves_to": leaves_to}
            yield dropping.update_branch_dropping, {**change, **oldest}
            yield dropping.drop_oldest, {**place, **oldest}
        else:
            yield self._sql.update_branch, change
