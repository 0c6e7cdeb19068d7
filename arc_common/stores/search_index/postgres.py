"""How PostgreSQL finds entries: words and labels by arrays of tokens under GIN, vectors by pgvector."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.exceptions import ConfigurationError, InvalidInputError, StoreError
from arc_common.filters import Filter
from arc_common.protocols.search_index import IndexEntry, LexicalCandidates
from arc_common.retrieval.bm25 import BM25
from arc_common.stores.connection import Database
from arc_common.stores.drivers import Call, PackedVector, Row
from arc_common.stores.search_index.filters import Tokens, canonical_number, number_of, wanted_for
from arc_common.stores.search_index.postgres_measuring import QUESTIONS, measured
from arc_common.stores.search_index.postgres_statements import (
    DEPTHS,
    Graph,
    PostgresCondition,
    Reach,
    Walk,
    condition_for,
    count_statement,
    ddl_statement,
    exact_statement,
    index_ddl,
    index_name,
    indexed_as,
    lexical_statement,
    plain_statement,
    sample_statement,
    scan_statement,
    walking_statement,
    walks_for,
)
from arc_common.stores.search_index.rows import Held, Known, candidates, check_comparable
from arc_common.stores.search_index.statements import index_statements_for

_LOCK = 0x6172_6302
"""The advisory lock under which tables are changed at run time ("arc", 2)."""


class PostgresKeeping:
    """The columns that only PostgreSQL has, the counts of terms, and the changes of tables that vectors call for.

    Args:
        database: Where the tables are.
        graph_from: See `SqlIndexStore`.
    """

    def __init__(self, database: Database, *, graph_from: int) -> None:
        self._database = database
        self._graph_from = graph_from
        self._has_vectors = False
        self._built: set[int] = set()

    def before_vectors(self) -> None:
        """See that vectors have pgvector's type.

        Raises:
            ConfigurationError: The server has no pgvector, or this user may not turn it on.
        """
        if not self.has_vectors():
            self._take_pgvector()
            self._has_vectors = True

    def has_vectors(self) -> bool:
        """Whether vectors have pgvector's type: without it there are none, and it may not be installed."""
        if not self._has_vectors:
            ((kind,),) = self._database.read((plain_statement("vector_type"), {}))
            self._has_vectors = kind == "vector"
        return self._has_vectors

    def after_vectors(self, key: Mapping[str, str], held: Held) -> None:  # noqa: ARG002 - who measures asks for it
        """Build the graph of a dimension when a scope has come to so many vectors that it will be used."""
        dimension = held.dimension
        if (
            dimension is None
            or held.vectors <= self._graph_from
            or dimension in self._built
            or not indexed_as(dimension)
        ):
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
        }

    def vector_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:
        """What is stored of a vector."""
        assert entry.vector is not None  # noqa: S101 - who has none is not asked
        return {
            "vector": PackedVector.of(entry.vector),
            "entry_id": entry.id,
            "sample": int.from_bytes(tokens.of(entry.id)[:4], "big", signed=True),
            "labels": _labels(entry, tokens),
        }

    def value_columns(self, row: dict[str, Any]) -> dict[str, Any]:
        """What is stored of a value: a number with all its digits, which a float would lose."""
        number = row["number"]
        return row if number is None else {**row, "number": canonical_number(number)}

    def read_vector(self, stored: str) -> NDArray[np.float32]:
        """A vector as it was given."""
        return np.fromstring(stored[1:-1], dtype=np.float32, sep=",")

    def unpacked(self, stored: bytes) -> NDArray[np.float32]:
        """The same, as pgvector sends it."""
        return PackedVector(stored).unpacked()

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


def _labels(entry: IndexEntry, tokens: Tokens) -> list[int]:
    return [number_of(label) for label in tokens.labels(entry.metadata)]


_log = logging.getLogger("arc.stores")

# What statements call an entry's row and its labels.
_ENTRIES = "entry.id", "entry.tokens"
_WHOLE_ENTRIES = "arc_index_entries.id", "arc_index_entries.tokens"
_VECTORS = "held.id", "held.labels"

_SAMPLE = 256
"""Vectors that are asked how many pass a filter. A share of 10 % is then told from one of 4 % all but always."""

_SECONDS = 60.0
"""For which what was learned is believed: it decides how to search, not what is found."""

