"""Many processes and threads on one database, processes that die, and a process that forks."""

import dataclasses
import os
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from sqlalchemy import create_engine, text

from arc_common import ArcSettings, ContextEngine, Document, Message
from arc_common.exceptions import (
    BranchNotFoundError,
    InvalidInputError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
)
from arc_common.filters import Condition
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.settings import StorageSettings
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.index_queries import count, dense, embedding, lexical
from tests.contracts.search_index_contract import an_entry, matching
from tests.support import processes as workers
from tests.support.databases import indexed, new_database
from tests.support.processes import INDEXED, SMALL_CHUNKS, WORDS, Helper, churn, replace, replace_and_die
from tests.support.servers import NOBODY, PostgresServer, copied_package

SHARED = SessionKey("shared")


def assert_sound(url: str, store: SqlStore) -> None:
    """Check that the record agrees with the rows, and that a SQLite file is intact."""
    stored = store.read(SHARED)
    record = store.get(SHARED)
    assert record is not None
    assert record.message_count == len(stored) == len({one.seq for one in stored})
    assert record.total_tokens == sum(one.tokens for one in stored)
    if url.startswith("sqlite"):
        with store.engine.connect() as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"


@pytest.mark.parametrize("each", [15, pytest.param(200, marks=pytest.mark.torture)], ids=["short", "long"])
def test_eight_processes_append_to_one_session(helper: Helper, database: str, tmp_path: Path, each: int) -> None:
    """Nothing is lost, duplicated or raised, and each process's order is kept."""
    writers = [{"url": database, "name": f"w{number}", "count": each, "at": time.time() + 0.3} for number in range(8)]
    acknowledged = helper.run(workers.append, tmp_path, writers)
    store = SqlStore(database)
    names = [one.message.id or "" for one in store.read(SHARED)]
    assert len(names) == len(set(names)) == 8 * each
    for number, mine in enumerate(acknowledged):
        assert mine == [f"w{number}-{n}" for n in range(each)]
        assert [name for name in names if name.startswith(f"w{number}-")] == mine
    assert_sound(database, store)
    store.close()


