"""PostgreSQL finds words and labels by arrays of tokens under GIN, and vectors by pgvector."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import ceil, inf
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import Vector
from sqlalchemy.exc import SQLAlchemyError

from arc_common.exceptions import ConfigurationError, InvalidInputError, StoreError
from arc_common.filters import Filter
from arc_common.protocols.search_index import Candidates, IndexEntry, IndexQuery, check_comparable
from arc_common.retrieval.bm25 import BM25
from arc_common.stores.codec import scope_place
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Row, Transaction
from arc_common.stores.database.schema import VECTORS
from arc_common.stores.search_index.entries import (
    MANY,
    ScopeStatistics,
    StoredEntry,
    candidates,
    index_statements_for,
)
from arc_common.stores.search_index.filters import Tokens, canonical_number, condition_for, number_of
from arc_common.stores.search_index.postgres_statements import (
    LEAST_REACH,
    LEXICAL,
    NAMES_OF_PARTITIONS,
    REACH,
    STATISTICS,
    among,
    joint_statement,
    scan_statement,
    statement,
)

_WIDEST = 1000
"""The greatest `ef_search` that pgvector takes."""

_VECTOR, _HALF = 2000, 4000
"""The most dimensions of pgvector's graphs, at full and at half precision."""


def walk_width(*, ef_search: int, compared: int, graph: int, passing: float, limit: int) -> int | None:
    """Return the `ef_search` of a walk, or `None` where comparing all that pass is shorter."""
    if passing <= compared:
        return None
    width = max(ef_search, ceil(2 * limit * graph / passing))
    return width if width <= _WIDEST and width * compared < passing * ef_search else None


def index_name(dimension: int) -> str:
    """Return the graph's name."""
    return f"arc_index_vectors_hnsw_{dimension}"


def is_precise(dimension: int) -> bool:
    """Return whether the graph holds vectors at full precision; else searches compare twice as many."""
    return dimension <= _VECTOR


def indexed_as(dimension: int) -> str | None:
    """Return the type of the graph's vectors, or `None` if there is no graph for this many dimensions."""
    if dimension > _HALF:
        return None
    return f"vector({dimension})" if is_precise(dimension) else f"halfvec({dimension})"


def index_ddl(name: str, kind: str, dimension: int, *, table: str = VECTORS) -> str:
    """Return the statement that builds a graph while others write."""
    return (
        f"CREATE INDEX CONCURRENTLY {name} ON {table} "
        f"USING hnsw (CAST(vector AS {kind}) {kind.partition('(')[0]}_ip_ops) WHERE vector_dims(vector) = {dimension}"
    )


def is_built(name: str) -> str:
    """Return the statement that tells whether a graph is there and complete."""
    return f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')"  # noqa: S608 - our own name


_log = logging.getLogger("arc.stores")

_LOCK = 0x6172_6302
"""The advisory lock under which vectors get pgvector's type ("arc", 2)."""

_MAY_BUILD = f"SELECT pg_try_advisory_lock({_LOCK + 1})"
"""Takes the advisory lock under which one process at a time builds a graph."""

_MAY_BUILD_POOLED = (
    "SELECT count(*) = 0 FROM pg_stat_progress_create_index WHERE relid = to_regclass('arc_index_vectors')"
)
"""Tells that nobody builds a graph. Through a pooler, a lock would stay with a connection that others get next."""

# An entry's row and its labels, as the statements name them.
_ENTRIES = "entry.id", "entry.tokens"
_WHOLE_ENTRIES = "arc_index_entries.id", "arc_index_entries.tokens"
_VECTORS = "held.id", "held.labels"

_SAMPLE = 256
"""The number of vectors sampled to estimate the share that passes a filter: enough to tell 10 % from 4 %."""

_SECONDS = 60.0
"""The seconds for which cached scopes and shares are used. Stale ones cost time, but lose no result."""

_LEARNED = 4096
"""The number of cached scopes, graphs and shares at which the cache is cleared."""


