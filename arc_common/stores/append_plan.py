"""What an append does, decided without a database. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Executable,
    LargeBinary,
    Text,
    all_,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
)
from sqlalchemy.dialects import postgresql

from arc_common.messages import same_content
from arc_common.protocols import CountedMessage, StoredMessage
from arc_common.stores.conversations_statements import (
    LOCKED_COLUMNS,
    MESSAGE_COLUMNS,
    Statement,
    compiler_for,
    message_row,
    one_of,
    same_session,
    stored_from_row,
    this_row,
)
from arc_common.stores.drivers import Row
from arc_common.stores.schema import facts, messages, sessions
from arc_common.stores.summaries import touched
from arc_common.stores.summaries_plan import Touched
from arc_common.stores.summaries_statements import MARK_COLUMNS, higher_over, leaves_citing, leaves_over

_WIDTH = len(LOCKED_COLUMNS) + 1
_DIGESTED = ("message_id", "role", "content", "payload")


@dataclass(frozen=True, slots=True)
class Look:
    """A session and those of the messages asked for that it has.

    Args:
        row_id: The session's row.
        user_id: Whose it is.
        next_seq: The first free place.
        message_count: How many messages it has.
        summarized: Up to where there may be segments.
        version: Other after each change of the session, its messages and its summaries; only PostgreSQL has one.
        existing: The messages, by id.
        touched: What rests on those of them that come with other content and may be summarised, if there are any;
            only PostgreSQL looks for it.
    """

    row_id: int
    user_id: str | None
    next_seq: int
    message_count: int
    summarized: int
    version: str | None
    existing: Mapping[str, StoredMessage]
    touched: Touched | None


def look_from_rows(rows: Sequence[Row]) -> Look | None:
    """Read the rows of `look_up_for`: one for each message, or one without a message; none if there is no session."""
    if not rows:
        return None
    found = next((row[_WIDTH] for row in rows if row[_WIDTH]), None)
    known = [stored_from_row(row[_WIDTH + 1 :]) for row in rows if row[_WIDTH + 1] is not None]
    row_id, user_id, next_seq, message_count, summarized, version = rows[0][:_WIDTH]
    return Look(
        row_id=row_id,
        user_id=user_id,
        next_seq=next_seq,
        message_count=message_count,
        summarized=summarized,
        version=version,
        existing={stored.message.id or "": stored for stored in known},
        touched=touched(*found) if found else None,
    )


def digest_of(message: CountedMessage) -> bytes:
    """What tells PostgreSQL whether a message comes as it is stored; at least all that a revision is made for."""
    row = message_row(message)
    return hashlib.sha256("".join(row[name] or "" for name in _DIGESTED).encode()).digest()


@cache
def look_up_for(dialect_name: str) -> Statement:
    """A session's row beside each of the messages asked for (beside nothing, if none is there)."""
    return compiler_for(dialect_name)(_look_up(dialect_name))


@cache
def unchanged_session() -> Statement:
    """Locks a session's row in PostgreSQL and fails, with all that is sent behind it, if its version is another."""
    row = select(sessions.c.id).where(*this_row(), bindparam("version", type_=Text) == _VERSION).with_for_update()
    return compiler_for("postgresql")(select(1 // func.count()).select_from(row.subquery()))


# PostgreSQL's own mark of who wrote a row last (Npgsql's concurrency token): whatever changes a session's messages or
# summaries writes its row.
_VERSION: ColumnElement[str] = literal_column("arc_sessions.xmin::text", Text)
_UTF8: ColumnElement[str] = literal_column("'UTF8'", Text)
_DIGESTS = bindparam("digests", type_=ARRAY(LargeBinary))


def _look_up(dialect_name: str) -> Executable:
    wanted = one_of(messages.c.message_id, "message_ids", Text, dialect_name)
    theirs = and_(messages.c.session == sessions.c.id, messages.c.caller_id == sessions.c.caller_id, wanted)
    version, rests = (null(), null()) if dialect_name == "sqlite" else (_VERSION, _what_rests_on(wanted))
    columns = (
        *(sessions.c[name] for name in LOCKED_COLUMNS),
        version.label("version"),
        rests.label("rests_on_it"),
        *(messages.c[name] for name in MESSAGE_COLUMNS),
    )
    return select(*columns).select_from(sessions.outerjoin(messages, theirs)).where(*same_session())


def _what_rests_on(wanted: ColumnElement[bool]) -> ColumnElement[Any]:
    """What `Touched` holds, beside the first message that may be summarised and comes with other content.

    A CASE that isn't true evaluates nothing, so appends without such a message don't read any of it.
    """
    summarized = messages.c.seq <= sessions.c.summarized
    content = func.convert_to(func.concat(*(messages.c[name] for name in _DIGESTED)), _UTF8)
    changed = (
        select(messages.c.session, messages.c.seq, messages.c.message_id)
        .join_from(messages, sessions, messages.c.session == sessions.c.id)
        .where(*same_session(), wanted, summarized, func.sha256(content) != all_(_DIGESTS))
        .cte("changed")
    )
    session, first, ids = (
        select(what).scalar_subquery()
        for what in (func.min(changed.c.session), func.min(changed.c.seq), func.array_agg(changed.c.message_id))
    )

    def of_session(table: Any) -> tuple[ColumnElement[bool], ...]:
        return table.c.session == session, table.c.caller_id == bindparam("caller_id")

    cites = func.jsonb_exists_any(cast(facts.c.sources, postgresql.JSONB), ids)
    over = leaves_over(changed, changed.c.seq, of_session)
    leaves = over.union(leaves_citing(first, cites, of_session)).cte("leaves")
    higher = higher_over(leaves.c.start_seq, of_session).subquery()
    marks = [facts.c[name] for name in MARK_COLUMNS]
    found = func.json_build_array(
        select(func.json_agg(changed.c.seq)).scalar_subquery(),
        select(func.json_agg(leaves.c.start_seq)).scalar_subquery(),
        select(func.json_agg(func.json_build_array(*higher.c))).scalar_subquery(),
        select(func.json_agg(func.json_build_array(*marks)))
        .where(*of_session(facts), facts.c.segment.in_(select(leaves.c.start_seq)))
        .scalar_subquery(),
        select(sessions.c.view).where(sessions.c.id == session).correlate(None).scalar_subquery(),
    )
    return case((summarized, case((messages.c.seq == first, select(found).scalar_subquery()))))


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """The rows to write, and how the session's sums change.

    Args:
        results: For each message given, as it will be stored, in the order given.
        inserted: New rows, in order.
        revised: Rows that replace the one with their `seq`.
        tokens: What to add to the session's token sum.
        tool_calls: What to add to its tool call count.
    """

    results: list[StoredMessage]
    inserted: list[StoredMessage]
    revised: list[StoredMessage]
    tokens: int
    tool_calls: int


def plan_append(
    incoming: Sequence[CountedMessage], *, existing: Mapping[str, StoredMessage], next_seq: int
) -> AppendPlan:
    """Decide for each message whether it is new, known, or a new revision of a known one.

    Args:
        incoming: The messages given; one may come twice.
        existing: Those that the store has already, by id.
        next_seq: The first free place.
    """
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
