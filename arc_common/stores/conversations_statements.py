"""Every SQL statement of the conversation store, built with SQLAlchemy Core and compiled once per database. Pure.

All of them take named parameters and filter by `caller_id`. The session is found inside each statement, so that a
read is one round trip.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Executable,
    Insert,
    ScalarSelect,
    Text,
    Update,
    any_,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from arc_common.stores.conversations_rows import CONVERSATION_COLUMNS, MESSAGE_COLUMNS
from arc_common.stores.schema import messages, sessions

__all__ = [
    "LOCKED_COLUMNS",
    "REVISED_COLUMNS",
    "Statement",
    "Statements",
    "compiler_for",
    "one_of",
    "same_session",
    "same_user",
    "select_messages",
    "session_row",
    "statements_for",
    "this_row",
]

LOCKED_COLUMNS = ("id", "user_id", "next_seq", "message_count", "summarized")
"""What `open_session` and `lock_session` return, in this order."""


REVISED_COLUMNS = (
    "revision", "role", "content", "payload", "origin_format", "origin", "tokens", "counter", "tool_calls",
)  # fmt: skip
"""What a new revision writes; its id, place and time stay."""


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text for one driver, with named parameters."""

    sql: str
    defaults: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements, named by what they do."""

    open_session: Statement
    append_new: Statement | None
    append_first: Statement | None
    lock_session: Statement
    owner: Statement
    conversation: Statement
    conversations: Statement
    conversations_of_user: Statement
    find: Statement
    at: Statement
    head: Statement
    tail: Statement
    insert_message: Statement
    revise_message: Statement
    update_session: Statement
    update_session_dropping: Statement
    drop_oldest: Statement
    remove_messages: Statement
    remove_all_messages: Statement
    delete_session: Statement


@cache
def statements_for(dialect_name: str) -> Statements:
    """The statements for `sqlite` or `postgresql` (through psycopg)."""
    compiled = compiler_for(dialect_name)
    built = {name: compiled(statement) for name, statement in _statements(dialect_name).items()}
    if dialect_name == "sqlite":
        return Statements(**built, append_new=None, append_first=None)
    known = _changed_session(*same_session(), same_user())
    return Statements(**built, append_new=compiled(_append_new(known)), append_first=compiled(_append_first()))


def compiler_for(dialect_name: str) -> Callable[[Executable], Statement]:
    """What turns a statement into the text that one driver takes."""
    dialect: Dialect
    if dialect_name == "sqlite":
        dialect = sqlite.dialect(paramstyle="named")
    else:
        dialect = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]  # untyped in SQLAlchemy

    def compiled(statement: Executable) -> Statement:
        built = statement.compile(dialect=dialect)  # type: ignore[attr-defined]  # every Executable here is compilable
        return Statement(str(built), {name: value for name, value in built.params.items() if value is not None})

    return compiled


def _statements(dialect_name: str) -> dict[str, Executable]:
    mine = session_row()
    return {
        "open_session": _open_session(dialect_name),
        "lock_session": update(sessions)
        .where(*same_session())
        .values(updated_at=bindparam("now"))
        .returning(*(sessions.c[name] for name in LOCKED_COLUMNS)),
        "owner": select(sessions.c.user_id).where(*same_session()),
        "conversation": select(*(sessions.c[name] for name in CONVERSATION_COLUMNS)).where(
            *same_session(), same_user()
        ),
        "conversations": _conversations(),
        "conversations_of_user": _conversations(sessions.c.user_id == bindparam("user_id", type_=Text)),
        # unsorted: for ORDER BY seq, SQLite would walk the whole session in that order
        "find": select_messages().where(*_in_session(mine), _one_of_ids(dialect_name)),
        "at": select_messages()
        .where(*_in_session(mine), one_of(messages.c.seq, "places", BigInteger, dialect_name))
        .order_by(messages.c.seq),
        "head": select_messages()
        .where(*_in_session(mine))
        .order_by(messages.c.seq)
        .limit(bindparam("row_limit", type_=BigInteger)),
        "tail": select_messages()
        .where(
            *_in_session(mine),
            messages.c.seq < bindparam("before", type_=BigInteger),
            messages.c.seq > bindparam("after", type_=BigInteger),
        )
        .order_by(messages.c.seq.desc())
        .limit(bindparam("row_limit", type_=BigInteger)),
        "insert_message": insert(messages),
        "revise_message": update(messages)
        .where(*_inside(), messages.c.seq == bindparam("at_seq"))
        .values({name: bindparam(name) for name in REVISED_COLUMNS}),
        "update_session": _update_session(),
        "update_session_dropping": _update_session(*_oldest_turns()),
        "drop_oldest": delete(messages).where(*_oldest_turns()),
        "remove_messages": delete(messages)
        .where(*_inside(), _one_of_ids(dialect_name))
        .returning(messages.c.tokens, messages.c.tool_calls, messages.c.seq),
        "remove_all_messages": delete(messages).where(*_inside()).returning(messages.c.tokens, messages.c.tool_calls),
        "delete_session": delete(sessions).where(*this_row()),
    }


def same_session() -> tuple[ColumnElement[bool], ...]:
    """The session that the parameters name, whoever's it is."""
    return (
        sessions.c.caller_id == bindparam("caller_id"),
        sessions.c.session_id == bindparam("session_id"),
    )


