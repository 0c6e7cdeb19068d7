"""The SQL statements of the index that are alike on SQLite and PostgreSQL, compiled once per database."""

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
    TextClause,
    and_,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    or_,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from arc_common.stores.conversations_statements import Statement, compiler_for, one_of
from arc_common.stores.drivers import Call
from arc_common.stores.schema import WORDS, IndexTables, index_tables

SCOPE_COLUMNS = (
    "id", "salt", "version", "detached", "entries", "total_length", "vectors", "embedder", "dimension",
)  # fmt: skip
"""The columns of a `Held`, in its order."""


@dataclass(frozen=True, slots=True)
class IndexStatements:
    """The statements, named by what they do."""

    # reading
    scope: Statement
    fetch: Statement
    vectors: Statement
    scan: Statement
    scan_unembedded: Statement
    # changing
    open_scope: Statement
    lock_scope: Statement
    reserve: Statement
    known: Statement
    known_chunks: Statement
    texts: Statement
    write_entry: Statement
    write_text: Statement
    write_vector: Statement
    write_value: Statement
    touch: Statement
    drop_entries: Statement
    drop_texts: Statement
    drop_vectors: Statement
    drop_values: Statement
    drop_all_vectors: Statement
    save_scope: Statement
    # erasing
    lock_within: Statement
    erase: tuple[Statement, ...]
    erase_session: tuple[Statement, ...]


@cache
def index_statements_for(dialect_name: str) -> IndexStatements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    compiled = compiler_for(dialect_name)
    tables = index_tables(dialect_name)
    every = {**_reading(tables, dialect_name), **_changing(tables, dialect_name)}
    scopes = tables.scopes
    these = one_of(scopes.c.id, "scopes", BigInteger, dialect_name), scopes.c.caller_id == bindparam("caller_id")
    of_session = scopes.c.caller_id == bindparam("caller_id"), scopes.c.session_id == bindparam("session_id")
    return IndexStatements(
        **{name: compiled(statement) for name, statement in every.items()},
        erase=tuple(map(compiled, _erasing(tables, these, dialect_name))),
        erase_session=tuple(map(compiled, _erasing(tables, of_session, dialect_name))),
    )


def session_index_calls(dialect_name: str, *, caller_id: str, session_id: str) -> list[Call]:
    """Return the calls that remove a session's entries from the index."""
    place = {"caller_id": caller_id, "session_id": session_id}
    return [(statement, place) for statement in index_statements_for(dialect_name).erase_session]


def whole_entries(tables: IndexTables, *conditions: ColumnElement[bool] | TextClause) -> Select[Any]:
    """Select id, text, source, metadata, terms, vector and embedder of a scope's entries, in order of id."""
    entries, texts, vectors, scopes = tables.entries, tables.texts, tables.vectors, tables.scopes
    vector = cast(vectors.c.vector, Text) if tables.terms is not None else vectors.c.vector
    return (
        _shown(tables, texts.c.terms, vector, scopes.c.embedder)
        .outerjoin(vectors, vectors.c.id == entries.c.id)
        .where(entries.c.entry_id > bindparam("after", type_=entries.c.entry_id.type), *conditions)
        .order_by(entries.c.entry_id)
        .limit(bindparam("row_limit", type_=BigInteger))
    )


def _shown(tables: IndexTables, *more: ColumnElement[Any]) -> Select[Any]:
    entries, texts, scopes = tables.entries, tables.texts, tables.scopes
    return (
        select(entries.c.entry_id, texts.c.text, texts.c.source, entries.c.metadata, *more)
        .select_from(scopes)
        .join(entries, _belongs(tables))
        .join(texts, and_(texts.c.scope == scopes.c.id, texts.c.id == entries.c.id))
        .where(*_same_scope(tables))
    )


def _reading(tables: IndexTables, dialect_name: str) -> Mapping[str, Executable]:
    entries, vectors, scopes = tables.entries, tables.vectors, tables.scopes
    named = one_of(entries.c.entry_id, "ids", Text, dialect_name)
    packed = func.vector_send(vectors.c.vector) if tables.terms is not None else vectors.c.vector
    return {
        "scope": select(*(scopes.c[name] for name in SCOPE_COLUMNS)).where(*_same_scope(tables)),
        "fetch": _shown(tables).where(named),
        "vectors": select(entries.c.entry_id, packed)
        .select_from(scopes)
        .join(entries, _belongs(tables))
        .join(vectors, vectors.c.id == entries.c.id)
        .where(*_same_scope(tables), named),
        "scan": whole_entries(tables),
        "scan_unembedded": whole_entries(tables, vectors.c.id.is_(None)),
    }


