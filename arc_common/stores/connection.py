"""From an address to a pooled SQLAlchemy engine. Connects to nothing."""

import math
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, NullPool, StaticPool, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from arc_common.addresses import hide_password, scrubbed
from arc_common.exceptions import ConfigurationError, MissingDependencyError
from arc_common.stores.drivers import FROZEN, Driver, PostgresDriver, SqliteDriver
from arc_common.stores.options import SqlOptions

__all__ = ["connect", "driver_for"]

_ALLOWED = "sqlite:///file.db, sqlite:// (in memory) or postgresql+psycopg://user:password@host/database"
_MEMORY_NAMES = (None, "", ":memory:")


def connect(url: str | URL | Engine, options: SqlOptions | None = None) -> tuple[Engine, bool]:
    """An engine for the address, and whether it is ours to close.

    Raises:
        ConfigurationError: It is not an address, or not one of SQLite or PostgreSQL.
        MissingDependencyError: PostgreSQL's driver is not installed.
    """
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
    """Open a file; as immutable if it is read-only and SQLite can't create its log beside it.

    An immutable connection does not see later writes, so it is used once (see `FROZEN`).
    """
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
    """What runs statements on the engine's connections."""
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
