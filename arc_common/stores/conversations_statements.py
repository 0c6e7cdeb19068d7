"""Every SQL statement of the conversation store, built with SQLAlchemy Core and compiled once per database."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Executable,
    Insert,
    LargeBinary,
    ScalarSelect,
    Text,
    Update,
    and_,
    any_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    insert,
    select,
    true,
    tuple_,
    union,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from arc_common.stores.codec import CONVERSATION_COLUMNS, MESSAGE_COLUMNS
from arc_common.stores.schema import branches, conversations, messages

LOCKED_COLUMNS = (
    conversations.c.user_id, conversations.c.next_seq, branches.c.message_count, branches.c.summarized_seq,
)  # fmt: skip
"""The columns of a `Look`, in order."""

_WRITTEN = tuple(column.name for column in messages.columns if column.name not in ("channel", "trust"))

REVISED_COLUMNS = ("revision", "role", "body", "tokens", "counter", "tool_calls")
"""The columns that a new revision writes; id, place and time stay."""


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text for one driver, with named parameters."""

    sql: str
    defaults: Mapping[str, Any]


class Statements:
    """The statements of one store, compiled for one database; each is an attribute."""

    def __init__(self, dialect_name: str, statements: Mapping[str, Executable]) -> None:
        compiled = compiler_for(dialect_name)
        self.by_name = {name: compiled(statement) for name, statement in statements.items()}

    def __getattr__(self, name: str) -> Statement:
        try:
            return self.by_name[name]
        except KeyError:
            raise AttributeError(name) from None


@cache
def statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    of_postgres = {"append_new": _append_new(), "append_first": _append_first()}
    return Statements(
        dialect_name, {**_statements(dialect_name), **(of_postgres if dialect_name == "postgresql" else {})}
    )


def compiler_for(dialect_name: str) -> Callable[[Executable], Statement]:
    """Return a function that compiles statements to SQL for one driver."""
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
    mine = select_messages().where(*in_session(messages))
    between = mine.where(
        messages.c.seq < bindparam("before", type_=BigInteger), messages.c.seq > bindparam("after", type_=BigInteger)
    ).limit(bindparam("row_limit", type_=BigInteger))
    return {
        "look_up": _look_up(dialect_name),
        "open_session": _open_session(dialect_name),
        "open_branch": _insert(branches, dialect_name)
        .values(**_first_branch(bindparam("created_at")))
        .on_conflict_do_nothing(index_elements=[branches.c.conversation, branches.c.branch]),
        "lock_session": update(conversations)
        .where(*same_session())
        .values(updated_at=bindparam("now"))
        .returning(conversations.c.user_id),
        "lock_branch": select(branches.c.summarized_seq, branches.c.message_count).where(*inside(branches)),
        "owner": select(conversations.c.user_id).where(*same_session()),
        "conversation": _records().where(*same_session(), same_user()),
        "conversations": _conversations(),
        "conversations_of_user": _conversations(conversations.c.user_id == bindparam("user_id", type_=Text)),
        # unsorted: for ORDER BY seq, SQLite would walk the whole session in that order
        "of_ids": mine.where(_one_of_ids(dialect_name)),
        "of_seqs": mine.where(one_of(messages.c.seq, "seqs", BigInteger, dialect_name)),
        "of_seqs_beside": mine.where(messages.c.seq.in_(_with_others(dialect_name))),
        "newest": between.order_by(messages.c.seq.desc()),
        "oldest": between.order_by(messages.c.seq),
        "insert_message": insert(messages).values({name: bindparam(name) for name in _WRITTEN}),
        "revise_message": update(messages)
        .where(*inside(messages), messages.c.seq == bindparam("at_seq"))
        .values({name: bindparam(name) for name in REVISED_COLUMNS}),
        "update_session": _update_session(),
        "update_branch": _update_branch(),
        "update_branch_dropping": _update_branch(*_oldest_turns()),
        "drop_oldest": delete(messages).where(*_oldest_turns()),
        "remove_messages": delete(messages)
        .where(*inside(messages), _one_of_ids(dialect_name))
        .returning(messages.c.tokens, messages.c.tool_calls, messages.c.seq),
        "remove_all_messages": delete(messages)
        .where(*inside(messages))
        .returning(messages.c.tokens, messages.c.tool_calls),
        "delete_branches": delete(branches).where(
            branches.c.conversation == bindparam("conversation"), branches.c.caller_id == bindparam("caller_id")
        ),
        "delete_session": delete(conversations).where(*same_session()),
        "stale_sessions": _stale_sessions(),
    }


def same_session() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for the parameters' conversation, without checking its user."""
    return (
        conversations.c.conversation == bindparam("conversation"),
        conversations.c.caller_id == bindparam("caller_id"),
    )


