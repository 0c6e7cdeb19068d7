"""Databases for tests: new ones with arc's tables, the rows behind an engine, and faults in them.

Copying a database with its tables takes a tenth of making it.
"""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
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


def sqlite_url(folder: Path, name: str = "arc.db") -> str:
    """The address of a file in the folder; it is made if it is not there."""
    path = folder / name
    if not path.exists():
        path.write_bytes(_sqlite_file())
    return f"sqlite:///{path}"


def new_database(server: PostgresServer, *, tables: bool = True) -> str:
    """The address of a new database on the server; without `tables` there is nothing in it."""
    return copied_database(server, _template(server.port) if tables else "template1")


def copied_database(server: PostgresServer, template: str) -> str:
    """The address of a new database with all that is in another one, named or by its address; nobody may use that."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template.rpartition('/')[2]} STRATEGY wal_log")
    return server.url(name)


def planned_once(url: str) -> str:
    """The address at which PostgreSQL plans each prepared statement once: long random tests spend half on plans."""
    return f"{url}?options=-c%20plan_cache_mode%3Dforce_generic_plan"


def partitioned_database(server: PostgresServer) -> str:
    """The address of a new database with arc's tables in 16 partitions each."""
    url = new_database(server, tables=False)
    engine = create_engine(url, poolclass=NullPool)
    assert partition(engine)
    return url


@cache
def _sqlite_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arc.db"
        _make_tables(f"sqlite:///{path}")
        return path.read_bytes()


@cache
def _template(port: int) -> str:
    url = new_database(PostgresServer(port), tables=False)
    _make_tables(url)
    return url.rpartition("/")[2]


def _make_tables(url: str) -> None:
    store = SqlStore(url)
    store.get(SessionKey("nothing"))
    store.close()


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