_LEARNED = 4096
"""Scopes, graphs and shares that are remembered; then all are forgotten."""


class PostgresIndex(PostgresKeeping):
    """The part of `SqlIndexStore` that only PostgreSQL has.

    - A search in a scope that was searched before takes one round trip; one more when it has to learn how much a filter
      lets through, and the first one another.
    - A dense search never returns fewer than match: what the graph leaves short is searched exactly.

    Args:
        database: Where the tables are.
        bm25: The formula that candidates are found by.
        graph_from: See `SqlIndexStore`.
    """

    def __init__(self, database: Database, *, bm25: BM25, graph_from: int) -> None:
        super().__init__(database, graph_from=graph_from)
        self._bm25 = bm25
        self._common = index_statements_for("postgresql")
        self._learned: dict[Any, tuple[float, Any]] = {}
        self._measured: dict[int, Reach] = {}

    def close(self) -> None:
        """Nothing is held."""

    def after_vectors(self, key: Mapping[str, str], held: Held) -> None:
        """Build a graph where it will be used, and measure how wide its walks have to be as a scope grows.

        Who adds vectors waits for it: 10 to 17 seconds at 100,000 × 384, each time that a scope has grown by half. What
        is added is stored by then: where measuring fails, all is compared until the scope has grown further.
        """
        super().after_vectors(key, held)
        if held.dimension not in self._built or held.vectors <= self._graph_from:
            return
        if self._measured.get(held.id, Reach()).holds(held.embedder, held.vectors):
            return
        sizes, rows = self._database.snapshot(
            (plain_statement("graph"), {"name": index_name(held.dimension)}),
            (plain_statement("reach"), _place(key, held)),
        )
        stored = Reach(*rows[0]) if rows else Reach()
        if not sizes or stored.holds(held.embedder, held.vectors):
            self._measured[held.id] = stored
            return
        # others who add meanwhile leave it to this one
        density = held.vectors / max(sizes[0][0], held.vectors)
        self._measured[held.id] = reach = Reach(held.embedder, held.vectors, density)
        try:
            self._measured[held.id] = reach = self._measure(key, held, reach)
        except StoreError as error:
            _log.warning("walks of %d vectors are not measured, all are compared: %s", held.vectors, error)
            return
        self._remember(_reach_name(held), reach)

    def _measure(self, key: Mapping[str, str], held: Held, reach: Reach) -> Reach:
        """The widths with it; they are stored for other processes."""
        rows = self._database.read((plain_statement("sample"), {**_place(key, held), "row_limit": 2 * QUESTIONS}))

        def compare(question: NDArray[np.float32]) -> list[float]:
            return [cosine for _, cosine in self._compared(_asked(key, held, question, DEPTHS[-1]), None, None)]

        def walk(question: NDArray[np.float32], width: int) -> list[float]:
            walk = Walk.in_graph(len(question), width)
            return [cosine for _, cosine in self._walked(walk, _asked(key, held, question, DEPTHS[-1]), None)]

        near, aside, cosines = measured([self.unpacked(row[0]) for row in rows], compare, walk)
        reach = replace(reach, near=near, aside=aside, cosines=cosines)
        with self._database.transaction() as transaction:
            transaction.commit((plain_statement("keep_reach"), {**_place(key, held), **asdict(reach)}))
        return reach

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
        names: list[int] = []

        def calls(held: Held) -> list[Call]:
            tokens = Tokens(held.salt)
            names[:] = [number_of(tokens.of(term)) for term in terms]
            condition = _condition(filters, tokens, _ENTRIES)
            asked = {
                **condition.parameters,
                **_place(key, held),
                "tokens": names,
                "weights": [float(weight) for weight in terms.values()],
                "k1": float(self._bm25.k1),
                "b": float(self._bm25.b),
                "row_limit": limit,
                **({} if ids is None else {"ids": list(ids)}),
            }
            statement = lexical_statement(condition.sql, with_ids=ids is not None)
            counting = plain_statement("holders"), {**_place(key, held), "tokens": names}
            return [counting, (statement, asked)]

        held, rows = self._ask(key, calls)
        if held is None:
            return candidates(None, [], [0] * len(terms))
        counted, found = rows
        holders = {row[0]: row[1] for row in counted}
        # a row without a frequency has a token that is some other word's too: once in centuries
        having = [(entry_id, length, frequencies) for entry_id, length, frequencies in found if any(frequencies)]
        return candidates(held, having, [holders.get(name, 0) for name in names])

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
        if not limit:
            return []

        def nearest(held: Held) -> list[tuple[str, float]]:
            if held.embedding is None:
                return []
            check_comparable(held.embedding, embedder, len(vector))
            return self._nearest(key, held, vector, filters=filters, ids=ids, limit=limit, exact=exact)

        # What the scope was at the last search hardly ever changes. If it has, nothing is found: the statement asks.
        remembered: Held | None = self._remembered(_name(key))
        if remembered is not None:
            with suppress(InvalidInputError):  # said about vectors that may have gone
                if found := nearest(remembered):
                    return found
        while (held := self._look(key)) is not None:
            if (found := nearest(held)) or _is_same(held, self._look(key)):
                return found
        return []

    def _nearest(
        self,
        key: Mapping[str, str],
        held: Held,
        vector: NDArray[np.float32],
        *,
        filters: Filter | None,
        ids: Collection[str] | None,
        limit: int,
        exact: bool,
    ) -> list[tuple[str, float]]:
        """The nearest of a scope, if it still is what it was taken for; else nothing."""
        asked = _asked(key, held, vector, limit)
        for walk in [] if exact or ids is not None else self._walks(key, held, filters, limit=limit):
            found = self._walked(walk, asked, filters)
            if len(found) >= limit and found[-1][1] >= walk.cosine:
                return found
        return self._compared(asked, filters, ids)

    def _compared(
        self, asked: Mapping[str, Any], filters: Filter | None, ids: Collection[str] | None
    ) -> list[tuple[str, float]]:
        """The nearest of all that pass."""
        tokens, named = Tokens(asked["salt"]), {} if ids is None else {"ids": list(ids)}
        condition = _condition(filters, tokens, _VECTORS, planned_once=True)
        if filters is None or condition.finds:
            statement = exact_statement(condition.sql, with_ids=ids is not None, found=condition.finds)
            rows = self._database.read((statement, {**asked, **condition.parameters, **named}))
        else:  # one plan for all takes the scope for one of mean size: row by row, 100,000 take 540 ms instead of 70
            condition = _condition(filters, tokens, _VECTORS)
            statement = exact_statement(condition.sql, with_ids=ids is not None)
            call = statement, {**asked, **condition.parameters, **named}
            _, rows = self._database.snapshot((plain_statement("plan_anew"), {}), call)
        return _best(rows, asked["row_limit"])

    def _walked(self, walk: Walk, asked: Mapping[str, Any], filters: Filter | None) -> list[tuple[str, float]]:
        """What a walk comes by: fewer than asked for where few of those near pass."""
        limit, condition = asked["row_limit"], _condition(filters, Tokens(asked["salt"]), _VECTORS)
        settings = {"ef_search": str(walk.ef_search), "row_limit": walk.looked_at(limit)}
        call = (
            walking_statement(condition.sql, dimension=asked["dimension"]),
            {**asked, **condition.parameters, **settings},
        )
        if walk.precise:
            found = self._database.read(call)
        else:  # vectors outside their rows, which the database takes for cheap to read one by one
            _, found = self._database.snapshot((plain_statement("never_sort"), {}), call)
        return _best(found, limit)

    def count(self, key: Mapping[str, str], filters: Filter) -> int:
        """How many entries match."""

        def calls(held: Held) -> list[Call]:
            condition = _condition(filters, Tokens(held.salt), _ENTRIES)
            return [(count_statement(condition.sql), {**condition.parameters, **_place(key, held)})]

        held, rows = self._ask(key, calls)
        return int(rows[0][0][0]) if held else 0

    def scan(self, key: Mapping[str, str], filters: Filter, *, unembedded: bool, after: str, limit: int) -> list[Row]:
        """The first rows by id whose metadata match."""

        def calls(held: Held) -> list[Call]:
            condition = _condition(filters, Tokens(held.salt), _WHOLE_ENTRIES)
            asked = {**condition.parameters, **key, **_place(key, held), "after": after, "row_limit": limit}
            return [(scan_statement(condition.sql, unembedded=unembedded), asked)]

        held, rows = self._ask(key, calls)
        return rows[0] if held else []

    def _ask(
        self, key: Mapping[str, str], calls: Callable[[Held], Sequence[Call]]
    ) -> tuple[Held | None, list[list[Row]]]:
        """What a scope holds, and the rows of calls made for it, all of one moment.

        What it held at the last search tells its row and its salt, which hardly ever change: the calls go out with the
        question whether they still are the same.

        Args:
            key: The scope.
            calls: Makes the calls.
        """
        held = self._remembered(_name(key)) or self._look(key)
        while held is not None:
            found, *rows = self._database.snapshot((self._common.scope, key), *calls(held))
            now = Held(*found[0]) if found else None
            self._remember(_name(key), now)
            if _is_same(held, now):
                return now, rows
            held = now
        return None, []

    def _look(self, key: Mapping[str, str]) -> Held | None:
        """What a scope holds, remembered for the next search."""
        found = self._database.read((self._common.scope, key))
        held = Held(*found[0]) if found else None
        self._remember(_name(key), held)
        return held

    def _walks(self, key: Mapping[str, str], held: Held, filters: Filter | None, *, limit: int) -> list[Walk]:
        """How to walk the graph, by what is known of it and of the filter; asks if nothing is known."""
        if held.dimension is None or held.vectors <= self._graph_from:
            return []
        size = held.vectors.bit_length()  # a scope that has doubled is asked anew
        graph_name, share_name = ("graph", held.dimension), ("share", held.id, size, repr(filters))
        graph, reach = self._remembered(graph_name), self._remembered(_reach_name(held))
        share = 1.0 if filters is None else self._remembered(share_name)
        if graph is None or reach is None or share is None:
            condition = _condition(filters, Tokens(held.salt), _VECTORS)
            sample = {**condition.parameters, **_place(key, held), "row_limit": _SAMPLE}
            sizes, reaches, ((looked_at, passing),) = self._database.snapshot(
                (plain_statement("graph"), {"name": index_name(held.dimension)}),
                (plain_statement("reach"), _place(key, held)),
                (sample_statement(condition.sql), sample),
            )
            if not sizes:  # it may be there at the next search
                return []
            graph, share = Graph(held.dimension, sizes[0][0]), passing / max(looked_at, 1)
            reach = Reach(*reaches[0]) if reaches else Reach()
            self._remember(graph_name, graph)
            self._remember(_reach_name(held), reach)
            self._remember(share_name, share)
        if reach.embedder != held.embedder:
            return []
        return walks_for(graph, reach, compared=self._graph_from, vectors=held.vectors, share=share, limit=limit)

    def _remembered(self, name: Any) -> Any:
        at, value = self._learned.get(name, (0.0, None))
        return value if monotonic() - at < _SECONDS else None

    def _remember(self, name: Any, value: Any) -> None:
        if len(self._learned) >= _LEARNED:
            self._learned.clear()
        self._learned[name] = monotonic(), value  # at once, without a lock that a fork could leave held


