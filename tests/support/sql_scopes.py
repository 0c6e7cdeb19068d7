"""Finds SQL that reads or changes a table of arc without naming the owner of the rows.

`record_sql` records the text of every statement that arc sends to SQLite or PostgreSQL, once each and without values.
`unscoped` parses one with sqlglot and names its tables that nothing ties to a caller.
"""

import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import sqlglot
from sqlglot import exp

MAINTENANCE = {
    r"SELECT (arc_conversations\.\w+, ){2}arc_conversations\.user_id FROM arc_conversations WHERE \S+ != .* OFFSET": (
        "deletes the sessions written longest ago, of any caller, when memory is full"
    ),
    r"SELECT (arc_conversations\.\w+, ){4}arc_conversations\.\w+ FROM arc_conversations WHERE \S+\.status = .* LIMIT": (
        "finds the conversations of all callers that nobody has used for long"
    ),
    r"SELECT arc_stray_objects\.conversation, .* arc_stray_objects\.since <=": (
        "finds objects in the archive whose conversations, of any caller, name them no more"
    ),
    r"SELECT 1 FROM arc_\w+ WHERE INSTR\(\w+, :words\) > 0 LIMIT 1": (
        "asks whether words found in the file after an erasure are another caller's"
    ),
    r"UPDATE arc_encryption SET": "encrypts the database's key anew",
    r"(SELECT|UPDATE) /\* reencrypt \*/": "encrypts everybody's texts anew, page by page",
    r"INSERT INTO arc_index_words\(arc_index_words\) VALUES \('optimize'\)": "rewrites SQLite's index of words",
    r"(UPDATE arc_conversations SET lease_owner=.* WHERE arc_conversations\.conversation = \()?"
    r"SELECT arc_conversations\.\w+ FROM arc_conversations WHERE arc_conversations\.work_due_at <=": (
        "gives a worker the session whose work has been due longest"
    ),
    r"UPDATE arc_index_scopes SET lease_owner=.* WHERE arc_index_scopes\.scope = \(": (
        "gives a process a scope whose vectors are to be made anew"
    ),
    r"(SELECT|INSERT INTO) .*arc_alembic_version": "the revision of the tables",
}
"""Statements that concern all callers on purpose: a pattern, and the reason."""

TIES = frozenset({"caller_id", "conversation", "scope"})
"""The columns that name a row's owner: the caller, or a key derived from the caller."""
_SALTED = {"arc_index_values": "label", "arc_index_terms": "token"}
"""Columns that tie a table of the index by themselves: a hash with the salt of one scope."""
_NUMBERED = {"id", "rowid"}
"""Columns that tie a table of the index to another one: a row number, which belongs to one scope."""
_WORDS = ("arc_index_words", "arc_index_postings")
"""SQLite's full-text tables: rows are found by tokens with the salt of one scope and read by their number."""
_EQUAL = (exp.EQ, exp.NullSafeEQ, exp.In)


