"""Upgrades a database's tables to the revision that this version needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, Table, column, insert, select, table, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from arc_common.exceptions import ConfigurationError, StoreUnavailableError, check_whole, hide_password, scrubbed
from arc_common.messages import check_identifier
from arc_common.stores.database.encryption import Seal
from arc_common.stores.database.schema import (
    HEAD,
    KEY_TABLE,
    KEYS,
    ROW_NUMBERS,
    VECTORS,
    VERSION_TABLE,
    WORDS,
    index_tables,
    metadata,
)

ADVISORY_LOCK = 0x6172_6301
"""The PostgreSQL advisory lock that migrations hold ("arc", 1)."""

_VERSION = (
    f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY NOT NULL)",
    f"INSERT INTO {VERSION_TABLE} VALUES ('{HEAD}')",  # noqa: S608 - constants
)
"""The version table, as alembic makes it."""


def ensure_schema(engine: Engine, *, auto_migrate: bool = True, seal: Seal | None = None) -> None:
    """Check the tables' revision and their encryption, and upgrade them if needed and allowed."""
    seal = seal or Seal()
    with _connected(engine) as connection:
        revision = _revision(connection)
        if revision is not None:
            _unlock(connection, seal)
    if revision == HEAD:
        return
    if not auto_migrate:
        raise ConfigurationError(
            f"the database's tables are at revision {revision!r}, this version needs {HEAD!r}: run `arc db upgrade`"
        )
    upgrade(engine, seal)


def current_revision(engine: Engine) -> str | None:
    """Return the revision of the tables; `None` if there are no tables yet."""
    with _connected(engine) as connection:
        return _revision(connection)


def upgrade(engine: Engine, seal: Seal | None = None) -> None:
    """Run the missing migrations in one transaction, under a lock that other processes wait for."""
    seal = seal or Seal()
    with _locked(engine) as connection:
        revision = _revision(connection)
        if revision is None:
            create_tables(connection)
            for statement in _VERSION:
                connection.exec_driver_sql(statement)
            if seal.is_on:
                connection.exec_driver_sql(f"CREATE TABLE {KEY_TABLE} (sealed_key TEXT NOT NULL)")
                connection.execute(insert(KEYS).values(sealed_key=seal.new_key()))
            return
        _unlock(connection, seal)
        if revision != HEAD:
            _run_alembic(connection, revision)


def _unlock(connection: Connection, seal: Seal) -> None:
    """Take the database's key, or raise `ConfigurationError` if the tables and the cipher don't fit each other."""
    stored = connection.execute(select(KEYS.c.sealed_key)).scalar() if _has(connection, KEY_TABLE) else None
    if stored is None and seal.is_on:
        raise ConfigurationError(
            "the database is not encrypted, but there is a cipher: remove storage.encryption_keys, or export its data "
            "and import them into a new database (see docs/encryption.md)"
        )
    if stored is not None and not seal.is_on:
        raise ConfigurationError(
            "the database is encrypted: set storage.encryption_keys (ARC_STORAGE__ENCRYPTION_KEYS) to its keys"
        )
    if stored is not None and not seal.use_key(str(stored)):
        raise ConfigurationError(
            "the database is encrypted under another key than those of storage.encryption_keys; after a rotation, name "
            "the old key behind the new one"
        )


def _has(connection: Connection, name: str) -> bool:
    if connection.dialect.name == "sqlite":
        there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name"
    else:
        # a query of no table may answer from before the wait for the lock
        there = "SELECT 1 FROM pg_class WHERE oid = to_regclass(:name)"
    return connection.execute(text(there), {"name": name}).first() is not None


def _revision(connection: Connection) -> str | None:
    if not _has(connection, VERSION_TABLE):
        return None
    row: Any = connection.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).first()
    return None if row is None else str(row[0])


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    try:
        with engine.connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        url = engine.url.render_as_string(hide_password=False)
        raise StoreUnavailableError(f"{hide_password(url)}: {scrubbed(str(cause), url)}") from error


@contextmanager
def _locked(engine: Engine) -> Iterator[Connection]:
    with _connected(engine) as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA busy_timeout = 30000")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")
        yield connection
        connection.commit()


