"""The SQL statements for long-term memories, compiled once per database."""

from collections.abc import Callable, Mapping, Sequence
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
    true,
    update,
)

from arc_common.caches import cached_text
from arc_common.memories import MemoryStatus
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import NOWHERE
from arc_common.protocols.search_index import Scope
from arc_common.stores.branch_paths import FOLLOW, Along, in_conversation, of_conversation, on_path_of
from arc_common.stores.codec import MESSAGE_COLUMNS, scope_key
from arc_common.stores.database.schema import (
    IS_PINNED,
    branches,
    conversations,
    messages,
    record_sources,
    records,
    scopes,
)
from arc_common.stores.statements.compiler import Statements, in_scope, insert_for, one_of, scopes_within
from arc_common.stores.statements.conversations import in_session, same_session
from arc_common.stores.statements.memory_rows import MEMORY, MEMORY_COLUMNS, PIN, REVISION

ERASED = (record_sources, records, scopes)
"""The tables from which erasing removes a scope's rows, in this order."""


@cached_text(1_024)
def pin_scopes(key: SessionKey) -> dict[str, Any]:
    """Return the parameters of `pins_of`: the scopes whose pins a session shows."""
    every = (
        ("own", Scope(key.caller_id, key.user_id, key.session_id)),
        ("user", Scope(key.caller_id, key.user_id)),
        ("caller", Scope(key.caller_id)),
    )
    return {"caller_id": key.caller_id, **{f"{name}_scope": scope_key(scope, MEMORY) for name, scope in every}}


Conditions = Callable[[Any], tuple[ColumnElement[bool], ...]]
"""Returns the conditions for the rows of a table that belong to the session and lie on its path."""


def is_seen(source: Any, on_path: Conditions) -> ColumnElement[bool]:
    """Return the condition that a source is on the session's path, or on a live branch of another session."""
    other = and_(source.c.conversation != bindparam("conversation"), source.c.live == 1)
    return or_(and_(*on_path(source)), other)


def is_shown(record: Any, on_path: Conditions) -> ColumnElement[bool]:
    """Return the condition that one of a record's sources is seen, or that it has none."""
    source = record_sources.alias("source")
    own = source.c.scope == record.c.scope, source.c.record_id == record.c.record_id
    return or_(~exists().where(*own), exists().where(*own, is_seen(source, on_path)))


def listed(dialect_name: str, *columns: Any) -> Any:
    """Return the columns as a list in JSON."""
    return (func.json_array if dialect_name == "sqlite" else func.json_build_array)(*columns)


def _as_text(dialect_name: str, row: Any) -> Any:
    return func.json_group_array(row) if dialect_name == "sqlite" else cast(func.json_agg(row), Text)


def pins_of(dialect_name: str, on_path: Conditions) -> Any:
    """Select a session's pins as one text, so that the statement for its state can have them as a column."""
    pinned = messages.alias("p")  # short: psycopg parses a statement of over 4,096 characters each time
    this = *on_path(pinned), pinned.c.message_id == records.c.name
    message = select(listed(dialect_name, *(pinned.c[name] for name in MESSAGE_COLUMNS)))
    said: Any = message.where(*this).limit(1).scalar_subquery()
    said = func.json(said) if dialect_name == "sqlite" else said  # a subquery's result is text there
    columns = [records.c[name] for name in ("record_id", "created_at", "name", "body")]
    row = listed(dialect_name, *columns, said, records.c.valid_until)
    return (
        select(_as_text(dialect_name, row))
        .where(
            records.c.scope.in_([bindparam(f"{name}_scope") for name in ("own", "user", "caller")]),
            records.c.caller_id == bindparam("caller_id"),
            records.c.status == MemoryStatus.ACTIVE.value,
            IS_PINNED,
            or_(records.c.name.is_(None), exists(select(literal_column("1")).where(*this))),
            is_shown(records, on_path),
        )
        .scalar_subquery()
    )


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
    superseded, after = (bindparam(name, type_=BigInteger) for name in ("superseded", "after"))
    along = Along(dialect_name)
    source, heir = record_sources.alias("source"), records.alias("heir")
    own = source.c.scope == records.c.scope, source.c.record_id == records.c.record_id
    key = func.hex(source.c.conversation) if dialect_name == "sqlite" else func.encode(source.c.conversation, "hex")
    seen = is_seen(source, along.inside)
    sources = _as_text(dialect_name, listed(dialect_name, key, source.c.message_id, seen))
    # most memories have no source that is hidden
    hidden = case((exists().where(*own, ~seen), select(sources).where(*own).scalar_subquery()), else_=None)
    named = one_of(records.c.record_id, "ids", Text, dialect_name)
    inherits = heir.c.scope == records.c.scope, heir.c.record_id == records.c.superseded_by, heir.c.kind == MEMORY
    is_held = or_(records.c.superseded_by.is_(None), exists().where(*inherits, ~is_shown(heir, along.inside)))
    shown = record_sources.alias("shown")
    until = records.c.valid_until
    is_valid = or_(until.is_(None), until > bindparam("now", type_=BigInteger))

    def newest(is_held: ColumnElement[bool], *is_shown: ColumnElement[bool]) -> Select[Any]:
        found = _memories(
            *is_shown,
            or_(status == "", records.c.status == status),
            or_(kind == "", records.c.type == kind),
            or_(superseded == 1, and_(is_held, is_valid)),
        )
        in_order = found.order_by(records.c.valid_from.desc(), records.c.record_id)
        return in_order.limit(bindparam("row_limit", type_=BigInteger))

    return {
        "newest": newest(records.c.superseded_by.is_(None)),
        "newest_seen": newest(is_held, is_shown(records, along.inside)).add_columns(hidden),
        "of_ids": _memories(named),
        "seen": _memories(named).add_columns(hidden),
        "of_scope": _memories(),
        "superseded_by": _memories(one_of(records.c.superseded_by, "ids", Text, dialect_name)),
        "points": select(shown.c.record_id, is_seen(shown, along.inside)).where(
            *in_scope(shown), one_of(shown.c.record_id, "ids", Text, dialect_name)
        ),
        "version": select(scopes.c.version, scopes.c.purged).where(*in_scope(scopes)),
        "changed": _memories(or_(records.c.version > after, scopes.c.purged > after))
        .select_from(scopes)
        .where(*in_scope(scopes)),
        "revisions": _memories(
            or_(bindparam("every", type_=BigInteger) == 1, named), kinds=(MEMORY, REVISION)
        ).order_by(records.c.record_id, records.c.revision),
    }


