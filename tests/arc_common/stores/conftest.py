"""Databases for the stores' tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arc_common.stores.conversations import SqlStore
from tests.arc_common.stores import workers
from tests.arc_common.stores.workers import Helper
from tests.databases import new_database, sqlite_url
from tests.servers import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without any row: a file, or one on a PostgreSQL server."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    make: Callable[[], str] = request.getfixturevalue("postgres_database")
    return make()


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same without any table: what makes them is tested with it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return new_database(server, tables=False)


@pytest.fixture
def sql_store(database: str) -> Iterator[SqlStore]:
    """A store on an empty database."""
    store = SqlStore(database)
    yield store
    store.close()


@pytest.fixture(scope="session")
def helper() -> Iterator[Helper]:
    """Starts jobs in processes of their own."""
    with workers.helper() as started:
        yield started


@pytest.fixture(scope="module", params=["file", "memory", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """A store on each kind of database, one for all tests of a module."""
    if request.param == "postgres":
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        url = make()
    elif request.param == "file":
        url = f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'arc.db'}"
    else:
        url = "sqlite://"
    store = SqlStore(url)
    yield store
    store.close()
