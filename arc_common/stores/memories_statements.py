"""The SQL statements for long-term memories, compiled once per database. Pure.

All of them take named parameters and filter by `caller_id`. Those that read find the scope themselves; those that write
take `scope`, the row that is locked.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
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

from arc_common.exceptions import InvalidInputError
from arc_common.memories import Memory, MemoryOutline, MemorySource, MemoryStatus, MemoryType, Wording
from arc_common.messages import check_identifier
from arc_common.protocols import SessionKey
from arc_common.protocols.memories import MemoryChange
from arc_common.protocols.search_index import Scope
from arc_common.serialization import dumps, loads
from arc_common.stores.conversations_statements import (
    Statement,
    compiler_for,
    from_microseconds,
    in_session,
    one_of,
    to_microseconds,
)
from arc_common.stores.schema import branches, conversations, memories, memory_scopes, memory_sources

NEWEST_SESSIONS = 64
"""So many sessions of a scope are looked at for messages that nobody has read."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a scope loses with some sources.

    Args:
        removed: Memories that go, by id, each with what had taken its place.
        changed: Memories that stay, with the sources and the words that they have left.
        reworded: The ids of those of them that have another text.
    """

    removed: Mapping[str, str | None]
    changed: tuple[Memory, ...]
    reworded: frozenset[str] = frozenset()


def loss(
    memories: Iterable[Memory], key: SessionKey, message_ids: Collection[str] | None, *, is_own: bool = False
) -> Loss:
    """What happens to memories when a session, or some of its messages, are gone.

    Args:
        memories: Those of one scope that have a source in it; of its own scope, all.
        key: The session.
        message_ids: The messages; `None` for all of the session.
        is_own: Whether the scope is the session's own: with the session all of it goes.
    """
    removed: dict[str, str | None] = {}
    changed = []
    reworded = set()

    def is_gone(source: MemorySource) -> bool:
        return source[0] == key.session_id and (message_ids is None or source[1] in message_ids)

    for memory in memories:
        left = None if is_own and message_ids is None else memory.without(is_gone)
        if left is None:
            removed[memory.id] = memory.superseded_by
        elif left is not memory:
            changed.append(left)
            reworded |= {left.id} if left.text != memory.text else set()
    return Loss(removed, tuple(changed), frozenset(reworded))


def heir(superseded_by: str | None, removed: Mapping[str, str | None]) -> str | None:
    """What stands in a memory's place when some of those that did are removed; `None` if it holds again."""
    seen: set[str] = set()
    while superseded_by is not None and superseded_by in removed and superseded_by not in seen:
        seen.add(superseded_by)
        superseded_by = removed[superseded_by]
    return None if superseded_by in seen else superseded_by


def checked_change(change: MemoryChange) -> list[str | None]:
    """The metadata of the memories that are put, as text, if all of the change can be stored.

    Raises:
        InvalidInputError: It can't, or two memories have one id, or one is put and removed.
    """
    ids = [memory.id for memory in change.put]
    for memory_id in change.removed:
        check_identifier("memory.id", memory_id)
    twice = {memory_id for memory_id in ids if ids.count(memory_id) > 1} if len(set(ids)) < len(ids) else set()
    if both := twice | (set(ids) & set(change.removed)):
        raise InvalidInputError("memory.id", min(both), "an id that occurs once in a change")
    return [dumps(dict(memory.metadata), field="memory.metadata") if memory.metadata else None for memory in change.put]


def checked_memory_ids(ids: Sequence[str]) -> list[str]:
    """Each of the ids once, in their order.

    Raises:
        InvalidInputError: One could not be a memory's, or they are one text instead of several.
    """
    if isinstance(ids, str):
        raise InvalidInputError("ids", ids, "a sequence of ids")
    return list(dict.fromkeys(check_identifier("ids", memory_id) for memory_id in ids))


def memory_scope(scope: Scope) -> dict[str, str]:
    """The parameters that name a scope."""
    return {"caller_id": scope.caller_id, "session_id": scope.session_id or "", "user_id": scope.user_id or ""}