def _changing(dialect_name: str) -> Mapping[str, Executable]:
    these = in_scope(records)
    named = one_of(records.c.record_id, "ids", Text, dialect_name)
    key = ("scope", "caller_id", "session_id", "user_id", "kind")
    upsert = insert_for(dialect_name)
    new = upsert(scopes).values(
        {**{name: bindparam(name) for name in key}, "version": bindparam("first"), "purged": bindparam("first")}
    )
    row = upsert(records).values({name: bindparam(name) for name in _WRITTEN})
    known, new_access = records.c.last_accessed_at, row.excluded.last_accessed_at
    at = bindparam("at", type_=BigInteger)
    before = func.coalesce(records.c.last_accessed_at, at)
    empty = and_(*(~exists().where(table.c.scope == scopes.c.scope) for table in (records, record_sources)))
    this = in_scope(scopes)
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
        "drop_oldest": delete(records).where(
            *these,
            records.c.kind == literal_column(f"'{REVISION}'"),
            records.c.record_id == bindparam("record_id", type_=Text),
            records.c.revision <= bindparam("revision", type_=BigInteger),
        ),
        "write": row.on_conflict_do_update(
            index_elements=records.primary_key,
            set_={
                **{name: row.excluded[name] for name in _WRITTEN if name not in ("scope", "record_id", "caller_id")},
                "last_accessed_at": case((or_(new_access.is_(None), known > new_access), known), else_=new_access),
            },
        ),
        "remove": delete(records).where(*these, named),
        "drop_sources": delete(record_sources).where(
            *in_scope(record_sources), one_of(record_sources.c.record_id, "ids", Text, dialect_name)
        ),
        # a source that is not known yet, wherever its message is; one read on a path; and a point on it
        "write_source": _noted(
            dialect_name, _places(), ~exists().where(*(record_sources.c[name] == _SOURCE[name] for name in _SOURCE))
        ),
        "state_source": _noted(dialect_name, _places(on_path_of(messages, dialect_name))),
        "write_point": _noted(
            dialect_name,
            select(branches.c.branch, branches.c.head_seq.label("seq"), branches.c.live, conversations.c.next_branch)
            .select_from(conversations.join(branches, of_conversation()))
            .where(*same_session()),
        ),
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
    these = in_scope(records)
    there = exists().where(
        messages.c.conversation == record_sources.c.conversation,
        messages.c.branch == record_sources.c.branch,
        messages.c.seq == record_sources.c.seq,
    )
    mine = in_conversation(record_sources)
    mine_in_scope = *mine, record_sources.c.scope == bindparam("scope")
    along = Along(dialect_name)
    part, branch, last, fork = along.parts()
    seq, since = record_sources.c.seq, record_sources.c.since
    on_live = branch == record_sources.c.branch, or_(seq < last, and_(seq == last, since <= fork))
    live = case(
        (exists(select(branch).select_from(part).where(*on_live)), literal_column("1")), else_=literal_column("0")
    )
    upsert = insert_for(dialect_name)
    copied = record_sources.alias("copied")
    kept = [copied.c[name] for name in ("scope", "record_id", "conversation", "seq", "message_id", "caller_id")]
    return {
        "drop_pins": delete(records).where(*these, records.c.kind == PIN),
        "drop_pin_of": delete(records).where(
            *these, records.c.kind == PIN, records.c.name == bindparam("message_id", type_=Text)
        ),
        # sources: removed messages, and edited ones as the path shows them
        "forget_sources": delete(record_sources).where(
            *mine_in_scope,
            one_of(record_sources.c.message_id, "ids", Text, dialect_name),
            or_(~there, and_(*along.on_path(record_sources))),
        ),
        "drop_sources_of": delete(record_sources).where(*mine_in_scope),
        "drop_sources_after": delete(record_sources).where(
            *mine_in_scope,
            record_sources.c.branch == bindparam("which", type_=BigInteger),
            or_(
                seq > bindparam("kept", type_=BigInteger),
                and_(seq == bindparam("kept", type_=BigInteger), since > bindparam("fork", type_=BigInteger)),
            ),
        ),
        "sources_of": select(record_sources.c.record_id, record_sources.c.message_id).where(*mine_in_scope),
        "copy_sources": upsert(record_sources)
        .from_select(
            [*(one.name for one in kept), "branch", "live", "since"],
            select(*kept, bindparam("forked", type_=BigInteger), literal_column("1"), literal_column("0")).where(
                copied.c.conversation == bindparam("conversation"),
                *along.on_path(copied),
                copied.c.seq > bindparam("after", type_=BigInteger),
                copied.c.seq <= bindparam("before", type_=BigInteger),
                or_(copied.c.message_id == "", ~one_of(copied.c.seq, "seqs", BigInteger, dialect_name)),
            ),
        )
        .on_conflict_do_nothing(),
        "refresh_live": update(record_sources).where(*mine, record_sources.c.live != live).values(live=live),
        "lock_within_reach": _within_reach(),
        "lock_within": select(scopes.c.scope).where(*_within()).order_by(scopes.c.scope).with_for_update(),
        "drop_pins_named": delete(records).where(
            *these, records.c.kind == PIN, one_of(records.c.record_id, "ids", Text, dialect_name)
        ),
    }


