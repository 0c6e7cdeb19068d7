"""Databases as they are behind an engine: their rows, and faults in them. Plain SQL, on SQLite and PostgreSQL."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

__all__ = ["indexed", "observed", "rows", "run", "unreadable", "unwritable"]

_INDEXED = """
    SELECT texts.text FROM arc_index_entries entries
    JOIN arc_index_scopes scopes ON scopes.id = entries.scope
    JOIN arc_index_texts texts ON texts.scope = entries.scope AND texts.id = entries.id
    WHERE scopes.kind = :kind AND scopes.user_id = :user_id AND scopes.session_id = :session_id
    ORDER BY entries.id
"""


def observed(url: str, before: Callable[[str], None]) -> Engine:
    """Open a SQLite database that calls `before` with each statement first; what it raises, the statement raises."""

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            before(sql)
            return super().execute(sql, *parameters)

    return create_engine(url, connect_args={"factory": Connection})


def rows(url: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    """Return what a query finds."""
    database = create_engine(url, poolclass=NullPool)
    with database.connect() as connection:
        return [tuple(row) for row in connection.execute(text(statement), values)]


def run(url: str, *statements: str) -> None:
    """Run statements in one transaction."""
    database = create_engine(url, poolclass=NullPool)
    with database.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def indexed(url: str, kind: str, *, user_id: str = "", session_id: str = "") -> list[str]:
    """Return the texts in the search index of a kind ("memory", "message", "artifact") and a place, as they came."""
    return [row[0] for row in rows(url, _INDEXED, kind=kind, user_id=user_id, session_id=session_id)]


@contextmanager
def unreadable(url: str, table: str) -> Iterator[None]:
    """Let each statement on a table fail for a while, as on a damaged database."""
    run(url, f"ALTER TABLE {table} RENAME TO {table}_away")
    try:
        yield
    finally:
        run(url, f"ALTER TABLE {table}_away RENAME TO {table}")


@contextmanager
def unwritable(url: str, table: str, *, change: str = "INSERT") -> Iterator[None]:
    """Let a SQLite database refuse changes to a table for a while, as on a full disk.

    Args:
        url: The database.
        table: Its table.
        change: "INSERT", "UPDATE" or "DELETE".
    """
    name = f"full_{table}_{change.lower()}"
    run(url, f"CREATE TRIGGER {name} BEFORE {change} ON {table} BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    try:
        yield
    finally:
        run(url, f"DROP TRIGGER {name}")
