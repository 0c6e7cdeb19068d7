"""When processes, servers, disks, clocks or storage fail, acknowledged messages are kept once and in order.

Applications append, edit and remove messages at random, and retry after failures. Each test has a short form; the long
one (`make torture`) repeats it with other seeds.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from uuid import uuid4

import psycopg
import pytest
import s3fs
from sqlalchemy import text

from arc_common import ArchiveError, ContextEngine, Message, StoreError
from arc_common.protocols import SessionKey
from arc_common.protocols.records import RecordChange
from arc_common.protocols.search_index import Scope
from arc_common.settings import ArchiveSettings
from arc_common.stores.codec import to_microseconds
from arc_common.stores.conversations import SqlStore
from tests.support import processes as workers
from tests.support.archives import fill, small_disk
from tests.support.databases import new_database, rows, run, sqlite_url
from tests.support.faulty_proxy import FAULTS, faulty_proxy
from tests.support.processes import TALKING, Helper, changes, told
from tests.support.servers import PostgresServer, bouncer, postgres_server

SHARED = SessionKey("shared", user_id="ann")


def assert_kept(url: str, logs: Sequence[Path], *, ended: bool = True) -> None:
    """Check that every acknowledged change is stored once, in order and whole, and that everything is indexed.

    If the applications that wrote the logs have not ended but were killed, their last changes may be stored or not.
    """
    store = SqlStore(url)
    stored = store.read(SHARED)
    texts = {one.message.id or "": one.message.text for one in stored}
    record = store.get(SHARED)
    assert record is not None
    assert record.message_count == len(stored) == len(texts) == len({one.seq for one in stored})
    assert record.total_tokens == sum(one.tokens for one in stored)
    for log in logs:
        acknowledged, begun, _ = told(log.read_text().splitlines() if log.exists() else [])
        mine = {name: text for name, text in texts.items() if name.startswith(f"{log.stem}-")}
        assert mine in ([acknowledged] if ended else [acknowledged, begun]), log.stem
        order = [(int(number), place) for number, place in (name.split("-")[1:] for name in mine)]
        assert order == sorted(order)
    if url.startswith("sqlite"):
        with store.engine.connect() as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"
    store.close()
    assert_indexed(url, len(stored))


INDEXED = """SELECT e.entry_id, t.text FROM arc_index_entries e, arc_index_scopes s, arc_index_texts t
    WHERE e.scope = s.scope AND t.scope = s.scope AND t.id = e.id AND s.kind = 'message' ORDER BY 1"""


def assert_indexed(url: str, count: int) -> None:
    """Check that a worker leaves the same index as one that indexes all messages again."""
    indexed = []
    for _ in range(2):
        with ContextEngine.open(url, settings=TALKING) as engine:
            wait_for(lambda: engine.admin.work() and not due(url))  # type: ignore[misc]
        indexed.append(rows(url, INDEXED))
        store = SqlStore(url)
        store.index.remove(Scope("default", "ann"), "message", None)
        store.close()
        run(url, "UPDATE arc_conversations SET work_due_at = 0")
    assert len(indexed[0]) == count
    assert indexed[0] == indexed[1]


def due(url: str) -> bool:
    return rows(url, "SELECT count(*) FROM arc_conversations WHERE work_due_at IS NOT NULL") != [(0,)]


@pytest.mark.parametrize(
    ("empty_database", "kills"),
    [
        ("sqlite", 8),
        ("postgres", 8),
        pytest.param("sqlite", 1_000, marks=pytest.mark.torture),
        pytest.param("postgres", 300, marks=pytest.mark.torture),
    ],
    indirect=["empty_database"],
)
def test_killed_writers(helper: Helper, empty_database: str, tmp_path: Path, kills: int) -> None:
    """Two are killed at a time, at random moments; every fourth pair while it starts, the first one without tables."""
    chance = random.Random(20260101 + kills)
    logs: list[Path] = []
    for number in range(0, kills, 2):
        names = [f"k{number}", f"k{number + 1}"]
        pair = [tmp_path / f"{name}.log" for name in names]
        pids = [
            helper.start(workers.converse, log, url=empty_database, name=name, stop=str(tmp_path / "never"))
            for name, log in zip(names, pair, strict=True)
        ]
        for pid, log in zip(pids, pair, strict=True):
            if number % 8:
                wait_for(lambda log=log: log.exists() and "stored" in log.read_text())  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.04))
            os.kill(pid, signal.SIGKILL)
        assert [helper.wait(pid) for pid in pids] == [-signal.SIGKILL] * 2
        logs += pair
    begun = sum(log.exists() and "stored" in log.read_text() for log in logs)
    assert begun > kills // 2, "most were killed before they wrote anything"
    assert_kept(empty_database, logs, ended=False)


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


Trouble = Callable[[random.Random, PostgresServer, PostgresServer], None]


def kill_server(chance: random.Random, server: PostgresServer, _: PostgresServer) -> None:
    """Kill the server, and sometimes once more while it recovers."""
    server.kill()
    if chance.random() < 0.5:
        with suppress(RuntimeError):
            server.start(wait=False)
        time.sleep(chance.uniform(0, 0.3))
        server.kill()
    wait_for(lambda: started(server))


def started(server: PostgresServer) -> bool:
    """Start the server, and return `False` if processes of the killed one have not ended yet."""
    try:
        server.start()
    except RuntimeError:
        return False
    return True


def kill_backend(chance: random.Random, server: PostgresServer, _: PostgresServer) -> None:
    """Kill the process of a connection, after which the server ends all others and recovers."""
    if pids := backends(server):
        with suppress(ProcessLookupError):
            os.kill(chance.choice(pids), signal.SIGKILL)


def drop_connections(chance: random.Random, server: PostgresServer, _: PostgresServer) -> None:
    """Let the server end some connections or all."""
    pids = backends(server)
    with suppress(psycopg.Error), psycopg.connect(server.dsn(), autocommit=True) as admin:
        for pid in chance.sample(pids, chance.randint(min(1, len(pids)), len(pids))):
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])


def restart_pooler(_: random.Random, __: PostgresServer, pooler: PostgresServer) -> None:
    """Kill PgBouncer and start it again."""
    pooler.kill()
    pooler.start()


def backends(server: PostgresServer) -> list[int]:
    """Return the processes of the applications' connections."""
    with suppress(psycopg.Error), psycopg.connect(server.dsn(), autocommit=True) as admin:
        found = admin.execute("SELECT pid FROM pg_stat_activity WHERE datname LIKE 'test_%'")
        return [row[0] for row in found]
    return []


