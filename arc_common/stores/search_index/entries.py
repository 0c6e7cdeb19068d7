"""Index entries as rows, and the statements that both databases share."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    LargeBinary,
    Select,
    Table,
    Text,
    TextClause,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    table,
    text,
    update,
)

from arc_common.exceptions import InvalidInputError
from arc_common.messages import is_storable
from arc_common.protocols.search_index import Candidates, IndexEntry
from arc_common.stores.database.drivers import Call
from arc_common.stores.database.schema import PREFIX, ROW_NUMBERS, WORDS, IndexTables, by_scope, index_tables
from arc_common.stores.search_index.filters import Tokens, number_of
from arc_common.stores.statements.compiler import (
    Statement,
    Statements,
    compiler_for,
    in_scope,
    insert_for,
    one_of,
    scopes_within,
    upsert,
)


@dataclass(frozen=True, slots=True)
class ScopeStatistics:
    """The statistics of a scope and kind: a row of `SCOPE_COLUMNS`."""

    scope: bytes
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
        return {name: getattr(self, name) for name in SCOPE_COLUMNS if name not in ("scope", "salt")}


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A stored entry."""

    id: int
    length: float
    has_vector: bool
    tokens: tuple[int, ...] = ()


def checked_ids(ids: Collection[str]) -> list[str]:
    """Return each id once, in order, omitting ids that can't be stored."""
    if isinstance(ids, str):
        raise InvalidInputError("ids", ids, "a collection of ids")
    return [entry_id for entry_id in dict.fromkeys(ids) if is_storable(entry_id)]


def changed(
    held: ScopeStatistics,
    *,
    embedding: tuple[str, int] | None,
    added: Iterable[float] = (),
    removed: Iterable[float] = (),
    vectors: int = 0,
) -> ScopeStatistics:
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


def entry_row(entry: IndexEntry, row_id: int, held: ScopeStatistics) -> dict[str, Any]:
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


def value_rows(entry: IndexEntry, row_id: int, tokens: Tokens, *, with_texts: bool = True) -> list[dict[str, Any]]:
    """Return a row for each ordered metadata value (each number without texts), without scope and caller."""
    rows: list[dict[str, Any]] = []
    for key, held in entry.metadata.items():
        ordered = [
            one
            for one in (held if isinstance(held, list) else (held,))
            if _has_order(one) and (with_texts or not isinstance(one, str))
        ]
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
    held: ScopeStatistics | None,
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


def packed(entry: IndexEntry) -> bytes:
    """Return an entry's vector as bytes."""
    return np.ascontiguousarray(entry.vector, dtype="<f4").tobytes()


def _has_order(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


MANY = 2_000
"""Entries with a question's own words, each counted, above which alternatives for the words are left out, unless a
filter may exclude these entries. Among 100,000 messages, 60.8 % of LoCoMo's evidence is found among the first ten
instead of 58.9 (71.3 and 71.0 among 25), and on SQLite a new question reads half of the postings."""

SCOPE_COLUMNS = tuple(field.name for field in fields(ScopeStatistics))
"""The columns of `ScopeStatistics`, in order."""


@cache
def index_statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    tables = index_tables(dialect_name)
    every = {**_reading(tables, dialect_name), **_changing(tables, dialect_name), **_leasing(tables, dialect_name)}
    return Statements(dialect_name, every)


@cache
def erasing_statements(dialect_name: str, *, by_session: bool) -> tuple[Statement, ...]:
    """Return the statements that remove all scopes of a session, or one scope."""
    tables = index_tables(dialect_name)
    scopes = tables.scopes
    named = scopes.c.caller_id == bindparam("caller_id"), scopes.c.session_id == bindparam("session_id")

    def within(column: ColumnElement[Any]) -> ColumnElement[bool]:
        return column.in_(select(scopes.c.scope).where(*named)) if by_session else column == bindparam("scope")

    erasing: list[Executable] = [*_erasing(tables, within)]
    if by_session and dialect_name == "postgresql":  # first, as whoever writes entries does
        erasing.insert(0, select(scopes.c.scope).where(*named).order_by(scopes.c.scope).with_for_update())
    return tuple(map(compiler_for(dialect_name), erasing))


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
        .outerjoin(vectors, _has(tables))
        .where(entries.c.entry_id > bindparam("after", type_=entries.c.entry_id.type), *_whole(tables), *conditions)
        .order_by(entries.c.entry_id)
        .limit(bindparam("row_limit", type_=BigInteger))
    )


