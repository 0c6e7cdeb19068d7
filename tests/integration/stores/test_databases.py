"""Migrations, engines that users pass, settings of connections, and failures of databases."""

import asyncio
import gc
import os
import re
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pgvector.sqlalchemy  # noqa: F401 - lets SQLAlchemy know pgvector's type
import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from arc_common.exceptions import ConfigurationError, StoreError, StoreUnavailableError
from arc_common.protocols import SessionKey
from arc_common.settings import StorageSettings
from arc_common.stores.conversations import SqlStore
from arc_common.stores.database import migrate
from arc_common.stores.database.connection import connect
from arc_common.stores.database.drivers import SqliteDriver, Transaction
from arc_common.stores.database.migrate import ADVISORY_LOCK, current_revision, ensure_schema, upgrade
from arc_common.stores.database.schema import HEAD, VERSION_TABLE, WORDS, index_tables, metadata
from arc_common.stores.statements.compiler import Statement
from arc_common.testing.conversation_store_contract import counted, ids
from tests.support import processes as workers
from tests.support.databases import new_database, sqlite_url
from tests.support.processes import Helper
from tests.support.servers import PostgresServer, free_port

KEY = SessionKey("session")


def reading_and_writing(store: SqlStore) -> list[Callable[[], object]]:
    """Return a read and a write."""
    return [partial(store.read, KEY), partial(store.append, KEY, [counted("new")])]


# Migrations


def test_migrations_make_the_tables_that_the_code_knows(empty_database: str) -> None:
    """Alembic finds no difference between a new database and the schema, and a second upgrade changes nothing."""
    engine = create_engine(empty_database)
    upgrade(engine)
    upgrade(engine)
    assert current_revision(engine) == HEAD
    with engine.connect() as connection:
        tables = index_tables(engine.dialect.name).metadata
        options = {
            "version_table": VERSION_TABLE,
            "compare_type": True,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: not (kind == "table" and name.startswith(WORDS)),
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, [metadata, tables]) == []
    engine.dispose()


INDEXES = {
    "sqlite": "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    "postgresql": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
}


