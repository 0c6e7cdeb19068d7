"""The SQL statements for long-term memories, compiled once per database."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
    cast,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from arc_common.memories import Memory, MemorySource, MemoryStatus, MemoryType, Pin, Wording
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope
from arc_common.stores.codec import (
    MAIN_BRANCH,
    from_body,
    from_microseconds,
    row_key,
    scope_key,
    to_body,
    to_microseconds,
)
from arc_common.stores.conversations_statements import Statements, in_session, inside, one_of
from arc_common.stores.paths import Along
from arc_common.stores.schema import IS_PINNED, branches, messages, record_sources, records, scopes

MEMORY = "memory"
"""The kind of scopes and records that memories are."""

REVISION = "revision"
"""The kind of records that are earlier revisions of memories."""

PIN = "pin"
"""The kind of records that a session's own pins are, in its scope of memories."""

ERASED = (record_sources, records, scopes)
"""The tables from which erasing removes a scope's rows, in this order."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The effect on a scope of removing some sources."""

    removed: Mapping[str, str | None]
    changed: tuple[Memory, ...]
    reworded: frozenset[str] = frozenset()


def loss(
    memories: Iterable[Memory], key: SessionKey, message_ids: Collection[str] | None, *, is_own: bool = False
) -> Loss:
    """Return what a scope loses when a session, or some of its messages, are removed."""
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
    """Return the id of the memory that supersedes one after some are removed; `None` if it holds again."""
    seen: set[str] = set()
    while superseded_by is not None and superseded_by in removed and superseded_by not in seen:
        seen.add(superseded_by)
        superseded_by = removed[superseded_by]
    return None if superseded_by in seen else superseded_by


def memory_scope(scope: Scope) -> dict[str, Any]:
    """Return the parameters that name a scope."""
    return {
        "scope": scope_key(scope, MEMORY),
        "kind": MEMORY,
        "caller_id": scope.caller_id,
        "session_id": scope.session_id or "",
        "user_id": scope.user_id or "",
    }


def memory_body(memory: Memory) -> str:
    """Return the parts of a memory that no statement compares."""
    body: dict[str, Any] = {"text": memory.text, "sources": _sources_of(memory)}
    if memory.metadata:
        body["metadata"] = dict(memory.metadata)
    if memory.tags:
        body["tags"] = list(memory.tags)
    if memory.revised_at is not None:
        body["revised_at"] = to_microseconds(memory.revised_at)
    if memory.speaker is not None:
        body["speaker"] = memory.speaker
    return to_body(body, field="memory")


def memory_row(memory: Memory, body: str) -> dict[str, Any]:
    """Return the columns of a memory, without scope and version."""
    accessed = memory.last_accessed_at
    return {
        "record_id": memory.id,
        "revision": memory.revision,
        "kind": MEMORY,
        "type": memory.type.value,
        "importance": memory.importance,
        "status": memory.status.value,
        "superseded_by": memory.superseded_by,
        "created_at": to_microseconds(memory.created_at),
        "valid_from": to_microseconds(memory.valid_from),
        "valid_until": None if memory.valid_until is None else to_microseconds(memory.valid_until),
        "last_accessed_at": None if accessed is None else to_microseconds(accessed),
        "name": None,
        "pinned": int(memory.pinned),
        "body": body,
    }


def source_rows(memory: Memory, caller_id: str) -> list[dict[str, Any]]:
    """Return the rows of the messages that state a memory, without its scope."""
    return [
        {
            "record_id": memory.id,
            "revision": memory.revision,
            "conversation": row_key(caller_id, session_id),
            "branch": MAIN_BRANCH,
            "message_id": message_id,
        }
        for session_id, message_id in dict.fromkeys(memory.sources)
    ]


def pin_row(pin: Pin) -> dict[str, Any]:
    """Return the columns of a session's own pin, without scope and version."""
    created = to_microseconds(pin.created_at)
    said_at = None if pin.said_at is None else to_microseconds(pin.said_at)
    return {
        "record_id": pin.id,
        "revision": 1,
        "kind": PIN,
        "type": "",
        "importance": 1.0,
        "status": MemoryStatus.ACTIVE.value,
        "superseded_by": None,
        "name": pin.message_id,
        "created_at": created,
        "valid_from": created,
        "valid_until": None,
        "last_accessed_at": None,
        "pinned": 1,
        "body": pin_body(pin.text, said_by=pin.said_by, said_at=said_at),
    }


