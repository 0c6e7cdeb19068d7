"""Costs of reading and writing: syncs, round trips, statements, rows and calls."""

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median, mode
from types import FrameType

import numpy as np
import psycopg
import pytest
from sqlalchemy import create_engine, event

from arc_common import ArcSettings, ContextEngine, Message, Role
from arc_common.filters import Condition, Not
from arc_common.protocols import ConversationFilter, SessionKey
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.protocols.summaries import Commit
from arc_common.settings import StorageSettings
from arc_common.stores.codec import bounds_of
from arc_common.stores.conversations import SqlStore
from arc_common.stores.statements.appends import append_statements
from arc_common.stores.statements.conversations import statements_for
from arc_common.stores.statements.records import pin_scopes
from arc_common.stores.statements.summaries import summary_statements_for
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.index_queries import count, dense, embedding, lexical, vectors_of
from tests.contracts.search_index_contract import an_entry
from tests.contracts.summary_store_contract import a_fact, a_leaf, a_view
from tests.support.databases import copied_database, new_database, sqlite_url
from tests.support.probes import Wire, counted_syncs, wire
from tests.support.servers import PostgresServer

KEY = SessionKey("session", user_id="user")
SCOPE = Scope("caller", "user")
VECTOR = np.array([1, 0], np.float32)
PARTS, RANGE = Condition("part", "eq", 3), Not(Condition("n", "gt", 50))


def pooled_store(path: Path) -> SqlStore:
    """Return a store on an engine with one connection, which the test can watch."""
    return SqlStore(create_engine(f"sqlite:///{path}", pool_size=1))


def driver_connection(store: SqlStore) -> sqlite3.Connection:
    """Return the connection of a `pooled_store`."""
    pooled = store.engine.raw_connection()
    connection = pooled.driver_connection
    pooled.close()
    assert isinstance(connection, sqlite3.Connection)
    return connection


def summarised(store: SqlStore, *, leaves: int, key: SessionKey = KEY) -> None:
    """Store a conversation with leaves of four messages, an adopted view, and four more messages."""
    store.append(key, [counted(f"m{n}") for n in range(1, leaves * 4 + 5)])
    epoch = store.summaries.state(key, limit=0).epoch
    for start in range(1, leaves * 4, 4):
        fact = a_fact(f"f{start}", start, sources=(f"m{start}",))
        assert store.summaries.commit(key, Commit(a_leaf(start, start + 3), (fact,)), lease=None, epoch=epoch)
    assert store.summaries.adopt(key, a_view(1, leaves * 4), epoch=epoch)


def add_leaf(store: SqlStore, key: SessionKey, number: int) -> None:
    epoch = store.summaries.state(key, limit=0).epoch
    leaf = a_leaf(100 + number, 100 + number)
    assert store.summaries.commit(key, Commit(leaf, (a_fact(f"n{number}", leaf.start),)), lease=None, epoch=epoch)


def edit_early(store: SqlStore, key: SessionKey, number: int) -> None:
    """Edit a message under a leaf, a block and a view and an unsummarised one, and append a new one."""
    if number == 0:
        epoch = store.summaries.state(key, limit=0).epoch
        assert store.summaries.commit(key, Commit(a_leaf(1, 64, level=1)), lease=None, epoch=epoch)
    store.append(key, [counted(f"m{number + 1}", "other"), counted("m67", str(number)), counted(f"new{number}")])


def indexed(store: SqlStore, scope: Scope, count: int = 200) -> None:
    """Add entries that share a word."""
    store.index.put(
        scope,
        "document",
        [
            an_entry(f"{n:04}", f"common word{n % 7}", vector=[1, n], metadata={"n": n, "part": n % 10})
            for n in range(count)
        ],
    )


def test_an_append_is_one_sync_of_a_sqlite_file(tmp_path: Path) -> None:
    """Each append syncs the log once, for any number of messages, a revision or a cap; reads and repeats never do."""
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


