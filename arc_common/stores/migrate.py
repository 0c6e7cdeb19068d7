"""Brings a database's tables to the revision that this version needs."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, StaticPool, column, select, table, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from arc_common.exceptions import ConfigurationError, StoreUnavailableError, hide_password, scrubbed
from arc_common.stores.schema import HEAD, VERSION_TABLE, WORDS, index_tables, metadata

__all__ = ["current_revision", "ensure_schema", "upgrade"]

_LOCK = 0x6172_6301
"""The PostgreSQL advisory lock that migrations hold ("arc", 1)."""


def ensure_schema(engine: Engine, *, auto_migrate: bool = True) -> None:
    """Check the tables' revision with one statement, and upgrade if need be and allowed.

    Raises:
        ConfigurationError: The tables are older and `auto_migrate` is off, or they are of a newer version than this.
        StoreUnavailableError: The database can't be reached, opened or read.
    """
    revision = current_revision(engine)
    if revision == HEAD:
        return
    if not auto_migrate:
        raise ConfigurationError(
            f"the database's tables are at revision {revision!r}, this version needs {HEAD!r}: run `arc db upgrade`"
        )
    upgrade(engine)


def current_revision(engine: Engine) -> str | None:
    """The revision that the tables are at; `None` before the first."""
    try:
        with engine.connect() as connection:
            return _revision(connection)
    except SQLAlchemyError as error:
        raise _unavailable(engine, error) from error


def upgrade(engine: Engine) -> None:
    """Run the missing migrations in one transaction, under a lock that other processes wait for.

    - A process that dies on the way leaves the tables as they were.
    - An empty database in memory gets the newest tables at once: alembic takes 0.4 s at its first use.

    Raises:
        ConfigurationError: The tables are of a newer version than this.
        StoreUnavailableError: The database can't be reached, opened or written.
    """
    try:
        with _locked(engine) as connection:
            revision = _revision(connection)
            if revision is None and isinstance(engine.pool, StaticPool):
                for statement in _newest_tables():
                    connection.exec_driver_sql(statement)
            elif revision != HEAD:
                _run_alembic(connection, revision)
    except SQLAlchemyError as error:
        raise _unavailable(engine, error) from error


def _revision(connection: Connection) -> str | None:
    if connection.dialect.name == "sqlite":
        there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name"
    else:
        there = "SELECT 1 WHERE to_regclass(:name) IS NOT NULL"
    if connection.execute(text(there), {"name": VERSION_TABLE}).first() is None:
        return None
    row: Any = connection.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).first()
    return None if row is None else str(row[0])


@contextmanager
def _locked(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            _set_busy_timeout(connection)
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        yield connection
        connection.commit()


def _set_busy_timeout(connection: Connection) -> None:
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        driver.execute("PRAGMA busy_timeout = 30000")


@cache
def _newest_tables() -> tuple[str, ...]:
    """Return the SQL that makes an empty SQLite database as the migrations leave it."""
    tables = [*metadata.sorted_tables, *index_tables("sqlite").metadata.sorted_tables]
    indexes = [index for table in tables for index in table.indexes]
    dialect = sqlite.dialect()
    return (
        *(str(CreateTable(table).compile(dialect=dialect)) for table in tables),
        *(str(CreateIndex(index).compile(dialect=dialect)) for index in indexes),
        f"CREATE VIRTUAL TABLE {WORDS} USING fts5(tokens, tokenize = 'ascii', detail = none, columnsize = 0)",
        f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
        f"INSERT INTO {VERSION_TABLE} VALUES ('{HEAD}')",  # noqa: S608 - constants
    )


def _run_alembic(connection: Connection, revision: str | None) -> None:
    from alembic import command  # noqa: PLC0415 - 0.3 s that only a first start pays
    from alembic.config import Config  # noqa: PLC0415 - the same
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - the same
    from alembic.util import CommandError  # noqa: PLC0415 - the same

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        if revision is not None:
            ScriptDirectory.from_config(config).get_revision(revision)
        command.upgrade(config, "head")
    except CommandError as error:
        raise ConfigurationError(
            f"the database's tables are at revision {revision!r}, which this version of arc does not know "
            f"(it knows up to {HEAD!r}): install the version that made them, or a newer one"
        ) from error


def _unavailable(engine: Engine, error: SQLAlchemyError) -> StoreUnavailableError:
    cause = getattr(error, "orig", None) or error
    url = engine.url.render_as_string(hide_password=False)
    return StoreUnavailableError(f"{hide_password(url)}: {scrubbed(str(cause), url)}")
