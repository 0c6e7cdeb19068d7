"""The index's SQL statements that only PostgreSQL has. Pure.

Their places in braces take conditions of `index_postgres_filters` and types with a dimension, never a value.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from math import nan
from typing import Any, Self

from sqlalchemy import text

from arc_common.stores.conversations_statements import Statement, compiler_for
from arc_common.stores.schema import PREFIX, index_tables
from arc_common.stores.search_index.filters import (
    SIGNS,
    All,
    Either,
    HasLabel,
    Neither,
    Ordered,
    Wanted,
    canonical_number,
    number_of,
)
from arc_common.stores.search_index.statements import whole_entries

_COMPARING = """EXISTS (
    SELECT 1 FROM arc_index_values AS asked
    WHERE asked.scope = :scope AND asked.caller_id = :caller_id
      AND asked.id = {row} AND asked.label = {label} AND {test})"""
# Estimating how many there are is beyond the database, which knows the numbers of all keys together: told to gather
# them first it takes 1 ms for 1,000 of 100,000; left alone it reads all 100,000, in 60. The label is under the scope's
# own salt, and the rows are asked for scope and caller: asked here too, they had to be read beside the index, which
# takes half as long again.
_GATHERED = """{row} = ANY (ARRAY(
    SELECT asked.id FROM arc_index_values AS asked WHERE asked.label = {label} AND {test}))"""
_NUMBERS = "asked.number {sign} {value}"
_TEXTS = "asked.prefix {loosely} left({value}, {width}) AND coalesce(asked.text, asked.prefix) {sign} {value}"


@dataclass(frozen=True, slots=True)
class PostgresCondition:
    """A condition on the rows of one table.

    Args:
        sql: It, in parentheses. It takes the parameters `scope` and `caller_id` too.
        parameters: Its own parameters.
        finds: Whether an index of its own finds what passes, which is of one scope, as labels are under its salt.
    """

    sql: str = "TRUE"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    finds: bool = False


def condition_for(wanted: Wanted | None, *, row: str, labels: str, planned_once: bool = False) -> PostgresCondition:
    """What a filter asks for.

    Args:
        wanted: The filter; `None` for none.
        row: The column with an entry's row.
        labels: The column with its labels, which may hold other tokens too.
        planned_once: Whether one plan does for all values. It looks up first, not row by row, what rows are to pass.
    """
    if wanted is None:
        return PostgresCondition()
    writer = _Writer(row, labels)
    sql = writer.sql(wanted, planned_once=planned_once)
    return PostgresCondition(sql, writer.parameters, finds=planned_once and _finds(wanted))


def _finds(wanted: Wanted) -> bool:
    match wanted:
        case HasLabel() | Ordered():
            return True
        case All(parts):
            return any(map(_finds, parts))
        case Either(parts):
            return all(map(_finds, parts))
        case Neither():
            return False


class _Writer:
    def __init__(self, row: str, labels: str) -> None:
        self._row = row
        self._labels = labels
        self._names: Iterator[str] = (f"asked_{n}" for n in count())
        self.parameters: dict[str, Any] = {}

    def sql(self, wanted: Wanted, *, planned_once: bool = False) -> str:
        match wanted:
            case HasLabel(labels):
                # spelt out: psycopg looks for a list's types anew each time, a third of what sending a search takes
                numbers = ",".join(str(number_of(label)) for label in labels)
                asked = self._given(f"{{{numbers}}}", "BIGINT[]", hidden=planned_once)
                return f"({self._labels} && {asked})"
            case Ordered():
                return self._comparing(wanted, planned_once=planned_once)
            case All(parts):
                return _joined(" AND ", "TRUE", [self.sql(part, planned_once=planned_once) for part in parts])
            case Either(parts):
                return _joined(" OR ", "FALSE", [self.sql(part, planned_once=planned_once) for part in parts])
            case Neither(part):
                return f"(NOT {self.sql(part)})"

    def _comparing(self, wanted: Ordered, *, planned_once: bool) -> str:
        value = wanted.condition.value
        sign = SIGNS[wanted.condition.comparison]
        if isinstance(value, int | float):
            test = _NUMBERS.format(
                sign=sign, value=self._given(canonical_number(value), "NUMERIC", hidden=planned_once)
            )
        else:
            loosely = sign.rstrip("=") + "="
            asked = self._given(value, "TEXT", hidden=planned_once)
            test = _TEXTS.format(sign=sign, loosely=loosely, value=asked, width=PREFIX)
        label = self._given(number_of(wanted.label), "BIGINT", hidden=planned_once)
        return (_GATHERED if planned_once else _COMPARING).format(row=self._row, label=label, test=test)

    def _given(self, value: Any, kind: str, *, hidden: bool) -> str:
        name = next(self._names)
        self.parameters[name] = value
        # As long as it sees a value, the database plans each search anew, for that value: 0.1 ms.
        return f"(SELECT CAST(:{name} AS {kind}))" if hidden else f"CAST(:{name} AS {kind})"


def _joined(by: str, empty: str, parts: list[str]) -> str:
    return f"({by.join(parts)})" if parts else empty


DEPTHS = (10, 50, 100)
"""How many of the nearest are looked for when walks are measured."""

_UNKNOWN = (nan,) * len(DEPTHS)

WIDEST = 1000
"""The greatest `ef_search` that pgvector takes."""

_WIDTHS = (120, 170, 240, 340, 480, 680, WIDEST)
"""Of the walks that are measured."""

_GROWTH = 1.5
"""A scope is measured again when it has so many times as many vectors, or is as much smaller."""

_VECTOR = 2000
_HALF = 4000
"""The most dimensions of pgvector's graphs, of full and of half precision."""


