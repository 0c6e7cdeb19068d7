"""Upgrades a database's tables to the revision that this version needs."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, column, select, table, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from arc_common.exceptions import ConfigurationError, StoreUnavailableError, hide_password, scrubbed
from arc_common.stores.schema import HEAD, ROW_NUMBERS, VECTORS, VERSION_TABLE, WORDS, index_tables, metadata

_LOCK = 0x6172_6301
"""The PostgreSQL advisory lock that migrations hold ("arc", 1)."""

_VERSION = (
    f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY NOT NULL)",
    f"INSERT INTO {VERSION_TABLE} VALUES ('{HEAD}')",  # noqa: S608 - constants
)
"""The version table, as alembic makes it."""


def ensure_schema(engine: Engine, *, auto_migrate: bool = True) -> None:
    """Check the tables' revision with one query and upgrade them if needed and allowed."""
    revision = current_revision(engine)
    if revision == HEAD:
        return
    if not auto_migrate:
        raise ConfigurationError(
            f"the database's tables are at revision {revision!r}, this version needs {HEAD!r}: run `arc db upgrade`"
        )
    upgrade(engine)


def current_revision(engine: Engine) -> str | None:
    """Return the revision of the tables; `None` if there are no tables yet."""
    try:
        with engine.connect() as connection:
            return _revision(connection)
    except SQLAlchemyError as error:
        raise _unavailable(engine, error) from error


def upgrade(engine: Engine) -> None:
    """Run the missing migrations in one transaction, under a lock that other processes wait for."""
    try:
        with _locked(engine) as connection:
            revision = _revision(connection)
            if revision is None:
                create_tables(connection)
                for statement in _VERSION:
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


def create_tables(connection: Connection) -> None:
    """Create all tables in an empty database: the body of the first migration."""
    dialect_name = connection.dialect.name
    if dialect_name == "postgresql" and not _has_pgvector(connection):
        for statement in _statements(dialect_name):
            connection.exec_driver_sql(statement.replace(" VECTOR ", " BYTEA "))
        return
    for statement in _statements(dialect_name):
        connection.exec_driver_sql(statement)
    if dialect_name == "postgresql":
        # Store vectors in the row if a page holds them: fetching one from TOAST takes longer than comparing it.
        connection.exec_driver_sql(f"ALTER TABLE {VECTORS} ALTER COLUMN vector SET STORAGE MAIN")


def _has_pgvector(connection: Connection) -> bool:
    try:
        with connection.begin_nested():
            connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
    except DBAPIError:  # not installed, or not allowed
        return False
    return True


@cache
def _statements(dialect_name: str) -> tuple[str, ...]:
    tables = [*metadata.sorted_tables, *index_tables(dialect_name).metadata.sorted_tables]
    indexes = [index for table in tables for index in table.indexes]
    is_sqlite = dialect_name == "sqlite"
    dialect: Dialect = sqlite.dialect() if is_sqlite else postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
    more = (
        (f"CREATE VIRTUAL TABLE {WORDS} USING fts5(tokens, tokenize = 'ascii', detail = none, columnsize = 0)",)
        if is_sqlite
        else (f"CREATE SEQUENCE {ROW_NUMBERS}", f"ALTER TABLE {VECTORS} SET (toast_tuple_target = 8160)")
    )
    return (
        *(str(CreateTable(table).compile(dialect=dialect)) for table in tables),
        *(str(CreateIndex(index).compile(dialect=dialect)) for index in indexes),
        *more,
    )


def _run_alembic(connection: Connection, revision: str) -> None:
    from alembic import command  # noqa: PLC0415 - 0.3 s that only a first start pays
    from alembic.config import Config  # noqa: PLC0415 - the same
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - the same
    from alembic.util import CommandError  # noqa: PLC0415 - the same

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
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
