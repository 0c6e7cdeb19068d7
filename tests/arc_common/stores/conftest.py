"""Databases for the stores' tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arc_common.stores.sql import SqlStore
from tests.arc_common.stores import workers
from tests.arc_common.stores.workers import Helper


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database: a file, or one on a PostgreSQL server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'arc.db'}"
    make: Callable[[], str] = request.getfixturevalue("postgres_database")
    return make()


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