class PostgresIndex:
    """The PostgreSQL-specific part of `SqlIndexStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._bm25 = BM25()
        self._graph_from = database.settings.index_graph_from
        self._ef_search = database.settings.index_ef_search
        self._common = index_statements_for("postgresql")
        self._has_vectors = False
        self._built: set[int] = set()
        self._learned: dict[Any, tuple[float, Any]] = {}

    def forget_words(self, within: Mapping[str, Any]) -> None:
        """Do nothing: only the database has copies."""

    def close(self) -> None:
        """Do nothing: connections belong to the database."""

    def before_vectors(self) -> None:
        """Give vectors pgvector's type, or raise `ConfigurationError` if the server or the user can't."""
        if self.has_vectors():
            return

        def work(transaction: Transaction) -> None:
            transaction.run((statement("lock_ddl"), {"number": _LOCK}))
            (rows,) = transaction.run((statement("vector_type"), {}))
            if rows[0][0] != "vector":
                names = ("make_extension", "take_vectors", "keep_inline")
                transaction.commit(*((statement(name), {}) for name in names))

        try:
            self._database.transact(work)
        except StoreError as error:
            raise ConfigurationError(
                "vectors in PostgreSQL need the extension pgvector: install it on the server and let an administrator "
                f"run CREATE EXTENSION vector in this database (searching by words works without it): {error}"
            ) from error
        self._has_vectors = True

    def has_vectors(self) -> bool:
        """Return whether vectors have pgvector's type: without it there are none, and it may not be installed."""
        if not self._has_vectors:
            ((kind,),) = self._database.read((statement("vector_type"), {}))
            self._has_vectors = kind == "vector"
        return self._has_vectors

    def after_vectors(self, held: ScopeStatistics) -> None:
        """Build the graph for a dimension once a scope has enough vectors for searches to walk it."""
        dimension = held.dimension
        if held.vectors <= self._graph_from or dimension in self._built:
            return
        if dimension is None or (kind := indexed_as(dimension)) is None:
            return
        if self._database.read((statement("graph"), {"name": index_name(dimension)})):
            self._built.add(dimension)
            return
        try:
            self._build(index_name(dimension), kind, dimension)
        except SQLAlchemyError as error:
            _log.warning("index %s was not built, so searches compare all vectors: %s", index_name(dimension), error)

    def _build(self, name: str, kind: str, dimension: int) -> None:
        """Build a graph while others write, unless another process builds one; a later addition looks again."""
        pooled = self._database.settings.transaction_pooling
        with self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            run = connection.exec_driver_sql
            try:
                if not run(_MAY_BUILD_POOLED if pooled else _MAY_BUILD).scalar():
                    return
                if not pooled:
                    run("SET maintenance_work_mem = '256MB'; SET statement_timeout = 0")
                for table in run(NAMES_OF_PARTITIONS).scalars().all() or [VECTORS]:
                    own = table.replace(VECTORS, name)
                    if not run(is_built(own)).scalar():
                        run(f"DROP INDEX CONCURRENTLY IF EXISTS {own}")  # a builder that failed leaves one
                        run(index_ddl(own, kind, dimension, table=table))
            finally:
                connection.invalidate()  # the lock and the settings end with the connection

    def entry_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:
        """Return an entry's columns beside those that all databases have."""
        held = dict.fromkeys(_labels(entry, tokens), 0.0)
        held |= {number_of(tokens.of(term)): float(frequency) for term, frequency in entry.terms.items()}
        names = sorted(held)
        return {"tokens": _spelt(names), "frequencies": _spelt([held[name] for name in names])}

    def vector_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:
        """Return a vector's columns."""
        assert entry.vector is not None  # noqa: S101 - who has none is not asked
        return {
            "vector": Vector(entry.vector),
            "entry_id": entry.id,
            "sample": int.from_bytes(tokens.of(entry.id)[:4], "big", signed=True),
            "labels": _labels(entry, tokens),
        }

    def value_columns(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a value's columns: a number with all its digits, which a float would lose."""
        number = row["number"]
        return row if number is None else {**row, "number": canonical_number(number)}

    def read_vector(self, stored: str) -> NDArray[np.float32]:
        """Read a vector that was selected as text."""
        return Vector.from_text(stored).to_numpy()

    def unpacked(self, stored: bytes) -> NDArray[np.float32]:
        """Read a vector in pgvector's binary form."""
        return Vector.from_binary(stored).to_numpy()

    def known(self, row: Row) -> StoredEntry:
        """Read the columns of a stored entry behind its id."""
        row_id, length, has_vector, tokens, frequencies = row
        words = [token for token, frequency in zip(tokens, frequencies, strict=True) if frequency]
        return StoredEntry(row_id, length, has_vector, tuple(words))

    def new_rows(self, reserved: Sequence[Row], count: int) -> Iterable[int]:  # noqa: ARG002 - SQLite gives the last one
        """Return the numbers for new rows."""
        return [row[0] for row in reserved]

    def words(
        self,
        place: Mapping[str, Any],
        tokens: Tokens,
        stored: Sequence[tuple[int, IndexEntry]],
        gone: Collection[StoredEntry],
    ) -> Iterator[Call]:
        """Yield the calls that count the terms of entries that are stored, go or are replaced."""
        more = Counter(number_of(tokens.of(term)) for _, entry in stored for term in entry.terms)
        more.subtract(Counter(token for known in gone for token in known.tokens))
        changes = {token: change for token, change in more.items() if change}
        if changes:
            counted = {"tokens": _spelt(changes), "more": _spelt(changes.values())}
            yield statement("count_terms"), {**place, **counted}
        lost = [token for token, change in changes.items() if change < 0]
        if lost:
            yield statement("drop_terms"), {**place, "tokens": _spelt(lost)}

    def candidates(self, queries: Sequence[IndexQuery]) -> list[Candidates]:
        """See `IndexStore.candidates`: one statement for all words, and one for each vector."""
        found = self._by_words(queries) if any(query.terms or query.vector is None for query in queries) else {}
        return [
            replace(found.get(number, NOTHING), near=self._near(query) if query.vector is not None else ())
            for number, query in enumerate(queries)
        ]

    def _by_words(self, queries: Sequence[IndexQuery]) -> dict[int, Candidates]:
        """Return the candidates by words of each query, in one statement once the scopes' salts are known."""
        keys = [scope_place(query.scope, query.kind) for query in queries]
        while True:
            known = [
                self._remembered(_name(key)) if query.terms else None for key, query in zip(keys, queries, strict=True)
            ]
            parts, asked = list[str](), dict[str, Any]()
            for number, (key, query, held) in enumerate(zip(keys, queries, known, strict=True)):
                part, parameters = self._part(number, key, query, held)
                parts.append(part)
                asked |= {f"{name}_{number}": value for name, value in parameters.items()}
            rows: dict[int, list[Row]] = {}
            for row in self._database.read((joint_statement(*parts), asked)):
                rows.setdefault(row[0], []).append(row[1:])
            complete, found = True, dict[int, Candidates]()
            for number, (key, query, held) in enumerate(zip(keys, queries, known, strict=True)):
                own = rows.get(number, [])
                now = next((ScopeStatistics(*row[:-4]) for row in own if row[-2] is None), None)
                if query.terms:
                    self._remember(_name(key), now)
                    complete &= now is None if held is None else now is not None
                found[number] = _candidates(now, own, query)
            if complete:
                return found

    def _part(
        self, number: int, key: Mapping[str, str], query: IndexQuery, held: ScopeStatistics | None
    ) -> tuple[str, dict[str, Any]]:
        """Return the part of a statement that answers one query, and its parameters."""
        if held is None:
            return STATISTICS.format(number=number), {name: key[name] for name in ("scope", "caller_id")}
        tokens = self._tokens(held.salt)
        condition = condition_for(query.filters, tokens, _ENTRIES)
        asked = {
            **condition.parameters,
            **_place(key, held),
            "salt": held.salt,
            "tokens": _spelt([number_of(tokens.of(term)) for term in query.terms]),
            "weights": _spelt([float(weight) for weight in query.terms.values()]),
            "k1": float(self._bm25.k1),
            "b": float(self._bm25.b),
            "reach": float(max(LEAST_REACH, REACH * query.limit)),
            "row_limit": query.limit,
            **_ids(query.ids),
        }
        if query.filters is not None or query.ids is not None:
            asked["reach"] = inf  # few of a word's entries may pass
        return LEXICAL.format(number=number, condition=condition.sql, ids=among(query.ids, "entry")), asked

    def _near(self, query: IndexQuery) -> list[tuple[str, float]]:
        """Return the entries nearest to a query's vector."""
        key, vector, limit, filters, ids = (
            scope_place(query.scope, query.kind), query.vector, query.limit, query.filters, query.ids,
        )  # fmt: skip

        def nearest(held: ScopeStatistics) -> list[tuple[str, float]]:
            if vector is None or held.embedding is None:
                return []
            check_comparable(held.embedding, query.embedder or "", len(vector))
            if not limit:
                return []
            asked = {
                **_place(key, held),
                "salt": held.salt,
                "embedder": held.embedder,
                "dimension": held.dimension,
                "vector": Vector(vector),
                "row_limit": limit,
            }
            width = None if query.exact or ids is not None else self._width(key, held, filters, limit=limit)
            found = [] if width is None else self._walked(width, asked, filters)
            return found if len(found) >= limit else self._compared(asked, filters, ids)

        # A scope rarely changes its row, salt or embedder; the statement checks them and finds nothing if it has.
        remembered: ScopeStatistics | None = self._remembered(_name(key))
        if remembered is not None:
            with suppress(InvalidInputError):  # it may concern vectors that have been removed
                if found := nearest(remembered):
                    return found
        while (held := self._look(key)) is not None:
            if (found := nearest(held)) or _is_same(held, self._look(key)):
                return found
        return []

    def _compared(
        self, asked: Mapping[str, Any], filters: Filter | None, ids: Collection[str] | None
    ) -> list[tuple[str, float]]:
        """Find the nearest by comparing all that pass."""
        tokens = self._tokens(asked["salt"])
        condition = condition_for(filters, tokens, _VECTORS, planned_once=True)
        scope = "" if condition.finds else "AND substr(held.scope, 1) = :scope"
        plan_anew = filters is not None and not condition.finds
        if plan_anew:  # a generic plan assumes a scope of mean size: 100,000 rows take 540 ms instead of 70
            condition = condition_for(filters, tokens, _VECTORS)
        call = (
            statement("exact", condition=condition.sql, ids=among(ids, "held"), scope=scope),
            {**asked, **condition.parameters, **_ids(ids)},
        )
        rows = self._alone(call, "plan_anew" if plan_anew else None)
        return _best(rows, asked["row_limit"])

    def _walked(self, width: int, asked: Mapping[str, Any], filters: Filter | None) -> list[tuple[str, float]]:
        """Find the nearest along the graph; fewer than asked for if few of them pass the filter."""
        limit, dimension = asked["row_limit"], asked["dimension"]
        condition, precise = condition_for(filters, self._tokens(asked["salt"]), _VECTORS), is_precise(dimension)
        walk = {"ef_search": str(width), "row_limit": limit if precise else 2 * limit}
        call = (
            statement("walking", condition=condition.sql, dimension=str(dimension), type=str(indexed_as(dimension))),
            {**asked, **condition.parameters, **walk},
        )
        # Long vectors are stored outside their rows, and the planner underestimates the cost of reading them.
        return _best(self._alone(call, None if precise else "never_sort"), limit)

    def _alone(self, call: Call, setting: str | None) -> list[Row]:
        """Run one call, under a setting if there is one, in one round trip."""
        if setting is None:
            return self._database.read(call)
        return self._database.snapshot((statement(setting), {}), call)[1]

    def scan(self, key: Mapping[str, str], filters: Filter, *, unembedded: bool, after: str, limit: int) -> list[Row]:
        """Return the first rows by id whose metadata match."""
        held = self._remembered(_name(key)) or self._look(key)
        while held is not None:
            condition = condition_for(filters, self._tokens(held.salt), _WHOLE_ENTRIES)
            asked = {**condition.parameters, **key, **_place(key, held), "after": after, "row_limit": limit}
            call = scan_statement(condition.sql, unembedded=unembedded), asked
            found, rows = self._database.snapshot((self._common.scope, key), call)
            now = ScopeStatistics(*found[0]) if found else None
            self._remember(_name(key), now)
            if _is_same(held, now):
                return rows
            held = now
        return []

    def _look(self, key: Mapping[str, str]) -> ScopeStatistics | None:
        """Read a scope and remember it for the next search."""
        found = self._database.read((self._common.scope, key))
        held = ScopeStatistics(*found[0]) if found else None
        self._remember(_name(key), held)
        return held

    def _width(
        self, key: Mapping[str, str], held: ScopeStatistics, filters: Filter | None, *, limit: int
    ) -> int | None:
        """Return the width of a walk of the graph, or `None` to compare all vectors."""
        if held.dimension is None or held.vectors <= self._graph_from:
            return None
        size = held.vectors.bit_length()  # a scope that has doubled is asked again
        graph_name, share_name = ("graph", held.dimension), ("share", held.scope, size, repr(filters))
        graph, share = self._remembered(graph_name), self._remembered(share_name)
        if graph is None or share is None:
            condition = condition_for(filters, self._tokens(held.salt), _VECTORS)
            sample = {**condition.parameters, **_place(key, held), "row_limit": _SAMPLE}
            sizes, ((candidate_count, passing),) = self._database.snapshot(
                (statement("graph"), {"name": index_name(held.dimension)}),
                (statement("sample", condition=condition.sql), sample),
            )
            if not sizes:  # another process may be building it
                return None
            graph, share = sizes[0][0], passing / max(candidate_count, 1)
            self._remember(graph_name, graph)
            self._remember(share_name, share)
        return walk_width(
            ef_search=self._ef_search,
            compared=self._graph_from,
            graph=max(graph, held.vectors),
            passing=held.vectors * share,
            limit=limit,
        )

    def _tokens(self, salt: bytes) -> Tokens:
        return Tokens(self._database.seal.hashed(salt))

    def _remembered(self, name: Any) -> Any:
        at, value = self._learned.get(name, (0.0, None))
        return value if monotonic() - at < _SECONDS else None

    def _remember(self, name: Any, value: Any) -> None:
        if len(self._learned) >= _LEARNED:
            self._learned.clear()
        self._learned[name] = monotonic(), value  # at once, without a lock that a fork could leave held


NOTHING = candidates(None, [])


def _candidates(held: ScopeStatistics | None, rows: Sequence[Row], query: IndexQuery) -> Candidates:
    """Read the rows of one query: the scope's, and those of entries."""
    holders, found = np.zeros(len(query.terms)), [row[-4:] for row in rows if row[-2] is not None]
    frequencies = np.zeros((len(found), len(query.terms)))
    for places, counts, entry_id, _ in (row[-4:] for row in rows):
        if entry_id is None and places:
            holders[places] = counts
    for row, (places, counts, *_) in zip(frequencies, found, strict=True):
        row[places] = counts
    weights = np.array(list(query.terms.values()))
    others = weights < weights.max(initial=0.0)
    if query.filters is None and query.ids is None and holders[~others].sum() > MANY:
        holders[others] = frequencies[:, others] = 0.0
        kept = np.flatnonzero(frequencies.any(axis=1))
        found, frequencies = [found[place] for place in kept.tolist()], frequencies[kept]
    return candidates(held, holders, [(entry_id, length) for *_, entry_id, length in found], frequencies)


def _spelt(numbers: Iterable[float]) -> str:
    """Return an array as PostgreSQL reads it; psycopg takes ten times as long for a list."""
    return f"{{{','.join(map(repr, numbers))}}}"


def _labels(entry: IndexEntry, tokens: Tokens) -> list[int]:
    return [number_of(label) for label in tokens.labels(entry.metadata)]


def _place(key: Mapping[str, str], held: ScopeStatistics) -> dict[str, Any]:
    return {"scope": held.scope, "caller_id": key["caller_id"]}


def _ids(ids: Collection[str] | None) -> dict[str, list[str]]:
    return {} if ids is None else {"ids": list(ids)}


def _name(key: Mapping[str, Any]) -> tuple[str, bytes]:
    return "held", key["scope"]


def _is_same(one: ScopeStatistics, other: ScopeStatistics | None) -> bool:
    """Return whether statements made for one scope are valid for the other."""
    return other is not None and (one.salt, one.embedding) == (other.salt, other.embedding)


def _best(found: Sequence[Row], limit: int) -> list[tuple[str, float]]:
    """Return ids with cosines, best first; rounding may have put a cosine beyond 1."""
    nearest = sorted((min(1.0, max(-1.0, opposite)), entry_id) for entry_id, opposite in found)
    return [(entry_id, -opposite) for opposite, entry_id in nearest[:limit]]