def test_alembic_makes_the_same(empty_database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """`alembic upgrade head` creates the same tables, columns and indexes as arc's own upgrade."""

    def shape(url: str, make: Callable[[Engine], None]) -> set[str]:
        engine, _ = connect(url)
        make(engine)
        assert current_revision(engine) == HEAD
        found = inspect(engine)
        columns = {f"{name} {column}" for name in found.get_table_names() for column in found.get_columns(name)}
        with engine.connect() as connection:
            indexes = set(connection.exec_driver_sql(INDEXES[engine.dialect.name]).scalars())
        engine.dispose()
        return columns | indexes

    if empty_database.startswith("sqlite"):
        other = f"sqlite:///{tmp_path / 'other.db'}"
        assert shape("sqlite://", upgrade) ^ shape(other, upgrade) == set()
    else:
        other = new_database(request.getfixturevalue("postgres"), tables=False)
    assert shape(empty_database, upgrade_by_alembic) ^ shape(other, upgrade) == set()


def upgrade_by_alembic(engine: Engine) -> None:
    """Upgrade as a deployment with its own Alembic does."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def test_no_migration_unless_allowed(empty_database: str) -> None:
    """With `auto_migrate` off, an empty database raises an error that names the command, and stays empty."""
    store = SqlStore(empty_database, settings=StorageSettings(auto_migrate=False))
    for call in reading_and_writing(store):
        with pytest.raises(ConfigurationError, match="arc db upgrade"):
            call()
    assert inspect(store.engine).get_table_names() == []
    upgrade(store.engine)
    assert len(store.append(KEY, [counted("a")])) == 1
    store.close()


@pytest.mark.parametrize("revision", ["9999", "not a number"])
def test_a_newer_database_is_left_alone(sql_store: SqlStore, revision: str) -> None:
    """Tables of an unknown version are neither read nor changed."""
    sql_store.append(KEY, [counted("a")])
    with sql_store.engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :new"), {"new": revision})
    later = SqlStore(sql_store.engine)
    with pytest.raises(ConfigurationError, match=revision):
        later.append(KEY, [counted("b")])
    assert current_revision(sql_store.engine) == revision
    assert ids(sql_store.read(KEY)) == ["a"]


def test_a_migration_that_fails_leaves_nothing(empty_database: str) -> None:
    """A migration that fails rolls back its changes, and a later one succeeds."""
    engine = create_engine(empty_database)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE arc_messages (something INTEGER)"))
    with pytest.raises(StoreUnavailableError):
        upgrade(engine)
    assert inspect(engine).get_table_names() == ["arc_messages"]
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE arc_messages"))
    upgrade(engine)
    assert current_revision(engine) == HEAD
    engine.dispose()


# An engine that the user passes


def test_a_users_engine_keeps_its_behaviour(database: str) -> None:
    """Other sessions on the engine commit and roll back as before, and closing the store leaves the engine open."""
    engine = create_engine(database, pool_size=1, max_overflow=0)
    store = SqlStore(engine)
    assert store.engine is engine
    with Session(engine) as session:
        session.execute(text("CREATE TABLE mine (x INTEGER)"))
        session.commit()
    for number in range(3):
        store.append(KEY, [counted(f"m{number}")])
        with Session(engine) as session:
            session.execute(text("INSERT INTO mine VALUES (1)"))
            session.commit()
            session.execute(text("INSERT INTO mine VALUES (2)"))
            session.rollback()
            session.execute(text("INSERT INTO mine VALUES (3)"))
    pool = engine.pool
    store.close()
    assert engine.pool is pool
    with Session(engine) as session:
        assert session.execute(text("SELECT x FROM mine")).scalars().all() == [1, 1, 1]
    assert ids(SqlStore(engine).read(KEY)) == ["m0", "m1", "m2"]
    engine.dispose()


def test_a_users_engine_may_be_serializable(postgres_database: Callable[[], str]) -> None:
    engine = create_engine(
        postgres_database(),
        isolation_level="SERIALIZABLE",
        connect_args={"options": "-c default_transaction_isolation=serializable"},
    )
    store = SqlStore(engine)

    def write(writer: int) -> None:
        for number in range(10):
            store.append(KEY, [counted(f"{writer}-{number}")], max_messages=1_000 if writer % 2 else None)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(store.read(KEY)) == 40
    with engine.connect() as connection:
        assert connection.execute(text("SHOW transaction_isolation")).scalar() == "serializable"
    engine.dispose()


def test_closing_twice_and_using_again(sql_store: SqlStore) -> None:
    sql_store.append(KEY, [counted("a")])
    sql_store.close()
    sql_store.close()
    if sql_store.engine.dialect.name == "sqlite":  # the last connection to a file deletes its log
        assert not Path(f"{sql_store.engine.url.database}-wal").exists()
    else:
        assert sql_store.engine.pool.checkedin() == 0  # type: ignore[attr-defined]  # a queue counts


# Settings of each connection


def test_a_closed_database_is_one_file_that_can_be_copied(tmp_path: Path) -> None:
    store = SqlStore(sqlite_url(tmp_path))
    stored = store.append(KEY, [counted("a")])
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["arc.db"]
    again = SqlStore(f"sqlite:///{(tmp_path / 'arc.db').rename(tmp_path / 'copy.db')}")
    assert again.read(KEY) == stored
    again.close()


def test_every_connection_is_durable_and_secure(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'arc.db'}")
    store.append(KEY, [counted("a")])
    names = ("journal_mode", "synchronous", "secure_delete", "busy_timeout")
    pragmas = [Statement(f"PRAGMA {name}", {}) for name in names]

    def ask(transaction: Transaction) -> list[object]:
        return [rows[0][0] for rows in transaction.run(*((pragma, {}) for pragma in pragmas))]

    driver = SqliteDriver(store.engine, StorageSettings())
    # The outer reading holds its connection, so the inner one gets another.
    found = driver.reading(lambda outer: [ask(outer), driver.reading(ask)])
    assert found == [["wal", 2, 1, 30_000]] * 2
    driver.close()
    store.close()


def test_deleted_text_is_not_in_the_file(tmp_path: Path) -> None:
    """After a checkpoint, no page of the file contains deleted text."""
    secret = "the secret of the golden goose"
    names = [f"m{n}" for n in range(40)]
    removals: list[Callable[[SqlStore], object]] = [
        lambda store: store.remove(KEY, names),
        lambda store: store.delete(KEY, keep_session=True),
        lambda store: store.delete(KEY),
        lambda store: store.append(KEY, [counted("new")], max_messages=1),
        lambda store: store.append(KEY, [counted(name, "nothing") for name in names]),
    ]
    for number, remove in enumerate(removals):
        path = tmp_path / f"{number}.db"
        store = SqlStore(f"sqlite:///{path}")
        store.append(KEY, [counted(name, f"{secret} {name} " * 50) for name in names])
        remove(store)
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert secret.encode() not in path.read_bytes(), number
        store.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == [f"{number}.db" for number in range(5)]


# Failures


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """Reading and writing raise an error that names the file, and the file does not change."""
    garbage, short = _garbage(tmp_path / "garbage.db"), _garbage(tmp_path / "short.db", b"x" * 10)
    for path in (tmp_path, tmp_path / "missing" / "arc.db", garbage, short, _truncated(tmp_path / "cut.db")):
        before = path.read_bytes() if path.is_file() else None
        store = SqlStore(f"sqlite:///{path}")
        for call in reading_and_writing(store):
            with pytest.raises(StoreUnavailableError) as caught:
                call()
            assert path.name in str(caught.value)
            assert caught.value.__cause__ is not None
        store.close()
        assert (path.read_bytes() if path.is_file() else None) == before


def _garbage(path: Path, content: bytes = b"this is no database" * 500) -> Path:
    path.write_bytes(content)
    return path


def _truncated(path: Path) -> Path:
    store = SqlStore(f"sqlite:///{path}")
    store.append(KEY, [counted(f"m{n}", "x" * 1000) for n in range(100)])
    store.close()
    path.write_bytes(path.read_bytes()[:10_000])
    return path


@pytest.mark.parametrize("mode", [0o444, 0o000], ids=["read only", "nothing"])
def test_a_file_without_permission(helper: Helper, tmp_path: Path, mode: int) -> None:
    """Without permission, a write raises arc's error; a read raises it, too, or works on a read-only file."""
    path = tmp_path / "arc.db"
    store = SqlStore(f"sqlite:///{path}")
    store.append(KEY, [counted("a")])
    store.close()
    before = path.read_bytes()
    path.chmod(mode)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o755)
    ((read, write),) = helper.run(workers.unprivileged, tmp_path, [{"url": f"sqlite:///{path}"}])
    clear = r"StoreUnavailableError: .*\w+"
    assert re.match(clear, write)
    assert re.match(clear, read) or (mode == 0o444 and read == "fine")
    path.chmod(0o644)
    assert path.read_bytes() == before


