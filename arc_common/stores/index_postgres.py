"""How PostgreSQL keeps and finds entries: words and labels by arrays of tokens under GIN, vectors by pgvector."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from arc_common.exceptions import ConfigurationError, StoreError
from arc_common.filters import Filter
from arc_common.indexing import IndexEntry, LexicalCandidates
from arc_common.retrieval.lexical import BM25
from arc_common.retrieval.shelf import check_comparable
from arc_common.stores.database import Database
from arc_common.stores.drivers import Call, Row, Transaction
from arc_common.stores.index_filters import wanted_for
from arc_common.stores.index_postgres_filters import PostgresCondition, condition_for, number_of, ordered_values
from arc_common.stores.index_postgres_plan import INDEXED_FROM, Graph, Walk, index_ddl, index_name, indexed_as, walk_for
from arc_common.stores.index_postgres_statements import (
    count_statement,
    ddl_statement,
    exact_statement,
    lexical_statement,
    plain_statement,
    sample_statement,
    scan_statement,
    walking_statement,
)
from arc_common.stores.index_rows import Held, Known, candidates
from arc_common.stores.index_statements import index_statements_for
from arc_common.stores.index_tokens import Tokens

__all__ = ["PostgresIndex"]

_ENTRIES = "arc_index_entries.tokens"
_VECTORS = "arc_index_vectors.labels"

_LOCK = 0x6172_6302
"""The advisory lock under which tables are changed at run time ("arc", 2)."""

_SAMPLE = 256
"""Vectors that are asked how many pass a filter. A share of 10 % is then told from one of 4 % all but always."""

_SECONDS = 60.0
"""For which a share and a graph's size are believed: they decide how to search, not what is found."""

_SHARES = 512


