"""What all tests share: real servers, started once and only if a test asks for one."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from arc_common.engine.context_engine import ContextEngine
from arc_common.stores.conversations import SqlStore
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.support import processes
from tests.support.databases import new_database, sqlite_url
from tests.support.processes import Helper
from tests.support.redis_servers import RedisServer, redis_server
from tests.support.servers import POSTGRES_16, PostgresServer, bouncer, memory_folder, postgres_server
from tests.support.shared_servers import address
from tests.support.sql_scopes import record_sql, unscoped
from tests.support.summaries import Model, settings_with

# The same examples each time, and no clock: a busy machine must not fail what is right.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

LONG = (
    "integration/test_demo.py",
    "integration/test_demo_command.py",
    "integration/test_hierarchical_memory.py",
    "integration/test_leaks.py",
    "integration/test_prompt_cache.py",
    "properties/test_never_broken.py",
    "integration/test_notebooks.py",
    "integration/test_readme.py",
)
"""Files that take long for their few tests: at the end of a run, one process would wait for the other."""


def pytest_configure() -> None:
    """Keep temporary files in memory where there is room: on a disk, each commit to a SQLite file takes 2 to 5 ms."""
    if folder := memory_folder():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what takes long first; a file's tests stay together, and share what they make."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG))


def pytest_collection_finish() -> None:
    """Spare each garbage collection the tests and the frameworks, which stay to the end, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def scoped_sql() -> Iterator[None]:
    """Whatever SQL the tests let arc send, each table in it is tied to a caller (see `sql_scopes.MAINTENANCE`)."""
    seen: dict[str, set[str]] = {"sqlite": set(), "postgres": set()}
    end = record_sql(seen)
    yield
    end()
    loose = {sql: tables for dialect, every in seen.items() for sql in every if (tables := unscoped(sql, dialect))}
    assert not loose, loose


@pytest.fixture(scope="session")
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Returns the address of the run's only server of a kind."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):  # one of the processes of pytest-xdist
        return lambda kind: address(kind, folder.parent, os.getppid())
    return lambda kind: address(kind, folder, os.getpid())


@pytest.fixture(scope="session")
def postgres(shared_server: Callable[[str], str]) -> PostgresServer:
    """A PostgreSQL server that does not wait for the disk; tests that stop one start their own."""
    return PostgresServer(int(shared_server("postgres")))


@pytest.fixture(scope="session")
def durable_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server as it runs in production: a commit waits for the disk."""
    with postgres_server(durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_16() -> Iterator[PostgresServer]:
    """A server of the oldest version that the tests know."""
    with postgres_server(package=POSTGRES_16) as server:
        yield server


@pytest.fixture(scope="session")
def pooled_postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """PgBouncer in transaction mode before the server."""
    with bouncer(postgres) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Valkey server; tests that empty or stop one start their own."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3(shared_server: Callable[[str], str]) -> str:
    """The address of a server of the S3 protocol."""
    return shared_server("s3")


@pytest.fixture(scope="session")
def postgres_database(postgres: PostgresServer) -> Callable[[], str]:
    """Makes databases that hold arc's tables and nothing else, one at each call."""
    return lambda: new_database(postgres)


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
    with processes.helper() as started:
        yield started


@pytest.fixture
def opened() -> Iterator[Callable[..., ContextEngine]]:
    """Opens engines that are closed at the end."""
    engines: list[ContextEngine] = []

    def open_engine(url: str | None = None, model: Model | None = None, **more: Any) -> ContextEngine:
        more.setdefault("settings", settings_with())
        engine = ContextEngine.open(url, chat_model=model, token_counter=HeuristicTokenCounter(), **more)
        engines.append(engine)
        return engine

    yield open_engine
    for engine in engines:
        engine.close()