def test_an_append_writes_five_pages_of_a_sqlite_file(tmp_path: Path) -> None:
    """These are the rows of conversation, branch and message, and the message's two indexes; no other index moves."""
    store = SqlStore(sqlite_url(tmp_path))
    for number in range(200):
        store.append(SessionKey(f"s{number % 50}", user_id="user"), [counted(f"m{number}")])
    other, pages = sqlite3.connect(tmp_path / "arc.db"), []
    for number in range(50):
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        store.append(SessionKey(f"s{number}", user_id="user"), [counted("new")])
        pages.append((tmp_path / "arc.db-wal").stat().st_size // _WAL_FRAME)
    assert mode(pages) == 5  # more if one is split
    other.close()
    store.close()


_WAL_FRAME = 4_096 + 24


def test_a_commit_and_an_early_edit_are_one_sync_each(tmp_path: Path) -> None:
    """An edit that undoes a summary still syncs once; reading syncs nothing."""
    with counted_syncs() as syncs:
        store = SqlStore(sqlite_url(tmp_path))
        summarised(store, leaves=8)
        syncs.clear()
        store.append(KEY, [counted("m2", "changed")])
        assert len(syncs) == 1
        add_leaf(store, KEY, 1)
        assert len(syncs) == 2
        store.remove(KEY, ["m6"])
        assert len(syncs) == 3
        store.summaries.segments(KEY)
        assert len(syncs) == 3
        store.close()


def test_an_append_is_one_sync_of_postgres(durable_postgres: PostgresServer) -> None:
    """The server counts one sync of its log for each append, and none for reads and repeats."""
    url = new_database(durable_postgres)
    first = SqlStore(url)
    first.append(KEY, [counted("first")])
    first.close()
    with psycopg.connect(durable_postgres.dsn(), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")  # this process would take over syncs of the appends
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
    """Wait until the server has ended a database's connections, which then have reported their syncs."""
    deadline = time.monotonic() + 10
    others = "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    while admin.execute(others, [url.rpartition("/")[2]]).fetchone():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def on_the_wire(postgres: PostgresServer) -> Iterator[tuple[SqlStore, Wire, SqlStore]]:
    """Yield a store with counted round trips, its proxy, and a store on the same database without the proxy."""
    with wire(postgres.port) as proxy:
        url = new_database(PostgresServer(postgres.port))
        store, direct = SqlStore(url.replace(f":{postgres.port}/", f":{proxy.port}/")), SqlStore(url)
        store.append(SessionKey("connects"), [counted("m")])
        yield store, proxy, direct
        store.close()
        direct.close()


def trips_of(proxy: Wire, call: Callable[[int], object], before: Callable[[], object] = lambda: None) -> list[int]:
    """Return the round trips of each of nine calls; a statement is prepared at its sixth use."""
    counts = []
    for number in range(9):
        before()
        start = proxy.round_trips
        call(number)
        counts.append(proxy.round_trips - start)
    return counts


APPENDS: dict[str, tuple[Callable[[SqlStore, SessionKey, int], object], int]] = {
    "append": (lambda store, key, n: store.append(key, [counted(f"new{n}")]), 1),
    "append 40": (lambda store, key, n: store.append(key, [counted(f"new{n}-{i}") for i in range(40)]), 1),
    "revise": (
        lambda store, key, n: store.append(key, [counted("m1", str(n)), counted("m2", str(n)), counted(f"new{n}")]), 5,
    ),
    "first": (lambda store, key, n: store.append(SessionKey(f"s{n}"), [counted("m")]), 1),
    "known and new": (lambda store, key, n: store.append(key, [counted("m1"), counted(f"new{n}")]), 3),
    "append with a cap": (lambda store, key, n: store.append(key, [counted(f"new{n}")], max_messages=10), 2),
    "revise with a cap": (
        lambda store, key, n: store.append(key, [counted("m49", str(n)), counted(f"new{n}")], max_messages=50), 3,
    ),
    "repeat": (lambda store, key, n: store.append(key, [counted("m1")]), 2),
    "newest": (lambda store, key, n: store.read(key, limit=20), 1),
    "of ids": (lambda store, key, n: store.read(key, ids=["m1", "m2"]), 1),
    "get": (lambda store, key, n: store.get(key), 1),
    "page": (lambda store, key, n: store.page(key.caller_id), 1),
    "remove": (lambda store, key, n: store.remove(key, [f"m{n}"]), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", APPENDS)
def test_round_trips_of_conversations(on_the_wire: tuple[SqlStore, Wire, SqlStore], name: str) -> None:
    """An append or a read is one round trip; known and revised messages need further ones."""
    (store, proxy, direct), (call, trips) = on_the_wire, APPENDS[name]
    key = SessionKey(name, user_id="user")
    direct.append(key, [counted(f"m{number}") for number in range(50)])
    counts = trips_of(proxy, lambda n: call(store, key, n))
    assert sum(counts[:8]) <= trips * 8 + 3, counts
    assert median(counts[6:]) == trips, counts  # on a busy machine the proxy counts some late


SUMMARIES: dict[str, tuple[Callable[[SqlStore, SessionKey, int], object], int]] = {
    "state": (lambda store, key, n: store.summaries.state(key, limit=20), 1),
    "cover": (lambda store, key, n: store.summaries.segments(key), 1),
    "facts": (lambda store, key, n: store.summaries.facts(key, limit=20), 1),
    "facts of keys": (lambda store, key, n: store.summaries.facts(key, keys=["key of f1"]), 1),
    "state and commit": (add_leaf, 1 + 2),
    "late edit": (lambda store, key, n: store.append(key, [counted("m67", str(n))]), 5),
    "early edit": (edit_early, 7),
    "early edit with a cap": (
        lambda store, key, n: store.append(key, [counted(f"m{n + 1}", "other"), counted(f"new{n}")], max_messages=50),
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMMARIES)
def test_round_trips_of_summaries(on_the_wire: tuple[SqlStore, Wire, SqlStore], name: str) -> None:
    """A read is one round trip and a commit two; an edit takes up to five, and two more to undo summaries."""
    (store, proxy, direct), (call, trips) = on_the_wire, SUMMARIES[name]
    key = SessionKey(f"summarised {name}", user_id="user")
    summarised(direct, leaves=16, key=key)
    counts = trips_of(proxy, lambda n: call(store, key, n))
    assert median(counts[6:]) == trips, counts


INDEX: dict[str, tuple[Callable[[SqlStore], object], int]] = {
    "lexical": (lambda store: lexical(store.index, SCOPE, "document", {"common": 1.0}, limit=5), 1),
    "lexical, filtered": (
        lambda store: lexical(store.index, SCOPE, "document", {"common": 1.0}, filters=RANGE, limit=5), 1,
    ),
    "dense": (lambda store: dense(store.index, SCOPE, "document", VECTOR, embedder="test", limit=5), 1),
    "dense, filtered": (
        lambda store: dense(store.index, SCOPE, "document", VECTOR, embedder="test", filters=PARTS, limit=5), 1,
    ),
    "fetch": (lambda store: store.index.fetch(SCOPE, "document", [f"{n:04}" for n in range(100)]), 1),
    "vectors": (lambda store: vectors_of(store.index, SCOPE, "document", ["0001", "0002"]), 1),
    "scan": (lambda store: store.index.scan(SCOPE, "document", filters=PARTS, limit=9), 1),
    "count": (lambda store: count(store.index, SCOPE, "document", filters=PARTS), 1),
    "embedding": (lambda store: embedding(store.index, SCOPE, "document"), 1),
    "put": (lambda store: store.index.put(SCOPE, "document", [an_entry("new", "a b c", vector=[1, 1])]), 2),
    "put 100": (lambda store: indexed(store, SCOPE, 100), 2),
    "remove": (lambda store: store.index.remove(SCOPE, "document", ["0001", "0002"]), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEX)
def test_round_trips_of_the_index(on_the_wire: tuple[SqlStore, Wire, SqlStore], name: str) -> None:
    """A read is one round trip; a write is two, one to lock and read and one to write."""
    (store, proxy, direct), (call, trips) = on_the_wire, INDEX[name]
    if count(direct.index, SCOPE, "document") < 200:
        indexed(direct, SCOPE)
    lexical(store.index, SCOPE, "document", {"common": 1.0}, limit=5)
    counts = trips_of(proxy, lambda n: call(store), before=lambda: indexed(store, SCOPE, 9))
    assert trips in (min(counts[6:]), median(counts[6:])), counts  # a long request may be sent in two parts


def test_the_first_search_of_a_scope_takes_one_more(on_the_wire: tuple[SqlStore, Wire, SqlStore]) -> None:
    store, proxy, direct = on_the_wire
    for n in range(9):
        indexed(direct, Scope("caller", f"lexical {n}"), 9)
        indexed(direct, Scope("caller", f"dense {n}"), 9)
    words = {"common": 1.0}
    by_words = trips_of(
        proxy, lambda n: lexical(store.index, Scope("caller", f"lexical {n}"), "document", words, limit=5)
    )
    by_vector = trips_of(
        proxy,
        lambda n: dense(store.index, Scope("caller", f"dense {n}"), "document", VECTOR, embedder="test", limit=5),
    )
    assert (mode(by_words[6:]), mode(by_vector[6:])) == (2, 2)


def test_statements_on_sqlite(tmp_path: Path) -> None:
    """A read is one statement, and an append seven with its BEGIN and COMMIT."""
    store = pooled_store(tmp_path / "arc.db")
    store.append(KEY, [counted("first")])
    seen: list[str] = []
    driver_connection(store).set_trace_callback(seen.append)
    store.read(KEY, limit=20)
    assert len(seen) == 1
    seen.clear()
    store.append(KEY, [counted("second")])
    assert [text.split()[0] for text in seen] == ["BEGIN", "SELECT", "INSERT", *["UPDATE"] * 3, "COMMIT"]
    store.close()


def looks(seen: list[str]) -> int:
    """Return the number of reads of the index."""
    return sum("json_each" in sql and "arc_index_scopes" in sql for sql in seen)


@pytest.mark.parametrize(("entries", "first"), [(50, 1), (2_100, 2)], ids=["few", "many"])
def test_a_search_on_sqlite_is_one_statement(entries: int, first: int, tmp_path: Path) -> None:
    """The first search reads all words of few entries, or its own words of many; later ones read only changes."""
    filled = SqlStore(sqlite_url(tmp_path))
    words = [an_entry(f"{n:04}", f"common word{n % 7}") for n in range(entries)]
    filled.index.put(SCOPE, "document", words)
    store = pooled_store(tmp_path / "arc.db")
    seen: list[str] = []
    driver_connection(store).set_trace_callback(seen.append)
    asked: dict[str, float] = {"common": 1.0, "word3": 1.0, "new": 1.0}

    def found(one: SqlStore) -> list[tuple[str, list[float]]]:
        candidates = lexical(one.index, SCOPE, "document", asked, limit=5_000)
        assert candidates.document_frequencies.tolist() == (candidates.frequencies > 0).sum(axis=0).tolist()
        return sorted(zip(candidates.ids, candidates.frequencies.tolist(), strict=True))

    assert len(found(store)) == entries
    assert looks(seen) == first
    seen.clear()
    filled.index.put(SCOPE, "document", [an_entry("0003", "new new common"), an_entry("9999", "word3")])
    filled.index.remove(SCOPE, "document", ["0010"])
    changed = found(store)
    assert looks(seen) == 2  # after a removal, words are read again
    seen.clear()
    filled.index.put(SCOPE, "document", [an_entry("0004", "new word3"), an_entry("9998", "common")])
    assert len(found(store)) == len(changed) + 1
    assert looks(seen) == 1
    assert not lexical(store.index, SCOPE, "document", {"absent": 1.0}, limit=5).ids
    seen.clear()
    assert lexical(store.index, SCOPE, "document", {"missing": 1.0, "word5": 0.3}, limit=5).ids
    assert looks(seen) == 2  # a rare word first, then alternatives for it
    fresh = SqlStore(sqlite_url(tmp_path))
    assert found(store) == found(fresh)
    for one in (filled, store, fresh):
        one.close()


MOST_CALLS = {"sqlite": 560, "postgresql": 850}


def test_an_append_makes_few_calls(database: str) -> None:
    """An append makes a bounded number of Python and C calls; a handwritten loop takes a quarter of the time."""
    off = {"enabled": False}
    called = 0

    def count(_frame: FrameType, happens: str, _: object) -> None:
        nonlocal called
        called += happens in ("call", "c_call")

    messages = [Message(Role.USER, f"Where is order {number}?", id=f"m{number}") for number in range(30)]
    with ContextEngine.open(database, settings=ArcSettings(summary=off, recall=off, memory=off)) as engine:
        session = engine.session("session")
        for message in messages[:10]:
            session.append(message)
        sys.setprofile(count)
        try:
            for message in messages[10:]:
                session.append(message)
        finally:
            sys.setprofile(None)
    assert called / 20 <= MOST_CALLS[database.partition(":")[0].partition("+")[0]]


@pytest.mark.torture
@pytest.mark.parametrize(("number", "wanted"), [(0, 0.45), (1, 0.7)], ids=["sqlite", "postgres"])
def test_eight_processes_append_nearly_as_fast_as_a_loop(number: int, wanted: float, tmp_path: Path) -> None:
    """Appends reach this share of the throughput of an equally durable loop, in the best of three runs."""
    script = Path(__file__).parents[3] / "benchmarks" / "append_throughput.py"
    best = 0.0
    for _ in range(3):
        command = [sys.executable, str(script), "--rounds", "5"]
        ran = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        database = ("sqlite", "postgres")[number]
        best = max(best, json.loads(ran.stdout)[f"{database}, 8 processes"]["arc, ratio"])
        if best >= wanted:
            break
    assert best >= wanted


READS: dict[str, Callable[[SqlStore], object]] = {
    "newest": lambda store: store.read(KEY, limit=20),
    "before": lambda store: store.read(KEY, limit=20, before=80),
    "between": lambda store: store.read(KEY, after=30, before=60),
    "of ids": lambda store: store.read(KEY, ids=["m10", "m20", "m30"]),
    "get": lambda store: store.get(KEY),
    "listing": lambda store: store.page(KEY.caller_id, limit=5),
    "listing by user": lambda store: store.page(KEY.caller_id, user_id="user", limit=5),
    "repeat": lambda store: store.append(KEY, [counted("m10")]),
}


def steps_of(store: SqlStore, read: Callable[[], object]) -> int:
    """Return the number of steps that SQLite's virtual machine takes."""
    done: list[None] = []
    connection = driver_connection(store)
    connection.set_progress_handler(partial(done.append, None), 1)
    read()
    connection.set_progress_handler(None, 0)
    return len(done)


def test_a_read_costs_the_same_however_much_there_is(tmp_path: Path) -> None:
    """SQLite takes hardly more steps with 20 times as many messages and sessions."""
    steps: dict[int, dict[str, int]] = {}
    for size in (100, 2_000):
        store = pooled_store(tmp_path / f"{size}.db")
        for number in range(size // 10):
            store.append(SessionKey(f"s{number}", user_id="user"), [counted("m")])
            store.append(SessionKey(f"t{number}", user_id="other"), [counted("m")])
        store.append(KEY, [counted(f"m{number}") for number in range(size)])
        for read in READS.values():
            read(store)
        steps[size] = {name: steps_of(store, partial(read, store)) for name, read in READS.items()}
        store.close()
    for name, taken in steps[2_000].items():
        assert 0 < taken <= steps[100][name] + 30, name  # a deeper tree costs a few steps of a binary search


SUMMARY_READS = [
    "session", "state_and_messages", "cover", "parts", "unfinished", "outlines", "facts", "facts_of_keys",
    "segments", "overlapping", "known_facts", "leaves_over", "leaves_citing",
]  # fmt: skip
READ_BEFORE = {"SCAN newest", "SCAN o", "SCAN anon_3", "SCAN CONSTANT ROW"}
"""Rows that the statement itself has just read."""
SORTED_IN_MEMORY = {"idle", "facts_of_keys", "leaves_citing", "leaves_over"}
CONVERSATION_READS = [
    "newest", "oldest", "of_ids", "of_seqs", "look_up", "conversation", "owner", "conversations",
    "conversations_of_user", "idle",
]  # fmt: skip


def test_reads_go_by_index(tmp_path: Path) -> None:
    """No read scans a table, and only a few sort rows in memory."""
    store = SqlStore(sqlite_url(tmp_path))
    summarised(store, leaves=2)
    names = {
        **pin_scopes(KEY),
        "conversation": b"c", "branch": 0, "caller_id": "c", "user_id": "u", "row_limit": 1, "before": 1, "after": 1,
        "before_time": 1, "before_key": b"", "keys": "[]", "leaf": 1, "leaves": "[]", "places": "[]",
        "message_ids": "[]", "seqs": "[]", "ids": "[]", "least": 1, "level": 0, "start_seq": 1, "end_seq": 1,
        "level_below": 0, "from_seq": 1, "to_seq": 1, "superseded": 0, "ungrounded": 0, "wanted": -1,
        "statuses": "[]", "status": "", "since": 1, "after_time": 1, "after_key": b"",
        **bounds_of(ConversationFilter()),
    }  # fmt: skip
    statements = {name: getattr(summary_statements_for("sqlite"), name) for name in SUMMARY_READS}
    for name in CONVERSATION_READS:
        statements[name] = getattr(statements_for("sqlite"), name)
    with store.engine.connect() as connection:
        for name, statement in statements.items():
            values = {**statement.defaults, **names}
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement.sql}", values).fetchall()
            steps = [str(row[-1]) for row in plan]
            scans = [step for step in steps if step.startswith("SCAN") and "VIRTUAL TABLE" not in step]
            assert {*scans} <= READ_BEFORE, (name, steps)
            sorts = [step for step in steps if "TEMP B-TREE" in step]
            assert name in SORTED_IN_MEMORY or not sorts, (name, steps)
    store.close()


def test_every_statement_names_the_caller() -> None:
    for dialect in ("sqlite", "postgresql"):
        statements = summary_statements_for(dialect)
        for name, statement in statements.by_name.items():
            assert "caller_id" in statement.sql, name


def test_a_state_reads_as_many_rows_as_it_returns(tmp_path: Path) -> None:
    """The number of steps has a limit that does not depend on the length of the conversation."""
    for leaves in (4, 100):
        store = pooled_store(tmp_path / f"{leaves}.db")
        summarised(store, leaves=leaves)
        assert steps_of(store, lambda store=store: store.summaries.state(KEY, limit=20)) < 370
        assert len(store.summaries.state(KEY, limit=20).messages) == 4
        store.close()


def test_a_state_is_one_statement(tmp_path: Path) -> None:
    store = pooled_store(tmp_path / "arc.db")
    summarised(store, leaves=2)
    seen: list[str] = []
    driver_connection(store).set_trace_callback(seen.append)
    assert len(store.summaries.state(KEY, limit=99).messages) == 4
    assert len(seen) == 1
    store.close()


def test_a_state_is_a_consistent_snapshot(tmp_path: Path) -> None:
    """A commit by another connection between its two selects is in neither of them."""
    url = sqlite_url(tmp_path)
    store, other = pooled_store(tmp_path / "arc.db"), SqlStore(url)
    summarised(store, leaves=2)
    done: list[str] = []

    def interrupt(sql: str) -> None:
        if sql.startswith("SELECT m.seq") and not done:
            done.append(sql)
            other.append(KEY, [counted("late")])

    connection = driver_connection(store)
    connection.set_trace_callback(interrupt)
    state = store.summaries.state(KEY, limit=99, outlines=99)
    connection.set_trace_callback(None)
    assert done
    assert (state.message_count, len(state.messages), len(state.outlines)) == (12, 4, 12)
    assert len(store.summaries.state(KEY, limit=99, outlines=99).outlines) == 13
    store.close()
    other.close()


def test_a_state_is_a_consistent_snapshot_while_others_write(sql_store: SqlStore) -> None:
    sql_store.append(KEY, [counted("first")])

    def write() -> None:
        for number in range(40):
            sql_store.append(KEY, [counted(f"m{number}-{n}") for n in range(3)])

    writer = threading.Thread(target=write)
    writer.start()
    states = []
    while writer.is_alive():
        states.append(sql_store.summaries.state(KEY, limit=1_000))
    writer.join()
    assert all(state.message_count == len(state.messages) for state in states)
    assert sql_store.summaries.state(KEY, limit=1_000).message_count == 121


PLACES = range(1_001, 1_021)
IDS = [f"m{number}" for number in PLACES]
USES: dict[str, tuple[Callable[[SqlStore, int], object], int]] = {
    "newest": (lambda store, _: store.read(KEY, limit=20), 20),
    "places": (lambda store, _: store.read(KEY, seqs=PLACES), 20),
    "beside": (lambda store, _: store.read(KEY, seqs=PLACES, beside=True), 20 + 20 + 21),
    "ids": (lambda store, _: store.read(KEY, ids=IDS), 20),
    "append": (lambda store, number: store.append(KEY, [counted(f"new {number}")]), 0),
    "append again": (lambda store, _: store.append(KEY, [counted(IDS[0])]), 2),
}
SHORT = """INSERT INTO arc_messages (conversation, branch, seq, caller_id, message_id, role, revision, tokens, counter,
    tool_calls, created_at, body)
    SELECT decode(md5(CAST(n AS TEXT)), 'hex'), branch, seq, caller_id, message_id, role, revision, tokens, counter,
    tool_calls, created_at, body
    FROM generate_series(1, 3000) AS n,
    (SELECT * FROM arc_messages WHERE seq < 3 ORDER BY conversation LIMIT 2) AS two"""


@pytest.fixture(scope="module")
def long_conversations(postgres: PostgresServer) -> list[str]:
    """Return the URL of a database with long conversations, and that of one in which most are short."""
    long = new_database(postgres)
    store = SqlStore(long)
    for number in range(20):
        store.append(SessionKey(f"s{number}"), [counted(f"m{i}") for i in range(300)])
    store.append(KEY, [counted(f"m{number}") for number in range(3_000)])
    store.close()
    short = copied_database(postgres, long)
    for url, statement in ((long, "SELECT 1"), (short, SHORT)):
        with psycopg.connect(postgres.dsn(url.rpartition("/")[2]), autocommit=True) as admin:
            admin.execute(statement)
            admin.execute("VACUUM ANALYZE")
    return [long, short]


@pytest.mark.parametrize("how", USES)
def test_a_read_of_postgres_fetches_what_it_returns(
    postgres: PostgresServer, long_conversations: list[str], how: str
) -> None:
    """The server fetches only the returned rows, by index, and scans no table.

    It never reads a whole conversation for a few messages, although most conversations are short enough for that.
    """
    use, expected = USES[how]
    url = copied_database(postgres, long_conversations[how != "newest"])
    with psycopg.connect(postgres.dsn(url.rpartition("/")[2]), autocommit=True) as admin:

        def figures() -> tuple[int, int]:
            row = admin.execute(
                "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'arc_messages'"
            ).fetchone()
            assert row is not None
            return int(row[0]), int(row[1])

        before = figures()
        store = SqlStore(url)
        for number in range(20):
            assert use(store, number)
        with store.engine.connect() as connection:
            connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
            connection.commit()
        store.close()
        scanned, fetched = (after - start for after, start in zip(figures(), before, strict=True))
    assert (scanned, fetched) == (0, 20 * expected)


def test_the_words_of_a_question_are_one_statement_on_sqlite(tmp_path: Path) -> None:
    engine = create_engine(sqlite_url(tmp_path))
    ran: list[str] = []
    event.listen(engine, "connect", lambda connection, _: connection.set_trace_callback(ran.append))
    store = SqlStore(engine)
    store.index.put(SCOPE, "document", [IndexEntry(str(n), "", {"a": 1 + n / 7, "b": 1.0}) for n in range(90)])

    def statements(terms: str) -> int:
        ran.clear()
        found = lexical(store.index, SCOPE, "document", dict.fromkeys(terms, 1.0), limit=99)
        assert len(found.ids) == 90
        return sum(not sql.startswith("--") for sql in ran)  # these are FTS5's own

    statements("a")
    assert statements("abcdefghijklmnop") == statements("b")
    engine.dispose()


def test_other_tenants_cost_nothing_on_sqlite(tmp_path: Path) -> None:
    """A search beside thirty tenants with the same words takes hardly more steps than one alone."""
    engine = create_engine(sqlite_url(tmp_path))
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    event.listen(engine, "connect", lambda connection, _: connection.set_progress_handler(count, 10))
    store = SqlStore(engine)

    def search() -> int:
        nonlocal steps
        steps = 0
        lexical(store.index, SCOPE, "document", {"common": 1.0, "word3": 1.0}, limit=5)
        dense(store.index, SCOPE, "document", VECTOR, embedder="test", filters=PARTS, limit=5)
        dense(store.index, SCOPE, "document", VECTOR, embedder="test", filters=RANGE, limit=5)
        return steps

    indexed(store, SCOPE)
    search()
    alone = search()
    for n in range(30):
        indexed(store, Scope("caller", f"other {n}"))
    search()
    assert search() <= alone * 1.3  # trees are one level deeper
    store.index.put(SCOPE, "document", [IndexEntry("new", "text", {"common": 1.0})])
    behind_a_change = search()
    assert behind_a_change <= alone * 3
    engine.dispose()


def test_a_scope_too_large_for_memory_is_searched_page_by_page(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    store, small = SqlStore(url), SqlStore(url, settings=StorageSettings(index_cache_bytes=100))
    indexed(store, SCOPE)
    for filters in (None, PARTS, RANGE):
        asked = {"embedder": "test", "filters": filters, "limit": 7}
        expected = dense(store.index, SCOPE, "document", VECTOR, **asked)  # type: ignore[arg-type]
        found = dense(small.index, SCOPE, "document", VECTOR, **asked)  # type: ignore[arg-type]
        assert found == expected
        assert len(found) == 7
    store.close()
    small.close()


def test_psycopg_keeps_the_statements_of_an_append_and_a_turn_parsed() -> None:
    """It parses longer ones with each execution, which took 40 µs."""
    appending, reading = append_statements(), summary_statements_for("postgresql")
    longest = psycopg._queries.MAX_CACHED_STATEMENT_LENGTH  # noqa: SLF001 - it has no public name
    assert (
        max(len(one.sql) for one in (appending.append_new, appending.append_together, reading.state_and_messages))
        <= longest
    )