@dataclass(frozen=True, slots=True)
class Graph:
    """An HNSW index.

    Args:
        dimension: Of its vectors.
        vectors: About how many it has, of all scopes.
    """

    dimension: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Reach:
    """How wide walks have to be in a scope, as measured; without arguments, not yet.

    What was measured is given for each of `DEPTHS`.

    Args:
        embedder: What its vectors came from.
        vectors: How many it had.
        density: The part of the graph that they were: 0 to 1.
        near: The `ef_search` that finds the nearest for questions near what is stored; NaN if none does.
        aside: The same for questions that lie aside of it.
        cosines: Where the last one found is less near than that, a question is taken to lie aside.
    """

    embedder: str | None = None
    vectors: int = 0
    density: float = 1.0
    near: Sequence[float] = _UNKNOWN
    aside: Sequence[float] = _UNKNOWN
    cosines: Sequence[float] = _UNKNOWN

    def holds(self, embedder: str | None, vectors: int) -> bool:
        """Whether it still says something about a scope that now has so many vectors."""
        return self.embedder == embedder and self.vectors < vectors * _GROWTH and vectors < self.vectors * _GROWTH


@dataclass(frozen=True, slots=True)
class Walk:
    """How the graph is walked.

    Args:
        ef_search: How many vectors are looked at before the best of them are taken.
        precise: Whether the graph holds the vectors as they are, not at half their precision.
        cosine: If the last one found is less near, another search has to be made.
    """

    ef_search: int
    precise: bool = True
    cosine: float = -1.0

    @classmethod
    def in_graph(cls, dimension: int, ef_search: float, *, cosine: float = -1.0) -> Self:
        """A walk of the graph of a dimension."""
        return cls(round(ef_search), precise=dimension <= _VECTOR, cosine=cosine)

    def looked_at(self, limit: int) -> int:
        """How many are to be compared at full precision, so that so many are the best."""
        return limit if self.precise else 2 * limit


def least_width(finds: Callable[[int], bool]) -> float:
    """The least `ef_search` that finds enough; NaN if none does.

    Args:
        finds: Whether walks of a width find enough. Wider ones are taken to find no less.
    """
    place = bisect_left(_WIDTHS, True, key=finds)
    return float(_WIDTHS[place]) if place < len(_WIDTHS) else nan


