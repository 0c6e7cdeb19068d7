"""Every SQL statement of the conversation store, built with SQLAlchemy Core and compiled once per database."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    CompoundSelect,
    Executable,
    LargeBinary,
    ScalarSelect,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    true,
    tuple_,
    union,
    update,
)

from arc_common.protocols.conversations import ConversationStatus, EditReader
from arc_common.stores.branch_paths import LOCKED_COLUMNS, Along, in_conversation, is_active, of_conversation
from arc_common.stores.codec import CONVERSATION_COLUMNS, EVERYWHERE, MESSAGE_COLUMNS
from arc_common.stores.database.schema import branches, conversations, messages
from arc_common.stores.statements.compiler import Statements, insert_for, later, one_of

WRITTEN_COLUMNS = tuple(column.name for column in messages.columns)
"""The columns of a new message."""
REVISED_COLUMNS = ("revision", "role", "body", "tokens", "counter", "tool_calls")
"""The columns that a new revision writes; id, place and time stay."""


@cache
def statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    every = {**_statements(dialect_name), **_reading(dialect_name), **_branching(dialect_name)}
    return Statements(dialect_name, every)


@cache
def statements_along(dialect_name: str) -> Statements:
    """Return the statements that read messages along a path."""
    return Statements(dialect_name, _reading_along(dialect_name))


def _reading(dialect_name: str) -> dict[str, Executable]:
    mine = select_messages().where(*in_session(messages))
    between = mine.where(*(condition(messages) for condition in _BETWEEN)).limit(
        bindparam("row_limit", type_=BigInteger)
    )
    return {
        **_of_places(dialect_name),
        "newest": between.order_by(messages.c.seq.desc()),
        "oldest": between.order_by(messages.c.seq),
    }


def _of_places(dialect_name: str) -> dict[str, Executable]:
    """Return the statements that read messages by their places on the main branch."""
    if dialect_name == "sqlite":
        mine = select_messages().where(*in_session(messages))
        return {
            # unsorted: for ORDER BY seq, SQLite would walk the whole session in that order
            "of_ids": mine.where(_one_of_ids(dialect_name)),
            "of_seqs": mine.where(one_of(messages.c.seq, "seqs", BigInteger, dialect_name)),
            "of_seqs_beside": mine.where(messages.c.seq.in_(_with_others(dialect_name, in_session))),
        }
    given = func.unnest(bindparam("seqs", type_=ARRAY(BigInteger))).table_valued("seq").render_derived("given")
    near = _each_of(given, select(messages.c.seq, messages.c.role), "near")
    places = union(select(near.c.seq), select(_other(near))).subquery("places")
    ids = _given_ids()
    return {name: select(*found.c) for name, found in (
        ("of_ids", _each_of(ids, select_messages(), "found", messages.c.message_id == ids.c.id)),
        ("of_seqs", _each_of(given, select_messages(), "found")),
        ("of_seqs_beside", _each_of(places, select_messages(), "found")),
    )}  # fmt: skip


def _given_ids() -> Any:
    return func.unnest(bindparam("message_ids", type_=ARRAY(Text))).table_valued("id").render_derived("given")


def _each_of(places: Any, asked: Any, name: str, same: Any = None) -> Any:
    """Look each of some places, or ids, up on its own.

    PostgreSQL plans for a conversation of mean size: with a list of places it read all messages of a long one among
    many short ones, which took 160 ms of a turn with 100,000.
    """
    which = messages.c.seq == places.c.seq if same is None else same
    one = asked.where(*in_session(messages), which).offset(0).lateral("one")
    return select(*one.c).select_from(places.join(one, true())).subquery(name)


_BETWEEN: tuple[Callable[[Any], ColumnElement[bool]], ...] = (
    lambda table: table.c.seq < bindparam("before", type_=BigInteger),
    lambda table: table.c.seq > bindparam("after", type_=BigInteger),
)


def _reading_along(dialect_name: str) -> dict[str, Executable]:
    along = Along(dialect_name)
    mine = select_messages().where(*along.in_session(messages))
    return {
        "of_ids": mine.where(_one_of_ids(dialect_name)),
        "of_seqs": mine.where(one_of(messages.c.seq, "seqs", BigInteger, dialect_name)),
        "of_seqs_beside": mine.where(messages.c.seq.in_(_with_others(dialect_name, along.in_session))),
        "update_branch_dropping": _update_branch(*_oldest_turns(along.inside)),
        "drop_oldest": delete(messages).where(*_oldest_turns(along.inside)),
        "sums_after": select(
            func.count(messages.c.seq), func.sum(messages.c.tokens), func.sum(messages.c.tool_calls)
        ).where(*along.inside(messages), messages.c.seq > bindparam("after", type_=BigInteger)),
        "ids_at": along.ids_at(),
        "newest_of_thread": select(func.max(messages.c.seq)).where(
            *along.inside(messages),
            messages.c.seq > bindparam("after", type_=BigInteger),
            messages.c.channel == bindparam("thread"),
        ),
        "newest": along.messages(MESSAGE_COLUMNS, *_BETWEEN, newest=True),
        "oldest": along.messages(MESSAGE_COLUMNS, *_BETWEEN, newest=False),
    }


def _branching(dialect_name: str) -> dict[str, Executable]:
    """The statements that make, list and delete branches, and that change a conversation with several."""
    of_conversation_rows = in_conversation(branches)
    which = branches.c.branch == bindparam("which", type_=BigInteger)
    ids = _one_of_ids(dialect_name)
    after_kept = (
        messages.c.branch == bindparam("which", type_=BigInteger),
        messages.c.seq > bindparam("kept", type_=BigInteger),
    )
    mine = in_conversation(messages)
    new = (
        "conversation", "branch", "caller_id", "parent", "forked_seq", "path", "name", "head_seq", "message_count",
        "total_tokens", "tool_calls_count", "summarized_seq", "remembered_seq", "created_at", "last_message_at",
    )  # fmt: skip
    return {
        "branches": select(*(branches.c[name] for name in BRANCH_COLUMNS))
        .where(*of_conversation_rows)
        .order_by(branches.c.branch),
        "insert_branch": insert(branches).values({name: bindparam(name) for name in new}),
        "forked_conversation": update(conversations)
        .where(*same_session())
        .values(
            next_branch=bindparam("next_branch"),
            current_branch=bindparam("current"),
            epoch=conversations.c.epoch + bindparam("more_epoch"),
            unread_edits=_noted(conversations.c.unread_edits),
            updated_at=bindparam("now"),
            work_due_at=due(),
        ),
        "abandon_branch": update(branches)
        .where(*of_conversation_rows, which, branches.c.name.is_(None))
        .values(live=0),
        "retire_branch": update(branches).where(*of_conversation_rows, which).values(live=0, name=null()),
        "revive_branch": update(branches).where(*of_conversation_rows, which).values(live=1),
        "delete_branch": delete(branches).where(*of_conversation_rows, which),
        "delete_forks": delete(branches).where(*of_conversation_rows, branches.c.branch != bindparam("branch")),
        "drop_after": delete(messages).where(*mine, *after_kept),
        "remove_messages": delete(messages)
        .where(*mine, one_of(messages.c.branch, "lines", BigInteger, dialect_name), ids)
        .returning(messages.c.branch, messages.c.seq, messages.c.tokens, messages.c.tool_calls, messages.c.message_id),
        "count_branch": update(branches)
        .where(*of_conversation_rows, which)
        .values({name: branches.c[name] + bindparam(f"more_{name}") for name in SUMS}),
    }


SUMS = ("message_count", "total_tokens", "tool_calls_count")
"""The columns of a branch that add up over the messages on its path."""

BRANCH_COLUMNS = (
    "branch", "path", "parent", "forked_seq", "name", "live", *SUMS, "head_seq", "remembered_seq", "created_at",
    "last_message_at",
)  # fmt: skip
"""The columns that `branch_from_row` reads, in its order."""


def _statements(dialect_name: str) -> dict[str, Executable]:
    return {
        "look_up": _look_up(dialect_name),
        "open_session": _open_session(dialect_name),
        "open_branch": _open_branch(dialect_name),
        "lock_session": update(conversations)
        .where(*same_session())
        .values(updated_at=later("now", conversations.c.updated_at))
        .returning(conversations.c.user_id),
        "delete_softly": update(conversations)
        .where(*same_session())
        .values(status=ConversationStatus.DELETED.value, epoch=conversations.c.epoch + 1),
        "locked": select(*LOCKED_COLUMNS)
        .select_from(conversations.outerjoin(branches, of_conversation()))
        .where(*same_session()),
        "owner": select(conversations.c.user_id, conversations.c.status, branches.c.branch, branches.c.path)
        .select_from(conversations.outerjoin(branches, of_conversation()))
        .where(*same_session()),
        "conversation": _records().where(*same_session(), same_user()),
        "conversations": _conversations(dialect_name),
        "conversations_of_user": _conversations(
            dialect_name, conversations.c.user_id == bindparam("user_id", type_=Text)
        ),
        "insert_message": insert(messages).values({name: bindparam(name) for name in WRITTEN_COLUMNS}),
        "revise_message": update(messages)
        .where(*inside(messages), messages.c.seq == bindparam("at_seq"))
        .values({name: bindparam(name) for name in REVISED_COLUMNS}),
        "update_session": update(conversations)
        .where(*same_session())
        .values(
            **_session_changes(),
            epoch=conversations.c.epoch + bindparam("more_epoch"),
            **{column.name: _noted(column) for column in EDITS.values()},
        ),
        # apart, because SQLite writes the index whenever a statement may change it
        "make_due": update(conversations).where(*same_session(), _is_not_due()).values(work_due_at=bindparam("now")),
        **{column.name: select(column).where(*same_session(), same_user()) for column in EDITS.values()},
        **{f"settle_{column.name}": _settled(column) for column in EDITS.values()},
        "revised": select(messages.c.branch, messages.c.seq).where(*in_conversation(messages), messages.c.revision > 1),
        "update_branch": _update_branch(),
        "update_branch_dropping": _update_branch(*_oldest_turns(inside)),
        "drop_oldest": delete(messages).where(*_oldest_turns(inside)),
        "remove_all_messages": delete(messages).where(*in_conversation(messages)),
        "delete_branches": delete(branches).where(*in_conversation(branches)),
        # the rows whose messages and last change are no younger than a time, and of which one is locked
        "idle": select(*(conversations.c[name] for name in ("session_id", "caller_id", "user_id")), *_BY_AGE)
        .where(*_idle(), _BY_AGE[0] <= bindparam("since", type_=BigInteger))  # for the index; the rest implies it
        .where(tuple_(*_BY_AGE) > tuple_(bindparam("after_time", type_=BigInteger), bindparam("after_key")))
        .order_by(*_BY_AGE)
        .limit(bindparam("row_limit", type_=BigInteger)),
        "lock_idle": update(conversations)
        .where(*same_session(), *_idle())
        .values(epoch=conversations.c.epoch)
        .returning(conversations.c.user_id),
        "delete_session": delete(conversations).where(*same_session()),
        "stale_sessions": _stale_sessions(),
    }


# An index by the newest message would be written with each append.
_BY_AGE = conversations.c.created_at, conversations.c.conversation


def _idle() -> tuple[ColumnElement[bool], ...]:
    return (
        conversations.c.status == bindparam("status"),
        conversations.c.last_message_at <= bindparam("since", type_=BigInteger),
        conversations.c.updated_at <= bindparam("since", type_=BigInteger),
    )


def same_session() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for the parameters' conversation, without checking its user."""
    return in_conversation(conversations)