@pytest.mark.parametrize("rounds", [1, pytest.param(30, marks=pytest.mark.torture)], ids=["short", "long"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_eight_processes_open_a_fresh_database(
    helper: Helper, kind: str, tmp_path: Path, postgres: PostgresServer, rounds: int
) -> None:
    for number in range(rounds):
        is_file = kind == "sqlite"
        url = f"sqlite:///{tmp_path / f'fresh-{number}.db'}" if is_file else new_database(postgres, tables=False)
        assert helper.run(workers.first_use, tmp_path, [{"url": url, "at": time.time() + 0.2}] * 8)
        for log in tmp_path.glob("*.log"):
            log.unlink()


def test_a_reader_is_not_stopped_by_a_writer(tmp_path: Path) -> None:
    """Reads continue while another connection holds the write lock of a SQLite file."""
    store = SqlStore(f"sqlite:///{tmp_path / 'arc.db'}")
    assert store.read(SHARED) == []
    other = sqlite3.connect(tmp_path / "arc.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begin = time.monotonic()
    assert store.read(SHARED) == []
    assert time.monotonic() - begin < 2
    other.close()
    store.close()


def test_a_store_works_on_both_sides_of_a_fork(helper: Helper, database: str, tmp_path: Path) -> None:
    """The child continues after its parent has closed, and no message of either is lost."""
    ((ended, names),) = helper.run(workers.fork, tmp_path, [{"url": database}])
    assert (ended, names) == ("child ended 0", "before, child 1, parent, child 2")


@pytest.mark.parametrize("forks", [6, pytest.param(300, marks=pytest.mark.torture)], ids=["short", "long"])
def test_forks_while_another_thread_writes(helper: Helper, database: str, tmp_path: Path, forks: int) -> None:
    """No child waits for a lock of its parent's thread, and every acknowledged message is stored."""
    (acknowledged,) = helper.run(workers.fork_while_writing, tmp_path, [{"url": database, "forks": forks}])
    store = SqlStore(database)
    names = [one.message.text for one in store.read(SHARED)]
    assert sorted(names) == sorted(["first", *acknowledged])
    assert_sound(database, store)
    store.close()


@pytest.mark.torture
@pytest.mark.skipif(os.geteuid() != 0, reason="not root: every other test starts the server as an ordinary user")
def test_the_server_of_these_tests_starts_as_an_ordinary_user_too(helper: Helper) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        copied_package(Path(folder))
        ((told,),) = helper.run(workers.serve_postgres, Path(folder), [{"packages": folder}])
    assert told == f"[(42,)] {NOBODY}"


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_the_server_of_these_tests_does_not_run_as_root(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.dsn()) as connection:
        assert Path(f"/proc/{connection.info.backend_pid}").stat().st_uid == NOBODY


def test_an_edit_of_a_process_that_dies_behind_it_leaves_no_memory_of_the_words_before(
    helper: Helper, database: str, tmp_path: Path
) -> None:
    with ContextEngine.open(database, settings=ArcSettings(memory={"enabled": False})) as engine:
        engine.session("s", user_id="ann").append([Message("user", "I moved to Busan.", id="m")])
        ann = engine.memories(user_id="ann")
        ann.add("The user lives in Seoul.", sources=[("s", "before")])
        gone = ann.add("The user lives in Busan.", sources=[("s", "m")])
        assert [found.memory.id for found in ann.search("Where does the user live?")] == [gone.id]
        log = tmp_path / "edit.log"
        assert helper.wait(helper.start(workers.edit_and_die, log, url=database, text="Nothing")) == -signal.SIGKILL
        assert log.read_text() == "stored\n"
        assert [memory.text for memory in ann.list()] == ["The user lives in Seoul."]
        assert ann.search("Busan") == []
    with ContextEngine.open(database, settings=ArcSettings(memory={"enabled": False})) as engine:
        ann = engine.memories(user_id="ann")
        ann.add("The user keeps bees.")
        assert [found.memory.text for found in ann.search("Seoul")] == ["The user lives in Seoul."]
        assert set(indexed(database, "memory", user_id="ann")) == {"The user lives in Seoul.", "The user keeps bees."}


OLD = "The old warranty lasts three years. " * 9
NEW = "The new warranty lasts one year only. " * 7


@pytest.fixture
def engine(database: str) -> Iterator[ContextEngine]:
    """Open an engine on the database that the processes write to."""
    with ContextEngine.open(database, settings=SMALL_CHUNKS) as opened:
        yield opened


def found(engine: ContextEngine) -> Counter[str]:
    """Return the number of found chunks of the document for each text."""
    return Counter(one.document.text for one in engine.documents.search("warranty version", top_k=1_000))


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.torture)])
def test_a_process_killed_at_any_statement_leaves_one_whole_version(
    engine: ContextEngine, database: str, helper: Helper, tmp_path: Path, step: int
) -> None:
    """A search finds the old document until the new one is stored, never parts of either, and never both."""
    old, new = Counter({OLD[:35]: 9}), Counter({NEW[:37]: 7})
    engine.documents.add(Document(OLD, id="d"), chunk=True)
    seen, at, code = [], 1 - step, -9
    while code == -9:
        at += step
        code = helper.wait(helper.start(replace_and_die, tmp_path / "log", url=database, text=NEW, at=at))
        seen.append(found(engine))
    assert (code, seen[-1]) == (0, new)
    assert at > 5
    assert all(each in (old, new) for each in seen), [sum(each.values()) for each in seen]
    assert old in seen


def test_processes_that_replace_one_document_leave_one_whole_version(
    engine: ContextEngine, database: str, helper: Helper, tmp_path: Path
) -> None:
    found(engine)
    each = [{"url": database, "name": name, "count": 8, "at": time.time() + 0.5} for name in ("a", "b", "c")]
    pids = [helper.start(replace, tmp_path / f"{one['name']}.log", **one) for one in each]
    versions = [found(engine) for _ in range(40)]
    assert [helper.wait(pid) for pid in pids] == [0, 0, 0]
    versions.append(found(engine))
    assert [version for version in versions if len(version) > 1 or sum(version.values()) not in (0, 5, 9)] == []


def test_an_embedder_that_is_interrupted_leaves_the_old_document(database: str) -> None:
    class Interrupted:
        name = "interrupted"
        left = 3

        def embed(self, texts: list[str]) -> list[list[float]]:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return [[1.0, 0.0] for _ in texts]

    with ContextEngine.open(database, settings=SMALL_CHUNKS, embedder=Interrupted()) as engine:
        engine.documents.add(Document(OLD[:35], id="d"), chunk=True)
        with pytest.raises(KeyboardInterrupt):
            engine.documents.add(Document(NEW, id="d"), chunk=True)
        assert found(engine) == {OLD[:35]: 1}


SCOPE = Scope("caller")


