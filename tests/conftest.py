"""What all tests share: real servers, started once and only if a test asks for one."""

import gc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import new_database
from tests.servers import PostgresServer, postgres_server

# The same examples each time, and no clock: a busy machine must not fail what is right. `make torture` looks further.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("torture", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_collection_finish() -> None:
    """Spare each garbage collection the ten thousand tests and the frameworks, which stay to the end."""
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