def memory_row(memory: Memory, metadata: str | None) -> dict[str, Any]:
    """The columns of a memory, apart from its place and version."""
    accessed = memory.last_accessed_at
    return {
        "memory_id": memory.id,
        "text": memory.text,
        "type": memory.type.value,
        "importance": memory.importance,
        "status": memory.status.value,
        "superseded_by": memory.superseded_by,
        "created_at": to_microseconds(memory.created_at),
        "valid_from": to_microseconds(memory.valid_from),
        "last_accessed_at": None if accessed is None else to_microseconds(accessed),
        "sources": json.dumps(_sources_of(memory), ensure_ascii=False, separators=(",", ":")),
        "metadata": metadata,
    }


def source_rows(memory: Memory) -> list[dict[str, str]]:
    """The sessions that a memory comes from, apart from its place."""
    sessions = dict.fromkeys(session_id for session_id, _ in memory.sources)
    return [{"memory_id": memory.id, "session_id": session_id} for session_id in sessions]


def memory_from_row(row: Sequence[Any]) -> Memory:
    """Read a row of `MEMORY_COLUMNS`."""
    memory_id, text, created, valid, kind, importance, status, superseded_by, accessed, sources, metadata = row
    named, wordings = _sources_from(json.loads(sources))
    return Memory(
        id=memory_id,
        text=text,
        created_at=from_microseconds(created),
        valid_from=from_microseconds(valid),
        type=MemoryType(kind),
        importance=importance,
        status=MemoryStatus(status),
        sources=named,
        superseded_by=superseded_by,
        last_accessed_at=None if accessed is None else from_microseconds(accessed),
        metadata=loads(metadata) if metadata else {},
        wordings=wordings,
    )


def _sources_of(memory: Memory) -> Sequence[Any]:
    """Pairs of ids; of a memory that was said in several ways, objects with the words of each."""
    if not memory.wordings:
        return memory.sources
    return [{"text": one.text, "said_by": one.said_by, "sources": one.sources} for one in memory.wordings]


def _sources_from(stored: Sequence[Any]) -> tuple[tuple[MemorySource, ...], tuple[Wording, ...]]:
    if not stored or not isinstance(stored[0], dict):
        return _pairs(stored), ()
    wordings = tuple(Wording(one["text"], _pairs(one["sources"]), one["said_by"]) for one in stored)
    return tuple(dict.fromkeys(source for one in wordings for source in one.sources)), wordings


def _pairs(stored: Sequence[Any]) -> tuple[MemorySource, ...]:
    return tuple((session_id, message_id) for session_id, message_id in stored)


def outline_from_row(row: Sequence[Any]) -> MemoryOutline:
    """Read a row of `OUTLINE_COLUMNS`."""
    memory_id, text, importance, status, superseded_by, valid, accessed = row
    return MemoryOutline(
        memory_id,
        text,
        importance,
        MemoryStatus(status),
        superseded_by,
        from_microseconds(valid),
        None if accessed is None else from_microseconds(accessed),
    )


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
        "superseded_by": select(*columns).where(*these, one_of(memories.c.superseded_by, "ids", Text, dialect_name)),
    }


def _marking() -> Mapping[str, Executable]:
    after, to = (bindparam(name, type_=BigInteger) for name in ("after", "to"))
    return {
        "read_to": select(branches.c.remembered_seq).where(*in_session(branches)),
        "mark_read": update(branches)
        .where(*in_session(branches), branches.c.remembered_seq == after)
        .values(remembered_seq=to)
        .returning(branches.c.branch),
        "unread": _unread(),
        "unread_of_user": _unread(conversations.c.user_id == bindparam("user_id", type_=Text)),
    }


def _unread(*of_user: ColumnElement[bool]) -> Select[Any]:
    names = ("conversation", "session_id", "user_id", "created_at")
    newest = (
        select(*(conversations.c[name] for name in names))
        .where(conversations.c.caller_id == bindparam("caller_id"), *of_user)
        .order_by(conversations.c.created_at.desc(), conversations.c.conversation.desc())
        .limit(NEWEST_SESSIONS)
        .subquery()
    )
    main = and_(branches.c.conversation == newest.c.conversation, branches.c.branch == bindparam("branch"))
    return (
        select(newest.c.session_id, newest.c.user_id)
        .select_from(newest.join(branches, main))
        .where(branches.c.head_seq > branches.c.remembered_seq)
        .order_by(newest.c.created_at.desc(), newest.c.conversation.desc())
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