def _shown(tables: IndexTables, *more: ColumnElement[Any]) -> Select[Any]:
    entries, texts, scopes = tables.entries, tables.texts, tables.scopes
    return (
        select(entries.c.entry_id, texts.c.text, texts.c.source, entries.c.metadata, *more)
        .select_from(scopes)
        .join(entries, _belongs(tables))
        .join(texts, and_(texts.c.scope == entries.c.scope, texts.c.id == entries.c.id))
        .where(*in_scope(tables.scopes))
    )


def _reading(tables: IndexTables, dialect_name: str) -> Mapping[str, Executable]:
    entries, vectors, scopes = tables.entries, tables.vectors, tables.scopes
    named = one_of(entries.c.entry_id, "ids", Text, dialect_name)
    packed = func.vector_send(vectors.c.vector) if tables.terms is not None else vectors.c.vector
    return {
        "scope": select(*(scopes.c[name] for name in SCOPE_COLUMNS)).where(*in_scope(tables.scopes)),
        "fetch": _shown(tables).where(named),
        "fetch_with_vectors": _shown(tables, packed, scopes.c.embedder).outerjoin(vectors, _has(tables)).where(named),
        "scan": whole_entries(tables),
        "scan_unembedded": whole_entries(tables, vectors.c.id.is_(None)),
        "scan_outdated": whole_entries(tables, ~exists().where(*_next_of(tables), _by_embedder(tables))),
        "next_vectors": select(entries.c.id, entries.c.entry_id, entries.c.metadata, tables.next_vectors.c.vector)
        .join(tables.next_vectors, and_(*_next_of(tables)))
        .where(
            *in_scope(tables.next_vectors),
            tables.next_vectors.c.id > bindparam("after", type_=BigInteger),
            _by_embedder(tables),
        )
        .order_by(tables.next_vectors.c.id)
        .limit(bindparam("row_limit", type_=BigInteger)),
    }


def _next_of(tables: IndexTables) -> tuple[ColumnElement[bool], ...]:
    following, entries = tables.next_vectors, tables.entries
    return following.c.scope == entries.c.scope, following.c.id == entries.c.id


def _by_embedder(tables: IndexTables) -> ColumnElement[bool]:
    return tables.next_vectors.c.embedder == bindparam("embedder", type_=Text)


def _leasing(tables: IndexTables, dialect_name: str) -> Mapping[str, Executable]:
    """The statements that give each scope whose vectors must be replaced to one process at a time."""
    scopes = tables.scopes
    owner, now = bindparam("owner", type_=Text), bindparam("now", type_=BigInteger)
    embedder, everything = bindparam("embedder", type_=Text), bindparam("everything", type_=BigInteger)
    outdated = or_(
        and_(scopes.c.embedder != embedder, or_(everything == 1, scopes.c.former_embedder.is_distinct_from(embedder))),
        and_(everything == 1, scopes.c.vectors < scopes.c.entries),
    )
    chosen = (
        select(scopes.c.scope)
        .where(
            scopes.c.scope > bindparam("after", type_=LargeBinary),
            one_of(scopes.c.kind, "kinds", Text, dialect_name),
            or_(scopes.c.lease_until.is_(None), scopes.c.lease_until <= now),
            outdated,
        )
        .order_by(scopes.c.scope)
        .limit(1)
        .with_for_update(skip_locked=True)
        .correlate(None)
    )
    until = bindparam("until", type_=BigInteger)
    mine = (*in_scope(tables.scopes), scopes.c.lease_owner == owner)
    return {
        "claim_outdated": update(scopes)
        .where(scopes.c.scope == chosen.scalar_subquery())
        .values(lease_owner=owner, lease_until=until)
        .returning(*(scopes.c[name] for name in ("caller_id", "user_id", "session_id", "kind"))),
        "renew_outdated": update(scopes).where(*mine).values(lease_until=until).returning(scopes.c.kind),
        "release_outdated": update(scopes)
        .where(*mine)
        .values(lease_owner=null(), lease_until=null())
        .returning(scopes.c.kind),
    }


