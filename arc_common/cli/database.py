"""The commands of `arc db`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from arc_common.context.display import counted
from arc_common.exceptions import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from arc_common.settings import ArcSettings
    from arc_common.stores.database.encryption import Seal

app = typer.Typer(help="Create, check, partition or re-encrypt the database's tables.", no_args_is_help=True)

Address = Annotated[str | None, typer.Option(help="A SQLAlchemy URL; by default ARC_DATABASE_URL.")]


@app.command()
def upgrade(url: Address = None) -> None:
    """Create the database's tables, or bring them up to date."""
    from arc_common.stores.database import migrate  # noqa: PLC0415 - `arc --help` comes at once

    with _connected(url) as (engine, shown, seal):
        before = migrate.current_revision(engine)
        migrate.upgrade(engine, seal)
        after = migrate.current_revision(engine)
    change = "already" if before == after else f"upgraded from {before}, now" if before else "created,"
    typer.echo(f"{shown}: {change} at revision {after}")


@app.command()
def partition(
    url: Address = None,
    parts: Annotated[int, typer.Option(help="The number of partitions of each table.")] = 16,
) -> None:
    """Partition the tables of a PostgreSQL database; stop all writers first."""
    from arc_common.stores.database import migrate  # noqa: PLC0415 - the same

    with _connected(url) as (engine, shown, seal):
        done = migrate.partition(engine, parts, seal)
    typer.echo(f"{shown}: {f'each table has {parts} partitions' if done else 'already partitioned'}")


@app.command()
def row_security(
    role: Annotated[str, typer.Argument(help="The role, which may use the rows of the caller with the same name.")],
) -> None:
    """Print the SQL that lets a role of PostgreSQL use only one caller's rows."""
    from arc_common.stores.database import migrate  # noqa: PLC0415 - the same

    for statement in migrate.row_security(role):
        typer.echo(f"{statement};")


@app.command()
def current(url: Address = None) -> None:
    """Print the revision of the database's tables; change nothing."""
    from arc_common.stores.database import migrate  # noqa: PLC0415 - the same

    with _connected(url) as (engine, shown, _):
        revision = migrate.current_revision(engine)
    typer.echo(f"{shown}: revision {revision}" if revision else f"{shown}: no tables")


@app.command()
def check(url: Address = None) -> None:
    """Exit with code 1 if the database's tables don't fit this version of arc; change nothing."""
    from arc_common.stores.database import migrate  # noqa: PLC0415 - the same

    with _connected(url) as (engine, shown, seal):
        migrate.ensure_schema(engine, auto_migrate=False, seal=seal)
    typer.echo(f"{shown}: up to date")


@app.command()
def reencrypt(url: Address = None) -> None:
    """Encrypt all stored text again with the first key of storage.encryption_keys, so that old keys can go."""
    from arc_common.stores.conversations import SqlStore  # noqa: PLC0415 - the same

    with _connected(url) as (engine, shown, seal):
        store = SqlStore(engine, cipher=seal.cipher)
        rows = store.reencrypt()
        store.close()
    typer.echo(f"{shown}: {counted(rows, 'row')} re-encrypted")


@contextmanager
def _connected(url: str | None) -> "Iterator[tuple[Engine, str, Seal]]":
    """Yield an engine for a database, its address without the password, and the settings' encryption."""
    from arc_common.settings import ArcSettings  # noqa: PLC0415 - the same
    from arc_common.stores.database.connection import connect, shown_address  # noqa: PLC0415 - the same
    from arc_common.stores.database.encryption import Seal, cipher_of  # noqa: PLC0415 - the same

    settings = ArcSettings()
    engine, _ = connect(address_of(url, settings), settings.storage)
    try:
        yield engine, shown_address(engine), Seal(cipher_of(settings.storage))
    finally:
        engine.dispose()


def address_of(url: str | None, settings: "ArcSettings") -> str:
    """Return the given address, or else the settings' one."""
    address = url or settings.resolved_database_url
    if address is None and settings.database_url is not None:
        raise ConfigurationError("storage.mode: got 'in-memory', which uses no database: choose 'sql', or pass --url")
    if address is None:
        raise ConfigurationError("no database: pass --url, or set ARC_DATABASE_URL (sqlite:///arc.db)")
    return address
