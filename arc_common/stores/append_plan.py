"""Decides what an append writes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from sqlalchemy import Executable, Text, and_, bindparam, select

from arc_common.messages import same_content
from arc_common.protocols import CountedMessage, StoredMessage
from arc_common.stores.conversations_statements import (
    LOCKED_COLUMNS,
    MESSAGE_COLUMNS,
    Statement,
    compiler_for,
    one_of,
    same_session,
    stored_from_row,
)
from arc_common.stores.drivers import Row
from arc_common.stores.schema import branches, conversations, messages

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
    """Read the rows of `look_up_for`: one for each message, or one without a message; none if there is no session."""
    if not rows:
        return None
    known = [stored_from_row(row[_WIDTH:]) for row in rows if row[_WIDTH] is not None]
    user_id, next_seq, message_count, summarized = rows[0][:_WIDTH]
    existing = {stored.message.id or "": stored for stored in known}
    return Look(user_id, next_seq, message_count, summarized, existing)


@cache
def look_up_for(dialect_name: str) -> Statement:
    """Return the statement that reads a session's row with each of the requested messages (or with NULLs if none)."""
    return compiler_for(dialect_name)(_look_up(dialect_name))


def _look_up(dialect_name: str) -> Executable:
    of_branch = and_(
        branches.c.conversation == conversations.c.conversation,
        branches.c.branch == bindparam("branch"),
        branches.c.caller_id == conversations.c.caller_id,
    )
    theirs = and_(
        messages.c.conversation == branches.c.conversation,
        messages.c.branch == branches.c.branch,
        messages.c.caller_id == branches.c.caller_id,
        one_of(messages.c.message_id, "message_ids", Text, dialect_name),
    )
    columns = (*LOCKED_COLUMNS, *(messages.c[name] for name in MESSAGE_COLUMNS))
    found = conversations.join(branches, of_branch).outerjoin(messages, theirs)
    return select(*columns).select_from(found).where(*same_session())


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
