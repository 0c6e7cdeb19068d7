"""Appends messages: decides what is new, known or revised, and writes it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from arc_common.exceptions import SessionNotFoundError
from arc_common.messages import same_content
from arc_common.protocols import CountedMessage, SessionKey, StoredMessage
from arc_common.stores.codec import (
    message_row,
    new_incarnation,
    stored_from_row,
    to_microseconds,
)
from arc_common.stores.connection import Database, scope
from arc_common.stores.conversations_statements import (
    LOCKED_COLUMNS,
    REVISED_COLUMNS,
    statements_for,
)
from arc_common.stores.drivers import Call, Row, Transaction
from arc_common.stores.memories import SqlMemories
from arc_common.stores.summaries import SummaryEdits, edited

_WIDTH = len(LOCKED_COLUMNS)


@dataclass(frozen=True, slots=True)
class Look:
    """A session and the requested messages that it holds."""

    user_id: str | None
    next_seq: int
    message_count: int
    summarized: int
    existing: Mapping[str, StoredMessage]


def look_from_rows(rows: Sequence[Row]) -> Look | None:
    """Read the rows of `look_up`: one for each message, or one without a message; none if there is no session."""
    if not rows:
        return None
    known = [stored_from_row(row[_WIDTH:]) for row in rows if row[_WIDTH] is not None]
    user_id, next_seq, message_count, summarized = rows[0][:_WIDTH]
    existing = {stored.message.id or "": stored for stored in known}
    return Look(user_id, next_seq, message_count, summarized, existing)


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """The rows to write and the changes to the session's sums."""

    results: list[StoredMessage]
    inserted: list[StoredMessage]
    revised: list[StoredMessage]
    tokens: int
    tool_calls: int


def plan_append(
    incoming: Sequence[CountedMessage], *, existing: Mapping[str, StoredMessage], next_seq: int
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
            current[message_id] = StoredMessage(message, next_seq, counted.tokens, counted.counter)
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


class SqlAppend:
    """Appends messages that have been checked."""

    def __init__(
        self,
        database: Database,
        edits: SummaryEdits,
        memories: SqlMemories,
        *,
        clock: Callable[[], datetime],
        make_room: Callable[[Transaction, SessionKey], list[Call]],
    ) -> None:
        self._database = database
        self._edits = edits
        self._memories = memories
        self._clock = clock
        self._make_room = make_room
        self._sql = statements_for(database.dialect)

    def __call__(
        self,
        key: SessionKey,
        messages: Sequence[CountedMessage],
        rows: Mapping[int, dict[str, Any]],
        *,
        max_messages: int | None,
    ) -> list[StoredMessage]:
        """See `ConversationStore.append`; `rows` are those of `checked_counts`."""
        now = to_microseconds(self._clock())
        ids = dict.fromkeys(counted.message.id for counted in messages)
        wanted = {**scope(key), "message_ids": self._database.many(list(ids))}
        if self._database.dialect == "postgresql" and max_messages is None:
            results = self._without_lock(key, messages, rows, wanted, now)
            if results is not None:
                return results
        with self._database.transaction() as transaction:
            look = self._lock(transaction, key, wanted, now)
            plan = plan_append(messages, existing=look.existing, next_seq=look.next_seq)
            if plan.inserted or plan.revised:
                undo = self._undo(transaction, key, look, plan)
                if look.next_seq == 1:
                    undo += self._make_room(transaction, key)
                writes = self._writes(plan, scope(key), now, look.message_count, max_messages, written=rows)
                transaction.commit(*writes, *undo)
        return plan.results

    def _without_lock(
        self,
        key: SessionKey,
        messages: Sequence[CountedMessage],
        rows: Mapping[int, dict[str, Any]],
        wanted: Mapping[str, Any],
        now: int,
    ) -> list[StoredMessage] | None:
        """Store new messages with one statement that assigns their places; return `None` if a lock is needed."""
        look = look_from_rows(self._database.read((self._sql.look_up, wanted)))
        if look is not None:
            _check_owner(key, look)
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
        statement = self._sql.append_new if look else self._sql.append_first
        parameters = {**_new_session(key, now), **_change(plan, given), "now": now, "rows": json.dumps(given)}
        places = self._database.write((statement, parameters))
        if not places:
            return None
        first = min(row[0] for row in places)
        return plan_append(messages, existing=existing, next_seq=first).results

    def _lock(self, transaction: Transaction, key: SessionKey, wanted: Mapping[str, Any], now: int) -> Look:
        """Lock the session, creating it if it does not exist; return it with the given messages that it holds."""
        look = None
        if self._database.dialect == "sqlite":  # SQLite has one writer at a time, so its reads are locked
            look = look_from_rows(transaction.run((self._sql.look_up, wanted))[0])
        if look is None:
            new = _new_session(key, now)
            *_, rows = transaction.run(
                (self._sql.open_session, new), (self._sql.open_branch, new), (self._sql.look_up, wanted)
            )
            look = look_from_rows(rows)
        assert look is not None  # noqa: S101 - it was opened
        _check_owner(key, look)
        return look

    def _undo(self, transaction: Transaction, key: SessionKey, look: Look, plan: AppendPlan) -> list[Call]:
        """Return the calls that undo what was derived from revised messages; requires the lock."""
        if not plan.revised:
            return []
        changed = edited(plan.revised)
        undo = self._edits.after(transaction, scope(key), changed, summarized=look.summarized)
        return [*undo, *self._memories.forgetting(transaction, key, changed.message_ids)[1]]

    def _writes(
        self,
        plan: AppendPlan,
        place: Mapping[str, Any],
        now: int,
        count: int,
        max_messages: int | None,
        *,
        written: Mapping[int, dict[str, Any]],
    ) -> Iterator[Call]:
        """Yield the calls that carry out a plan; `written` holds rows already made, by the `id()` of their messages."""
        rows = [_placed_row(stored, place, written.get(id(stored.message))) for stored in plan.inserted]
        if rows:
            yield self._sql.insert_message, rows
        for revised in plan.revised:
            row = _placed_row(revised, place)
            values = {name: row[name] for name in REVISED_COLUMNS}
            yield self._sql.revise_message, {**values, **place, "at_seq": revised.seq}
        change = {**_change(plan, rows), **place, "now": now}
        excess = 0 if max_messages is None else count + len(rows) - max_messages
        yield self._sql.update_session, change
        if excess > 0:
            yield self._sql.update_branch_dropping, {**change, "excess_less_one": excess - 1}
            yield self._sql.drop_oldest, {**place, "excess_less_one": excess - 1}
        else:
            yield self._sql.update_branch, change


def _check_owner(key: SessionKey, look: Look) -> None:
    if look.user_id != key.user_id:
        raise SessionNotFoundError(key.session_id)


def _new_session(key: SessionKey, now: int) -> dict[str, Any]:
    return {
        **scope(key),
        "session_id": key.session_id,
        "account_id": key.account_id,
        "incarnation": new_incarnation(),
        "status": "active",
        "created_at": now,
        "updated_at": now,
    }


def _change(plan: AppendPlan, inserts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the changes of an append to a session's sums."""
    return {
        "more_seq": len(inserts),
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
        "branch": place["branch"],
        "caller_id": place["caller_id"],
        "seq": stored.seq,
        "revision": stored.revision,
    }