def pin_body(text: str, *, said_by: str | None, said_at: int | None) -> str:
    """Return the parts of a pin that no statement compares."""
    return to_body({"text": text, "said_by": said_by, "said_at": said_at}, field="pin")


def pins_from_text(text: str | None, now: datetime) -> tuple[Pin, ...]:
    """Read the column that `pins_of` selects; the oldest come first, and what is no longer valid is left out."""
    rows = from_body(text) if text else []
    valid = [row for *row, until in rows if until is None or until > to_microseconds(now)]
    return tuple(_pin_from(*row) for row in sorted(valid, key=lambda row: (row[2], row[0])))


def _pin_from(record_id: str, kind: str, created: int, message_id: str | None, body: str) -> Pin:
    said = from_body(body)
    if kind == MEMORY:
        return Pin(record_id, said["text"], from_microseconds(created), said_by=said.get("speaker"))
    said_at = None if said["said_at"] is None else from_microseconds(said["said_at"])
    return Pin(record_id, said["text"], from_microseconds(created), message_id, said["said_by"], said_at)


def pin_scopes(key: SessionKey) -> dict[str, Any]:
    """Return the parameters of `pins_of`: the scopes whose pins a session shows."""
    every = (
        ("own", Scope(key.caller_id, key.user_id, key.session_id)),
        ("user", Scope(key.caller_id, key.user_id)),
        ("caller", Scope(key.caller_id)),
    )
    return {"caller_id": key.caller_id, **{f"{name}_scope": scope_key(scope, MEMORY) for name, scope in every}}


def pins_of(dialect_name: str) -> Any:
    """Select what a session pins as one text, so that the statement for its state can have it as a column."""
    columns = [records.c[name] for name in ("record_id", "kind", "created_at", "name", "body", "valid_until")]
    row = (func.json_array if dialect_name == "sqlite" else func.json_build_array)(*columns)
    every = func.json_group_array(row) if dialect_name == "sqlite" else cast(func.json_agg(row), Text)
    return (
        select(every)
        .where(
            records.c.scope.in_([bindparam(f"{name}_scope") for name in ("own", "user", "caller")]),
            records.c.caller_id == bindparam("caller_id"),
            records.c.status == MemoryStatus.ACTIVE.value,
            IS_PINNED,
        )
        .scalar_subquery()
    )


def memory_from_row(row: Sequence[Any]) -> Memory:
    """Read a row of `MEMORY_COLUMNS`."""
    memory_id, body, created, valid, kind, importance, status, superseded_by, accessed, pinned, until, revision = row
    said = from_body(body)
    revised = said.get("revised_at")
    named, wordings = _sources_from(said["sources"])
    return Memory(
        id=memory_id,
        text=said["text"],
        created_at=from_microseconds(created),
        valid_from=from_microseconds(valid),
        type=MemoryType(kind),
        importance=importance,
        status=MemoryStatus(status),
        sources=named,
        superseded_by=superseded_by,
        last_accessed_at=None if accessed is None else from_microseconds(accessed),
        metadata=said.get("metadata", {}),
        wordings=wordings,
        pinned=bool(pinned),
        tags=tuple(said.get("tags", ())),
        valid_until=None if until is None else from_microseconds(until),
        revision=revision,
        revised_at=None if revised is None else from_microseconds(revised),
        speaker=said.get("speaker"),
    )


def _sources_of(memory: Memory) -> Sequence[Any]:
    """Return a memory's sources as pairs of ids, or its wordings as objects if there are several."""
    if not memory.wordings:
        return list(map(list, memory.sources))
    return [
        {"text": one.text, "said_by": one.said_by, "sources": list(map(list, one.sources))} for one in memory.wordings
    ]


def _sources_from(stored: Sequence[Any]) -> tuple[tuple[MemorySource, ...], tuple[Wording, ...]]:
    if not stored or not isinstance(stored[0], dict):
        return _pairs(stored), ()
    wordings = tuple(Wording(one["text"], _pairs(one["sources"]), one["said_by"]) for one in stored)
    return tuple(dict.fromkeys(source for one in wordings for source in one.sources)), wordings


def _pairs(stored: Sequence[Any]) -> tuple[MemorySource, ...]:
    return tuple((session_id, message_id) for session_id, message_id in stored)


MEMORY_COLUMNS = (
    "record_id", "body", "created_at", "valid_from", "type", "importance", "status", "superseded_by",
    "last_accessed_at", "pinned", "valid_until", "revision",
)  # fmt: skip
"""The columns that `memory_from_row` reads, in its order."""

