"""Every SQL statement of the conversation store, built with SQLAlchemy Core and compiled once per database. Pure.

All of them take named parameters and filter by `caller_id`. The session is found inside each statement, so that a
read is one round trip.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message, Origin, ToolCall
from arc_common.protocols import Conversation, CountedMessage, SessionKey, StoredMessage
from arc_common.serialization import dumps, loads
from arc_common.stores.schema import messages, sessions

MESSAGE_COLUMNS = (
    "message_id", "role", "content", "payload", "origin_format", "origin", "created_at",
    "seq", "tokens", "counter", "revision",
)  # fmt: skip
"""The columns that `stored_from_row` reads, in its order."""

CONVERSATION_COLUMNS = (
    "session_id", "caller_id", "user_id", "account_id", "created_at", "updated_at", "last_message_at", "message_count",
    "tool_calls_count", "total_tokens", "status", "metadata",
)  # fmt: skip
"""The columns that `conversation_from_row` reads, in its order."""

ORIGIN_FORMAT_LENGTH = 32
"""Characters in the name of a foreign format."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_PART_FIELDS = ("text", "url", "data", "mime_type", "name")


def to_microseconds(moment: datetime) -> int:
    """A moment as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    """The moment in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def message_row(counted: CountedMessage | StoredMessage) -> dict[str, Any]:
    """The columns of a message that has an id and a time, apart from its place.

    Raises:
        InvalidInputError: It holds something that can't be stored.
    """
    message = counted.message
    if message.origin is not None:
        _check_origin(message.origin)
    payload = _payload(message)
    content = message.content if isinstance(message.content, str) and "content" not in payload else None
    return {
        "message_id": message.id,
        "role": message.role.value,
        "content": content,
        "payload": dumps(payload, field="message") if payload else None,
        "origin_format": message.origin.format if message.origin else None,
        "origin": message.origin.json if message.origin else None,
        "tokens": counted.tokens,
        "counter": counted.counter,
        "tool_calls": len(message.tool_calls),
        "created_at": _stored_time(message.created_at) if message.created_at else None,
    }


def _stored_time(moment: datetime) -> int:
    microseconds = to_microseconds(moment)
    if not _FIRST <= microseconds <= _LAST:
        raise InvalidInputError("message.created_at", moment, "a time that lies in the years 1 to 9999 in UTC")
    return microseconds


def _check_origin(origin: Origin) -> None:
    if not 0 < len(origin.format) <= ORIGIN_FORMAT_LENGTH or not _storable(origin.format):
        raise InvalidInputError("message.origin.format", origin.format, f"1 to {ORIGIN_FORMAT_LENGTH} characters")
    if not _storable(origin.json):
        raise InvalidInputError("message.origin.json", origin.json, "text without NUL and lone surrogates")


def _payload(message: Message) -> dict[str, Any]:
    """What the other columns don't say."""
    payload: dict[str, Any] = {}
    content = message.content
    if content is None:
        payload["content"] = None
    elif not isinstance(content, str):
        payload["content"] = [_part_to_json(part) for part in content]
    elif not _storable(content):
        payload["content"] = content
    if message.tool_calls:
        payload["tool_calls"] = [
            {
                "name": call.name,
                "arguments": call.arguments if isinstance(call.arguments, str) else dict(call.arguments),
                "id": call.id,
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        payload["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        payload["name"] = message.name
    if message.metadata:
        payload["metadata"] = dict(message.metadata)
    return payload


def _storable(text: str) -> bool:
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _part_to_json(part: ContentPart) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": part.type}
    for name in _PART_FIELDS:
        value = getattr(part, name)
        if value is not None:
            plain[name] = value
    if part.extra:
        plain["extra"] = dict(part.extra)
    return plain


def stored_from_row(row: Sequence[Any]) -> StoredMessage:
    """Read a row of `MESSAGE_COLUMNS`."""
    message_id, role, content, payload, origin_format, origin, created_at, seq, tokens, counter, revision = row
    fields = _fields(loads(payload)) if payload else {}
    if "content" not in fields:
        fields["content"] = content
    message = Message(
        role,
        id=message_id,
        created_at=from_microseconds(created_at),
        origin=Origin(origin_format, origin) if origin_format else None,
        **fields,
    )
    return StoredMessage(message, seq, tokens, counter, revision)


def _fields(payload: dict[str, Any]) -> dict[str, Any]:
    content = payload.get("content")
    if isinstance(content, list):
        payload["content"] = tuple(ContentPart(**part) for part in content)
    if "tool_calls" in payload:
        payload["tool_calls"] = tuple(ToolCall(**call) for call in payload["tool_calls"])
    return payload


def conversation_from_row(row: Sequence[Any]) -> Conversation:
    """Read a row of `CONVERSATION_COLUMNS`."""
    names, (created_at, updated_at, last_at, count, calls, tokens, status, more) = row[:4], row[4:]
    return Conversation(
        key=SessionKey(*names),
        created_at=from_microseconds(created_at),
        updated_at=from_microseconds(updated_at),
        last_message_at=None if last_at is None else from_microseconds(last_at),
        message_count=count,
        tool_calls_count=calls,
        total_tokens=tokens,
        status=status,
        metadata=loads(more) if more else {},
    )


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
    stale_sessions: Statement


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
        "stale_sessions": _stale_sessions(),
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


def _stale_sessions() -> Executable:
    """Select all sessions but those written last, of any caller; a session just created counts as one of the latter."""
    return (
        select(sessions.c.id, sessions.c.session_id, sessions.c.caller_id, sessions.c.user_id)
        .where(sessions.c.id != bindparam("row_id"))
        .order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
        .offset(bindparam("kept_others", type_=BigInteger))
    )


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