@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=pytest.mark.torture)])
def test_statistics_stay_exact(helper: Helper, database: str, sql_store: SqlStore, tmp_path: Path, rounds: int) -> None:
    """After three processes store, replace, remove and embed the same entries, the statistics match the entries."""
    count(sql_store.index, INDEXED, "memory")
    helper.run(churn, tmp_path, [{"url": database, "seed": seed, "rounds": rounds} for seed in range(3)])
    entries = sql_store.index.scan(INDEXED, "memory", limit=1_000)
    found = lexical(sql_store.index, INDEXED, "memory", dict.fromkeys(WORDS, 1.0), limit=1_000)
    holders = Counter(word for entry in entries for word in entry.terms)
    assert entries
    assert found.count == len(entries) == len(found.ids)
    assert found.total_length == sum(entry.length for entry in entries)
    assert found.document_frequencies.tolist() == [holders[word] for word in WORDS]
    embedded = {entry.id for entry in entries if entry.vector is not None}
    near = dense(sql_store.index, INDEXED, "memory", np.array([1, 0], np.float32), embedder="test", limit=1_000)
    assert {name for name, _ in near} == embedded
    assert (embedding(sql_store.index, INDEXED, "memory") is None) == (not embedded)
    engine = create_engine(database)
    with engine.connect() as connection:
        counted = connection.execute(text("SELECT entries, vectors FROM arc_index_scopes")).one()
        texts = connection.execute(text("SELECT count(*) FROM arc_index_texts")).scalar_one()
    engine.dispose()
    assert tuple(counted) == (len(entries), len(embedded))
    assert texts == len(entries)


def test_what_another_process_changed_is_found(database: str, sql_store: SqlStore) -> None:
    store = SqlStore(database)
    other, index = store.index, sql_store.index

    def near(embedder: str = "test") -> list[str]:
        found = dense(index, SCOPE, "document", np.array([1, 0], np.float32), embedder=embedder, limit=9)
        return [name for name, _ in found]

    other.put(SCOPE, "document", [an_entry("a", "red", vector=[1, 0]), an_entry("b", "blue", vector=[0, 1])])
    assert (matching(index, SCOPE, "red"), near()) == (["a"], ["a", "b"])
    other.put(SCOPE, "document", [an_entry("c", "red", vector=[3, 1]), an_entry("a", "blue", vector=[-1, 0])])
    assert (matching(index, SCOPE, "red"), near()) == (["c"], ["c", "b", "a"])
    other.remove(SCOPE, "document", ["c"])
    other.put(SCOPE, "document", [an_entry("d", "red")])
    assert (matching(index, SCOPE, "red"), near()) == (["d"], ["b", "a"])
    other.remove(SCOPE, "document", None, only_vectors=True)
    other.put(SCOPE, "document", [an_entry("d", "red", vector=[1, 1], embedder="new")], only_vectors=True)
    assert (matching(index, SCOPE, "red"), near("new")) == (["d"], ["d"])
    newest = [("d", "red", [0, 1]), ("b", "blue", [1, 0])]
    made = [an_entry(name, words, vector=vector, embedder="newest") for name, words, vector in newest]
    other.put(SCOPE, "document", made, only_vectors=True)
    other.remove(SCOPE, "document", None, only_vectors=True, embedder="newest")
    assert near("newest") == ["b", "d"]
    other.remove(SCOPE, None, None)
    assert (matching(index, SCOPE, "red"), near()) == ([], [])
    other.put(SCOPE, "document", [an_entry("e", "red", vector=[1, 0])])
    assert (matching(index, SCOPE, "red"), near()) == (["e"], ["e"])
    store.close()


def test_a_branch_that_another_process_deleted_is_unknown(database: str, sql_store: SqlStore) -> None:
    other = SqlStore(database)
    sql_store.append(SHARED, [counted("a", "hello")])
    (made,) = sql_store.branch(SHARED, "fork")
    on_branch = dataclasses.replace(SHARED, branch=made.id)
    assert sql_store.summaries.state(on_branch, limit=9).message_count == 1
    other.delete(SHARED)
    for use in (sql_store.read, lambda key: sql_store.summaries.state(key, limit=9)):
        with pytest.raises(BranchNotFoundError):
            use(on_branch)
    other.close()


