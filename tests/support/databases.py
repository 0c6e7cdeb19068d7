"""New databases with arc's tables, the rows behind an engine, and database faults.

Copying a database takes a tenth of the time of creating its tables.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from arc_common.protocols import SessionKey
from arc_common.stores.conversations import SqlStore
from arc_common.stores.database.migrate import partition
from tests.support.servers import PostgresServer

_numbers = count(1)
_INDEXED = """
    SELECT texts.text FROM arc_index_entries entries
    JOIN arc_index_scopes scopes ON scopes.scope = entries.scope
    JOIN arc_index_texts texts ON texts.scope = entries.scope AND texts.id = entries.id
    WHERE scopes.kind = :kind AND scopes.user_id = :user_id AND scopes.session_id = :session_id
    ORDER BY entries.id
"""


on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""For tests of `database` whose statements other tests run on PostgreSQL, too."""


def sqlite_url(folder: Path, name: str = "arc.db") -> str:
    """Return the URL of a file in the folder, created with arc's tables if it does not exist."""
    path = folder / name
    if not path.exists():
        path.write_bytes(_sqlite_file())
    return f"sqlite:///{path}"


def new_database(server: PostgresServer, *, tables: bool = True) -> str:
    """Return the URL of a new database on the server, with arc's tables or empty."""
    return copied_database(server, _template(server.port, "tables", _make_tables) if tables else "template1")


def copied_database(server: PostgresServer, template: str) -> str:
    """Return the URL of a copy of a database, which is given by name or URL and must not be in use."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template.rpartition('/')[2]} STRATEGY file_copy")
    return server.url(name)


def planned_once(url: str) -> str:
    """Return the URL with generic plans forced; long random tests spend half their time on planning."""
    return f"{url}?options=-c%20plan_cache_mode%3Dforce_generic_plan"


def partitioned_database(server: PostgresServer) -> str:
    """Return the URL of a new database with arc's tables in two partitions each: sixteen take long to plan."""
    return copied_database(server, _template(server.port, "partitions", _make_partitions))


@cache
def _sqlite_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arc.db"
        _make_tables(f"sqlite:///{path}")
        return path.read_bytes()


@cache
def _template(port: int, name: str, make: Callable[[str], None]) -> str:
    """Return the name of a database to copy, which the first process that needs it makes."""
    server = PostgresServer(port)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")  # until the connection is closed
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            url = new_database(server, tables=False)
            make(url)
            connection.execute(f"ALTER DATABASE {url.rpartition('/')[2]} RENAME TO {name}")
    return name


def _make_tables(url: str) -> None:
    store = SqlStore(url)
    store.get(SessionKey("nothing"))
    store.close()


def _make_partitions(url: str) -> None:
    assert partition(create_engine(url, poolclass=NullPool), 2)


def observed(url: str, before: Callable[[str], None]) -> Engine:
    """Open a SQLite database that calls `before` with each statement; the statement raises what `before` raises."""

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            before(sql)
            return super().execute(sql, *parameters)

    return create_engine(url, connect_args={"factory": Connection})


def rows(url: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
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
    """Return the texts of a kind and scope in the search index, in the order of their insertion."""
    return [row[0] for row in rows(url, _INDEXED, kind=kind, user_id=user_id, session_id=session_id)]


@contextmanager
def unreadable(url: str, table: str) -> Iterator[None]:
    """Make every statement on a table fail within the block, as in a damaged database."""
    run(url, f"ALTER TABLE {table} RENAME TO {table}_away")
    try:
        yield
    finally:
        run(url, f"ALTER TABLE {table}_away RENAME TO {table}")


@contextmanager
def unwritable(url: str, table: str, *, change: str = "INSERT") -> Iterator[None]:
    """Make a SQLite database refuse inserts or other changes of a table within the block, as on a full disk."""
    name = f"full_{table}_{change.lower()}"
    run(url, f"CREATE TRIGGER {name} BEFORE {change} ON {table} BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    try:
        yield
    finally:
        run(url, f"DROP TRIGGER {name}")