def _changing(tables: IndexTables, dialect_name: str) -> Mapping[str, Executable]:
    entries, texts, vectors, scopes = tables.entries, tables.texts, tables.vectors, tables.scopes
    key = ("caller_id", "session_id", "user_id", "kind")
    held = [scopes.c[name] for name in SCOPE_COLUMNS]
    these = (entries.c.scope == bindparam("scope"), entries.c.caller_id == bindparam("caller_id"))
    named = one_of(entries.c.entry_id, "ids", Text, dialect_name)
    more = () if tables.terms is None else (entries.c.tokens, func.cardinality(entries.c.frequencies))
    known = (
        select(entries.c.entry_id, entries.c.id, entries.c.length, vectors.c.id.is_not(None), *more)
        .select_from(scopes)
        .join(entries, _belongs(tables))
        .outerjoin(vectors, vectors.c.id == entries.c.id)
        .where(*_same_scope(tables))
    )
    new: dict[str, Any] = {name: bindparam(name) for name in (*key, "salt")}
    zero = {"version": 1, "detached": 1, "entries": 0, "total_length": 0, "vectors": 0}
    upsert = (sqlite.insert if dialect_name == "sqlite" else postgresql.insert)(scopes).values({**new, **zero})
    return {
        "open_scope": upsert.on_conflict_do_update(
            index_elements=[scopes.c[name] for name in key], set_={"version": scopes.c.version + 1}
        ).returning(*held),
        "lock_scope": update(scopes).where(*_same_scope(tables)).values(version=scopes.c.version + 1).returning(*held),
        "reserve": text(_RESERVE[dialect_name]),
        "known": known.where(named),
        "known_chunks": known.add_columns(entries.c.metadata).where(
            entries.c.entry_id > bindparam("first", type_=entries.c.entry_id.type),
            entries.c.entry_id < bindparam("behind", type_=entries.c.entry_id.type),
        ),
        "texts": select(entries.c.entry_id, texts.c.text, entries.c.metadata)
        .select_from(scopes)
        .join(entries, _belongs(tables))
        .join(texts, and_(texts.c.scope == entries.c.scope, texts.c.id == entries.c.id))
        .where(*_same_scope(tables), named),
        "write_entry": _upsert(entries, "id", dialect_name),
        "write_text": _upsert(texts, ("scope", "id"), dialect_name),
        "write_vector": _upsert(vectors, "id", dialect_name),
        "write_value": insert(tables.values),
        "touch": update(entries)
        .where(*these, one_of(entries.c.id, "rows", BigInteger, dialect_name))
        .values(version=bindparam("new_version")),
        "drop_entries": _drop(entries, dialect_name),
        "drop_texts": _drop(texts, dialect_name),
        "drop_vectors": _drop(vectors, dialect_name),
        "drop_values": _drop(tables.values, dialect_name),
        "drop_all_vectors": delete(vectors).where(
            vectors.c.scope == bindparam("scope"), vectors.c.caller_id == bindparam("caller_id")
        ),
        "save_scope": update(scopes)
        .where(scopes.c.id == bindparam("scope"), scopes.c.caller_id == bindparam("caller_id"))
        .values({name: bindparam(name) for name in SCOPE_COLUMNS if name not in ("id", "salt")}),
        "lock_within": select(scopes.c.id, scopes.c.entries)
        .where(
            scopes.c.caller_id == bindparam("caller_id"),
            *(
                or_(bindparam(name, type_=Text) == "", scopes.c[name] == bindparam(name, type_=Text))
                for name in ("session_id", "user_id", "kind")
            ),
        )
        .order_by(scopes.c.id)
        .with_for_update(),
    }


_WORDS = table(WORDS, column("rowid"), column("tokens"))

_RESERVE = {
    "sqlite": "SELECT seq FROM sqlite_sequence WHERE name = 'arc_index_entries' AND :count > 0",
    "postgresql": "SELECT nextval(pg_get_serial_sequence('arc_index_entries', 'id')) FROM generate_series(1, :count)",
}
"""On SQLite, the last number used; on PostgreSQL, new ones."""


def _same_scope(tables: IndexTables) -> tuple[ColumnElement[bool], ...]:
    scopes = tables.scopes
    return tuple(scopes.c[name] == bindparam(name) for name in ("caller_id", "session_id", "user_id", "kind"))


def _belongs(tables: IndexTables) -> ColumnElement[bool]:
    entries, scopes = tables.entries, tables.scopes
    return and_(entries.c.scope == scopes.c.id, entries.c.caller_id == scopes.c.caller_id)


def _upsert(target: Any, key: str | tuple[str, ...], dialect_name: str) -> Executable:
    names = (key,) if isinstance(key, str) else key
    upsert = (sqlite.insert if dialect_name == "sqlite" else postgresql.insert)(target).values(
        {each.name: bindparam(each.name) for each in target.columns}
    )
    return upsert.on_conflict_do_update(
        index_elements=[target.c[name] for name in names],
        set_={each.name: upsert.excluded[each.name] for each in target.columns if each.name not in names},
    )


def _drop(target: Any, dialect_name: str) -> Executable:
    return delete(target).where(
        target.c.scope == bindparam("scope"),
        target.c.caller_id == bindparam("caller_id"),
        one_of(target.c.id, "rows", BigInteger, dialect_name),
    )


def _erasing(tables: IndexTables, which: tuple[ColumnElement[bool], ...], dialect_name: str) -> list[Executable]:
    """Remove scopes with all that they hold."""
    scopes = tables.scopes
    if dialect_name == "postgresql":
        return [delete(scopes).where(*which)]  # the rest goes with them, table by table
    leaving = select(scopes.c.id).where(*which)
    entries = tables.entries
    words = delete(_WORDS).where(_WORDS.c.rowid.in_(select(entries.c.id).where(entries.c.scope.in_(leaving))))
    rows = [
        delete(each).where(each.c.scope.in_(leaving)) for each in (tables.texts, tables.vectors, tables.values, entries)
    ]
    return [words, *rows, delete(scopes).where(*which)]