def same_user() -> ColumnElement[bool]:
    """Return the condition that the conversation belongs to this user."""
    return conversations.c.user_id.is_not_distinct_from(bindparam("user_id", type_=Text))


def session_row() -> ScalarSelect[Any]:
    """Select the key of the parameters' conversation if it belongs to this user."""
    return select(conversations.c.conversation).where(*same_session(), same_user()).scalar_subquery()


def in_session(table: Any) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows of the parameters' branch if it belongs to this user."""
    return (
        table.c.conversation == session_row(),
        table.c.branch == bindparam("branch"),
        table.c.caller_id == bindparam("caller_id"),
    )


def inside(table: Any) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows of the parameters' branch, whose owner was checked under the lock."""
    return (
        table.c.conversation == bindparam("conversation"),
        table.c.branch == bindparam("branch"),
        table.c.caller_id == bindparam("caller_id"),
    )


def select_messages() -> Any:
    """Select the columns that `stored_from_row` reads."""
    return select(*(messages.c[name] for name in MESSAGE_COLUMNS))


def one_of(column: ColumnElement[Any], name: str, kind: Any, dialect_name: str) -> ColumnElement[bool]:
    """Compare a column with one parameter of any number of values (JSON or an array), for a constant statement."""
    if dialect_name == "sqlite":
        values = func.json_each(bindparam(name)).table_valued("value")
        return column.in_(select(values.c.value))
    return column == any_(bindparam(name, type_=ARRAY(kind)))


def _one_of_ids(dialect_name: str) -> ColumnElement[bool]:
    return one_of(messages.c.message_id, "message_ids", Text, dialect_name)


def _with_others(dialect_name: str) -> CompoundSelect[Any]:
    """Select the places of messages, and of the answer to each question and the question before each answer."""
    near = messages.alias("near")
    these = (*in_session(near), one_of(near.c.seq, "seqs", BigInteger, dialect_name))
    other = case((near.c.role == "user", near.c.seq + 1), else_=near.c.seq - 1)
    return union(select(near.c.seq).where(*these), select(other).where(*these))


def _insert(table: Any, dialect_name: str) -> Any:
    return (sqlite.insert if dialect_name == "sqlite" else postgresql.insert)(table)


_NAMED = ("conversation", "caller_id", "session_id", "user_id", "account_id", "incarnation", "status")


def _open_session(dialect_name: str) -> Executable:
    """Create the conversation or lock it, in one statement."""
    names = (*_NAMED, "created_at", "updated_at")
    upsert = _insert(conversations, dialect_name).values({**{name: bindparam(name) for name in names}, "next_seq": 1})
    changed: Executable = upsert.on_conflict_do_update(
        index_elements=[conversations.c.conversation], set_={"updated_at": upsert.excluded.updated_at}
    )
    return changed


def _first_branch(now: Any) -> dict[str, Any]:
    named: dict[str, Any] = {name: bindparam(name) for name in ("conversation", "branch", "caller_id")}
    return {
        **named, "head_seq": 0, "message_count": 0, "total_tokens": 0, "tool_calls_count": 0, "created_at": now,
    }  # fmt: skip


def _append_first() -> Executable:
    """Append to a new session in one statement; do nothing if it exists."""
    now = bindparam("now", type_=BigInteger)
    new = (
        postgresql.insert(conversations)
        .values(
            **{name: bindparam(name) for name in _NAMED},
            next_seq=bindparam("more_seq", type_=BigInteger) + 1,
            last_message_at=bindparam("last_at"),
            created_at=now,
            updated_at=now,
        )
        .on_conflict_do_nothing(index_elements=[conversations.c.conversation])
    )
    locked = new.returning(conversations.c.next_seq).cte("locked")
    sums = {
        **_first_branch(now),
        "head_seq": bindparam("more_seq", type_=BigInteger),
        "message_count": bindparam("more_messages", type_=BigInteger),
        "total_tokens": bindparam("more_tokens", type_=BigInteger),
        "tool_calls_count": bindparam("more_tool_calls", type_=BigInteger),
    }
    columns = [cast(value, branches.c[name].type).label(name) for name, value in sums.items()]
    opened = insert(branches).from_select(list(sums), select(*columns).select_from(locked)).cte("opened")
    return _insert_given(locked).add_cte(opened)


def _append_new() -> Executable:
    """Assign places to new messages, store them and update the sums, in one statement."""
    locked = _update_session(same_user()).returning(conversations.c.next_seq).cte("locked")
    # An EXISTS is evaluated once, before the row is read, so that the conversation's lock is taken first.
    counted = _update_branch(head=select(locked.c.next_seq - 1)).where(exists(select(locked.c.next_seq))).cte("counted")
    return _insert_given(locked).add_cte(counted)