def test_a_wrong_address() -> None:
    """An unsupported URL is refused before anything is opened; the error lists supported ones, and no password."""
    for url in (
        "", "nonsense", "mysql://u:secret@h/d", "postgresql+asyncpg://u:secret@h/d", "sqlite+aiosqlite:///x.db",
        "redis://h", "postgresql+psycopg://u:secret@h:port/d", 5, None, b"sqlite://", "postgresql+psycopg2://u:secret@h/d",
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="sqlite") as caught:
            SqlStore(url)  # type: ignore[arg-type]  # some have the wrong type on purpose
        assert "secret" not in str(caught.value)


def test_an_unreachable_server() -> None:
    """An unreachable server raises an error at each call, without the password."""
    store = SqlStore(f"postgresql+psycopg://arc:secret@127.0.0.1:{free_port()}/arc")
    for call in reading_and_writing(store):
        with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1") as caught:
            call()
        assert "secret" not in str(caught.value)
        assert isinstance(caught.value.__cause__, OperationalError)
    assert "secret" not in repr(store)
    store.close()


def test_a_wrong_password(postgres: PostgresServer) -> None:
    """If the server rejects the login, the error names the user, and not the password."""
    store = SqlStore(f"postgresql+psycopg://nobody_here:secret@127.0.0.1:{postgres.port}/postgres")
    with pytest.raises(StoreUnavailableError, match="nobody_here") as caught:
        store.read(KEY)
    assert "secret" not in str(caught.value)
    store.close()


