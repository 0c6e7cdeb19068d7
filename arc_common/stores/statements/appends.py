"""The statements that store new messages on PostgreSQL, of one session or of several, without looking them up first."""

from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Executable,
    Insert,
    Text,
    and_,
    column,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.dialects import postgresql

from arc_common.protocols.conversations import ConversationStatus
from arc_common.stores.branch_paths import is_active
from arc_common.stores.database.schema import branches, conversations, messages
from arc_common.stores.statements.compiler import Statements
from arc_common.stores.statements.conversations import SUMS, WRITTEN_COLUMNS, due

_WITH_KEYS = ("conversation", "caller_id", "session_id", "user_id", "account_id", "incarnation")
_MAIN: Any = literal_column("0")
_ONE: Any = literal_column("1")


@cache
def append_statements() -> Statements:
    """Return the statements for `postgresql` (through psycopg)."""
    every = {"append_new": _append_new(waits=True), "append_together": _append_new(waits=False)}
    return Statements("postgresql", every)


def _append_new(*, waits: bool) -> Executable:
    """Store new messages of one or several sessions, with their places and sums, in one statement; sessions may begin.

    - `given` has a JSON object for each session, which names it once. The statement returns the sessions it changed.
    - It leaves a session as it is that holds one of the ids, is not this user's, is not active or follows a fork, and
      without `waits` also one that another writer has locked, for which the other sessions would wait.
    - It locks sessions in the order of their keys, so that two such statements don't wait for each other.
    """
    given = _given_sessions()
    ids = func.unnest(given.c.message_ids).table_valued("id").render_derived("ids")
    here = _of_session(messages, given.c), messages.c.branch == _MAIN, messages.c.message_id == ids.c.id
    held = select(messages.c.seq).where(*here).correlate(given, ids).offset(_MAIN).lateral("held")
    session: dict[str, Any] = {
        **{name: given.c[name] for name in _WITH_KEYS},
        "status": literal_column(f"'{ConversationStatus.ACTIVE.value}'"),
        "next_seq": given.c.message_count + _ONE,
        "last_message_at": given.c.last_at,
        **dict.fromkeys(("created_at", "updated_at", "work_due_at"), given.c.now),
    }
    begun = select(*session.values()).where(~exists(select(held.c.seq).select_from(ids.join(held, true()))))
    if not waits:
        known = select(conversations.c.conversation).where(conversations.c.conversation == given.c.conversation)
        free = known.with_for_update(skip_locked=True, key_share=True)
        # not EXISTS, for which PostgreSQL may read all sessions
        begun = begun.where(or_(known.scalar_subquery().is_(None), free.scalar_subquery().is_not(None)))
    opened = postgresql.insert(conversations).from_select(list(session), begun.order_by(given.c.conversation))
    new = opened.excluded
    locked = (
        opened.on_conflict_do_update(
            index_elements=[conversations.c.conversation],
            set_={
                "next_seq": conversations.c.next_seq + new.next_seq - _ONE,
                **{name: func.greatest(conversations.c[name], new[name]) for name in ("last_message_at", "updated_at")},
                "work_due_at": due(new.work_due_at),
            },
            where=and_(
                conversations.c.caller_id == new.caller_id,
                conversations.c.user_id.is_not_distinct_from(new.user_id),
                is_active(),
                conversations.c.current_branch == _MAIN,
            ),
        )
        .returning(conversations.c.conversation, conversations.c.next_seq)
        .cte("locked")
    )
    both = locked.join(given, locked.c.conversation == given.c.conversation)
    written = _insert_given(both, given, locked).cte("written")
    return select(locked.c.conversation, locked.c.next_seq).add_cte(_count_given(both, given, locked), written)


def _of_session(table: Any, named: Any) -> ColumnElement[bool]:
    """Return the condition that a row belongs to the session that another table's columns name."""
    return and_(table.c.conversation == named.conversation, table.c.caller_id == named.caller_id)


def _given_sessions() -> Any:
    columns = [column(name, conversations.c[name].type) for name in _WITH_KEYS]
    columns += [column(name, BigInteger) for name in ("now", "last_at", *SUMS)]
    columns += [column("message_ids", ARRAY(Text)), column("rows", postgresql.JSON)]
    dialect: Any = postgresql.dialect  # untyped in SQLAlchemy
    typed = ", ".join(f"{one.name} {one.type.compile(dialect())}" for one in columns)
    # `select` would name each column twice, and psycopg parses a text of more than 4,096 characters with each execution
    given = text(f"SELECT * FROM json_to_recordset(CAST(:given AS JSON)) AS sessions({typed})")  # noqa: S608 - our own names
    return given.columns(*columns).cte("given")


def _count_given(both: Any, given: Any, locked: Any) -> Any:
    first: dict[str, Any] = {
        "conversation": given.c.conversation,
        "branch": _MAIN,
        "caller_id": given.c.caller_id,
        "head_seq": locked.c.next_seq - _ONE,
        "created_at": given.c.now,
        "last_message_at": given.c.last_at,
        **{name: given.c[name] for name in SUMS},
    }
    counted = postgresql.insert(branches).from_select(list(first), select(*first.values()).select_from(both))
    new = counted.excluded
    counted = counted.on_conflict_do_update(
        index_elements=branches.primary_key,
        set_={
            "head_seq": new.head_seq,
            "last_message_at": func.coalesce(new.last_message_at, branches.c.last_message_at),
            **{name: branches.c[name] + new[name] for name in SUMS},
        },
    )
    return counted.cte("counted")


def _insert_given(both: Any, given: Any, locked: Any) -> Insert:
    """Insert the messages of each locked session, each with its relative `place`."""
    fixed = ("conversation", "branch", "seq", "caller_id")
    names = [name for name in WRITTEN_COLUMNS if name not in fixed]
    columns = column("place", BigInteger), *(column(name, messages.c[name].type) for name in names)
    row: Any = func.json_to_recordset(given.c.rows).table_valued(*columns).render_derived(name="m", with_types=True)
    seq = locked.c.next_seq - given.c.message_count + row.c.place
    place = given.c.conversation, _MAIN, seq, given.c.caller_id
    rows = select(*place, *(row.c[name] for name in names)).select_from(both.join(row, true()))
    return insert(messages).from_select([*fixed, *names], rows)