def _insert_given(locked: Any) -> Insert:
    """Insert rows given as one JSON text, each with its relative `place`, if there is a locked row."""
    fixed = ("conversation", "branch", "seq", "caller_id")
    names = [name for name in _WRITTEN if name not in fixed]
    given: Any = (
        func.json_to_recordset(cast(bindparam("rows", type_=Text), postgresql.JSON))
        .table_valued(column("place", BigInteger), *(column(name, messages.c[name].type) for name in names))
        .render_derived(name="given", with_types=True)
    )
    first = locked.c.next_seq - bindparam("more_seq", type_=BigInteger)
    place = (
        cast(bindparam("conversation"), LargeBinary),
        cast(bindparam("branch"), BigInteger),
        first + given.c.place,
        bindparam("caller_id", type_=Text),
    )
    rows = select(*place, *(given.c[name] for name in names)).select_from(locked.join(given, true()))
    return insert(messages).from_select([*fixed, *names], rows).returning(messages.c.seq)


def _update_session(*which: ColumnElement[bool]) -> Update:
    return (
        update(conversations)
        .where(*same_session(), *which)
        .values(
            next_seq=conversations.c.next_seq + bindparam("more_seq"),
            last_message_at=func.coalesce(bindparam("last_at", type_=BigInteger), conversations.c.last_message_at),
            epoch=conversations.c.epoch + bindparam("more_epoch"),
            updated_at=bindparam("now"),
        )
    )


def _update_branch(*leaving: ColumnElement[bool], head: Any = None) -> Update:
    """Update the branch's sums, subtracting those of messages about to be removed."""
    newest = select(conversations.c.next_seq - 1).where(*same_session()) if head is None else head

    def changed(name: str, more: str, what: ColumnElement[int]) -> ColumnElement[int]:
        total = branches.c[name] + bindparam(more)
        return total - select(func.coalesce(what, 0)).where(*leaving).scalar_subquery() if leaving else total

    return (
        update(branches)
        .where(*inside(branches))
        .values(
            head_seq=case(
                (bindparam("more_seq", type_=BigInteger) > 0, newest.scalar_subquery()), else_=branches.c.head_seq
            ),
            message_count=changed("message_count", "more_messages", func.count(messages.c.seq)),
            tool_calls_count=changed("tool_calls_count", "more_tool_calls", func.sum(messages.c.tool_calls)),
            total_tokens=changed("total_tokens", "more_tokens", func.sum(messages.c.tokens)),
        )
    )


def _oldest_turns() -> tuple[ColumnElement[bool], ...]:
    """Return conditions for the oldest whole turns with at least `excess` messages; system messages stay."""
    from_user = messages.c.role == "user"
    leaves = messages.c.role != "system"
    last_in_excess = (
        select(messages.c.seq)
        .where(*inside(messages), leaves)
        .order_by(messages.c.seq)
        .limit(1)
        .offset(bindparam("excess_less_one", type_=BigInteger))
        .scalar_subquery()
    )
    next_user = (
        select(func.min(messages.c.seq))
        .where(*inside(messages), from_user, messages.c.seq > last_in_excess)
        .scalar_subquery()
    )
    newest_user = select(func.max(messages.c.seq)).where(*inside(messages), from_user).scalar_subquery()
    return *inside(messages), messages.c.seq < func.coalesce(next_user, newest_user), leaves


def _stale_sessions() -> Executable:
    """Select all sessions, of any caller, except the most recently written; a new session counts as one of these."""
    return (
        select(conversations.c.session_id, conversations.c.caller_id, conversations.c.user_id)
        .where(conversations.c.conversation != bindparam("conversation"))
        .order_by(conversations.c.updated_at.desc(), conversations.c.conversation.desc())
        .offset(bindparam("kept_others", type_=BigInteger))
    )


def _records(*more: Any) -> Any:
    main = and_(
        branches.c.conversation == conversations.c.conversation,
        branches.c.branch == bindparam("branch"),
        branches.c.caller_id == conversations.c.caller_id,
    )
    return select(*CONVERSATION_COLUMNS, *more).select_from(conversations.join(branches, main))


def _conversations(*of_user: ColumnElement[bool]) -> Executable:
    place = conversations.c.created_at, conversations.c.conversation
    before = tuple_(bindparam("before_time", type_=BigInteger), bindparam("before_key", type_=LargeBinary))
    page: Executable = (
        _records(conversations.c.conversation)
        .where(conversations.c.caller_id == bindparam("caller_id"), *of_user, tuple_(*place) < before)
        .order_by(*(column.desc() for column in place))
        .limit(bindparam("row_limit", type_=BigInteger))
    )
    return page


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