_WRITTEN = (
    "scope", "record_id", "revision", "caller_id", "kind", "type", "status", "superseded_by", "importance", "version",
    "valid_from", "valid_until", "created_at", "last_accessed_at", "name", "pinned", "body",
)  # fmt: skip


@cache
def record_statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    these = select(scopes.c.scope).where(*_within())
    erase = {
        f"erase_{table.name}": delete(table).where(
            table.c.caller_id == bindparam("caller_id"), table.c.scope.in_(these)
        )
        for table in ERASED
    }
    every = {**_reading(dialect_name), **_changing(dialect_name), **_forgetting(dialect_name), **erase}
    return Statements(dialect_name, every)


def _reading(dialect_name: str) -> Mapping[str, Executable]:
    status, kind = (bindparam(name, type_=Text) for name in ("status", "type"))
    superseded = bindparam("superseded", type_=BigInteger)
    return {
        "version": select(scopes.c.version, scopes.c.purged).where(*_same_scope()),
        "changed": _of_scope(*MEMORY_COLUMNS).where(
            or_(
                records.c.version > bindparam("after", type_=BigInteger),
                scopes.c.purged > bindparam("after", type_=BigInteger),
            )
        ),
        "of_ids": _of_scope(*MEMORY_COLUMNS).where(one_of(records.c.record_id, "ids", Text, dialect_name)),
        "revisions": _of_scope(*MEMORY_COLUMNS, kinds=(MEMORY, REVISION))
        .where(or_(bindparam("every", type_=BigInteger) == 1, one_of(records.c.record_id, "ids", Text, dialect_name)))
        .order_by(records.c.record_id, records.c.revision),
        "newest": _of_scope(*MEMORY_COLUMNS)
        .where(
            or_(status == "", records.c.status == status),
            or_(kind == "", records.c.type == kind),
            or_(superseded == 1, and_(records.c.superseded_by.is_(None), _is_valid())),
        )
        .order_by(records.c.valid_from.desc(), records.c.record_id)
        .limit(bindparam("row_limit", type_=BigInteger)),
    }


def _is_valid() -> ColumnElement[bool]:
    until = records.c.valid_until
    return or_(until.is_(None), until > bindparam("now", type_=BigInteger))


def _changing(dialect_name: str) -> Mapping[str, Executable]:
    these = (records.c.scope == bindparam("scope"), records.c.caller_id == bindparam("caller_id"))
    named = one_of(records.c.record_id, "ids", Text, dialect_name)
    key = ("scope", "caller_id", "session_id", "user_id", "kind")
    upsert = sqlite.insert if dialect_name == "sqlite" else postgresql.insert
    new = upsert(scopes).values(
        {**{name: bindparam(name) for name in key}, "version": bindparam("first"), "purged": bindparam("first")}
    )
    row = upsert(records).values({name: bindparam(name) for name in _WRITTEN})
    known, new_access = records.c.last_accessed_at, row.excluded.last_accessed_at
    at = bindparam("at", type_=BigInteger)
    before = func.coalesce(records.c.last_accessed_at, at)
    empty = ~exists(select(records.c.record_id).where(records.c.scope == scopes.c.scope))
    this = (scopes.c.scope == bindparam("scope"), scopes.c.caller_id == bindparam("caller_id"))
    return {
        "open_scope": new.on_conflict_do_update(
            index_elements=[scopes.c.scope], set_={"version": scopes.c.version + 1}
        ).returning(scopes.c.version),
        "lock_scope": update(scopes).where(*this).values(version=scopes.c.version + 1).returning(scopes.c.version),
        "archive": update(records)
        .where(
            *these,
            records.c.record_id == bindparam("record_id", type_=Text),
            records.c.revision < bindparam("revision", type_=BigInteger),
        )
        .values(kind=literal_column(f"'{REVISION}'"), pinned=literal_column("0")),
        "drop_history": delete(records).where(*these, records.c.kind == REVISION, named),
        "write": row.on_conflict_do_update(
            index_elements=[records.c.scope, records.c.record_id, records.c.revision],
            set_={
                **{name: row.excluded[name] for name in _WRITTEN if name not in ("scope", "record_id", "caller_id")},
                "last_accessed_at": case((or_(new_access.is_(None), known > new_access), known), else_=new_access),
            },
        ),
        "remove": delete(records).where(*these, named).returning(records.c.record_id),
        "drop_sources": delete(record_sources).where(
            record_sources.c.scope == bindparam("scope"),
            record_sources.c.caller_id == bindparam("caller_id"),
            one_of(record_sources.c.record_id, "ids", Text, dialect_name),
        ),
        "write_source": upsert(record_sources)
        .values(
            **{name: bindparam(name) for name in ("scope", "record_id", "revision", "conversation", "branch")},
            caller_id=bindparam("caller_id"),
            seq=func.coalesce(_place_of_message(), literal_column("0")),
        )
        .on_conflict_do_nothing(),
        "purge": update(scopes).where(*this).values(purged=scopes.c.version),
        "drop_empty": delete(scopes).where(*this, empty),
        "touch": update(records)
        .where(
            *these,
            records.c.kind == literal_column(f"'{MEMORY}'"),
            records.c.record_id == bindparam("record_id", type_=Text),
        )
        .values(last_accessed_at=case((before > at, before), else_=at)),
        "progress": _progress(*in_session(branches)),
        "progress_along": _progress(
            branches.c.conversation == Along(dialect_name).session_row(), branches.c.branch == bindparam("branch")
        ),
    }


