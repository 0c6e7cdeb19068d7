"""The SQL statements for long-term memories, compiled once per database. Pure.

All of them take named parameters and filter by `caller_id`. Those that read find the scope themselves; those that write
take `scope`, the row that is locked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from arc_common.stores.conversations_statements import Statement, compiler_for, one_of, same_session, same_user
from arc_common.stores.memories_plan import NEWEST_SESSIONS
from arc_common.stores.schema import memories, memory_scopes, memory_sources, sessions

__all__ = ["MEMORY_COLUMNS", "OUTLINE_COLUMNS", "MemoryStatements", "memory_statements_for"]

MEMORY_COLUMNS = (
    "memory_id", "text", "created_at", "valid_from", "type", "importance", "status", "superseded_by",
    "last_accessed_at", "sources", "metadata",
)  # fmt: skip
"""The columns that `memory_from_row` reads, in its order."""

OUTLINE_COLUMNS = (
    "memory_id", "text", "importance", "status", "superseded_by", "valid_from", "last_accessed_at",
)  # fmt: skip
"""The columns that `outline_from_row` reads, in its order."""


@dataclass(frozen=True, slots=True)
class MemoryStatements:
    """The statements, named by what they do."""

    # reading
    version: Statement
    outlines: Statement
    get: Statement
    newest: Statement
    count: Statement
    within_reach: Statement
    # changing
    open_scope: Statement
    lock_scope: Statement
    write: Statement
    remove: Statement
    drop_sources: Statement
    write_source: Statement
    purge: Statement
    drop_empty: Statement
    touch: Statement
    # forgetting
    lock_within_reach: Statement
    lock_within: Statement
    of_session: Statement
    of_scope: Statement
    superseded_by: Statement
    unless_resting_on: Statement
    erase: tuple[Statement, ...]
    # how far sessions were read
    read_to: Statement
    mark_read: Statement
    unread: Statement
    unread_of_user: Statement


@cache
def memory_statements_for(dialect_name: str) -> MemoryStatements:
    """The statements for `sqlite` or `postgresql` (through psycopg)."""
    compiled = compiler_for(dialect_name)
    every = {**_reading(dialect_name), **_changing(dialect_name), **_forgetting(dialect_name), **_marking()}
    erase = (
        delete(table).where(
            table.c.caller_id == bindparam("caller_id"), one_of(column, "scopes", BigInteger, dialect_name)
        )
        for table, column in (
            (memory_sources, memory_sources.c.scope),
            (memories, memories.c.scope),
            (memory_scopes, memory_scopes.c.id),
        )
    )
    return MemoryStatements(
        **{name: compiled(statement) for name, statement in every.items()}, erase=tuple(map(compiled, erase))
    )


def _reading(dialect_name: str) -> Mapping[str, Executable]:
    status, kind = (bindparam(name, type_=Text) for name in ("status", "type"))
    superseded = bindparam("superseded", type_=BigInteger)
    return {
        "version": select(memory_scopes.c.version, memory_scopes.c.purged).where(*_same_scope()),
        "outlines": _of_scope(*OUTLINE_COLUMNS).where(
            or_(
                memories.c.version > bindparam("after", type_=BigInteger),
                memory_scopes.c.purged > bindparam("after", type_=BigInteger),
            )
        ),
        "get": _of_scope(*MEMORY_COLUMNS).where(one_of(memories.c.memory_id, "ids", Text, dialect_name)),
        "newest": _of_scope(*MEMORY_COLUMNS)
        .where(
            or_(status == "", memories.c.status == status),
            or_(kind == "", memories.c.type == kind),
            or_(superseded == 1, memories.c.superseded_by.is_(None)),
        )
        .order_by(memories.c.valid_from.desc(), memories.c.memory_id)
        .limit(bindparam("row_limit", type_=BigInteger)),
        "count": select(func.count())
        .select_from(memory_scopes)
        .join(memories, _belongs())
        .where(*_same_scope(), memories.c.status == "ACTIVE", memories.c.superseded_by.is_(None)),
        "within_reach": _within_reach(),
    }


def _changing(dialect_name: str) -> Mapping[str, Executable]:
    these = (memories.c.scope == bindparam("scope"), memories.c.caller_id == bindparam("caller_id"))
    named = one_of(memories.c.memory_id, "ids", Text, dialect_name)
    key = ("caller_id", "session_id", "user_id")
    upsert = sqlite.insert if dialect_name == "sqlite" else postgresql.insert
    new = upsert(memory_scopes).values(
        {**{name: bindparam(name) for name in key}, "version": bindparam("first"), "purged": bindparam("first")}
    )
    row = upsert(memories).values({column.name: bindparam(column.name) for column in memories.columns})
    at = bindparam("at", type_=BigInteger)
    before = func.coalesce(memories.c.last_accessed_at, at)
    empty = ~exists(select(memories.c.memory_id).where(memories.c.scope == memory_scopes.c.id))
    this = (memory_scopes.c.id == bindparam("scope"), memory_scopes.c.caller_id == bindparam("caller_id"))
    return {
        "open_scope": new.on_conflict_do_update(
            index_elements=[memory_scopes.c[name] for name in key], set_={"version": memory_scopes.c.version + 1}
        ).returning(memory_scopes.c.id, memory_scopes.c.version),
        "lock_scope": update(memory_scopes)
        .where(*this)
        .values(version=memory_scopes.c.version + 1)
        .returning(memory_scopes.c.version),
        "write": row.on_conflict_do_update(
            index_elements=[memories.c.scope, memories.c.memory_id],
            set_={
                column.name: row.excluded[column.name]
                for column in memories.columns
                if column.name not in ("scope", "memory_id", "caller_id")
            },
        ),
        "remove": delete(memories).where(*these, named).returning(memories.c.memory_id),
        "drop_sources": delete(memory_sources).where(
            memory_sources.c.scope == bindparam("scope"),
            memory_sources.c.caller_id == bindparam("caller_id"),
            one_of(memory_sources.c.memory_id, "ids", Text, dialect_name),
        ),
        "write_source": insert(memory_sources).values(
            {column.name: bindparam(column.name) for column in memory_sources.columns}
        ),
        "purge": update(memory_scopes).where(*this).values(purged=memory_scopes.c.version),
        "drop_empty": delete(memory_scopes).where(*this, empty),
        "touch": update(memories)
        .where(
            named,
            memories.c.caller_id == bindparam("caller_id"),
            memories.c.scope.in_(select(memory_scopes.c.id).where(*_same_scope())),
        )
        .values(last_accessed_at=case((before > at, before), else_=at))
        .returning(memories.c.memory_id),
    }


def _forgetting(dialect_name: str) -> Mapping[str, Executable]:
    columns = [memories.c[name] for name in MEMORY_COLUMNS]
    these = (memories.c.scope == bindparam("scope"), memories.c.caller_id == bindparam("caller_id"))
    concerned = select(memory_sources.c.memory_id).where(
        memory_sources.c.scope == bindparam("scope"),
        memory_sources.c.caller_id == bindparam("caller_id"),
        memory_sources.c.session_id == bindparam("session_id"),
    )
    within = (
        or_(bindparam(name, type_=Text) == "", memory_scopes.c[name] == bindparam(name, type_=Text))
        for name in ("session_id", "user_id")
    )
    return {
        "lock_within_reach": _within_reach().with_for_update(),
        "lock_within": select(memory_scopes.c.id)
        .where(memory_scopes.c.caller_id == bindparam("caller_id"), *within)
        .order_by(memory_scopes.c.id)
        .with_for_update(),
        "of_session": select(*columns).where(*these, memories.c.memory_id.in_(concerned)),
        "of_scope": select(*columns).where(*these),
        "unless_resting_on": select(1 // case((_rests_on_session(), 0), else_=1)),
        "superseded_by": select(*columns).where(*these, one_of(memories.c.superseded_by, "ids", Text, dialect_name)),
    }


def _marking() -> Mapping[str, Executable]:
    after, to = (bindparam(name, type_=BigInteger) for name in ("after", "to"))
    return {
        "read_to": select(sessions.c.remembered).where(*same_session(), same_user()),
        "mark_read": update(sessions)
        .where(*same_session(), same_user(), sessions.c.remembered == after)
        .values(remembered=to)
        .returning(sessions.c.id),
        "unread": _unread(),
        "unread_of_user": _unread(sessions.c.user_id == bindparam("user_id", type_=Text)),
    }


def _unread(*of_user: ColumnElement[bool]) -> Select[Any]:
    names = ("session_id", "user_id", "next_seq", "remembered", "created_at", "id")
    newest = (
        select(*(sessions.c[name] for name in names))
        .where(sessions.c.caller_id == bindparam("caller_id"), *of_user)
        .order_by(sessions.c.created_at.desc(), sessions.c.id.desc())
        .limit(NEWEST_SESSIONS)
        .subquery()
    )
    return (
        select(newest.c.session_id, newest.c.user_id)
        .where(newest.c.next_seq - 1 > newest.c.remembered)
        .order_by(newest.c.created_at.desc(), newest.c.id.desc())
    )


def _within_reach() -> Select[Any]:
    """The scopes whose memories may come from a session: its own, its user's and its caller's."""
    return (
        select(memory_scopes.c.id, memory_scopes.c.session_id, memory_scopes.c.user_id)
        .where(
            memory_scopes.c.caller_id == bindparam("caller_id"),
            *(
                or_(memory_scopes.c[name] == "", memory_scopes.c[name] == bindparam(name, type_=Text))
                for name in ("session_id", "user_id")
            ),
        )
        .order_by(memory_scopes.c.id)
    )


def _rests_on_session() -> ColumnElement[bool]:
    reach = _within_reach().subquery()
    return exists(
        select(memory_sources.c.scope).where(
            memory_sources.c.scope == reach.c.id,
            memory_sources.c.caller_id == bindparam("caller_id"),
            memory_sources.c.session_id == bindparam("session_id"),
        )
    )


def _of_scope(*names: str) -> Select[Any]:
    return (
        select(*(memories.c[name] for name in names))
        .select_from(memory_scopes)
        .join(memories, _belongs())
        .where(*_same_scope())
    )


def _belongs() -> ColumnElement[bool]:
    return and_(memories.c.scope == memory_scopes.c.id, memories.c.caller_id == memory_scopes.c.caller_id)


def _same_scope() -> tuple[ColumnElement[bool], ...]:
    return tuple(memory_scopes.c[name] == bindparam(name) for name in ("caller_id", "session_id", "user_id"))
