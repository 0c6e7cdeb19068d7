"""What all tests share: real servers, started once and only if a test asks for one."""

import gc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import new_database
from tests.servers import PostgresServer, postgres_server

# The same examples each time, and no clock: a busy machine must not fail what is right.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

LONG = (
    "integration/test_demo.py",
    "integration/test_never_broken.py",
    "test_notebooks.py",
    "test_readme.py",
)
"""Files that take long for their few tests: at the end of a run, one process would wait for the other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what takes long first; a file's tests stay together, and share what they make."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG))


def pytest_collection_finish() -> None:
    """Spare each garbage collection the tests and the frameworks, which stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that does not wait for the disk."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def durable_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server as it runs in production: a commit waits for the disk."""
    with postgres_server(durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres: PostgresServer) -> Callable[[], str]:
    """Makes databases that hold arc's tables and nothing else, one at each call."""
    return lambda: new_database(postgres)
