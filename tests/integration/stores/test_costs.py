"""What an append and a load cost: syncs, round trips, statements and rows, none of them by the clock."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mode

import psycopg
import pytest
from sqlalchemy import create_engine

from arc_common.protocols import SessionKey
from arc_common.stores.conversations import SqlStore
from arc_common.stores.conversations_statements import statements_for
from arc_common.testing.conversation_store_contract import counted
from tests.support.databases import new_database, sqlite_url
from tests.support.probes import Wire, counted_syncs, wire
from tests.support.servers import PostgresServer

KEY = SessionKey("session", user_id="user")


def pooled_store(path: Path) -> SqlStore:
    """A store on an engine with one connection, which the test can watch."""
    return SqlStore(create_engine(f"sqlite:///{path}", pool_size=1))


def driver_connection(store: SqlStore) -> sqlite3.Connection:
    """The connection that a `pooled_store` uses."""
    pooled = store.engine.raw_connection()
    connection = pooled.driver_connection
    pooled.close()
    assert isinstance(connection, sqlite3.Connection)
    return connection


def test_an_append_is_one_sync_of_a_sqlite_file(tmp_path: Path) -> None:
    """One message, many, a revision, with a cap: each append syncs the log once; reads and repetitions never."""
    with counted_syncs() as syncs:
        store = SqlStore(sqlite_url(tmp_path))
        store.append(KEY, [counted("first")])
        syncs.clear()
        for number in range(20):
            store.append(KEY, [counted(f"m{number}")])
        assert syncs == ["arc.db-wal"] * 20
        store.append(KEY, [counted(f"batch{number}") for number in range(200)])
        store.append(KEY, [counted("m1", "changed"), counted("new")])
        store.append(KEY, [counted("last")], max_messages=10)
        assert syncs == ["arc.db-wal"] * 23
        store.append(KEY, [counted("last")])
        store.read(KEY)
        assert len(syncs) == 23
        store.close()


def test_an_append_is_one_sync_of_postgres(durable_postgres: PostgresServer) -> None:
    """The server counts one sync of its log for each append, none for reads and repetitions."""
    url = new_database(durable_postgres)
    first = SqlStore(url)
    first.append(KEY, [counted("first")])
    first.close()
    with psycopg.connect(durable_postgres.dsn(), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")  # it would take syncs from the appends
        admin.execute("SELECT pg_reload_conf()")

        def syncs() -> int:
            row = admin.execute(
                "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal' AND backend_type = 'client backend'"
            ).fetchone()
            assert row is not None
            return int(row[0])

        store = SqlStore(url)
        store.read(KEY)
        before = syncs()
        for number in range(20):
            store.append(KEY, [counted(f"m{number}")])
            store.append(KEY, [counted(f"m{number}")])
            store.read(KEY)
        store.append(KEY, [counted(f"batch{number}") for number in range(100)])
        store.append(KEY, [counted("m1", "changed"), counted("new")], max_messages=10)
        with store.engine.connect() as connection:
            connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        store.close()
        _wait_for_end(admin, url)
        assert syncs() - before == 22


def _wait_for_end(admin: "psycopg.Connection[tuple[object, ...]]", url: str) -> None:
    """Until the server has taken leave of a database's clients, and so has their figures."""
    deadline = time.monotonic() + 10
    others = "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    while admin.execute(others, [url.rpartition("/")[2]]).fetchone():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def on_the_wire(postgres: PostgresServer) -> Iterator[tuple[SqlStore, Wire]]:
    """A warm store whose round trips are counted."""
    with wire(postgres.port) as proxy:
        store = SqlStore(
            new_database(PostgresServer(postgres.port, 0)).replace(f":{postgres.port}/", f":{proxy.port}/")
        )
        store.append(KEY, [counted(f"m{number}") for number in range(50)])
        yield store, proxy
        store.close()


@pytest.mark.parametrize(
    ("call", "trips"),
    [
        (lambda store, n: store.append(KEY, [counted(f"new{n}")]), 2),
        (lambda store, n: store.append(KEY, [counted(f"new{n}-{i}") for i in range(40)]), 2),
        (lambda store, n: store.append(KEY, [counted("m1", str(n)), counted("m2", str(n)), counted(f"new{n}")]), 4),
        (lambda store, n: store.append(SessionKey(f"s{n}"), [counted("m")]), 2),
        (lambda store, n: store.append(KEY, [counted("m1"), counted(f"new{n}")]), 2),
        (lambda store, n: store.append(KEY, [counted(f"new{n}")], max_messages=10), 2),
        (lambda store, n: store.append(KEY, [counted("m49", str(n)), counted(f"new{n}")], max_messages=50), 3),
        (lambda store, n: store.append(KEY, [counted("m1")]), 1),
        (lambda store, n: store.read(KEY, limit=20), 1),
        (lambda store, n: store.read(KEY, ids=["m1", "m2"]), 1),
        (lambda store, n: store.get(KEY), 1),
        (lambda store, n: store.page(KEY.caller_id), 1),
        (lambda store, n: store.remove(KEY, [f"m{n}"]), 4),
    ],
    ids=[
        "append", "append 40", "revise", "first", "known and new", "append with a cap", "revise with a cap",
        "repeat", "newest", "of ids", "get", "page", "remove",
    ],
)  # fmt: skip
def test_round_trips(on_the_wire: tuple[SqlStore, Wire], call: Callable[[SqlStore, int], object], trips: int) -> None:
    """An append is two round trips, a read one; preparing statements costs some, once.

    A revision is written under the lock, and it looks for memories of the words before; so does a removal.
    """
    store, proxy = on_the_wire
    counts = []
    for number in range(12):
        before = proxy.round_trips
        call(store, number)
        counts.append(proxy.round_trips - before)
    assert sum(counts[:8]) <= trips * 8 + 3
    assert mode(counts[7:]) == trips, counts  # on a busy machine the proxy once saw one more