def test_a_scope_created_again_is_searched_afresh(database: str, sql_store: SqlStore) -> None:
    """Cached data of a scope's vectors is not used once the scope is created again, also by another embedder."""
    store, vector = SqlStore(database), np.array([1, 0], np.float32)
    other, index = store.index, sql_store.index
    other.put(SCOPE, "document", [an_entry("a", vector=[1, 0])])
    assert dense(index, SCOPE, "document", vector, embedder="test", limit=9) == [("a", 1.0)]
    other.remove(SCOPE, None, None)
    other.put(SCOPE, "document", [an_entry("b", vector=[1, 0])])
    assert dense(index, SCOPE, "document", vector, embedder="test", limit=9) == [("b", 1.0)]
    other.remove(SCOPE, None, None)
    other.put(SCOPE, "document", [an_entry("c", vector=[1, 0], embedder="new")])
    assert dense(index, SCOPE, "document", vector, embedder="new", limit=9) == [("c", 1.0)]
    with pytest.raises(InvalidInputError, match="new"):
        dense(index, SCOPE, "document", vector, embedder="test", limit=9)
    other.remove(SCOPE, None, None)
    assert dense(index, SCOPE, "document", vector, embedder="test", limit=9) == []
    store.close()


def test_long_texts_are_compared_to_their_ends(sql_store: SqlStore) -> None:
    index, start = sql_store.index, "한" * 100
    held = {name: start + name for name in "abc"} | {"0": start, "z": "z"}
    index.put(SCOPE, "document", [IndexEntry(key, "", {}, {"t": text}) for key, text in held.items()])
    for comparison, expected in {"gt": "c", "gte": "bc", "lt": "0az", "lte": "0abz"}.items():
        asked = Condition("t", comparison, start + "b")  # type: ignore[arg-type]
        assert "".join(entry.id for entry in index.scan(SCOPE, "document", filters=asked, limit=9)) == expected
        assert count(index, SCOPE, "document", filters=asked) == len(expected)


def test_an_index_goes_on_in_a_forked_child(sql_store: SqlStore) -> None:
    index = sql_store.index
    index.put(SCOPE, "document", [an_entry("a", "red", vector=[1, 0])])
    assert matching(index, SCOPE, "red") == ["a"]
    child = os.fork()
    if not child:
        index.put(SCOPE, "document", [an_entry("child", "red", vector=[0, 1])])
        os._exit(len(matching(index, SCOPE, "red")))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    index.put(SCOPE, "document", [an_entry("b", "red")])
    assert matching(index, SCOPE, "red") == ["a", "b", "child"]


def test_late_vectors_leave_metadata_alone(sql_store: SqlStore) -> None:
    """Entries passed for their vectors may lack metadata; filters use the stored metadata."""
    index = sql_store.index
    index.put(SCOPE, "document", [IndexEntry("a", "text", {}, {"n": 1}), IndexEntry("b", "text", {}, {"n": 2})])
    vector = np.array([1, 0], np.float32)
    late = [IndexEntry(name, "text", vector=vector, embedder="test") for name in "ab"]
    assert index.put(SCOPE, "document", late, only_vectors=True) == 2
    for asked in (Condition("n", "eq", 2), Condition("n", "gt", 1)):
        assert [
            name for name, _ in dense(index, SCOPE, "document", vector, embedder="test", filters=asked, limit=9)
        ] == ["b"]


def from_threads(store: SqlStore, appends: dict[SessionKey, list[CountedMessage]]) -> dict[SessionKey, Future[None]]:
    """Append each session's messages one by one, from a thread of its own."""

    def write(key: SessionKey, messages: list[CountedMessage]) -> None:
        for one in messages:
            (stored,) = store.append(key, [one])
            assert stored.message.id == one.message.id

    pool = ThreadPoolExecutor(len(appends))
    futures = {key: pool.submit(write, key, messages) for key, messages in appends.items()}
    pool.shutdown(wait=False)
    return futures


def named(prefix: str, count: int) -> list[CountedMessage]:
    return [counted(f"{prefix}{number}") for number in range(count)]


def test_appends_of_several_threads_share_statements(postgres: PostgresServer) -> None:
    """Each session gets all of its messages in order, with exact sums, in fewer statements than there are appends."""
    url = new_database(postgres)
    store = SqlStore(url)
    keys = [SessionKey(f"s{number}", user_id="ann") for number in range(8)]
    store.append(keys[0], [counted("first")])
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as admin:
        admin.execute(
            "CREATE SEQUENCE statements; CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM nextval(''statements''); RETURN NULL; END';"
            "CREATE TRIGGER note AFTER INSERT ON arc_messages FOR EACH STATEMENT EXECUTE FUNCTION note()"
        )
        for future in from_threads(store, {key: named(key.session_id, 20) for key in keys}).values():
            future.result(60)
        row = admin.execute("SELECT last_value FROM statements").fetchone()
    assert row is not None
    assert row[0] < 160 * 0.9
    for key in keys:
        stored = store.read(key)
        mine = [f"{key.session_id}{number}" for number in range(20)]
        assert [one.message.id for one in stored] == (["first"] if key == keys[0] else []) + mine
        assert [one.seq for one in stored] == list(range(1, len(stored) + 1))
        record = store.get(key)
        assert record is not None
        assert (record.message_count, record.last_seq) == (len(stored), len(stored))
        assert record.total_tokens == sum(one.tokens for one in stored)
    store.close()