def _progress(*mine: ColumnElement[bool]) -> Executable:
    return (
        update(branches)
        .where(*mine, branches.c.remembered_seq == bindparam("after", type_=BigInteger))
        .values(remembered_seq=bindparam("to", type_=BigInteger))
        .returning(branches.c.branch)
    )


def _forgetting(dialect_name: str) -> Mapping[str, Executable]:
    columns = [records.c[name] for name in MEMORY_COLUMNS]
    these = (records.c.scope == bindparam("scope"), records.c.caller_id == bindparam("caller_id"))
    concerned = select(record_sources.c.record_id).where(
        record_sources.c.scope == bindparam("scope"),
        record_sources.c.caller_id == bindparam("caller_id"),
        record_sources.c.conversation == bindparam("conversation"),
    )
    pin_of_message = (*these, records.c.kind == PIN, records.c.name == bindparam("message_id", type_=Text))
    return {
        "drop_pins": delete(records).where(*these, records.c.kind == PIN),
        "drop_pin_of": delete(records).where(*pin_of_message),
        "revise_pin": update(records).where(*pin_of_message).values(body=bindparam("body")),
        "lock_within_reach": _within_reach(),
        "lock_within": select(scopes.c.scope).where(*_within()).order_by(scopes.c.scope).with_for_update(),
        "of_session": select(*columns).where(*these, records.c.record_id.in_(concerned)),
        "of_scope": select(*columns).where(*these, records.c.kind == MEMORY),
        "superseded_by": select(*columns).where(*these, one_of(records.c.superseded_by, "ids", Text, dialect_name)),
    }


def _within() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for the scopes of memories within the one named."""
    return (
        scopes.c.caller_id == bindparam("caller_id"),
        scopes.c.kind == MEMORY,
        *(
            or_(bindparam(name, type_=Text) == "", scopes.c[name] == bindparam(name, type_=Text))
            for name in ("session_id", "user_id")
        ),
    )


def _within_reach() -> Select[Any]:
    """Select and lock the scopes whose memories may come from a session: its own, its user's and its caller's."""
    return (
        select(scopes.c.scope, scopes.c.session_id, scopes.c.user_id)
        .where(
            scopes.c.caller_id == bindparam("caller_id"),
            scopes.c.kind == MEMORY,
            *(
                or_(scopes.c[name] == "", scopes.c[name] == bindparam(name, type_=Text))
                for name in ("session_id", "user_id")
            ),
        )
        .order_by(scopes.c.scope)
        .with_for_update()
    )


def _place_of_message() -> Any:
    return (
        select(messages.c.seq)
        .where(*inside(messages), messages.c.message_id == bindparam("message_id", type_=Text))
        .scalar_subquery()
    )


def _of_scope(*names: str, kinds: Sequence[str] = (MEMORY,)) -> Select[Any]:
    columns = [records.c[name] for name in names]
    return select(*columns).select_from(scopes).join(records, _belongs(kinds)).where(*_same_scope())


def _belongs(kinds: Sequence[str]) -> ColumnElement[bool]:
    of_scope = (records.c.scope == scopes.c.scope, records.c.caller_id == scopes.c.caller_id)
    return and_(*of_scope, or_(*(records.c.kind == kind for kind in kinds)))


def _same_scope() -> tuple[ColumnElement[bool], ...]:
    return scopes.c.scope == bindparam("scope"), scopes.c.caller_id == bindparam("caller_id")