@pytest.mark.parametrize("trouble", [kill_server, kill_backend, drop_connections, restart_pooler])
@pytest.mark.parametrize("times", [1, pytest.param(60, marks=pytest.mark.torture)], ids=["short", "long"])
def test_failing_postgres(
    own_server: PostgresServer, helper: Helper, tmp_path: Path, trouble: Trouble, times: int
) -> None:
    """Two applications continue as soon as the database or its pooler is back."""
    chance = random.Random(f"{trouble.__name__} {times}")
    url = direct = new_database(own_server)
    logs = [tmp_path / f"{name}.log" for name in ("a", "b")]
    with ExitStack() as stack:
        pooler = own_server
        if trouble is restart_pooler:
            pooler = stack.enter_context(bouncer(own_server))
            url = direct.replace(f":{own_server.port}/", f":{pooler.port}/")
        arguments = {"url": url, "stop": str(tmp_path / "stop"), "pooled": pooler is not own_server}
        pids = [helper.start(workers.converse, log, name=log.stem, **arguments) for log in logs]
        wait_for(lambda: all(log.exists() and "stored" in log.read_text() for log in logs))
        for _ in range(times):
            time.sleep(chance.uniform(0, 0.3))
            trouble(chance, own_server, pooler)
        stored = {log: log.read_text().count("stored") for log in logs}
        wait_for(lambda: all(log.read_text().count("stored") > stored[log] + 3 for log in logs))
        (tmp_path / "stop").touch()
        assert [helper.wait(pid) for pid in pids] == [0, 0], "\n".join(log.read_text()[-2000:] for log in logs)
    failures = sum(told(log.read_text().splitlines())[2] for log in logs)
    assert failures or times == 1, "no application noticed anything"
    assert_kept(direct, logs)


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """Start a server that these tests may kill; the operating system keeps the writes of a killed process."""
    with postgres_server() as server:
        yield server


def test_a_deadlock_is_tried_again(postgres_database: Callable[[], str]) -> None:
    """PostgreSQL rolls back one of two deadlocked transactions, and arc retries it without an error."""
    url, scope, now = postgres_database(), Scope("default", "ann"), datetime.now(UTC)
    with ContextEngine.open(url) as engine:
        ids = sorted(engine.memories(user_id="ann").add(f"Ann has a {pet}.").id for pet in ("cat", "dog"))
    store, failed = SqlStore(url), list[BaseException]()

    def touch() -> None:
        try:
            store.records.commit(scope, RecordChange(accessed=dict.fromkeys(ids, now)), version=None)
        except StoreError as error:
            failed.append(error)

    other, touching = Thread(target=touch), "UPDATE arc_records SET importance = importance WHERE record_id = %s"
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("SET deadlock_timeout = '60s'")  # so that arc's transaction is rolled back
        connection.execute(touching, [ids[1]])
        other.start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        wait_for(lambda: bool(rows(url, waits)))
        connection.execute(touching, [ids[0]])
    other.join()
    assert failed == []
    assert len(rows(url, "SELECT 1 FROM arc_records WHERE last_accessed_at >= :now", now=to_microseconds(now))) == 2
    store.close()