def same_user() -> ColumnElement[bool]:
    """It is this user's."""
    return sessions.c.user_id.is_not_distinct_from(bindparam("user_id", type_=Text))


def session_row() -> ScalarSelect[Any]:
    """The row of the session that the parameters name, if it is this user's."""
    return select(sessions.c.id).where(*same_session(), same_user()).scalar_subquery()


def _in_session(mine: ScalarSelect[Any]) -> tuple[ColumnElement[bool], ...]:
    return messages.c.session == mine, messages.c.caller_id == bindparam("caller_id")


def _inside() -> tuple[ColumnElement[bool], ...]:
    """In a session whose row is locked."""
    return messages.c.session == bindparam("row_id"), messages.c.caller_id == bindparam("caller_id")


def this_row() -> tuple[ColumnElement[bool], ...]:
    """The session whose row is locked."""
    return sessions.c.id == bindparam("row_id"), sessions.c.caller_id == bindparam("caller_id")


def select_messages() -> Any:
    """All that `stored_from_row` reads."""
    return select(*(messages.c[name] for name in MESSAGE_COLUMNS))


def one_of(column: ColumnElement[Any], name: str, kind: Any, dialect_name: str) -> ColumnElement[bool]:
    """One parameter for any number of values, so that the statement stays the same: JSON text or an array."""
    if dialect_name == "sqlite":
        values = func.json_each(bindparam(name)).table_valued("value")
        return column.in_(select(values.c.value))
    return column == any_(bindparam(name, type_=ARRAY(kind)))


def _one_of_ids(dialect_name: str) -> ColumnElement[bool]:
    return one_of(messages.c.message_id, "message_ids", Text, dialect_name)


def _open_session(dialect_name: str) -> Executable:
    """Create the session or lock it, in one statement; what it returns is the state under the lock."""
    names = (
        "caller_id", "session_id", "user_id", "account_id", "status", "created_at", "updated_at", "next_seq",
        "message_count", "tool_calls_count", "total_tokens",
    )  # fmt: skip
    upsert = (sqlite.insert if dialect_name == "sqlite" else postgresql.insert)(sessions).values(
        {name: bindparam(name) for name in names}
    )
    return upsert.on_conflict_do_update(
        index_elements=[sessions.c.caller_id, sessions.c.session_id],
        set_={"updated_at": upsert.excluded.updated_at},
    ).returning(*(sessions.c[name] for name in LOCKED_COLUMNS))


def _append_first() -> Executable:
    """The same for a session that is not there yet; nothing happens if it is."""
    sums = {
        "next_seq": bindparam("more_seq", type_=BigInteger) + 1,
        "message_count": bindparam("more_messages"),
        "tool_calls_count": bindparam("more_tool_calls"),
        "total_tokens": bindparam("more_tokens"),
        "last_message_at": bindparam("last_at"),
        "created_at": bindparam("now"),
        "updated_at": bindparam("now"),
    }
    given: dict[str, Any] = {
        name: bindparam(name) for name in ("caller_id", "session_id", "user_id", "account_id", "status")
    }
    new = postgresql.insert(sessions).values({**given, **sums})
    return _append_new(new.on_conflict_do_nothing(index_elements=[sessions.c.caller_id, sessions.c.session_id]))


