"""From an address to a pooled SQLAlchemy engine. Connects to nothing."""

from typing import Any

from sqlalchemy import URL, Engine, StaticPool, create_engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from arc_common.exceptions import ConfigurationError, MissingDependencyError
from arc_common.stores.drivers import Driver, PostgresDriver, SqliteDriver

__all__ = ["connect", "driver_for"]

_ALLOWED = "sqlite:///file.db, sqlite:// (in memory) or postgresql+psycopg://user:password@host/database"
_MEMORY_NAMES = (None, "", ":memory:")


def connect(url: str | URL | Engine) -> tuple[Engine, bool]:
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
        return create_engine(address, **_pool(address)), True
    except ImportError as error:
        raise MissingDependencyError("PostgreSQL storage", package="psycopg", extra="postgres") from error
    except (SQLAlchemyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"database URL {address.render_as_string()}: {error}") from error


def driver_for(engine: Engine) -> Driver:
    """What runs statements on the engine's connections."""
    return SqliteDriver(engine) if engine.dialect.name == "sqlite" else PostgresDriver(engine)


def _check(address: URL, name: str, driver: str) -> None:
    if (name, driver) not in (("sqlite", "pysqlite"), ("postgresql", "psycopg")):
        raise ConfigurationError(
            f"database URL {address.render_as_string()}: {address.drivername!r} is not supported; expected {_ALLOWED}"
        )


def _pool(address: URL) -> dict[str, Any]:
    unreset = {"pool_reset_on_return": None}  # whoever uses a connection ends what it began
    if not address.drivername.startswith("sqlite"):
        return {"pool_size": 16, "max_overflow": 4, "pool_pre_ping": False, "pool_recycle": 1800, **unreset}
    if address.database in _MEMORY_NAMES or address.query.get("mode") == "memory":
        return {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    return {"pool_size": 8, "max_overflow": 56, **unreset}