def test_a_session_that_is_locked_keeps_no_other_waiting(postgres: PostgresServer) -> None:
    """Its own appends wait for the lock; the sessions that other threads append to meanwhile do not."""
    url = new_database(postgres)
    store = SqlStore(url)
    busy = [SessionKey(f"busy{number}") for number in range(3)]
    free = [SessionKey(f"free{number}") for number in range(5)]
    for key in (*busy, *free):
        store.append(key, [counted("first")])
    with psycopg.connect(url.replace("+psycopg", "")) as other:
        other.execute("SELECT 1 FROM arc_conversations WHERE session_id LIKE 'busy%' FOR UPDATE")
        futures = from_threads(store, {**{key: named("m", 1) for key in busy}, **{key: named("m", 30) for key in free}})
        for key in free:
            futures[key].result(30)
        assert not any(futures[key].done() for key in busy)
        other.rollback()
    for key in busy:
        futures[key].result(30)
    assert [len(store.read(key)) for key in (*busy, *free)] == [2] * 3 + [31] * 5
    store.close()


@pytest.fixture
def refusing(postgres: PostgresServer) -> Iterator[tuple[SqlStore, psycopg.Connection[Any]]]:
    """Yield a store whose database refuses messages named "bad…", and another connection to the database."""
    url = new_database(postgres)
    with closing(SqlStore(url)) as store, psycopg.connect(url.replace("+psycopg", "")) as other:
        store.append(SessionKey("theirs", user_id="bob"), [counted("first")])
        other.execute("ALTER TABLE arc_messages ADD CHECK (message_id NOT LIKE 'bad%')")
        other.commit()
        yield store, other


def test_an_append_that_is_refused_fails_alone(refusing: tuple[SqlStore, psycopg.Connection[Any]]) -> None:
    """A message that the database refuses, and a session of another user, raise in their own threads only."""
    store, other = refusing
    foreign = SessionKey("theirs", user_id="ann")
    for part in range(4):  # in most of them, one that is not refused runs the statement
        good = [SessionKey(f"good{part}{number}") for number in range(4)]
        bad = [SessionKey(f"bad{part}{number}") for number in range(3)]
        other.execute("LOCK TABLE arc_messages IN EXCLUSIVE MODE")  # until appends wait together
        appends = zip(good, [*bad, foreign], strict=True)
        futures = from_threads(store, {key: named("bad" if key in bad else "m", 3) for pair in appends for key in pair})
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'arc_messages'::regclass"
        while (statements := other.execute(waiting).fetchone()) and statements[0] < 2:
            time.sleep(0.001)
        other.rollback()
        for key in bad:
            with pytest.raises(StoreError, match="refused"):
                futures[key].result(30)
        with pytest.raises(SessionNotFoundError):
            futures[foreign].result(30)
        for key in good:
            futures[key].result(30)
            assert len(store.read(key)) == 3
        assert store.get(bad[0]) is None
    assert len(store.read(SessionKey("theirs", user_id="bob"))) == 1


def test_appends_that_time_out_together_raise_an_error_each(postgres: PostgresServer) -> None:
    """No thread waits for a second timeout, and all of them can append once the server answers."""
    url = new_database(postgres)
    store = SqlStore(url, settings=StorageSettings(statement_timeout_seconds=0.2))
    keys = [SessionKey(f"s{number}") for number in range(8)]
    store.append(SessionKey("first"), [counted("first")])
    with psycopg.connect(url.replace("+psycopg", "")) as other:
        other.execute("LOCK TABLE arc_messages IN EXCLUSIVE MODE")
        futures = from_threads(store, {key: named("m", 1) for key in keys})
        errors = [future.exception(30) for future in futures.values()]
        other.rollback()
    assert all(isinstance(error, StoreUnavailableError) for error in errors)
    assert len(set(map(id, errors))) == 8
    assert all(isinstance(error.__cause__, psycopg.errors.QueryCanceled) for error in errors if error)
    for future in from_threads(store, {key: named("m", 1) for key in keys}).values():
        future.result(30)
    assert [len(store.read(key)) for key in keys] == [1] * 8
    store.close()