class PostgresIndex:
    """The part of `SqlIndexStore` that only PostgreSQL has.

    - A search takes two round trips; one more when it has to learn how much a filter lets through.
    - A dense search never returns fewer than match: what the graph leaves short is searched exactly.

    Args:
        database: Where the tables are.
        bm25: The formula that candidates are found by.
    """

    def __init__(self, database: Database, *, bm25: BM25) -> None:
        self._database = database
        self._bm25 = bm25
        self._common = index_statements_for("postgresql")
        self._has_vectors = False
        self._built: set[int] = set()
        self._learned: LRUCache[Any, tuple[float, Any]] = LRUCache(_SHARES)
        self._lock = Lock()

    # Keeping

    def before_vectors(self) -> None:
        """See that vectors have pgvector's type.

        Raises:
            ConfigurationError: The server has no pgvector, or this user may not turn it on.
        """
        if self._has_vectors:
            return
        rows = self._database.read((plain_statement("vector_type"), {}))
        if rows[0][0] != "vector":
            self._take_pgvector()
        self._has_vectors = True

    def after_vectors(self, held: Held) -> None:
        """Build the graph of a dimension when a scope has come to so many vectors that it will be used."""
        dimension = held.dimension
        if dimension is None or held.vectors < INDEXED_FROM or dimension in self._built or not indexed_as(dimension):
            return
        if not self._database.read((plain_statement("graph"), {"name": index_name(dimension)})):
            with self._database.transaction() as transaction:
                transaction.run((plain_statement("lock_ddl"), {"number": _LOCK}))
                transaction.commit((plain_statement("build_memory"), {}), (ddl_statement(index_ddl(dimension)), {}))
        self._built.add(dimension)

    def entry_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:
        """What is stored of an entry beside the columns that all databases have."""
        terms = [number_of(tokens.of(term)) for term in entry.terms]
        return {
            "tokens": [*terms, *_labels(entry, tokens)],
            "frequencies": [float(frequency) for frequency in entry.terms.values()],
            "ordered": ordered_values(entry.metadata),
        }

    def vector_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:
        """What is stored of a vector."""
        assert entry.vector is not None  # noqa: S101 - who has none is not asked
        return {
            "vector": _text_of(entry.vector),
            "entry_id": entry.id,
            "sample": int.from_bytes(tokens.of(entry.id)[:4], "big", signed=True),
            "labels": _labels(entry, tokens),
        }

    def read_vector(self, stored: str) -> NDArray[np.float32]:
        """A vector as it was given."""
        return np.fromstring(stored[1:-1], dtype=np.float32, sep=",")

    def known(self, row: Row) -> Known:
        """Read what is known of a stored entry, behind its id."""
        row_id, length, has_vector, tokens, terms = row
        return Known(row_id, length, has_vector, tuple(tokens[:terms]))

    def new_rows(self, reserved: Sequence[Row], count: int) -> Iterable[int]:  # noqa: ARG002 - SQLite gives the last one
        """Numbers for new rows."""
        return [row[0] for row in reserved]

    def words(
        self,
        place: Mapping[str, Any],
        tokens: Tokens,
        stored: Sequence[tuple[int, IndexEntry]],
        gone: Collection[Known],
    ) -> Iterator[Call]:
        """The calls that count the terms of entries that are stored, go or are replaced."""
        more = Counter(number_of(tokens.of(term)) for _, entry in stored for term in entry.terms)
        fewer = Counter(token for known in gone for token in known.tokens)
        more.subtract(fewer)
        changes = {token: change for token, change in more.items() if change}
        if changes:
            counted = {"tokens": list(changes), "more": list(changes.values())}
            yield plain_statement("count_terms"), {**place, **counted}
        lost = [token for token, change in changes.items() if change < 0]
        if lost:
            yield plain_statement("drop_terms"), {**place, "tokens": lost}

    def close(self) -> None:
        """Nothing is held."""

    # Finding

    def lexical(
        self,
        key: Mapping[str, str],
        terms: Mapping[str, float],
        *,
        filters: Filter | None,
        ids: Collection[str] | None,
        limit: int,
    ) -> LexicalCandidates:
        """See `IndexStore.lexical`."""
        with self._database.reading() as transaction:
            held = self._held(transaction, key)
            if held is None or not terms:
                return candidates(held, [], [0] * len(terms))
            tokens = Tokens(held.salt)
            names = [number_of(tokens.of(term)) for term in terms]
            place = {"scope": held.id, "caller_id": key["caller_id"], "tokens": names}
            condition = _condition(filters, tokens, _ENTRIES)
            base, slope = self._norm(held)
            asked = {
                **condition.parameters,
                **place,
                "weights": [float(weight) for weight in terms.values()],
                "count": held.entries,
                "base": base,
                "slope": slope,
                "row_limit": limit,
                **({} if ids is None else {"ids": list(ids)}),
            }
            statement = lexical_statement(condition.sql, with_ids=ids is not None)
            counted, found = transaction.commit((plain_statement("holders"), place), (statement, asked))
        holders = {row[0]: row[1] for row in counted}
        # a row without a frequency has a token of another word that is equal: once in centuries
        rows = [(entry_id, length, row) for entry_id, length, row in found if any(row)]
        return candidates(held, rows, [holders.get(name, 0) for name in names])

    def dense(
        self,
        key: Mapping[str, str],
        vector: NDArray[np.float32],
        *,
        embedder: str,
        filters: Filter | None,
        ids: Collection[str] | None,
        limit: int,
        exact: bool,
    ) -> list[tuple[str, float]]:
        """See `IndexStore.dense`."""
        with self._database.reading() as transaction:
            held = self._held(transaction, key)
            if held is None or held.embedding is None:
                return []
            check_comparable(held.embedding, embedder, len(vector))
            if not limit:
                return []
            condition = _condition(filters, Tokens(held.salt), _VECTORS)
            place = {"scope": held.id, "caller_id": key["caller_id"]}
            walk = None
            if not exact and ids is None and held.vectors >= INDEXED_FROM:
                walk = self._walk(transaction, held, place, filters, condition=condition, limit=limit)
            asked = {**condition.parameters, **place, "vector": _text_of(vector), "row_limit": limit}
            if walk is not None:
                found = self._walked(transaction, walk, condition, asked, len(vector))
                if len(found) >= limit:
                    return _sorted(found, limit)
            if ids is not None:
                asked["ids"] = list(ids)
            statement = exact_statement(condition.sql, with_ids=ids is not None, join=condition.needs_entries)
            (found,) = transaction.commit((statement, asked))
        return _sorted(found, limit)

    def count(self, key: Mapping[str, str], filters: Filter) -> int:
        """How many entries match."""
        with self._database.reading() as transaction:
            held = self._held(transaction, key)
            if held is None:
                return 0
            condition = _condition(filters, Tokens(held.salt), _ENTRIES)
            asked = {**condition.parameters, "scope": held.id, "caller_id": key["caller_id"]}
            (((count,),),) = transaction.commit((count_statement(condition.sql), asked))
        return int(count)

    def scan(self, key: Mapping[str, str], filters: Filter, *, unembedded: bool, after: str, limit: int) -> list[Row]:
        """The first rows by id whose metadata match."""
        with self._database.reading() as transaction:
            held = self._held(transaction, key)
            if held is None:
                return []
            condition = _condition(filters, Tokens(held.salt), _ENTRIES)
            asked = {**condition.parameters, **key, "after": after, "row_limit": limit}
            (rows,) = transaction.commit((scan_statement(condition.sql, unembedded=unembedded), asked))
        return rows

    def _held(self, transaction: Transaction, key: Mapping[str, str]) -> Held | None:
        (rows,) = transaction.run((self._common.scope, key))
        return Held(*rows[0]) if rows else None

    def _norm(self, held: Held) -> tuple[float, float]:
        """What a length is turned into, as `BM25.norms`: base + slope × length."""
        if not held.mean_length:
            return self._bm25.k1, 0.0
        return self._bm25.k1 * (1 - self._bm25.b), self._bm25.k1 * self._bm25.b / held.mean_length

    def _walk(
        self,
        transaction: Transaction,
        held: Held,
        place: Mapping[str, Any],
        filters: Filter | None,
        *,
        condition: PostgresCondition,
        limit: int,
    ) -> Walk | None:
        """How to walk the graph, by what is known of it and of the filter."""
        assert held.dimension is not None  # noqa: S101 - it has vectors
        size = held.vectors.bit_length()  # a scope that has grown by half is asked anew
        graph_key, share_key = ("graph", held.dimension), ("share", held.id, size, repr(filters))
        graph = self._remembered(graph_key)
        share = 1.0 if filters is None else self._remembered(share_key)
        if graph is None or share is None:
            sample = sample_statement(condition.sql, join=condition.needs_entries)
            sizes, ((looked_at, passing),) = transaction.run(
                (plain_statement("graph"), {"name": index_name(held.dimension)}),
                (sample, {**condition.parameters, **place, "row_limit": _SAMPLE}),
            )
            graph = Graph(held.dimension, sizes[0][0] if sizes else 0)
            share = 1.0 if filters is None else passing / max(looked_at, 1)
            if sizes:  # one that is not there may be at the next search
                self._remember(graph_key, graph)
            else:
                return None
            self._remember(share_key, share)
        return walk_for(graph, vectors=held.vectors, share=share, limit=limit)

    def _walked(
        self,
        transaction: Transaction,
        walk: Walk,
        condition: PostgresCondition,
        asked: Mapping[str, Any],
        dimension: int,
    ) -> list[Row]:
        statement = walking_statement(condition.sql, dimension=dimension, join=condition.needs_entries)
        _, found = transaction.run((plain_statement("walk"), {"ef_search": str(walk.ef_search)}), (statement, asked))
        return found

    def _remembered(self, key: Any) -> Any:
        with self._lock:
            at, value = self._learned.get(key, (0.0, None))
        return value if monotonic() - at < _SECONDS else None

    def _remember(self, key: Any, value: Any) -> None:
        with self._lock:
            self._learned[key] = monotonic(), value

    def _take_pgvector(self) -> None:
        try:
            with self._database.transaction() as transaction:
                transaction.run((plain_statement("lock_ddl"), {"number": _LOCK}))
                (rows,) = transaction.run((plain_statement("vector_type"), {}))
                if rows[0][0] != "vector":
                    names = ("make_extension", "take_vectors", "keep_inline")
                    transaction.commit(*((plain_statement(name), {}) for name in names))
        except StoreError as error:
            raise ConfigurationError(
                "vectors in PostgreSQL need the extension pgvector: install it on the server and let an administrator "
                f"run CREATE EXTENSION vector in this database (searching by words works without it): {error}"
            ) from error


def _condition(filters: Filter | None, tokens: Tokens, labels: str) -> PostgresCondition:
    return condition_for(None if filters is None else wanted_for(filters, tokens), labels=labels)


def _labels(entry: IndexEntry, tokens: Tokens) -> list[int]:
    return [number_of(label) for label in tokens.labels(entry.metadata)]


def _text_of(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"


def _sorted(found: Sequence[Row], limit: int) -> list[tuple[str, float]]:
    """Best first; cosines of unit vectors may be a rounding beyond 1."""
    nearest = [(entry_id, min(1.0, max(-1.0, cosine))) for entry_id, cosine in found]
    return sorted(nearest, key=lambda one: (-one[1], one[0]))[:limit]