def _condition(
    filters: Filter | None, tokens: Tokens, columns: tuple[str, str], *, planned_once: bool = False
) -> PostgresCondition:
    row, labels = columns
    wanted = None if filters is None else wanted_for(filters, tokens)
    return condition_for(wanted, row=row, labels=labels, planned_once=planned_once)


def _place(key: Mapping[str, str], held: Held) -> dict[str, Any]:
    return {"scope": held.id, "caller_id": key["caller_id"]}


def _asked(key: Mapping[str, str], held: Held, vector: NDArray[np.float32], limit: int) -> dict[str, Any]:
    return {
        **_place(key, held),
        "salt": held.salt,
        "embedder": held.embedder,
        "dimension": held.dimension,
        "vector": PackedVector.of(vector),
        "row_limit": limit,
    }


def _reach_name(held: Held) -> tuple[str, int, str | None]:
    return "reach", held.id, held.embedder


def _name(key: Mapping[str, str]) -> tuple[str, ...]:
    return "held", *key.values()


def _is_same(one: Held, other: Held | None) -> bool:
    """Whether statements made for the one hold for the other."""
    return other is not None and (one.id, one.salt, one.embedding) == (other.id, other.salt, other.embedding)


def _best(found: Sequence[Row], limit: int) -> list[tuple[str, float]]:
    """Best first, of ids with negative cosines; those of unit vectors may be a rounding beyond 1."""
    nearest = sorted((min(1.0, max(-1.0, opposite)), entry_id) for entry_id, opposite in found)
    return [(entry_id, -opposite) for opposite, entry_id in nearest[:limit]]