def walks_for(graph: Graph, reach: Reach, *, compared: int, vectors: int, share: float, limit: int) -> list[Walk]:
    """How to walk the graph, and how if that does not find enough; then, all vectors that pass are to be compared.

    Args:
        graph: The one of the dimension.
        reach: How wide walks have to be where all pass.
        compared: So many vectors are compared rather than found by the shortest walk; rather than by one twice as wide,
            twice as many.
        vectors: How many the scope has.
        share: Of them, how many pass the filter: 0 to 1.
        limit: How many are wanted.
    """
    passing = vectors * share
    if passing <= compared:
        return []
    depth = limit * reach.density * max(graph.vectors, vectors) / passing
    deeper = max(1.0, depth / DEPTHS[-1])
    near, aside = _at(depth, reach.near) * deeper, _at(depth, reach.aside) * deeper
    widths = {near: -1.0} if aside <= near else {near: _at(depth, reach.cosines), aside: -1.0}
    return [
        Walk.in_graph(graph.dimension, width, cosine=cosine)
        for width, cosine in widths.items()
        if width <= WIDEST and compared * width < passing * _WIDTHS[0]
    ]


def _at(depth: float, measured: Sequence[float]) -> float:
    """What was measured for a depth, or between those that are next to it."""
    place = bisect_left(DEPTHS, depth)
    if place in (0, len(DEPTHS)):
        return measured[min(place, len(DEPTHS) - 1)]
    before, behind = DEPTHS[place - 1], DEPTHS[place]
    part = (depth - before) / (behind - before)
    return measured[place - 1] * (1 - part) + measured[place] * part


def index_name(dimension: int) -> str:
    """The graph's name."""
    return f"arc_index_vectors_hnsw_{dimension}"


def indexed_as(dimension: int) -> str | None:
    """The type that a graph holds vectors as; `None` if there is no graph for so many dimensions."""
    if dimension > _HALF:
        return None
    return f"vector({dimension})" if dimension <= _VECTOR else f"halfvec({dimension})"


def index_ddl(dimension: int) -> str:
    """The statement that makes the graph."""
    operators = "vector_ip_ops" if dimension <= _VECTOR else "halfvec_ip_ops"
    return (
        f"CREATE INDEX IF NOT EXISTS {index_name(dimension)} ON arc_index_vectors "
        f"USING hnsw (CAST(vector AS {indexed_as(dimension)}) {operators}) WHERE vector_dims(vector) = {dimension}"
    )


_KEPT = 256
"""Shapes of filters whose statements are kept compiled."""

_LEXICAL = """
WITH norm AS MATERIALIZED (
    SELECT entries, CASE WHEN total_length > 0 THEN :k1 * (1 - :b) ELSE :k1 END AS base,
           CASE WHEN total_length > 0 THEN :k1 * :b * entries / total_length ELSE 0 END AS slope
    FROM arc_index_scopes WHERE id = :scope AND caller_id = :caller_id
), asked AS MATERIALIZED (
    SELECT given.token, given.place, given.weight * ln(1 + (
        norm.entries - coalesce(terms.entries, 0) + 0.5) / (coalesce(terms.entries, 0) + 0.5)) AS impact
    FROM norm, unnest(CAST(:tokens AS BIGINT[]), CAST(:weights AS DOUBLE PRECISION[]))
         WITH ORDINALITY AS given (token, weight, place)
    LEFT JOIN arc_index_terms AS terms
        ON terms.scope = :scope AND terms.caller_id = :caller_id AND terms.token = given.token
)
SELECT best.entry_id, best.length, ARRAY(
    SELECT coalesce(best.frequencies[array_position(best.tokens, asked.token)], 0) FROM asked ORDER BY asked.place
)
FROM (
    SELECT entry_id, length, tokens, frequencies, (
        SELECT sum(asked.impact * held.frequency / (held.frequency + norm.base + norm.slope * entry.length))
        FROM asked,
             LATERAL (SELECT frequencies[array_position(tokens, asked.token)] OFFSET 0) AS held (frequency)
        WHERE held.frequency IS NOT NULL
    ) AS score
    FROM norm, arc_index_entries AS entry
    WHERE entry.scope = :scope AND entry.caller_id = :caller_id
      AND tokens && CAST(:tokens AS BIGINT[]) AND {condition} {ids}
    ORDER BY score DESC NULLS LAST, entry_id LIMIT :row_limit
) AS best
"""

