"""The index's SQL statements that only SQLite has. Pure.

A statement that names no caller reads by rows or tokens that were read for one: a token holds its scope's salt.
"""

from dataclasses import dataclass
from functools import cache

from sqlalchemy import text

from arc_common.filters import Comparison
from arc_common.stores.conversations_statements import Statement, compiler_for
from arc_common.stores.search_index.filters import SIGNS

__all__ = ["SqliteIndexStatements", "comparing_statement", "sqlite_index_statements"]


@dataclass(frozen=True, slots=True)
class SqliteIndexStatements:
    """The statements, named by what they do. Many numbers come back as one text: in a fifth of the time of rows."""

    changes: Statement
    rows: Statement
    vectors: Statement
    postings: Statement
    holders: Statement
    names: Statement
    first: Statement
    rows_of_ids: Statement
    write_words: Statement
    drop_words: Statement


@cache
def sqlite_index_statements() -> SqliteIndexStatements:
    """The statements."""
    compiled = compiler_for("sqlite")
    return SqliteIndexStatements(**{name: compiled(text(sql)) for name, sql in _SQL.items()})


@cache
def comparing_statement(comparison: Comparison, *, text_value: bool) -> Statement:
    """The rows of entries that have a value under a key which compares so with another."""
    template = _TEXTS if text_value else _NUMBERS
    sign = SIGNS[comparison]
    return compiler_for("sqlite")(text(template.format(sign=sign, loosely=sign.rstrip("=") + "=")))


_NUMBERS = """
    SELECT group_concat(id) FROM arc_index_values
    WHERE label = :label AND scope = :scope AND caller_id = :caller_id AND number {sign} :value"""

_TEXTS = """
    SELECT group_concat(id) FROM arc_index_values
    WHERE label = :label AND scope = :scope AND caller_id = :caller_id
      AND prefix {loosely} :prefix AND coalesce(text, prefix) {sign} :value"""

_SQL = {
    "changes": """
        SELECT group_concat(id), group_concat(length) FROM arc_index_entries
        WHERE scope = :scope AND caller_id = :caller_id AND version > :version""",
    "rows": "SELECT group_concat(id) FROM arc_index_entries WHERE scope = :scope AND caller_id = :caller_id",
    "vectors": """
        SELECT entry.version, entry.id, entry.entry_id, held.vector
        FROM arc_index_entries AS entry LEFT JOIN arc_index_vectors AS held ON held.id = entry.id
        WHERE entry.scope = :scope AND entry.caller_id = :caller_id AND (entry.version, entry.id) > (:version, :id)
        ORDER BY entry.version, entry.id LIMIT :row_limit""",
    "postings": """
        SELECT wanted.key,
          (SELECT group_concat(rowid) FROM arc_index_words WHERE arc_index_words MATCH wanted.value),
          (SELECT group_concat(suffix || ':' || many) || ';' || group_concat(rows) FROM (
             SELECT substr(term, length(wanted.value) + 1) AS suffix, count(*) AS many, group_concat(doc) AS rows
             FROM temp.arc_index_postings
             WHERE term >= wanted.value || 'x' AND term < wanted.value || 'y' GROUP BY term))
        FROM json_each(:tokens) AS wanted""",
    "holders": "SELECT group_concat(rowid) FROM arc_index_words WHERE arc_index_words MATCH :query",
    "names": """
        SELECT id, entry_id, length FROM arc_index_entries
        WHERE caller_id = :caller_id AND id IN (SELECT value FROM json_each(:rows))""",
    "first": """
        SELECT id FROM arc_index_entries
        WHERE caller_id = :caller_id AND id IN (SELECT value FROM json_each(:rows))
        ORDER BY entry_id LIMIT :row_limit""",
    "rows_of_ids": """
        SELECT id FROM arc_index_entries
        WHERE scope = :scope AND caller_id = :caller_id AND entry_id IN (SELECT value FROM json_each(:ids))""",
    "write_words": "INSERT INTO arc_index_words (rowid, tokens) VALUES (:row, :tokens)",
    "drop_words": "DELETE FROM arc_index_words WHERE rowid IN (SELECT value FROM json_each(:rows))",
}