def record_sql(seen: dict[str, set[str]]) -> Callable[[], None]:
    """Record arc's SQL by dialect; return a function that stops it."""

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            seen["sqlite"].add(sql)
            return super().execute(sql, *parameters)

        def executemany(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            seen["sqlite"].add(sql)
            return super().executemany(sql, *parameters)

    connect, execute, executemany = sqlite3.connect, psycopg.Cursor.execute, psycopg.Cursor.executemany

    def connecting(*arguments: Any, **options: Any) -> Any:
        if _is_arc(sys._getframe(1)):  # noqa: SLF001 - the only way to the caller's module
            options.setdefault("factory", Connection)
        return connect(*arguments, **options)

    def executing(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        # the caller may be `Connection.execute`
        if _is_arc(sys._getframe(1)) or _is_arc(sys._getframe(2)):  # noqa: SLF001 - the same
            seen["postgres"].add(query)
        return execute(self, query, *arguments, **options)

    def executing_many(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if _is_arc(sys._getframe(1)):  # noqa: SLF001 - the same
            seen["postgres"].add(query)
        return executemany(self, query, *arguments, **options)

    def end() -> None:
        sqlite3.connect = connect
        psycopg.Cursor.execute, psycopg.Cursor.executemany = execute, executemany  # type: ignore[method-assign]

    sqlite3.connect = connecting  # type: ignore[assignment]
    psycopg.Cursor.execute = executing  # type: ignore[method-assign]
    psycopg.Cursor.executemany = executing_many  # type: ignore[method-assign]
    return end


def _is_arc(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("arc_common.")


def unscoped(sql: str, dialect: str) -> list[str]:
    """Return the tables in a statement that nothing ties to a caller; none for maintenance."""
    if "arc_" not in sql or is_maintenance(sql):
        return []
    parsed = [one for one in sqlglot.parse(_plain(sql), dialect=dialect) if isinstance(one, exp.Query | exp.DML)]
    return [name for statement in parsed for table, name in _tables(statement) if not _is_tied(table)]


def is_maintenance(sql: str) -> bool:
    """Return whether a statement is one of those that concern all callers."""
    return any(re.match(pattern, _plain(sql), re.IGNORECASE) for pattern in MAINTENANCE)


def _plain(sql: str) -> str:
    """Return a statement as sqlglot reads it, which does not know pgvector's operator."""
    return " ".join(_PARAMETER.sub(r":\1", sql).replace("<#>", "-").split())


_PARAMETER = re.compile(r"%\((\w+)\)s")


def _tables(statement: exp.Expression) -> Iterator[tuple[exp.Table, str]]:
    """Yield arc's tables that a statement reads or changes; inserted rows have their caller in their own columns."""
    for table in statement.find_all(exp.Table):
        target = table.parent.parent if isinstance(table.parent, exp.Schema) else table.parent
        if table.name.startswith("arc_") and not table.name.startswith(_WORDS) and not isinstance(target, exp.Insert):
            yield table, table.name


def _is_tied(table: exp.Table, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether a condition of the table's own query ties it to a caller, or to a table that is tied."""
    query = _of(table)
    if query is None:
        return False
    own, salted = table.alias_or_name, _SALTED.get(table.name)
    beside = {one.alias_or_name: one for one in query.find_all(exp.Table) if _of(one) is query}
    for condition in _conditions(query):
        for side, other in _sides(condition):
            if not isinstance(side, exp.Column) or (side.table or own) != own:
                continue
            if side.name not in {*TIES, salted, *(_NUMBERED if table.name.startswith("arc_index_") else ())}:
                continue
            columns = _columns(other)
            if any(one.table in ("", own) for one in columns):
                continue
            if not columns:  # a parameter, or a query that is checked separately
                if side.name in TIES or side.name == salted or other.find(exp.Select):
                    return True
                continue
            for column in columns:
                if column.table not in beside:  # a table of an outer query, or a VALUES list
                    return True
                if column.table not in seen and (
                    not beside[column.table].name.startswith("arc_") or _is_tied(beside[column.table], seen | {own})
                ):
                    return True
    return False


def _of(table: exp.Expression) -> exp.Expression | None:
    return table.find_ancestor(exp.Select, exp.Update, exp.Delete)


def _conditions(query: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the conditions that every row of a query meets: those of WHERE and ON, joined by AND."""
    clauses = [query.args.get("where"), *(join.args.get("on") for join in query.args.get("joins") or ())]
    origin = query.args.get("from_") or query.args.get("from")
    for source in [origin.this] if origin is not None else []:
        clauses += [join.args.get("on") for join in source.args.get("joins") or ()]
    for clause in clauses:
        if clause is not None:
            condition = clause.this if isinstance(clause, exp.Where) else clause
            yield from _parts(condition)


def _parts(condition: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(condition, exp.Paren):
        yield from _parts(condition.this)
    elif isinstance(condition, exp.And):
        yield from _parts(condition.left)
        yield from _parts(condition.right)
    elif isinstance(condition, _EQUAL):
        yield condition


def _sides(condition: exp.Expression) -> Iterator[tuple[exp.Expression, exp.Expression]]:
    if isinstance(condition, exp.In):
        yield condition.this, condition
        return
    left, right = condition.args["this"], condition.args["expression"]
    yield left, right
    yield right, left


def _columns(other: exp.Expression) -> list[exp.Column]:
    """Return the columns on the other side of a condition, without those of a nested query."""
    if isinstance(other, exp.In):
        return []
    return [
        one for one in other.find_all(exp.Column) if one.find_ancestor(exp.Select) is other.find_ancestor(exp.Select)
    ]