def test_a_login_that_fails_later(postgres_database: Callable[[], str]) -> None:
    """If what makes an application's connections quotes the password in its error, ours does not."""
    engine = create_engine(postgres_database().replace("arc@", "arc:secret@"))
    with closing(SqlStore(engine)) as store:
        store.read(KEY)
        engine.dispose()

        @event.listens_for(engine, "do_connect")
        def connect(*_: object) -> None:
            raise psycopg.OperationalError("the token 'secret' of arc has expired")

        with pytest.raises(StoreUnavailableError, match=r"'\*\*\*' of arc has expired"):
            store.read(KEY)


def test_connections_that_the_server_ended(postgres: PostgresServer, postgres_database: Callable[[], str]) -> None:
    """One call fails without a silent retry, and the next works, although all pooled connections are gone."""
    url = postgres_database()
    store = SqlStore(url)
    store.append(KEY, [counted("a")])
    pooled = [store.engine.raw_connection() for _ in range(4)]
    for one in pooled:
        one.close()
    kill = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"  # waits for the end
    with psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        for number, call in enumerate(reading_and_writing(store)):
            assert len(admin.execute(kill, [url.rpartition("/")[2]]).fetchall()) == (1 if number else 4)
            with pytest.raises(StoreUnavailableError):
                call()
            assert ids(store.read(KEY)) == ["a"]
    store.append(KEY, [counted("b")])
    assert ids(store.read(KEY)) == ["a", "b"]
    store.close()


def test_a_transaction_that_an_interrupt_left_open_takes_no_message(postgres_database: Callable[[], str]) -> None:
    """The pool rolls nothing back; a message stored within that transaction would be lost."""
    url = postgres_database()
    store = SqlStore(url)
    store.append(KEY, [counted("a")])
    pooled = store.engine.raw_connection()
    connection = pooled.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    connection.execute("SELECT count(*) FROM arc_messages")
    pooled.close()
    store.append(KEY, [counted("b")])
    store.close()
    with closing(SqlStore(url)) as again:
        assert ids(again.read(KEY)) == ["a", "b"]


def test_connections_keep_no_large_texts(postgres_database: Callable[[], str]) -> None:
    """A cursor that is used again holds its last rows: images of a few sessions must not fill the memory."""
    store = SqlStore(postgres_database())
    store.append(KEY, [counted("small"), counted("large", "x" * 1_000_000)])
    assert len(store.read(KEY)) == len(store.read(KEY, limit=2)) == 2
    cursors = [one for one in gc.get_objects() if issubclass(type(one), psycopg.Cursor)]
    results = [one.pgresult for one in cursors if one.pgresult]
    sizes = [
        len(one.get_value(row, column) or b"")
        for one in results
        for row in range(one.ntuples)
        for column in range(one.nfields)
    ]
    assert sum(sizes) < 100_000
    store.close()


def test_a_migration_that_waited_sees_the_tables_made_meanwhile(postgres: PostgresServer) -> None:
    """PostgreSQL remembers that a name was unknown; a table of another process must not be created again."""
    url = new_database(postgres, tables=False)
    engine = create_engine(url)
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = %s"
    with psycopg.connect(postgres.dsn(url.rpartition("/")[2]), autocommit=True) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
        migrated = pool.submit(ensure_schema, engine)
        while other.execute(waiting, [ADVISORY_LOCK]).fetchone() is None:
            time.sleep(0.01)
        other.execute(f"CREATE TABLE {VERSION_TABLE} AS SELECT %s AS version_num", [HEAD])
        other.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_LOCK])
        migrated.result()
    engine.dispose()