# Asked once, before anything else is read: whether the scope is the one that the statement was made for.
_STILL = """(
    SELECT TRUE FROM arc_index_scopes AS still
    WHERE still.id = :scope AND still.caller_id = :caller_id AND still.salt = :salt
      AND still.embedder = :embedder AND still.dimension = :dimension)"""

# What is returned is what is ordered by, to the letter: else both are computed, for every row that passes.
_EXACT = (
    """
SELECT held.entry_id, held.vector <#> CAST(:vector AS vector)
FROM arc_index_vectors AS held
WHERE {scope} = :scope AND held.caller_id = :caller_id AND {condition} {ids} AND """
    + _STILL
    + """
ORDER BY held.vector <#> CAST(:vector AS vector), held.entry_id LIMIT (SELECT CAST(:row_limit AS BIGINT))
"""
)

# The setting holds for this statement. It is made before the scan begins, as all that is asked once. Scope and
# filter are written so that no other index fits: where the graph is walked, the others are slower than they look.
_WALKING = (
    """
SELECT held.entry_id, held.vector <#> CAST(:vector AS vector)
FROM arc_index_vectors AS held
WHERE vector_dims(held.vector) = {dimension} AND held.scope + 0 = :scope AND held.caller_id = :caller_id
  AND ({condition}) IS TRUE
  AND (SELECT set_config('hnsw.ef_search', :ef_search, true) <> '') AND """
    + _STILL
    + """
ORDER BY CAST(held.vector AS {type}) <#> CAST(:vector AS {type}) LIMIT :row_limit
"""
)

_SAMPLE = """
SELECT count(*), count(*) FILTER (WHERE {condition})
FROM (
    SELECT id, labels FROM arc_index_vectors WHERE scope = :scope AND caller_id = :caller_id
    ORDER BY sample LIMIT :row_limit
) AS held
"""

_COUNT = """
SELECT count(*) FROM arc_index_entries AS entry
WHERE entry.scope = :scope AND entry.caller_id = :caller_id AND {condition}
"""

