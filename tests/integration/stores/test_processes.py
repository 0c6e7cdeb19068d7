"""Many processes on one database, and processes that die."""

import os
import random
import signal
import sqlite3
import tempfile
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from arc_common import ArcSettings, ContextEngine, Message
from arc_common.protocols import SessionKey
from arc_common.stores.conversations import SqlStore
from tests.support import processes as workers
from tests.support.databases import indexed, new_database
from tests.support.processes import Helper
from tests.support.servers import NOBODY, PostgresServer, copied_package

SHARED = SessionKey("shared")


def assert_sound(url: str, store: SqlStore) -> None:
    """The record agrees with the rows, and the file with itself."""
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


@pytest.mark.parametrize("kills", [12, pytest.param(250, marks=pytest.mark.torture)], ids=["short", "long"])
def test_what_was_acknowledged_survives_sigkill(helper: Helper, database: str, tmp_path: Path, kills: int) -> None:
    """Writers are killed at random moments, two at a time: a quarter while they start, the first ones on no tables.

    Every id whose append returned is there afterwards, in its writer's order, and the database is sound.
    """
    chance = random.Random(20260101 + kills)
    acknowledged: list[list[str]] = []
    for number in range(kills // 2):
        names = [f"k{number}a", f"k{number}b"]
        logs = [tmp_path / f"{name}.log" for name in names]
        pids = [
            helper.start(workers.append, log, url=database, name=name, count=100_000)
            for name, log in zip(names, logs, strict=True)
        ]
        for pid, log in zip(pids, logs, strict=True):
            if number % 4:
                _wait_for(log)
            time.sleep(chance.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
        assert [helper.wait(pid) for pid in pids] == [-signal.SIGKILL] * 2
        acknowledged += [log.read_text().splitlines() if log.exists() else [] for log in logs]
    store = SqlStore(database)
    names = [one.message.id or "" for one in store.read(SHARED)]
    place = {name: index for index, name in enumerate(names)}
    assert len(place) == len(names)
    for mine in acknowledged:
        places = [place[name] for name in mine]
        assert places == sorted(places)
    assert sum(bool(mine) for mine in acknowledged) > kills // 2, "most were killed before they wrote anything"
    assert_sound(database, store)
    store.close()


def _wait_for(log: Path) -> None:
    """Until a writer has reported something."""
    deadline = time.monotonic() + 20
    while not (log.exists() and log.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_reader_is_not_stopped_by_a_writer(tmp_path: Path) -> None:
    """While another connection holds the write lock of a SQLite file, reads go on."""
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
    """The child goes on after its parent has closed, and nothing that either wrote is lost."""
    ((ended, names),) = helper.run(workers.fork, tmp_path, [{"url": database}])
    assert (ended, names) == ("child ended 0", "before, child 1, parent, child 2")


@pytest.mark.parametrize("forks", [6, pytest.param(300, marks=pytest.mark.torture)], ids=["short", "long"])
def test_forks_while_another_thread_writes(helper: Helper, database: str, tmp_path: Path, forks: int) -> None:
    """No child waits for a lock that a thread of its parent held; all that was acknowledged is there."""
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
    assert Path(f"/proc/{postgres.pid}").stat().st_uid == NOBODY


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