def _changing(tables: IndexTables, dialect_name: str) -> Mapping[str, Executable]:
    entries, texts, vectors, scopes = tables.entries, tables.texts, tables.vectors, tables.scopes
    key = ("scope", "caller_id", "session_id", "user_id", "kind")
    held = [scopes.c[name] for name in SCOPE_COLUMNS]
    named = one_of(entries.c.entry_id, "ids", Text, dialect_name)
    more = () if tables.terms is None else (entries.c.tokens, entries.c.frequencies)
    known = (
        select(entries.c.entry_id, entries.c.id, entries.c.length, vectors.c.id.is_not(None), *more)
        .select_from(scopes)
        .join(entries, _belongs(tables))
        .outerjoin(vectors, _has(tables))
        .where(*in_scope(tables.scopes))
    )
    new: dict[str, Any] = {name: bindparam(name) for name in (*key, "salt")}
    zero = {"version": 1, "detached": 1, "entries": 0, "total_length": 0, "vectors": 0}
    opened = insert_for(dialect_name)(scopes).values({**new, **zero})
    return {
        "open_scope": opened.on_conflict_do_update(
            index_elements=[scopes.c.scope], set_={"version": scopes.c.version + 1}
        ).returning(*held),
        "lock_scope": update(scopes)
        .where(*in_scope(tables.scopes))
        .values(version=scopes.c.version + 1)
        .returning(*held),
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
        .where(*in_scope(tables.scopes), named),
        "write_entry": _write(entries, dialect_name),
        "write_text": _write(texts, dialect_name),
        "write_vector": _write(vectors, dialect_name),
        "write_value": insert(tables.values),
        "write_next": _write(tables.next_vectors, dialect_name),
        "drop_next": _drop(tables.next_vectors, dialect_name),
        "drop_all_next": delete(tables.next_vectors).where(*in_scope(tables.next_vectors)),
        "note_former": update(scopes).where(*in_scope(scopes)).values(former_embedder=bindparam("former")),
        "touch": update(entries)
        .where(*in_scope(entries), one_of(entries.c.id, "rows", BigInteger, dialect_name))
        .values(version=bindparam("new_version")),
        "drop_entries": _drop(entries, dialect_name),
        "drop_texts": _drop(texts, dialect_name),
        "drop_vectors": _drop(vectors, dialect_name),
        "drop_values": _drop(tables.values, dialect_name),
        "drop_all_vectors": delete(vectors).where(
            *in_scope(vectors),
            *((by_scope(vectors) == bindparam("scope"),) if tables.terms is not None else ()),
        ),
        "save_scope": update(scopes)
        .where(*in_scope(scopes))
        .values({name: bindparam(name) for name in SCOPE_COLUMNS if name not in ("scope", "salt")}),
        "lock_within": select(scopes.c.scope, scopes.c.entries)
        .where(*scopes_within(scopes, "session_id", "user_id", "kind"))
        .order_by(scopes.c.scope)
        .with_for_update(),
    }


_WORDS = table(WORDS, column("rowid"), column("tokens"))

_RESERVE = {
    "sqlite": "SELECT seq FROM sqlite_sequence WHERE name = 'arc_index_entries' AND :count > 0",
    "postgresql": f"SELECT nextval('{ROW_NUMBERS}') FROM generate_series(1, :count)",  # noqa: S608 - our own name
}
"""On SQLite, the last number used; on PostgreSQL, new ones."""


def _belongs(tables: IndexTables) -> ColumnElement[bool]:
    entries, scopes = tables.entries, tables.scopes
    return and_(entries.c.scope == scopes.c.scope, entries.c.caller_id == scopes.c.caller_id)


def _has(tables: IndexTables) -> ColumnElement[bool]:
    entries, vectors = tables.entries, tables.vectors
    return and_(vectors.c.scope == entries.c.scope, vectors.c.id == entries.c.id)


def _whole(tables: IndexTables) -> list[ColumnElement[bool]]:
    """Let PostgreSQL read the entries of a scope in order of id."""
    return [] if tables.terms is None else [by_scope(tables.entries) == bindparam("scope")]


def _write(target: Table, dialect_name: str) -> Executable:
    names = target.columns.keys()
    return upsert(dialect_name, target, names, [name for name in names if name not in target.primary_key])


def _drop(target: Any, dialect_name: str) -> Executable:
    return delete(target).where(*in_scope(target), one_of(target.c.id, "rows", BigInteger, dialect_name))


def _erasing(tables: IndexTables, within: Callable[[ColumnElement[Any]], ColumnElement[bool]]) -> list[Executable]:
    """Remove scopes with all of their entries."""
    entries, words = tables.entries, tables.terms
    mine: ColumnElement[Any] = bindparam("caller_id")
    large = () if words is None else (entries, tables.vectors)
    all_words = delete(_WORDS).where(_WORDS.c.rowid.in_(select(entries.c.id).where(within(entries.c.scope))))
    return [
        all_words if words is None else delete(words).where(within(words.c.scope), words.c.caller_id == mine),
        *(
            delete(each).where(
                within(each.c.scope), each.c.caller_id == mine, *([within(by_scope(each))] if each in large else [])
            )
            for each in (tables.texts, tables.values, tables.vectors, tables.next_vectors, entries, tables.scopes)
        ),
    ]
