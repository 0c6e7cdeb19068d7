"""Index entries as rows, and the statements that both databases share."""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
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

from arc_common.exceptions import InvalidInputError
from arc_common.messages import is_storable
from arc_common.protocols.search_index import Candidates, EntryKind, IndexEntry, Scope
from arc_common.stores.drivers import Call
from arc_common.stores.schema import PREFIX, WORDS, IndexTables, index_tables
from arc_common.stores.search_index.filters import Tokens, number_of
from arc_common.stores.statements.conversations import Statement, Statements, compiler_for, one_of


@dataclass(frozen=True, slots=True)
class Held:
    """The statistics of a scope and kind: a row of `SCOPE_COLUMNS`."""

    id: int
    salt: bytes
    version: int
    detached: int
    entries: int
    total_length: float
    vectors: int
    embedder: str | None
    dimension: int | None

    @property
    def embedding(self) -> tuple[str, int] | None:
        """The embedder and dimension of the vectors."""
        return None if self.embedder is None or self.dimension is None else (self.embedder, self.dimension)

    @property
    def mean_length(self) -> float:
        """The mean length of an entry."""
        return self.total_length / self.entries if self.entries else 0.0

    def row(self) -> dict[str, Any]:
        """Return the columns, except those that never change."""
        return {name: getattr(self, name) for name in SCOPE_COLUMNS if name not in ("id", "salt")}


@dataclass(frozen=True, slots=True)
class Known:
    """A stored entry."""

    id: int
    length: float
    has_vector: bool
    tokens: tuple[int, ...] = ()


def scope_key(scope: Scope, kind: EntryKind) -> dict[str, str]:
    """Return the parameters that identify a scope and kind."""
    return {
        "caller_id": scope.caller_id,
        "session_id": scope.session_id or "",
        "user_id": scope.user_id or "",
        "kind": kind,
    }


def checked_ids(ids: Collection[str]) -> list[str]:
    """Return each id once, in order, omitting ids that can't be stored."""
    if isinstance(ids, str):
        raise InvalidInputError("ids", ids, "a collection of ids")
    return [entry_id for entry_id in dict.fromkeys(ids) if is_storable(entry_id)]


def changed(
    held: Held,
    *,
    embedding: tuple[str, int] | None,
    added: Iterable[float] = (),
    removed: Iterable[float] = (),
    vectors: int = 0,
) -> Held:
    """Return the scope's statistics after a change."""
    more, fewer = list(added), list(removed)
    entries = held.entries + len(more) - len(fewer)
    total = math.fsum([held.total_length, *more, *(-length for length in fewer)])
    count = held.vectors + vectors
    embedder, dimension = embedding if embedding and count else (None, None)
    return replace(
        held,
        entries=entries,
        total_length=max(total, 0.0) if entries else 0.0,
        vectors=count,
        embedder=embedder,
        dimension=dimension,
        detached=held.detached if count else held.version,
    )


def entry_row(entry: IndexEntry, row_id: int, held: Held) -> dict[str, Any]:
    """Return the columns that every database stores to search an entry, without scope and caller."""
    return {
        "id": row_id,
        "entry_id": entry.id,
        "version": held.version,
        "length": entry.length,
        "metadata": _json(entry.metadata),
    }


def text_row(entry: IndexEntry, row_id: int) -> dict[str, Any]:
    """Return the columns that hold an entry's text, source and terms."""
    terms = {term: float(frequency) for term, frequency in entry.terms.items()}
    return {"id": row_id, "text": entry.text, "source": entry.source, "terms": _json(terms)}


def shown_entry(row: Sequence[Any]) -> IndexEntry:
    """Read a row of `SHOWN_COLUMNS`."""
    entry_id, text, source, metadata = row
    return IndexEntry(entry_id, text, metadata=json.loads(metadata), source=source)