def _within() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for the scopes of memories within the one named."""
    return scopes.c.kind == MEMORY, *scopes_within(scopes, "session_id", "user_id")


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


_SOURCE: Mapping[str, Any] = {
    name: bindparam(name, type_=record_sources.c[name].type)
    for name in ("scope", "record_id", "conversation", "message_id")
}


def _this_message() -> tuple[ColumnElement[bool], ...]:
    return (
        *in_conversation(messages),
        messages.c.message_id == bindparam("message_id", type_=Text),
    )


def _places(on_path: ColumnElement[bool] | None = None) -> Any:
    """Select the places of a message (on the branch's path) and whether they are live; else one for none.

    A place for none is on every path; if a branch is named, its message was there and is gone, and it is on none.
    """
    zero, one = literal_column("0", BigInteger), literal_column("1", BigInteger)
    none: tuple[Any, ...] = zero, zero, one, zero
    places = messages.c.branch, messages.c.seq
    if on_path is None:
        stored = select(*places, one.label("live"), zero.label("since")).where(*_this_message())
    else:
        reader = conversations.join(branches, and_(*same_session(), of_conversation()))
        found = reader.join(messages, and_(*_this_message(), on_path))
        stored = select(*places, branches.c.live, zero.label("since")).select_from(found)
        is_any = bindparam("wanted", type_=BigInteger) == literal_column(f"{FOLLOW}")
        none = (
            case((is_any, zero), else_=literal_column(f"{NOWHERE.branch}")),
            zero,
            case((is_any, one), else_=zero),
            zero,
        )
    return stored.union_all(select(*none).where(~stored.exists()))


def _noted(dialect_name: str, points: Any, *conditions: ColumnElement[bool]) -> Executable:
    """Store a record's source at each point: rows of branch, seq, live and since."""
    point = points.subquery("point")
    given = {**_SOURCE, "caller_id": bindparam("caller_id")}
    rows = select(*given.values(), *point.c).where(true(), *conditions)
    row = insert_for(dialect_name)(record_sources).from_select([*given, "branch", "seq", "live", "since"], rows)
    return row.on_conflict_do_update(index_elements=record_sources.primary_key, set_={"live": row.excluded.live})


def _memories(*conditions: ColumnElement[bool], kinds: Sequence[str] = (MEMORY,)) -> Select[Any]:
    """Select the columns that `memory_from_row` reads of some memories of the parameters' scope."""
    is_one = or_(*(records.c.kind == kind for kind in kinds))
    return select(*(records.c[name] for name in MEMORY_COLUMNS)).where(*in_scope(records), is_one, *conditions)