def partition(engine: Engine, parts: int = 16, seal: Seal | None = None) -> bool:
    """Partition all tables of a PostgreSQL database by hash, and move their rows; return whether it did.

    - A conversation's rows are in one partition of each table, as are a scope's memories and index.
    - It is one transaction that locks the tables: stop the writers before. Nothing changes if it fails.
    - Vector graphs are rebuilt when vectors are next added.

    Raises:
        ConfigurationError: The database is not PostgreSQL, or its tables are not those of this version.
        InvalidInputError: `parts` is not a whole number of at least 2.
        StoreUnavailableError: The server can't be used, or the user may not create schemas.
    """
    check_whole("parts", parts, least=2)
    if engine.dialect.name != "postgresql":
        raise ConfigurationError("only PostgreSQL's tables can be partitioned: SQLite keeps a database in one file")
    upgrade(engine, seal)
    with _locked(engine) as connection:
        run = connection.exec_driver_sql
        if _has(connection, f"{VECTORS}_p0"):
            return False
        run(f"CREATE SCHEMA {_WHOLE}")
        for table in _tables("postgresql"):
            run(f"ALTER TABLE {table.name} SET SCHEMA {_WHOLE}")
        create_tables(connection, parts)
        for table in _tables("postgresql"):
            names = ", ".join(column.name for column in table.columns)
            run(f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {_WHOLE}.{table.name}")  # noqa: S608 - ours
        run(f"DROP SCHEMA {_WHOLE} CASCADE")
    return True


def row_security(role: str) -> list[str]:
    """Return the statements that let a role of PostgreSQL use only the rows of the caller with the role's name.

    The owner of the tables, and superusers, still use all rows.
    """
    named = '"' + check_identifier("role", role, longest=63).replace('"', '""') + '"'
    names = [table.name for table in _tables("postgresql")]
    keys = f"GRANT SELECT ON {KEY_TABLE} TO {named}".replace("'", "''")  # only an encrypted database has it
    return [
        *(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY" for name in names),
        *(f"DROP POLICY IF EXISTS arc_caller ON {name}" for name in names),
        *(f"CREATE POLICY arc_caller ON {name} USING (caller_id = current_user)" for name in names),
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(names)} TO {named}",
        f"GRANT SELECT ON {VERSION_TABLE} TO {named}",
        f"GRANT USAGE ON SEQUENCE {ROW_NUMBERS} TO {named}",
        f"DO 'BEGIN IF to_regclass(''{KEY_TABLE}'') IS NOT NULL THEN {keys}; END IF; END'",
    ]


_WHOLE = "arc_whole"
"""The schema that holds the tables while they are partitioned."""


def create_tables(connection: Connection, parts: int = 0) -> None:
    """Create all tables; without parts, this is the first migration."""
    has_pgvector = connection.dialect.name == "postgresql" and _has_pgvector(connection)
    for statement in _statements(connection.dialect.name, parts):
        connection.exec_driver_sql(statement if has_pgvector else statement.replace(" VECTOR ", " BYTEA "))
    if has_pgvector:
        # Store vectors in the row if a page holds them: fetching one from TOAST takes longer than comparing it.
        connection.exec_driver_sql(f"ALTER TABLE {VECTORS} ALTER COLUMN vector SET STORAGE MAIN")


def _has_pgvector(connection: Connection) -> bool:
    try:
        with connection.begin_nested():
            connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
    except DBAPIError:  # not installed, or not allowed
        return False
    return True


def _tables(dialect_name: str) -> list[Table]:
    return [*metadata.sorted_tables, *index_tables(dialect_name).metadata.sorted_tables]


@cache
def _statements(dialect_name: str, parts: int) -> tuple[str, ...]:
    tables = _tables(dialect_name)
    indexes = [index for table in tables for index in table.indexes]
    is_sqlite = dialect_name == "sqlite"
    dialect: Dialect = sqlite.dialect() if is_sqlite else postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
    more = (
        (f"CREATE VIRTUAL TABLE {WORDS} USING fts5(tokens, tokenize = 'ascii', detail = none, columnsize = 0)",)
        if is_sqlite
        else (
            f"CREATE SEQUENCE IF NOT EXISTS {ROW_NUMBERS}",
            *([] if parts else [f"ALTER TABLE {VECTORS} SET ({_WIDE})"]),
        )
    )
    return (
        *(
            statement
            for table in tables
            for statement in _partitioned(table, str(CreateTable(table).compile(dialect=dialect)), parts)
        ),
        *(str(CreateIndex(index).compile(dialect=dialect)) for index in indexes),
        *more,
    )


_WIDE = "toast_tuple_target = 8160"
"""Keeps a vector in its row while a page holds it."""


def _partitioned(table: Table, create: str, parts: int) -> Iterator[str]:
    """Yield the statements that create a table, and its partitions."""
    if not parts:
        yield create
        return
    key = "scope" if "scope" in table.primary_key else "conversation"
    yield f"{create} PARTITION BY HASH ({key})"
    wide = f" WITH ({_WIDE})" if table.name == VECTORS else ""
    for part in range(parts):
        bounds = f"FOR VALUES WITH (MODULUS {parts}, REMAINDER {part})"
        yield f"CREATE TABLE {table.name}_p{part} PARTITION OF {table.name} {bounds}{wide}"


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
