"""The SQL of the hybrid index in PostgreSQL, where it is written by hand."""

import re
from collections.abc import Collection
from functools import lru_cache

from sqlalchemy import text

from arc_common.stores.database.schema import VECTORS, index_tables
from arc_common.stores.search_index.entries import SCOPE_COLUMNS, whole_entries
from arc_common.stores.statements.compiler import Statement, compiler_for

_PARTITIONS = f"SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('{VECTORS}')"  # noqa: S608 - our own name

NAMES_OF_PARTITIONS = f"SELECT relname FROM pg_class WHERE oid IN ({_PARTITIONS})"  # noqa: S608 - the same

# Checks, once and before rows are read, that the scope is still the one that the statement was made for.
_STILL = """(
    SELECT TRUE FROM arc_index_scopes AS still
    WHERE still.scope = :scope AND still.caller_id = :caller_id AND still.salt = :salt
      AND still.embedder = :embedder AND still.dimension = :dimension)"""

_SQL = {
    # The selected expression is the one in ORDER BY, so that PostgreSQL computes it once for each row.
    "exact": f"""
SELECT held.entry_id, held.vector <#> CAST(:vector AS vector)
FROM arc_index_vectors AS held
WHERE held.scope = :scope {{scope}} AND held.caller_id = :caller_id AND {{condition}} {{ids}} AND {_STILL}
ORDER BY held.vector <#> CAST(:vector AS vector), held.entry_id LIMIT (SELECT CAST(:row_limit AS BIGINT))""",  # noqa: S608 - `_STILL` is above
    # The setting holds for this statement only. `IS TRUE` keeps the planner from the filter's indexes, which are slower
    # than it estimates. Iterative scans (pgvector 0.8) are off: they found no more than a walk of the same
    # width, and comparing is faster where a walk finds too few.
    "walking": f"""
SELECT held.entry_id, held.vector <#> CAST(:vector AS vector)
FROM arc_index_vectors AS held
WHERE vector_dims(held.vector) = {{dimension}} AND held.scope = :scope AND held.caller_id = :caller_id
  AND ({{condition}}) IS TRUE
  AND (SELECT set_config('hnsw.ef_search', :ef_search, true) <> '') AND {_STILL}
ORDER BY CAST(held.vector AS {{type}}) <#> CAST(:vector AS {{type}}) LIMIT :row_limit""",  # noqa: S608 - the same
    "sample": """
SELECT count(*), count(*) FILTER (WHERE {condition})
FROM (
    SELECT id, labels FROM arc_index_vectors
    WHERE scope = :scope AND substr(scope, 1) = :scope AND caller_id = :caller_id
    ORDER BY sample LIMIT :row_limit
) AS held""",
    "count_terms": """
        INSERT INTO arc_index_terms (scope, caller_id, token, entries)
        SELECT CAST(:scope AS BYTEA), CAST(:caller_id AS VARCHAR), change.token, change.more
        FROM unnest(CAST(:tokens AS BIGINT[]), CAST(:more AS BIGINT[])) AS change (token, more)
        ON CONFLICT (scope, token) DO UPDATE SET entries = arc_index_terms.entries + excluded.entries""",
    "drop_terms": """
        DELETE FROM arc_index_terms
        WHERE scope = :scope AND caller_id = :caller_id AND token = ANY (CAST(:tokens AS BIGINT[])) AND entries <= 0""",
    # The largest graph, if each partition has one.
    "graph": f"""
        SELECT CAST(max(greatest(class.reltuples, 0)) AS BIGINT)
        FROM pg_class AS class JOIN pg_index AS index ON index.indexrelid = class.oid
        WHERE index.indisvalid AND class.relname ~ ('^' || :name || '(_p[0-9]+)?$')
          AND (index.indrelid = to_regclass('{VECTORS}') OR index.indrelid IN ({_PARTITIONS}))
        HAVING count(*) = greatest(1, (SELECT count(*) FROM ({_PARTITIONS}) AS part))""",  # noqa: S608 - our own names
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


REACH = 5
"""A search by words looks at the entries of the words that weigh most until these have this many times the limit. With
all words of 10,000 messages, it took nine times as long; of the ten messages recalled, 9.6 were the same, and questions
found as much of their evidence (.562 and .558). Documents' nDCG@10 stayed the same."""

LEAST_REACH = 500

_WIDEST_REACH = 4
"""A word with more entries than twice the reach is passed over unless it weighs most, and then at most this many times
the reach are looked at: with 100,000 messages, a search costs a third less, and of LoCoMo's evidence among them, .627
instead of .625 is found among the first ten (.735 and .725 among 30). With reaches of 300 and 200: .590 and .564.
Twice as many take a tenth longer and find the same; of half as many, .476 instead of .550 was found."""

_ALTERNATIVE = 0.5
"""A term that weighs less than this share of the heaviest is an alternative for a word: entries are found by it if it
is rare, but not chosen by it. With 100,000 messages, a search takes two thirds of the time, and of LoCoMo's evidence
among them, .585 instead of .583 is found among the first ten (.690 and .694 among 25)."""

_SCOPE = ", ".join(f"norm.{name}" for name in SCOPE_COLUMNS)

STATISTICS = f"""
SELECT {{number}} AS asked, {_SCOPE}, CAST(NULL AS BIGINT[]) AS terms, CAST(NULL AS DOUBLE PRECISION[]) AS counts,
       CAST(NULL AS VARCHAR) AS entry_id, CAST(NULL AS DOUBLE PRECISION) AS length
FROM arc_index_scopes AS norm
WHERE norm.scope = :scope AND norm.caller_id = :caller_id
"""  # noqa: S608 - our own names
"""Reads a scope's statistics."""


def _held(words: str) -> str:
    """Return the part that reads which of some words an entry has."""
    # `tokens` is sorted, and `width_bucket` searches it by halves: finding 20 terms takes a third of what
    # `array_position` takes. Without CASE, frequencies are looked up first, for each of an entry's missing terms too: a
    # tenth of the search.
    return f"""FROM (SELECT *, width_bucket(token, tokens) AS at FROM {words} OFFSET 0) AS {words}
        WHERE CASE WHEN tokens[at] = token THEN frequencies[at] > 0 ELSE FALSE END"""  # noqa: S608 - our own names


# Divisions of integers by a literal would be of NUMERIC, whose logarithm is slow.
LEXICAL = f"""
WITH norm AS MATERIALIZED (
    SELECT *, CASE WHEN total_length > 0 THEN :k1 * (1 - :b) ELSE :k1 END AS base,
           CASE WHEN total_length > 0 THEN :k1 * :b * entries / total_length ELSE 0 END AS slope
    FROM arc_index_scopes WHERE scope = :scope AND caller_id = :caller_id AND salt = :salt
), known AS (
    SELECT given.token, given.weight, given.place - 1 AS place, terms.entries AS holders,
           given.weight * ln((norm.entries + 1) / (terms.entries + CAST(0.5 AS DOUBLE PRECISION))) AS impact
    FROM norm, unnest(CAST(:tokens AS BIGINT[]), CAST(:weights AS DOUBLE PRECISION[]))
         WITH ORDINALITY AS given (token, weight, place),
    LATERAL (
        SELECT held.entries FROM arc_index_terms AS held
        WHERE held.scope = :scope AND held.caller_id = :caller_id AND held.token = given.token OFFSET 0
    ) AS terms
), asked AS MATERIALIZED (
    SELECT *, row_number() OVER best = 1
        OR sum(holders) OVER best - holders < CAST(:reach AS DOUBLE PRECISION)
            AND holders < 2 * CAST(:reach AS DOUBLE PRECISION) AS seeks,
        weight >= {_ALTERNATIVE} * max(weight) OVER () AS tells
    FROM known WINDOW best AS (ORDER BY impact DESC, place)
), telling AS MATERIALIZED (
    SELECT token, impact, base, slope FROM asked, norm WHERE seeks OR tells
), best AS (
    SELECT entry_id, length, tokens, frequencies
    FROM (
        SELECT * FROM arc_index_entries AS entry
        WHERE entry.scope = :scope AND entry.caller_id = :caller_id
          AND tokens && ARRAY(SELECT token FROM asked WHERE seeks) AND {{condition}} {{ids}}
        LIMIT CAST(NULLIF({_WIDEST_REACH} * CAST(:reach AS DOUBLE PRECISION), 'infinity') AS BIGINT)
    ) AS entry, LATERAL (
        SELECT sum(impact * frequencies[at] / (frequencies[at] + base + slope * entry.length)) AS score
        {_held("telling")}
    ) AS held
    WHERE score > 0
    ORDER BY score DESC, entry_id LIMIT :row_limit
)
SELECT {{number}} AS asked, {_SCOPE}, ARRAY(SELECT place FROM asked ORDER BY place) AS terms,
    ARRAY(SELECT CAST(holders AS DOUBLE PRECISION) FROM asked ORDER BY place) AS counts,
    NULL AS entry_id, NULL AS length
FROM norm
UNION ALL
SELECT {{number}}, {", ".join("NULL" for _ in SCOPE_COLUMNS)}, places, found, entry_id, length
FROM best, LATERAL (
    SELECT array_agg(place) AS places, array_agg(frequencies[at]) AS found {_held("asked")}
) AS held
"""  # noqa: S608 - the same
"""Reads a scope's statistics, and the entries that Arc's BM25 ranks first, with the terms that each has."""

_PARAMETER = re.compile(r"(?<!:):(\w+)")


_COMPILED = 256
"""The number of compiled statements that are cached, one for each shape of filter."""


@lru_cache(_COMPILED)
def statement(name: str, **parts: str) -> Statement:
    """Compile a statement, with the given parts in its places in braces."""
    return compiler_for("postgresql")(text(_SQL[name].format(**parts)))


@lru_cache(_COMPILED)
def joint_statement(*parts: str) -> Statement:
    """Compile one statement of several, whose parameters end in their numbers."""
    numbered = (_PARAMETER.sub(rf":\1_{number}", part) for number, part in enumerate(parts))
    return compiler_for("postgresql")(text(" UNION ALL ".join(f"({part})" for part in numbered)))


@lru_cache(_COMPILED)
def scan_statement(condition: str, *, unembedded: bool) -> Statement:
    """Compile the statement that reads the first entries by id that pass."""
    tables = index_tables("postgresql")
    more = [tables.vectors.c.id.is_(None)] if unembedded else []
    return compiler_for("postgresql")(whole_entries(tables, text(condition), *more))


def among(ids: Collection[str] | None, table: str) -> str:
    """Return the condition that entries have one of these ids, if there are any."""
    return "" if ids is None else f"AND {table}.entry_id = ANY (CAST(:ids AS VARCHAR[]))"
