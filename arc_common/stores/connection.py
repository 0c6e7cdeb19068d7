"""Creates a pooled SQLAlchemy engine from an address, and runs statements on it."""

import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import URL, Engine, NullPool, StaticPool, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from arc_common.concurrency import ForkGate, give_way
from arc_common.exceptions import (
    ConfigurationError,
    MissingDependencyError,
    SessionNotFoundError,
    hide_password,
    scrubbed,
)
from arc_common.protocols import SessionKey
from arc_common.stores.codec import MAIN_BRANCH, conversation_key
from arc_common.stores.drivers import FROZEN, Call, Driver, PostgresDriver, Row, SqliteDriver, SqlOptions, Transaction
from arc_common.stores.migrate import ensure_schema

_ALLOWED = "sqlite:///file.db, sqlite:// (in memory) or postgresql+psycopg://user:password@host/database"
_MEMORY_NAMES = (None, "", ":memory:")


def connect(url: str | URL | Engine, options: SqlOptions | None = None) -> tuple[Engine, bool]:
    """Return an engine for the address and whether the caller must close it; open no connection."""
    if isinstance(url, Engine):
        _check(url.url, url.dialect.name, url.dialect.driver)
        return url, False
    if not isinstance(url, str | URL):
        raise ConfigurationError(f"database URL: got {type(url).__name__}, expected text such as {_ALLOWED}")
    try:
        address = make_url(url)
    except (SQLAlchemyError, ValueError) as error:
        raise ConfigurationError(f"database URL: not an address; expected {_ALLOWED}") from error
    if address.drivername in ("postgres", "postgresql"):
        address = address.set(drivername="postgresql+psycopg")
    name, _, driver = address.drivername.partition("+")
    _check(address, name, driver or {"sqlite": "pysqlite"}.get(name, driver))
    try:
        engine = create_engine(address, **_pool(address, options or SqlOptions()))
    except ImportError as error:
        raise MissingDependencyError("PostgreSQL storage", package="psycopg", extra="postgres") from error
    except (SQLAlchemyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"database URL {_shown(address)}: {scrubbed(str(error), _whole(address))}") from None
    if name == "sqlite":
        event.listen(engine, "do_connect", _open_sqlite)
    return engine, True


def _open_sqlite(_dialect: Any, record: Any, arguments: list[Any], options: dict[str, Any]) -> sqlite3.Connection:
    """Open a file, as immutable if it is read-only and SQLite can't create its log beside it."""
    connection: sqlite3.Connection = sqlite3.connect(*arguments, **options)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error as error:
        is_closed_to_us = (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
        path = Path(arguments[0])  # not a file if the address has options of its own
        log = path.with_name(f"{path.name}-wal")
        if is_closed_to_us and path.is_file() and not (log.exists() and log.stat().st_size):
            connection.close()
            record.info[FROZEN] = True
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", **{**options, "uri": True})
    return connection


def driver_for(engine: Engine, options: SqlOptions) -> Driver:
    """Return the driver for the engine's database."""
    return SqliteDriver(engine, options) if engine.dialect.name == "sqlite" else PostgresDriver(engine)


def _check(address: URL, name: str, driver: str) -> None:
    if (name, driver) not in (("sqlite", "pysqlite"), ("postgresql", "psycopg")):
        raise ConfigurationError(
            f"database URL {_shown(address)}: {address.drivername!r} is not supported; expected {_ALLOWED}"
        )


def _whole(address: URL) -> str:
    return address.render_as_string(hide_password=False)


def _shown(address: URL) -> str:
    return hide_password(_whole(address))


def _pool(address: URL, options: SqlOptions) -> dict[str, Any]:
    if address.drivername.startswith("sqlite"):
        if address.database in _MEMORY_NAMES or address.query.get("mode") == "memory":
            return {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
        return {
            "poolclass": NullPool,
            "connect_args": {"check_same_thread": False},
        }  # `SqliteDriver` keeps connections itself
    pool: dict[str, Any] = {"pool_size": options.pool_size, "max_overflow": 4, "pool_recycle": 1800}
    pool["pool_timeout"] = options.pool_timeout_seconds
    if "connect_timeout" not in address.query:  # libpq takes whole seconds
        pool["connect_args"] = {"connect_timeout": math.ceil(options.connect_timeout_seconds)}
    return pool


class Database:
    """Runs statements; creates or upgrades the tables at first use."""

    def __init__(self, url: str | Engine, *, auto_migrate: bool, options: SqlOptions) -> None:
        self.options = options
        self.engine, self._owned = connect(url, options)
        self._auto_migrate = auto_migrate
        self._driver = driver_for(self.engine, options)
        self._gate = ForkGate(before=self._driver.before_fork, in_child=self._driver.in_child)
        self._ready = False
        self._preparing = Lock()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def many(self, values: Sequence[Any]) -> Any:
        """Return any number of values as one parameter."""
        return json.dumps(values) if self.dialect == "sqlite" else list(values)

    def read(self, call: Call) -> list[Row]:
        """Run one reading statement, in one round trip."""
        with self._operation() as driver:
            return driver.read(call)

    def snapshot(self, *calls: Call) -> list[list[Row]]:
        """Run reading statements on one snapshot, in one round trip; return the rows of each."""
        with self._operation() as driver:
            return driver.snapshot(*calls)

    def write(self, call: Call) -> list[Row] | None:
        """Run one writing statement, durable in one round trip; `None` if another writer interfered."""
        with self._operation() as driver:
            return driver.write(call)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a writing transaction."""
        with self._operation() as driver, driver.transaction() as transaction:
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Begin a reading transaction on one snapshot."""
        with self._operation() as driver, driver.reading() as transaction:
            yield transaction

    @contextmanager
    def _operation(self) -> Iterator[Driver]:
        """Yield the driver once the tables exist, while no fork happens."""
        give_way()
        with self._gate.operation():
            if not self._ready:
                self._prepare()
            yield self._driver

    def close(self) -> None:
        """Close the connections, and the engine if this object created it."""
        self._driver.close()
        if self._owned:
            self.engine.dispose()

    def _prepare(self) -> None:
        with self._preparing:
            if not self._ready:
                ensure_schema(self.engine, auto_migrate=self._auto_migrate)
                with self._driver.reading():  # an interrupt before the first connection would lose a database in memory
                    pass
                self._ready = True


def scope(key: SessionKey) -> dict[str, Any]:
    """Return the parameters that identify a conversation's branch and its owner."""
    return {
        "conversation": conversation_key(key),
        "branch": MAIN_BRANCH,
        "caller_id": key.caller_id,
        "user_id": key.user_id,
    }


def check_owner(key: SessionKey, user_id: str | None) -> None:
    """Raise `SessionNotFoundError` if a conversation's owner is not the key's user."""
    if user_id != key.user_id:
        raise SessionNotFoundError(key.session_id)