def same_user() -> ColumnElement[bool]:
    """Return the condition that the conversation belongs to this user."""
    return conversations.c.user_id.is_not_distinct_from(bindparam("user_id", type_=Text))


def session_row() -> ScalarSelect[Any]:
    """Select the key of the parameters' conversation if it belongs to this user and is on this branch."""
    return (
        select(conversations.c.conversation)
        .where(*same_session(), same_user(), is_active(), conversations.c.current_branch == bindparam("branch"))
        .scalar_subquery()
    )


def in_session(table: Any) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows of the parameters' branch if it belongs to this user."""
    return (
        table.c.conversation == session_row(),
        table.c.branch == bindparam("branch"),
        table.c.caller_id == bindparam("caller_id"),
    )


def inside(table: Any) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows of the parameters' branch, whose owner was checked under the lock."""
    return *in_conversation(table), table.c.branch == bindparam("branch")


def select_messages() -> Any:
    """Select the columns that `stored_from_row` reads."""
    return select(*(messages.c[name] for name in MESSAGE_COLUMNS))


def _one_of_ids(dialect_name: str) -> ColumnElement[bool]:
    return one_of(messages.c.message_id, "message_ids", Text, dialect_name)


def _with_others(dialect_name: str, mine: Callable[[Any], tuple[ColumnElement[bool], ...]]) -> CompoundSelect[Any]:
    """Select the places of messages, and of the answer to each question and the question before each answer."""
    near = messages.alias("near")
    these = (*mine(near), one_of(near.c.seq, "seqs", BigInteger, dialect_name))
    return union(select(near.c.seq).where(*these), select(_other(near)).where(*these))


