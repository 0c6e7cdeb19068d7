"""Appending to a conversation in SQLite or PostgreSQL: one transaction, one sync, two round trips."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from arc_common.exceptions import SessionNotFoundError
from arc_common.protocols import CountedMessage, SessionKey, StoredMessage
from arc_common.stores.append_lookup import Look, digest_of, look_from_rows, look_up_for, unchanged_session
from arc_common.stores.append_plan import AppendPlan, plan_append
from arc_common.stores.conversations_rows import message_row, to_microseconds
from arc_common.stores.conversations_statements import REVISED_COLUMNS, statements_for
from arc_common.stores.database import Database, scope
from arc_common.stores.drivers import Call, Transaction
from arc_common.stores.memories import SqlMemories
from arc_common.stores.summaries_edits import SummaryEdits
from arc_common.stores.summaries_plan import edited

__all__ = ["SqlAppend"]


class SqlAppend:
    """Appends messages that have been checked.

    - SQLite looks and writes under its write lock.
    - PostgreSQL looks without a lock, and writes on the condition that no other writer came in between: new messages
      if their ids are still free, revisions if nothing of the session has changed. With eight writers to one session
      that is twice as fast as holding its lock over a round trip. Where the condition fails, and where a cap may have
      to move the old end, it does everything again under the lock.

    Args:
        database: Where the tables are.
        edits: What revisions undo of summaries.
        memories: Those that rest on the words of a message go with its revision.
        clock: Gives the time with zone.
    """

    def __init__(
        self, database: Database, edits: SummaryEdits, memories: SqlMemories, *, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._edits = edits
        self._memories = memories
        self._clock = clock
        self._sql = statements_for(database.dialect)
        self._look_up = look_up_for(database.dialect)

    def __call__(
        self, key: SessionKey, messages: Sequence[CountedMessage], *, max_messages: int | None
    ) -> list[StoredMessage]:
        """See `ConversationStore.append`."""
        now = to_microseconds(self._clock())
        ids = dict.fromkeys(counted.message.id for counted in messages)
        wanted = {**scope(key), "message_ids": self._database.many(list(ids))}
        if self._database.dialect == "postgresql":
            wanted["digests"] = [digest_of(counted) for counted in messages]
            if max_messages is None:
                results = self._without_lock(key, messages, wanted, now)
                if results is not None:
                    return results
        written = {
            id(counted.message): message_row(counted) for counted in reversed(messages)
        }  # made before the lock is taken
        with self._database.transaction() as transaction:
            look = self._lock(transaction, key, wanted, now)
            plan = plan_append(messages, existing=look.existing, next_seq=look.next_seq)
            if plan.inserted or plan.revised:
                place = _place(key, look)
                undo = self._undo(transaction, key, look, plan)
                writes = self._writes(plan, place, now, look.message_count, max_messages, written=written)
                transaction.commit(*writes, *undo)
        return plan.results

    def _without_lock(
        self, key: SessionKey, messages: Sequence[CountedMessage], wanted: Mapping[str, Any], now: int
    ) -> list[StoredMessage] | None:
        """Look, then write if nothing has changed; `None` if something has."""
        look = look_from_rows(self._database.read((self._look_up, wanted)))
        if look is None:
            return self._append_new(key, messages, None, now)
        _check_owner(key, look)
        plan = plan_append(messages, existing=look.existing, next_seq=look.next_seq)
        if plan.revised:
            return plan.results if self._revise(key, look, plan, now) else None
        return self._append_new(key, messages, look, now) if plan.inserted else plan.results

    def _append_new(
        self, key: SessionKey, messages: Sequence[CountedMessage], look: Look | None, now: int
    ) -> list[StoredMessage] | None:
        """Append messages that are new or there as they are, in one statement that gives them their places."""
        existing = look.existing if look else {}
        plan = plan_append(messages, existing=existing, next_seq=0)
        given = [{**message_row(stored), "place": stored.seq, "revision": stored.revision} for stored in plan.inserted]
        statement = self._sql.append_new if look else self._sql.append_first
        assert statement is not None  # noqa: S101 - PostgreSQL has both
        parameters = {**_new_session(key, now), **_change(plan, given), "now": now, "rows": json.dumps(given)}
        places = self._database.write((statement, parameters))
        if not places:
            return None
        first = min(row[0] for row in places)
        return plan_append(messages, existing=existing, next_seq=first).results

    def _revise(self, key: SessionKey, look: Look, plan: AppendPlan, now: int) -> bool:
        """Carry out a plan with revisions, if nothing of the session has changed and no memory rests on it."""
        place = _place(key, look)
        undo = self._foreseen(place, look, plan)
        if undo is None:
            return False
        conditions = (unchanged_session(), {**place, "version": look.version}), self._memories.unless_resting_on(key)
        return self._database.attempt(*conditions, *self._writes(plan, place, now, look.message_count, None), *undo)

    def _lock(self, transaction: Transaction, key: SessionKey, wanted: Mapping[str, Any], now: int) -> Look:
        """The session under its lock, made if need be, and those of the messages that it has."""
        look = None
        if self._database.dialect == "sqlite":  # one writer at a time: what it reads is locked
            look = look_from_rows(transaction.run((self._look_up, wanted))[0])
        if look is None:
            _, rows = transaction.run((self._sql.open_session, _new_session(key, now)), (self._look_up, wanted))
            look = look_from_rows(rows)
        assert look is not None  # noqa: S101 - it was opened
        _check_owner(key, look)
        return look

    def _undo(self, transaction: Transaction, key: SessionKey, look: Look, plan: AppendPlan) -> list[Call]:
        """What a plan's revisions undo, under the lock."""
        if not plan.revised:
            return []
        changed = edited(plan.revised)
        place = _place(key, look)
        undo = self._foreseen(place, look, plan)
        if undo is None:
            undo = self._edits.after(transaction, place, changed, summarized=look.summarized)
        return [*undo, *self._memories.forgetting(transaction, key, changed.message_ids)[1]]

    def _foreseen(self, place: Mapping[str, Any], look: Look, plan: AppendPlan) -> list[Call] | None:
        """What a plan's revisions undo, as far as the look has found it; `None` if it has looked for something else.

        It does for a message that differs only in what makes no revision, and on SQLite.
        """
        changed = edited(plan.revised)
        summarized = {seq for seq in changed.places if seq <= look.summarized}
        if not summarized:
            return []
        if look.touched is None or set(look.touched.places) != summarized:
            return None
        return self._edits.undo(place, changed, look.touched)

    def _writes(
        self,
        plan: AppendPlan,
        place: Mapping[str, Any],
        now: int,
        count: int,
        max_messages: int | None,
        *,
        written: Mapping[int, dict[str, Any]] | None = None,
    ) -> Iterator[Call]:
        """Yield the calls that carry out a plan; `written` holds rows already made, by the `id()` of their messages."""
        written = written or {}
        rows = [_placed_row(stored, place, written.get(id(stored.message))) for stored in plan.inserted]
        if rows:
            yield self._sql.insert_message, rows
        for revised in plan.revised:
            row = _placed_row(revised, place)
            values = {name: row[name] for name in REVISED_COLUMNS}
            yield self._sql.revise_message, {**values, **place, "at_seq": revised.seq}
        change = {**_change(plan, rows), **place, "now": now}
        excess = 0 if max_messages is None else count + len(rows) - max_messages
        if excess > 0:
            yield self._sql.update_session_dropping, {**change, "excess_less_one": excess - 1}
            yield self._sql.drop_oldest, {**place, "excess_less_one": excess - 1}
        else:
            yield self._sql.update_session, change


def _check_owner(key: SessionKey, look: Look) -> None:
    if look.user_id != key.user_id:
        raise SessionNotFoundError(key.session_id)


def _place(key: SessionKey, look: Look) -> dict[str, Any]:
    return {"row_id": look.row_id, "caller_id": key.caller_id}


def _new_session(key: SessionKey, now: int) -> dict[str, Any]:
    return {
        **scope(key),
        "account_id": key.account_id,
        "status": "active",
        "created_at": now,
        "updated_at": now,
        "next_seq": 1,
        "message_count": 0,
        "tool_calls_count": 0,
        "total_tokens": 0,
    }


def _change(plan: AppendPlan, inserts: list[dict[str, Any]]) -> dict[str, Any]:
    """How an append changes a session's sums."""
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
        "session": place["row_id"],
        "caller_id": place["caller_id"],
        "seq": stored.seq,
        "revision": stored.revision,
    }