def whole_entry(row: Sequence[Any], vector: NDArray[np.float32] | None, embedder: str | None) -> IndexEntry:
    """Read a row of `SHOWN_COLUMNS` and the terms."""
    *shown, terms = row
    return replace(
        shown_entry(shown), terms=json.loads(terms), vector=vector, embedder=embedder if vector is not None else None
    )


def value_rows(entry: IndexEntry, row_id: int, tokens: Tokens) -> list[dict[str, Any]]:
    """Return a row for each ordered metadata value, without scope and caller."""
    rows: list[dict[str, Any]] = []
    for key, held in entry.metadata.items():
        ordered = [one for one in (held if isinstance(held, list) else (held,)) if _has_order(one)]
        label = number_of(tokens.key(key)) if ordered else 0
        for value in ordered:
            is_text = isinstance(value, str)
            rows.append(
                {
                    "id": row_id,
                    "place": len(rows),
                    "label": label,
                    "number": None if is_text else value,
                    "prefix": value[:PREFIX] if is_text else None,
                    "text": value if is_text and len(value) > PREFIX else None,
                }
            )
    return rows


def candidates(
    held: Held | None,
    holders: Sequence[float] | NDArray[Any],
    found: Sequence[tuple[str, float]] = (),
    frequencies: NDArray[np.float64] | None = None,
) -> Candidates:
    """Return the entries found, by id and length, with the statistics of the scope."""
    return Candidates(
        ids=tuple(row[0] for row in found),
        frequencies=np.zeros((len(found), len(holders))) if frequencies is None else frequencies,
        lengths=np.array([row[1] for row in found], dtype=np.float64),
        document_frequencies=np.array(holders, dtype=np.int64),
        count=held.entries if held else 0,
        total_length=held.total_length if held else 0.0,
        embedding=held.embedding if held else None,
    )


def _has_order(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


SCOPE_COLUMNS = tuple(field.name for field in fields(Held))
"""The columns of a `Held`, in its order."""


@cache
def index_statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    tables = index_tables(dialect_name)
    return Statements(dialect_name, {**_reading(tables, dialect_name), **_changing(tables, dialect_name)})


@cache
def erasing_statements(dialect_name: str, *, by_session: bool) -> tuple[Statement, ...]:
    """Return the statements that remove a session's scopes, or the scopes with given row numbers."""
    tables = index_tables(dialect_name)
    scopes = tables.scopes
    which = scopes.c.session_id == bindparam("session_id")
    if not by_session:
        which = one_of(scopes.c.id, "scopes", BigInteger, dialect_name)
    these = scopes.c.caller_id == bindparam("caller_id"), which
    return tuple(map(compiler_for(dialect_name), _erasing(tables, these, dialect_name)))


def session_index_calls(dialect_name: str, *, caller_id: str, session_id: str) -> list[Call]:
    """Return the calls that remove a session's entries from the index."""
    place = {"caller_id": caller_id, "session_id": session_id}
    return [(statement, place) for statement in erasing_statements(dialect_name, by_session=True)]


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
        "fetch_with_vectors": _shown(tables, packed, scopes.c.embedder)
        .outerjoin(vectors, vectors.c.id == entries.c.id)
        .where(named),
        "scan": whole_entries(tables),
        "scan_unembedded": whole_entries(tables, vectors.c.id.is_(None)),
    }


def _changing(tables: IndexTables, dialect_name: str) -> Mapping[str, Executable]:
    entries, texts, vectors, scopes = tables.entries, tables.texts, tables.vectors, tables.scopes
    key = ("caller_id", "session_id", "user_id", "kind")
    held = [scopes.c[name] for name in SCOPE_COLUMNS]
    these = (entries.c.scope == bindparam("scope"), entries.c.caller_id == bindparam("caller_id"))
    named = one_of(entries.c.entry_id, "ids", Text, dialect_name)
    more = () if tables.terms is None else (entries.c.tokens, entries.c.frequencies)
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
