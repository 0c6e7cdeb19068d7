"""Fixtures for all tests: real servers, each started once and only if a test needs it."""

import gc
import importlib
import os
import signal
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

# Each run has the same examples and no deadline, since a busy machine must not fail correct code.
settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

HERE = Path(__file__).parent
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
"""Slow files with few tests; if they ran last, one process would wait for the other."""


def pytest_configure() -> None:
    """Keep temporary files in memory if there is room, since a commit to SQLite on a disk takes 2 to 5 ms.

    A run that is told to end ends as by an interrupt: fixtures stop their servers and remove their folders.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    gc.disable()  # until all is imported, which makes little garbage
    if folder := memory_folder():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import all tests in reverse in the second of two processes, so that each rewrites the asserts of half of them."""
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1" and session.config.args == session.config.getini("testpaths"):
        for path in sorted(HERE.rglob("test_*.py"), reverse=True):
            importlib.import_module(".".join(path.relative_to(HERE.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow files first; a file's tests stay together and share fixtures."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG))


def pytest_collection_finish() -> None:
    """Exclude tests and frameworks from garbage collection, and collect less often.

    To collect what little garbage their imports made would take a second of each process.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def scoped_sql() -> Iterator[None]:
    """Check that each table in arc's SQL is tied to a caller (see `sql_scopes.MAINTENANCE`)."""
    seen: dict[str, set[str]] = {"sqlite": set(), "postgres": set()}
    end = record_sql(seen)
    yield
    end()
    loose = {sql: tables for dialect, every in seen.items() for sql in every if (tables := unscoped(sql, dialect))}
    assert not loose, loose


@pytest.fixture(scope="session")
def shared_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return a function that gives the address of the run's only server of a kind."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):  # in a process of pytest-xdist
        return lambda kind: address(kind, folder.parent, os.getppid())
    return lambda kind: address(kind, folder, os.getpid())


@pytest.fixture(scope="session")
def postgres(shared_server: Callable[[str], str]) -> PostgresServer:
    """Return a PostgreSQL server that does not wait for the disk; tests that stop one start their own."""
    return PostgresServer(int(shared_server("postgres")))


@pytest.fixture(scope="session")
def durable_postgres() -> Iterator[PostgresServer]:
    """Start a PostgreSQL server as in production: a commit waits for the disk."""
    with postgres_server(durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_16() -> Iterator[PostgresServer]:
    """Start a server of the oldest tested version."""
    with postgres_server(package=POSTGRES_16) as server:
        yield server


@pytest.fixture(scope="session")
def pooled_postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """Start PgBouncer in transaction mode in front of the server."""
    with bouncer(postgres) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """Start a Valkey server; tests that empty or stop one start their own."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3(shared_server: Callable[[str], str]) -> str:
    """Return the address of an S3-protocol server."""
    return shared_server("s3")


@pytest.fixture(scope="session")
def postgres_database(postgres: PostgresServer) -> Callable[[], str]:
    """Return a function that creates databases with arc's tables and no rows."""
    return lambda: new_database(postgres)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database with tables and no rows: a file, or one on a PostgreSQL server."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    make: Callable[[], str] = request.getfixturevalue("postgres_database")
    return make()


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without tables, for tests that create them."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return new_database(server, tables=False)


@pytest.fixture
def sql_store(database: str) -> Iterator[SqlStore]:
    """Open a store on an empty database."""
    store = SqlStore(database)
    yield store
    store.close()


@pytest.fixture(scope="session")
def helper() -> Iterator[Helper]:
    """Start a helper that runs jobs in separate processes."""
    with processes.helper() as started:
        yield started


@pytest.fixture
def opened() -> Iterator[Callable[..., ContextEngine]]:
    """Return a function that opens engines, and close them at the end."""
    engines: list[ContextEngine] = []

    def open_engine(url: str | None = None, model: Model | None = None, **more: Any) -> ContextEngine:
        more.setdefault("settings", settings_with())
        engine = ContextEngine.open(url, chat_model=model, token_counter=HeuristicTokenCounter(), **more)
        engines.append(engine)
        return engine

    yield open_engine
    for engine in engines:
        engine.close()
