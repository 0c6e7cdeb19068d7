"""The index's SQL statements that only PostgreSQL has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from math import ceil
from typing import Any

from sqlalchemy import text

from arc_common.stores.conversations_statements import Statement, compiler_for
from arc_common.stores.schema import PREFIX, index_tables
from arc_common.stores.search_index.entries import whole_entries
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
    """A condition on the rows of one table, which takes the parameters `scope` and `caller_id` beside its own."""

    sql: str = "TRUE"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    finds: bool = False
    """An index of its own finds what passes, which is of one scope, as labels are under its salt."""


def condition_for(wanted: Wanted | None, *, row: str, labels: str, planned_once: bool = False) -> PostgresCondition:
    """Write a filter on the columns `row` and `labels`; if planned once, so that one plan does for all its values."""
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
    """Return the type of the graph's vectors, or `None` if there is no graph for so many dimensions."""
    if dimension > _HALF:
        return None
    return f"vector({dimension})" if is_precise(dimension) else f"halfvec({dimension})"


def index_ddl(name: str, kind: str, dimension: int) -> str:
    """Return the statement that builds a graph while others write."""
    return (
        f"CREATE INDEX CONCURRENTLY {name} ON arc_index_vectors "
        f"USING hnsw (CAST(vector AS {kind}) {kind.partition('(')[0]}_ip_ops) WHERE vector_dims(vector) = {dimension}"
    )


def is_built(name: str) -> str:
    """Return the statement that tells whether a graph is there and complete."""
    return f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')"  # noqa: S608 - a name of ours


# The scope is still the one that the statement was made for. This is asked once, before anything else is read.
_STILL = """(
    SELECT TRUE FROM arc_index_scopes AS still
    WHERE still.id = :scope AND still.caller_id = :caller_id AND still.salt = :salt
      AND still.embedder = :embedder AND still.dimension = :dimension)"""

_SQL = {
    "lexical": """
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
) AS best""",
    # The cosine is returned as it is ordered by, to the letter: else both are computed, for every row that passes.
    "exact": f"""
SELECT held.entry_id, held.vector <#> CAST(:vector AS vector)
FROM arc_index_vectors AS held
WHERE {{scope}} = :scope AND held.caller_id = :caller_id AND {{condition}} {{ids}} AND {_STILL}
ORDER BY held.vector <#> CAST(:vector AS vector), held.entry_id LIMIT (SELECT CAST(:row_limit AS BIGINT))""",  # noqa: S608 - `_STILL` is above
    # The setting holds for this statement, and is made before the scan begins. Scope and filter are written so that no
    # other index fits: where the graph is walked, the others are slower than they look. Iterative scans (pgvector 0.8)
    # are off: they found no more than a walk of the same width, and comparing is shorter where a walk falls short.
    "walking": f"""
SELECT held.entry_id, held.vector <#> CAST(:vector AS vector)
FROM arc_index_vectors AS held
WHERE vector_dims(held.vector) = {{dimension}} AND held.scope + 0 = :scope AND held.caller_id = :caller_id
  AND ({{condition}}) IS TRUE
  AND (SELECT set_config('hnsw.ef_search', :ef_search, true) <> '') AND {_STILL}
ORDER BY CAST(held.vector AS {{type}}) <#> CAST(:vector AS {{type}}) LIMIT :row_limit""",  # noqa: S608 - the same
    "sample": """
SELECT count(*), count(*) FILTER (WHERE {condition})
FROM (
    SELECT id, labels FROM arc_index_vectors WHERE scope = :scope AND caller_id = :caller_id
    ORDER BY sample LIMIT :row_limit
) AS held""",
    "count": """
SELECT count(*) FROM arc_index_entries AS entry
WHERE entry.scope = :scope AND entry.caller_id = :caller_id AND {condition}""",
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
    "vector_type": """
        SELECT format_type(atttypid, NULL) FROM pg_attribute
        WHERE attrelid = CAST('arc_index_vectors' AS regclass) AND attname = 'vector'""",
    "never_sort": "SELECT set_config('enable_sort', 'off', true)",
    "plan_anew": "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)",
    "lock_ddl": "SELECT pg_advisory_xact_lock(:number)",
    "make_extension": "CREATE EXTENSION IF NOT EXISTS vector",
    "take_vectors": "ALTER TABLE arc_index_vectors ALTER COLUMN vector TYPE vector USING NULL",
    "keep_inline": "ALTER TABLE arc_index_vectors ALTER COLUMN vector SET STORAGE MAIN",
}


_COMPILED = 256
"""So many statements stay compiled, one for each shape of filter."""


@lru_cache(_COMPILED)
def statement(name: str, **parts: str) -> Statement:
    """Compile a statement, with the given parts in its places in braces."""
    return compiler_for("postgresql")(text(_SQL[name].format(**parts)))


@lru_cache(_COMPILED)
def scan_statement(condition: str, *, unembedded: bool) -> Statement:
    """Compile the statement that reads the first entries by id that pass."""
    tables = index_tables("postgresql")
    more = [tables.vectors.c.id.is_(None)] if unembedded else []
    return compiler_for("postgresql")(whole_entries(tables, text(condition), *more))


def named(table: str, *, with_ids: bool) -> str:
    """Return the condition that entries are among those named, if any are."""
    return f"AND {table}.entry_id = ANY (CAST(:ids AS VARCHAR[]))" if with_ids else ""