def _other(near: Any) -> ColumnElement[int]:
    return case((near.c.role == "user", near.c.seq + 1), else_=near.c.seq - 1)


_NAMED = ("conversation", "caller_id", "session_id", "user_id", "account_id", "incarnation", "status")


def _open_session(dialect_name: str) -> Executable:
    """Create the conversation or lock it, in one statement."""
    names = (*_NAMED, "created_at", "updated_at")
    upsert = insert_for(dialect_name)(conversations).values(
        {**{name: bindparam(name) for name in names}, "next_seq": 1}
    )
    return upsert.on_conflict_do_update(
        index_elements=[conversations.c.conversation],
        set_={"updated_at": later("updated_at", conversations.c.updated_at)},
    )


def _open_branch(dialect_name: str) -> Executable:
    """Create the main branch, unless the conversation has branches already."""
    first = _first_branch(bindparam("created_at", type_=BigInteger))
    new = _row(branches, first).where(
        exists(select(conversations.c.conversation).where(*same_session(), _NEVER_FORKED))
    )
    opened = insert_for(dialect_name)(branches).from_select(list(first), new)
    return opened.on_conflict_do_nothing(index_elements=branches.primary_key)


_NEVER_FORKED = conversations.c.next_branch == 1


def _first_branch(now: Any) -> dict[str, Any]:
    named: dict[str, Any] = {name: bindparam(name) for name in ("conversation", "branch", "caller_id")}
    return {
        **named, "head_seq": 0, "message_count": 0, "total_tokens": 0, "tool_calls_count": 0, "created_at": now,
    }  # fmt: skip


