"""The index's SQL statements that only PostgreSQL has. Pure.

Their places in braces take conditions of `index_postgres_filters` and types with a dimension, never a value.
"""

from functools import lru_cache

from sqlalchemy import text

from arc_common.stores.conversations_statements import Statement, compiler_for
from arc_common.stores.index_schema import index_tables
from arc_common.stores.search_index.postgres_plan import indexed_as
from arc_common.stores.search_index.statements import whole_entries

__all__ = [
    "count_statement", "exact_statement", "lexical_statement", "plain_statement", "sample_statement", "scan_statement",
    "walking_statement",
]  # fmt: skip

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