@pytest.mark.parametrize("times", [2, pytest.param(60, marks=pytest.mark.torture)], ids=["short", "long"])
def test_full_disks(helper: Helper, tmp_path: Path, times: int) -> None:
    """A full disk stops an application only until there is room again."""
    chance = random.Random(times)
    log = tmp_path / "a.log"
    with small_disk(24_000) as disk:
        url = sqlite_url(disk)
        pid = helper.start(workers.converse, log, url=url, name="a", stop=str(tmp_path / "stop"))
        wait_for(lambda: log.exists() and "stored" in log.read_text())
        for _ in range(times):
            failures = told(log.read_text().splitlines())[2]
            filler = fill(disk, leave=chance.randrange(0, 100_000, 4_096))
            with suppress(AssertionError):
                wait_for(lambda failures=failures: told(log.read_text().splitlines())[2] > failures, 2)  # type: ignore[misc]
            filler.unlink()
            time.sleep(chance.uniform(0, 0.1))
        (tmp_path / "stop").touch()
        assert helper.wait(pid) == 0, log.read_text()[-2000:]
        assert told(log.read_text().splitlines())[2]
        assert_kept(url, [log])


class LeapingClock:
    """A clock that jumps by up to forty days in either direction."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.last = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        if self.chance.random() < 0.2:
            self.last += timedelta(days=self.chance.uniform(-40, 40))
        self.last += timedelta(milliseconds=1)
        return self.last


@pytest.mark.parametrize(("seeds", "count"), [(1, 40), pytest.param(20, 300, marks=pytest.mark.torture)])
def test_a_clock_that_goes_backwards(database: str, tmp_path: Path, seeds: int, count: int) -> None:
    """Messages keep the order of the appends, background work is done, and maintenance removes nothing in use."""
    logs = []
    for seed in range(seeds):
        logs.append(log := tmp_path / f"c{seed}.log")
        left = iter(range(count))
        with ContextEngine.open(database, settings=TALKING, clock=LeapingClock(seed)) as engine, log.open("w") as file:
            session = engine.session("shared", user_id="ann")
            report = partial(print, file=file)
            changes(session, log.stem, lambda change: report(json.dumps(change)), lambda: next(left, None) is None)  # noqa: B023
            assert session.context("What does she like?").messages
            engine.flush(60)
    assert_kept(database, logs)


@pytest.mark.parametrize("seeds", [1, pytest.param(30, marks=pytest.mark.torture)], ids=["short", "long"])
def test_a_failing_object_storage(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seeds: int) -> None:
    """Archived conversations stay complete when requests to the object storage fail, break off or store only a part."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "arc")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    bucket = f"faults-{uuid4().hex}"
    with faulty_proxy(s3) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
        files.mkdir(bucket)
        settings = TALKING.model_copy(update={"archive": ArchiveSettings(url=f"s3://{bucket}")})
        with ContextEngine.open(sqlite_url(tmp_path), settings=settings) as engine:
            session, seen = engine.session("shared", user_id="ann"), Counter[str]()
            session.append([Message("user", f"Place {number}.", id=f"m{number}") for number in range(20)])
            for seed in range(seeds):
                chance = random.Random(seed)
                for fault in chance.sample(FAULTS, len(FAULTS)):
                    for method in ("PUT", "GET", "DELETE"):
                        proxy.fault = lambda found, fault=fault, method=method: fault if found == method else None  # type: ignore[misc]
                        for use in (session.archive, session.messages):
                            try:
                                use()
                            except ArchiveError as error:
                                assert "s3://" in str(error)
                                seen[method] += 1
                        proxy.fault = lambda _: None
                        assert [one.id for one in session.messages()] == [f"m{number}" for number in range(20)]
            assert session.archive()
            assert len(files.find(bucket)) == 1
            assert len(session.messages()) == 20
            assert files.find(bucket) == []
    assert seen["PUT"] > 2 * seeds
    assert seen["GET"] > 2 * seeds