def _row(table: Any, values: Mapping[str, Any]) -> Any:
    """Select one row of values, with their columns' types."""
    return select(*(cast(value, table.c[name].type).label(name) for name, value in values.items()))


EDITS: Mapping[EditReader, Column[Any]] = {"index": conversations.c.edits, "memories": conversations.c.unread_edits}
"""The columns that note edits, by the reader of the edited messages; each is also the name of a parameter."""
_MOST_NOTED = 16_000
"""Characters that note edits; where nothing is indexed, or no memories are kept, nobody takes them away.

Beyond them, a note says that any message may have been edited.
"""


def _noted(column: Column[Any]) -> ColumnElement[str]:
    """Add an edit's places, after its epoch: so that what somebody has seen and settles is never a later edit's."""
    given: Any = bindparam(column.name, value="", type_=Text)
    before, epoch = func.coalesce(column, ""), cast(conversations.c.epoch, Text)
    added = case((func.length(before) < _MOST_NOTED, before + "|" + epoch + given), else_="|" + epoch + EVERYWHERE)
    return case((given != "", added), else_=column)


def _settled(column: Column[Any]) -> Update:
    """Take away the first notes of edits, if they are still there."""
    done: Any = bindparam("done", type_=Text)
    rest = func.nullif(func.substr(column, func.length(done) + 1), "")
    is_there = func.substr(func.coalesce(column, ""), 1, func.length(done)) == done
    return update(conversations).where(*same_session(), same_user(), is_there).values({column.name: rest})


def _session_changes() -> dict[str, Any]:
    """Return the changes of an append to a session's row."""
    return {
        "next_seq": conversations.c.next_seq + bindparam("more_main", type_=BigInteger),
        "last_message_at": later("last_at", conversations.c.last_message_at),
        "updated_at": later("now", conversations.c.updated_at),
    }


_NOW: Any = bindparam("now", type_=BigInteger)


def due(now: Any = _NOW) -> ColumnElement[int]:
    """Return the value that makes background work due now."""
    return case((_is_not_due(now), now), else_=conversations.c.work_due_at)


def _is_not_due(now: Any = _NOW) -> ColumnElement[bool]:
    """Return the condition that no background work is due; a later time is a retry's, or a worker's that may die."""
    due = conversations.c.work_due_at
    return or_(due.is_(None), due > now, due == conversations.c.lease_until)