_PLAIN = {
    "holders": """
        SELECT token, entries FROM arc_index_terms
        WHERE scope = :scope AND caller_id = :caller_id AND token = ANY (CAST(:tokens AS BIGINT[]))""",
    "count_terms": """
        INSERT INTO arc_index_terms (scope, caller_id, token, entries)
        SELECT CAST(:scope AS BIGINT), CAST(:caller_id AS VARCHAR), change.token, change.more
        FROM unnest(CAST(:tokens AS BIGINT[]), CAST(:more AS BIGINT[])) AS change (token, more)
        ON CONFLICT (scope, token) DO UPDATE SET entries = arc_index_terms.entries + excluded.entries""",
    "drop_terms": """
        DELETE FROM arc_index_terms
        WHERE scope = :scope AND caller_id = :caller_id AND token = ANY (CAST(:tokens AS BIGINT[])) AND entries <= 0""",
    "graph": """
        SELECT CAST(greatest(class.reltuples, 0) AS BIGINT)
        FROM pg_class AS class JOIN pg_index AS index ON index.indexrelid = class.oid
        WHERE class.oid = to_regclass(:name) AND index.indisvalid""",
    "reach": """
        SELECT embedder, vectors, density, near, aside, cosines FROM arc_index_walks
        WHERE scope = :scope AND caller_id = :caller_id""",
    "keep_reach": """
        INSERT INTO arc_index_walks (scope, caller_id, embedder, vectors, density, near, aside, cosines)
        SELECT id, caller_id, :embedder, :vectors, :density, CAST(:near AS FLOAT8[]), CAST(:aside AS FLOAT8[]),
            CAST(:cosines AS FLOAT8[])
        FROM arc_index_scopes WHERE id = :scope AND caller_id = :caller_id
        ON CONFLICT (scope) DO UPDATE SET embedder = excluded.embedder, vectors = excluded.vectors,
            density = excluded.density, near = excluded.near, aside = excluded.aside, cosines = excluded.cosines""",
    "sample": """
        SELECT vector_send(vector) FROM arc_index_vectors WHERE scope = :scope AND caller_id = :caller_id
        ORDER BY sample LIMIT :row_limit""",
    "vector_type": """
        SELECT format_type(atttypid, NULL) FROM pg_attribute
        WHERE attrelid = CAST('arc_index_vectors' AS regclass) AND attname = 'vector'""",
    "never_sort": "SELECT set_config('enable_sort', 'off', true)",
    "plan_anew": "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)",
    "lock_ddl": "SELECT pg_advisory_xact_lock(:number)",
    "build_memory": "SELECT set_config('maintenance_work_mem', '256MB', true)",
    "make_extension": "CREATE EXTENSION IF NOT EXISTS vector",
    "take_vectors": "ALTER TABLE arc_index_vectors ALTER COLUMN vector TYPE vector USING NULL",
    "keep_inline": "ALTER TABLE arc_index_vectors ALTER COLUMN vector SET STORAGE MAIN",
}


@lru_cache(_KEPT)
def plain_statement(name: str) -> Statement:
    """A statement that is always the same."""
    return _compiled(_PLAIN[name])


@lru_cache(_KEPT)
def ddl_statement(sql: str) -> Statement:
    """A statement without parameters."""
    return _compiled(sql)


@lru_cache(_KEPT)
def lexical_statement(condition: str, *, with_ids: bool) -> Statement:
    """The best entries that have a term: id, length and the frequencies of all terms."""
    return _compiled(_LEXICAL.format(condition=condition, ids=_ids("entry", with_ids)))


@lru_cache(_KEPT)
def exact_statement(condition: str, *, with_ids: bool, found: bool = False) -> Statement:
    """The nearest of all that pass: id and negative cosine.

    Args:
        condition: What they must pass.
        with_ids: Whether they are named, too.
        found: Whether an index finds what passes. Another one would then gather the whole scope besides, where scopes
            are so many that the database takes each for small: 2.5 ms for 1,000 of 100,000, instead of 0.6.
    """
    scope = "held.scope + 0" if found else "held.scope"
    return _compiled(_EXACT.format(condition=condition, ids=_ids("held", with_ids), scope=scope))


@lru_cache(_KEPT)
def walking_statement(condition: str, *, dimension: int) -> Statement:
    """The nearest along the graph: id and negative cosine."""
    return _compiled(_WALKING.format(condition=condition, dimension=dimension, type=indexed_as(dimension)))


@lru_cache(_KEPT)
def sample_statement(condition: str) -> Statement:
    """How many of a scope's vectors were looked at, and how many of them pass."""
    return _compiled(_SAMPLE.format(condition=condition))


@lru_cache(_KEPT)
def count_statement(condition: str) -> Statement:
    """How many entries pass."""
    return _compiled(_COUNT.format(condition=condition))


@lru_cache(_KEPT)
def scan_statement(condition: str, *, unembedded: bool) -> Statement:
    """The first entries by id that pass, with all that they have."""
    tables = index_tables("postgresql")
    more = [tables.vectors.c.id.is_(None)] if unembedded else []
    return compiler_for("postgresql")(whole_entries(tables, text(condition), *more))


def _ids(table: str, with_ids: bool) -> str:
    return f"AND {table}.entry_id = ANY (CAST(:ids AS VARCHAR[]))" if with_ids else ""


def _compiled(sql: str) -> Statement:
    return compiler_for("postgresql")(text(sql))