def _append_new(session: Update | Insert) -> Executable:
    """Give places to new messages, store them and add them to the session's sums, in one statement.

    The rows come as one JSON text, each with its `place` among them. Nothing happens if `session` changes no row.
    """
    locked = session.returning(sessions.c.id, sessions.c.next_seq).cte("locked")
    names = [column.name for column in messages.columns if column.name not in ("session", "seq", "caller_id")]
    given: Any = (
        func.json_to_recordset(cast(bindparam("rows", type_=Text), postgresql.JSON))
        .table_valued(column("place", BigInteger), *(column(name, messages.c[name].type) for name in names))
        .render_derived(name="given", with_types=True)
    )
    first = locked.c.next_seq - bindparam("more_seq", type_=BigInteger)
    rows = select(
        locked.c.id, first + given.c.place, bindparam("caller_id", type_=Text), *(given.c[name] for name in names)
    ).select_from(locked.join(given, true()))
    return insert(messages).from_select(["session", "seq", "caller_id", *names], rows).returning(messages.c.seq)


def _update_session(*leaving: ColumnElement[bool]) -> Executable:
    return _changed_session(*this_row(), leaving=leaving)


def _changed_session(*which: ColumnElement[bool], leaving: tuple[ColumnElement[bool], ...] = ()) -> Update:
    """Add to the session's sums, less those of the messages that are about to leave."""

    def lost(what: ColumnElement[int]) -> ColumnElement[int]:
        return select(func.coalesce(what, 0)).where(*leaving).scalar_subquery()

    def changed(name: str, more: str, what: ColumnElement[int]) -> ColumnElement[int]:
        total = sessions.c[name] + bindparam(more)
        return total - lost(what) if leaving else total

    return (
        update(sessions)
        .where(*which)
        .values(
            next_seq=sessions.c.next_seq + bindparam("more_seq"),
            message_count=changed("message_count", "more_messages", func.count(messages.c.seq)),
            tool_calls_count=changed("tool_calls_count", "more_tool_calls", func.sum(messages.c.tool_calls)),
            total_tokens=changed("total_tokens", "more_tokens", func.sum(messages.c.tokens)),
            last_message_at=func.coalesce(bindparam("last_at", type_=BigInteger), sessions.c.last_message_at),
            epoch=sessions.c.epoch + bindparam("more_epoch"),
            updated_at=bindparam("now"),
        )
    )


def _oldest_turns() -> tuple[ColumnElement[bool], ...]:
    """The whole turns at the old end that hold at least `excess` messages; system messages stay.

    The cut is the first user message behind the excess, else the newest one.
    """
    from_user = messages.c.role == "user"
    leaves = messages.c.role != "system"
    last_in_excess = (
        select(messages.c.seq)
        .where(*_inside(), leaves)
        .order_by(messages.c.seq)
        .limit(1)
        .offset(bindparam("excess_less_one", type_=BigInteger))
        .scalar_subquery()
    )
    next_user = (
        select(func.min(messages.c.seq)).where(*_inside(), from_user, messages.c.seq > last_in_excess).scalar_subquery()
    )
    newest_user = select(func.max(messages.c.seq)).where(*_inside(), from_user).scalar_subquery()
    return *_inside(), messages.c.seq < func.coalesce(next_user, newest_user), leaves


def _conversations(*of_user: ColumnElement[bool]) -> Executable:
    place = tuple_(sessions.c.created_at, sessions.c.id)
    return (
        select(*(sessions.c[name] for name in CONVERSATION_COLUMNS), sessions.c.id)
        .where(
            sessions.c.caller_id == bindparam("caller_id"),
            *of_user,
            place < tuple_(bindparam("before_time", type_=BigInteger), bindparam("before_row", type_=BigInteger)),
        )
        .order_by(sessions.c.created_at.desc(), sessions.c.id.desc())
        .limit(bindparam("row_limit", type_=BigInteger))
    )