def _update_branch(*leaving: ColumnElement[bool]) -> Update:
    """Update the branch's sums, subtracting those of messages about to be removed."""

    def changed(name: str, more: str, what: ColumnElement[int]) -> ColumnElement[int]:
        total = branches.c[name] + bindparam(more)
        return total - select(func.coalesce(what, 0)).where(*leaving).scalar_subquery() if leaving else total

    return (
        update(branches)
        .where(*inside(branches))
        .values(
            head_seq=branches.c.head_seq + bindparam("more_seq", type_=BigInteger),
            last_message_at=func.coalesce(bindparam("last_at", type_=BigInteger), branches.c.last_message_at),
            message_count=changed("message_count", "more_messages", func.count(messages.c.seq)),
            tool_calls_count=changed("tool_calls_count", "more_tool_calls", func.sum(messages.c.tool_calls)),
            total_tokens=changed("total_tokens", "more_tokens", func.sum(messages.c.tokens)),
        )
    )


def _oldest_turns(shown: Callable[[Any], tuple[ColumnElement[bool], ...]]) -> tuple[ColumnElement[bool], ...]:
    """Return conditions for the oldest whole turns up to `leaves_to` that have `excess` messages, without system's."""
    from_user = messages.c.role == "user"
    leaves = messages.c.role != "system"
    last_in_excess = (
        select(messages.c.seq)
        .where(*shown(messages), leaves)
        .order_by(messages.c.seq)
        .limit(1)
        .offset(bindparam("excess_less_one", type_=BigInteger))
        .scalar_subquery()
    )
    next_user = (
        select(func.min(messages.c.seq))
        .where(*shown(messages), from_user, messages.c.seq > last_in_excess)
        .scalar_subquery()
    )
    newest_user = select(func.max(messages.c.seq)).where(*shown(messages), from_user)
    # the turn right after the messages that may leave, or around their end
    first_kept = newest_user.where(messages.c.seq <= bindparam("leaves_to", type_=BigInteger) + 1).scalar_subquery()
    last = func.coalesce(next_user, newest_user.scalar_subquery())
    return *shown(messages), messages.c.seq < last, messages.c.seq < first_kept, leaves


def _stale_sessions() -> Executable:
    """Select all sessions, of any caller, except the most recently written; a new session counts as one of these."""
    return (
        select(conversations.c.session_id, conversations.c.caller_id, conversations.c.user_id)
        .where(conversations.c.conversation != bindparam("conversation"))
        .order_by(conversations.c.updated_at.desc(), conversations.c.conversation.desc())
        .offset(bindparam("kept_others", type_=BigInteger))
    )


def _records(*more: Any) -> Select[Any]:
    return select(*CONVERSATION_COLUMNS, *more).select_from(conversations.join(branches, of_conversation()))


def _bounds(name: str) -> tuple[Any, Any]:
    return bindparam(f"{name}_from", type_=BigInteger), bindparam(f"{name}_to", type_=BigInteger)


def _conversations(dialect_name: str, *of_user: ColumnElement[bool]) -> Executable:
    place = conversations.c.created_at, conversations.c.conversation
    before = tuple_(bindparam("before_time", type_=BigInteger), bindparam("before_key", type_=LargeBinary))
    return (
        _records(conversations.c.conversation)
        .where(conversations.c.caller_id == bindparam("caller_id"), *of_user, tuple_(*place) < before)
        .where(
            one_of(conversations.c.status, "statuses", Text, dialect_name),
            func.coalesce(conversations.c.last_message_at, conversations.c.created_at).between(*_bounds("active")),
            conversations.c.created_at.between(*_bounds("created")),
            branches.c.message_count.between(*_bounds("messages")),
        )
        .order_by(*(column.desc() for column in place))
        .limit(bindparam("row_limit", type_=BigInteger))
    )


def _look_up(dialect_name: str) -> Executable:
    theirs = (
        messages.c.conversation == branches.c.conversation,
        messages.c.branch == branches.c.branch,
        messages.c.caller_id == branches.c.caller_id,
    )
    found = conversations.outerjoin(branches, of_conversation())
    if dialect_name == "sqlite":
        held: Any = messages
        which = and_(*theirs, one_of(messages.c.message_id, "message_ids", Text, dialect_name))
        found = found.outerjoin(messages, which)
    else:  # one look-up for each id: see `_each_of`
        ids = _given_ids()
        held = select_messages().where(*theirs, messages.c.message_id == ids.c.id).offset(0).lateral("held")
        found = found.join(ids, true()).outerjoin(held, true())
    columns = (*LOCKED_COLUMNS, *(held.c[name] for name in MESSAGE_COLUMNS))
    return select(*columns).select_from(found).where(*same_session())