def test_statements_on_sqlite(tmp_path: Path) -> None:
    """A read is one statement, an append six with its BEGIN and COMMIT, however many messages it has."""
    store = pooled_store(tmp_path / "arc.db")
    store.append(KEY, [counted("first")])
    seen: list[str] = []
    driver_connection(store).set_trace_callback(seen.append)
    store.read(KEY, limit=20)
    assert len(seen) == 1
    seen.clear()
    store.append(KEY, [counted("second")])
    assert [text.split()[0] for text in seen] == ["BEGIN", "SELECT", "INSERT", "UPDATE", "UPDATE", "COMMIT"]
    store.close()


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.read(KEY, limit=20),
        lambda store: store.read(KEY, limit=20, before=80),
        lambda store: store.read(KEY, after=30, before=60),
        lambda store: store.read(KEY, ids=["m10", "m20", "m30"]),
        lambda store: store.get(KEY),
        lambda store: store.page(KEY.caller_id, limit=5),
        lambda store: store.page(KEY.caller_id, user_id="user", limit=5),
        lambda store: store.append(KEY, [counted("m10")]),
    ],
    ids=["newest", "before", "between", "of ids", "get", "page", "page of a user", "repeat"],
)
def test_a_read_costs_the_same_however_much_there_is(tmp_path: Path, read: Callable[[SqlStore], object]) -> None:
    """SQLite's virtual machine runs the same steps with 100 messages and sessions as with 20 times as many."""
    steps = []
    for size in (100, 2_000):
        store = pooled_store(tmp_path / f"{size}.db")
        for number in range(size // 10):
            store.append(SessionKey(f"s{number}", user_id="user"), [counted("m")])
            store.append(SessionKey(f"t{number}", user_id="other"), [counted("m")])
        store.append(KEY, [counted(f"m{number}") for number in range(size)])
        read(store)
        done: list[None] = []
        driver_connection(store).set_progress_handler(partial(done.append, None), 1)
        read(store)
        steps.append(len(done))
        store.close()
    assert 0 < steps[1] <= steps[0] + 30  # a deeper tree costs a few steps of a binary search


@pytest.mark.parametrize(
    "name",
    [
        "newest",
        "oldest",
        "of_ids",
        "of_seqs",
        "look_up",
        "conversation",
        "owner",
        "conversations",
        "conversations_of_user",
    ],
)
def test_reads_go_by_index(tmp_path: Path, name: str) -> None:
    """No read scans a table or sorts in a temporary tree."""
    store = SqlStore(sqlite_url(tmp_path))
    store.append(KEY, [counted("m")])
    names = {
        "conversation": b"c", "branch": 0, "caller_id": "c", "user_id": "u", "message_ids": "[]", "seqs": "[]",
        "before": 1, "after": 1, "row_limit": 1, "before_time": 1, "before_key": b"",
    }  # fmt: skip
    statement = getattr(statements_for("sqlite"), name)
    with store.engine.connect() as connection:
        plan = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {statement.sql}", {**statement.defaults, **names}
        ).fetchall()
    steps = [str(row[-1]) for row in plan]
    assert not [
        step
        for step in steps
        if "SCAN" in step.replace("SCAN anon_1 VIRTUAL TABLE", "the ids") or "TEMP B-TREE FOR ORDER" in step
    ]
    store.close()


def test_a_tail_of_postgres_fetches_what_it_returns(postgres: PostgresServer) -> None:
    """The server's own figures: rows fetched by index are those returned, and no table is read through."""
    url = new_database(postgres)
    store = SqlStore(url)
    for number in range(20):
        store.append(SessionKey(f"s{number}"), [counted(f"m{i}") for i in range(300)])
    store.append(KEY, [counted(f"m{number}") for number in range(3_000)])
    with psycopg.connect(postgres.dsn(url.rpartition("/")[2]), autocommit=True) as admin:
        admin.execute("VACUUM ANALYZE")

        def figures() -> tuple[int, int]:
            row = admin.execute(
                "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'arc_messages'"
            ).fetchone()
            assert row is not None
            return int(row[0]), int(row[1])

        store.close()
        _wait_for_end(admin, url)
        before = figures()
        store = SqlStore(url)
        for _ in range(20):
            assert len(store.read(KEY, limit=20)) == 20
        with store.engine.connect() as connection:
            connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
            connection.commit()
        store.close()
        scanned, fetched = (after - start for after, start in zip(figures(), before, strict=True))
    assert (scanned, fetched) == (0, 400)
