"""Databases that hold arc's tables and nothing else: copying one takes a tenth of making it."""

import tempfile
from functools import cache
from itertools import count
from pathlib import Path

import psycopg

from arc_common.protocols import SessionKey
from arc_common.stores.conversations import SqlStore
from tests.support.servers import PostgresServer

_numbers = count(1)


def sqlite_url(folder: Path, name: str = "arc.db") -> str:
    """The address of a file in the folder; it is made if it is not there."""
    path = folder / name
    if not path.exists():
        path.write_bytes(_sqlite_file())
    return f"sqlite:///{path}"


def new_database(server: PostgresServer, *, tables: bool = True) -> str:
    """The address of a new database on the server; without `tables` there is nothing in it."""
    template = _template(server.port) if tables else "template1"
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY wal_log")
    return server.url(name)


@cache
def _sqlite_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arc.db"
        _make_tables(f"sqlite:///{path}")
        return path.read_bytes()


@cache
def _template(port: int) -> str:
    url = new_database(PostgresServer(port, 0), tables=False)
    _make_tables(url)
    return url.rpartition("/")[2]


def _make_tables(url: str) -> None:
    store = SqlStore(url)
    store.get(SessionKey("nothing"))
    store.close()