def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'arc.db'}")
    store.append(KEY, [counted("a")])
    other = sqlite3.connect(tmp_path / "arc.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    async def both() -> None:
        writing = asyncio.create_task(asyncio.to_thread(store.append, KEY, [counted("b")]))
        await asyncio.sleep(0.2)
        assert not writing.done()
        other.execute("COMMIT")
        await writing

    asyncio.run(both())
    assert ids(store.read(KEY)) == ["a", "b"]
    other.close()
    store.close()


def test_the_first_connection_waits_to_switch_to_a_log(tmp_path: Path) -> None:
    """While another process writes without a write-ahead log, SQLite refuses the switch at once; arc tries again."""
    store = SqlStore(f"sqlite:///{tmp_path / 'arc.db'}")
    upgrade(store.engine)
    other = sqlite3.connect(tmp_path / "arc.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(store.read, KEY)
        assert not wait([reading], timeout=0.2).done
        other.execute("COMMIT")
        other.close()
        assert reading.result(10) == []
    store.close()


def test_a_failed_append_leaves_the_connection_usable(sql_store: SqlStore) -> None:
    """A statement that the database rejects rolls back the whole append."""
    sql_store.append(KEY, [counted("a")])
    with sql_store.engine.begin() as connection:
        connection.execute(text("ALTER TABLE arc_branches RENAME COLUMN total_tokens TO renamed"))
    with pytest.raises(Exception, match="total_tokens"):
        sql_store.append(KEY, [counted("b")])
    with sql_store.engine.begin() as connection:
        connection.execute(text("ALTER TABLE arc_branches RENAME COLUMN renamed TO total_tokens"))
    assert ids(sql_store.read(KEY)) == ["a"]
    sql_store.append(KEY, [counted("b")])
    assert ids(sql_store.read(KEY)) == ["a", "b"]


def test_a_statement_that_takes_too_long_is_ended(postgres_database: Callable[[], str]) -> None:
    """A call that waits for a lock longer than the timeout fails, and the next one works."""
    url = postgres_database()
    store = SqlStore(url, settings=StorageSettings(statement_timeout_seconds=0.2))
    store.append(KEY, [counted("a")])
    with psycopg.connect(url.replace("+psycopg", "")) as other:
        other.execute("SELECT * FROM arc_conversations FOR UPDATE")
        with pytest.raises(StoreUnavailableError, match="statement timeout"):
            store.append(KEY, [counted("b")])
    store.append(KEY, [counted("c")])
    assert ids(store.read(KEY)) == ["a", "c"]
    store.close()


def test_a_transaction_pooler_needs_its_setting(pooled_postgres: PostgresServer, postgres: PostgresServer) -> None:
    """Behind PgBouncer, eight concurrent writers lose nothing; without the setting, the error names it."""
    url = pooled_postgres.url(new_database(postgres).rpartition("/")[2])

    def write(store: SqlStore, name: str) -> None:
        for number in range(12):
            store.append(KEY, [counted(f"{name}-{number}")])

    for pooled in (True, False):
        with ExitStack() as closed, ThreadPoolExecutor(8) as pool:
            stores = [SqlStore(url, settings=StorageSettings(transaction_pooling=pooled)) for _ in range(8)]
            for store in stores:  # threads of one would share statements
                closed.callback(store.close)
            written = [pool.submit(write, store, f"{pooled}{number}") for number, store in enumerate(stores)]
            failures = [str(failure) for one in written if (failure := one.exception())]
            if pooled:
                assert (failures, len(stores[0].read(KEY))) == ([], 96)
            else:
                assert any("storage.transaction_pooling" in failure for failure in failures)


def test_statements_that_the_server_refused_are_not_missed_later(postgres_database: Callable[[], str]) -> None:
    """After a rejected statement, psycopg takes unprepared statements for prepared ones; arc uses a new connection.

    A statement is prepared at its sixth use, so there is a rejection after each number of uses.
    """
    store = SqlStore(postgres_database())
    store.append(KEY, [counted("first")])
    with store.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE arc_messages ADD CHECK (body NOT LIKE '%%refused%%')")
    for uses in range(9):
        with pytest.raises(StoreError, match="refused"):
            store.append(KEY, [counted(f"bad{uses}", "refused")], max_messages=100)
        with pytest.raises(StoreError, match="refused"):
            store.append(KEY, [counted("first", "refused")])
        store.append(KEY, [counted(f"good{uses}")], max_messages=100)
        store.append(KEY, [counted("first", f"text {uses}")])
        store.remove(KEY, [f"good{uses}"])
    assert ids(store.read(KEY)) == ["first"]
    store.close()
