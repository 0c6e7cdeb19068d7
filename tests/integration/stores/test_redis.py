"""The cache in Redis: its keys, limits and failures, and data that it must not serve or keep."""

import logging
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import pytest
from sqlalchemy import create_engine, event

from arc_common import ArcSettings, ContextEngine, Message
from arc_common.exceptions import (
    ConfigurationError,
    ConversationDeletedError,
    MissingDependencyError,
    StoreUnavailableError,
)
from arc_common.protocols import SessionKey
from arc_common.settings import RedisSettings
from arc_common.stores.conversations import SqlStore
from arc_common.stores.redis_cache import CachedStore
from arc_common.testing import CountingObserver
from arc_common.testing.conversation_store_contract import counted
from tests.support.databases import new_database, sqlite_url
from tests.support.redis_servers import RedisServer, redis_cluster, redis_server, wait_for
from tests.support.servers import PostgresServer

KEY = SessionKey("session", "shop", "ann")


@pytest.fixture(scope="module")
def own_server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def server(own_server: RedisServer) -> RedisServer:
    """Return an empty server; a test that stops it starts it again."""
    own_server.client().flushall()
    return own_server


@pytest.fixture
def opened(server: RedisServer, tmp_path: Path) -> Iterator[Callable[..., CachedStore]]:
    """Return a function that opens stores with a cache over one database."""
    stores = []

    def open_store(observer: CountingObserver | None = None, **settings: Any) -> CachedStore:
        redis = RedisSettings(**{"url": server.url, **settings})
        stores.append(CachedStore(sqlite_url(tmp_path), redis=redis, observer=observer))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[SqlStore]:
    """Open a store without a cache over the same database, like a process that dies after each commit."""
    store = SqlStore(sqlite_url(tmp_path))
    yield store
    store.close()


def fill(store: SqlStore, key: SessionKey = KEY, count: int = 6) -> None:
    store.append(key, [counted(f"m{n}", f"text {n}") for n in range(count)])


def texts(store: SqlStore, key: SessionKey = KEY, limit: int = 256) -> list[str]:
    return [stored.message.text for stored in store.summaries.state(key, limit=limit).messages]


def stored_text(server: RedisServer) -> str:
    """Return all keys, with the values of hashes."""
    client = server.client()
    return "\n".join(f"{key} {client.hgetall(key) if client.type(key) == 'hash' else ''}" for key in client.scan_iter())


def test_another_process_reads_what_a_writer_has_cached(
    opened: Callable[..., CachedStore], server: RedisServer
) -> None:
    """A writer's messages reach the cache, and a reader checks with the database that they are current."""
    observer = CountingObserver()
    writer, reader = opened(), opened(observer)
    fill(writer)
    assert texts(writer) == texts(reader) == [f"text {n}" for n in range(6)]
    writer.append(KEY, [counted("new", "new text")])
    assert "new text" in stored_text(server)
    assert texts(reader)[-2:] == ["text 5", "new text"]
    assert observer.counts == {"redis.hits": 2}


def test_ids_stand_in_no_key(opened: Callable[..., CachedStore], server: RedisServer) -> None:
    """Keys are hashes of caller and session, or of caller and user, and all of them expire."""
    store = opened(ttl_minutes=2, list_ttl_hours=1)
    fill(store)
    texts(store)
    client = server.client()
    names = sorted(key.partition("{")[0] for key in client.scan_iter())
    assert names == ["arc:conversation:", "arc:conversations", "arc:user_conversations:"]
    lives = {key.partition("{")[0]: client.pttl(key) for key in client.scan_iter()}
    assert 110_000 < lives["arc:conversation:"] <= 120_000
    assert 3_500_000 < lives["arc:user_conversations:"] <= 3_600_000
    assert lives["arc:conversations"] > 0
    for key in client.scan_iter():
        assert re.fullmatch(r"arc:(conversation|user_conversations):\{[0-9a-f]{64}\}|arc:conversations", key)
    other = SessionKey("session", "shop2", "ann")
    fill(store, other)
    texts(store, other)
    assert len(client.keys("arc:conversation:*")) == len(client.keys("arc:user_conversations:*")) == 2
    prefixed = opened(key_prefix="shop:")
    texts(prefixed)
    assert client.keys("shop:*")


def test_no_more_sessions_are_cached_than_the_settings_say(
    opened: Callable[..., CachedStore], server: RedisServer
) -> None:
    observer = CountingObserver()
    store = opened(observer, max_sessions=3)
    keys = [SessionKey(f"s{n}") for n in range(7)]
    for key in keys:
        fill(store, key)
        texts(store, key)
        time.sleep(0.002)
    client = server.client()
    assert len(client.keys("arc:conversation:*")) == client.zcard("arc:conversations") == 3
    texts(store, keys[-1])
    assert observer.counts["redis.hits"] == 1


def test_a_key_on_another_branch_or_of_another_user_reads_its_own(
    opened: Callable[..., CachedStore], plain: SqlStore
) -> None:
    store = opened()
    fill(store)
    (fork,) = store.branch(KEY, "fork", at="m2")
    forked = SessionKey("session", "shop", "ann", branch=fork.id)
    store.append(forked, [counted("f", "forked")])
    for _ in range(2):
        assert texts(store, forked) == ["text 0", "text 1", "text 2", "forked"]
        assert texts(store)[-1] == "text 5"
        with pytest.raises(Exception, match="no session"):
            texts(store, SessionKey("session", "shop", "eve"))
    plain.branch(forked, "switch")
    assert texts(store)[-1] == "forked"


def test_a_database_brought_back_from_a_backup_is_read_anew(
    opened: Callable[..., CachedStore], plain: SqlStore
) -> None:
    """Counts and positions are equal in both histories, but the newest message differs."""
    store = opened()
    fill(store)
    backup = list(plain.dump("shop", "ann"))
    store.append(KEY, [counted("lost 1", "lost"), counted("lost 2", "lost")])
    assert texts(store)[-1] == "lost"
    plain.delete(KEY)
    for record in backup:
        plain.load(record)
    plain.append(KEY, [counted("new 1", "new"), counted("new 2", "newest")])
    assert texts(store)[-3:] == ["text 5", "new", "newest"]


def test_messages_that_never_reached_the_cache_are_read_beside_later_ones(
    opened: Callable[..., CachedStore], plain: SqlStore
) -> None:
    """A cap may drop as many messages as the cache has missed, so that the counts agree."""
    for again, dropped in ((0, 3), (1, 2)):  # some of the missed messages are appended again
        key = SessionKey(f"again {again}")
        store = opened()
        fill(store, key)
        texts(store, key)
        missed = [counted(f"missed {n}", f"missed {n}") for n in range(3)]
        plain.append(key, missed, max_messages=9 - dropped)
        store.append(key, [*missed[:again], counted("later", "later")])
        kept = [f"text {n}" for n in range(dropped, 6)]
        assert texts(store, key) == [*kept, "missed 0", "missed 1", "missed 2", "later"]


def test_a_softly_deleted_session_is_not_read_from_the_cache(
    opened: Callable[..., CachedStore], plain: SqlStore
) -> None:
    store = opened()
    fill(store)
    texts(store)
    plain.delete(KEY, soft=True)
    with pytest.raises(ConversationDeletedError):
        texts(store)


def test_what_is_deleted_meanwhile_is_not_cached_by_a_slow_reader(
    server: RedisServer, tmp_path: Path, plain: SqlStore
) -> None:
    """A reader that read the database before a deletion caches nothing after it."""
    database = create_engine(sqlite_url(tmp_path))
    settings = RedisSettings(url=server.url)
    deleter = CachedStore(sqlite_url(tmp_path), redis=settings)
    me, begun, seen = get_ident(), list[str](), list[str]()

    def delete_meanwhile() -> None:
        """Delete the session while the statement that reads it runs, on its snapshot."""
        if begun and "arc_messages" in begun[-1] and get_ident() == me and not seen:
            seen.append(begun[-1])
            with ThreadPoolExecutor(1) as other:
                other.submit(deleter.delete, KEY).result(20)

    @event.listens_for(database, "connect")
    def watch(connection: Any, _: object) -> None:
        connection.set_trace_callback(begun.append)
        connection.set_progress_handler(delete_meanwhile, 100)

    fill(plain)
    reader = CachedStore(database, redis=settings)
    assert texts(reader) == [f"text {n}" for n in range(6)]
    assert seen
    assert "text" not in stored_text(server)
    assert texts(reader) == []
    reader.close()
    deleter.close()
    database.dispose()


def test_an_erasure_empties_the_cache(opened: Callable[..., CachedStore], server: RedisServer, plain: SqlStore) -> None:
    """This includes deletions that never reached Redis; while Redis is down, the receipt names possible remains."""
    settings = ArcSettings(redis={"url": server.url, "retry_seconds": 0.01})
    with ContextEngine.open(plain.engine.url.render_as_string(), settings=settings) as engine:
        for name in ("one", "two", "three"):
            engine.session(name, caller_id="shop", user_id="ann").append(Message("user", f"My pin is 4711, {name}."))
            engine.session(name, caller_id="shop", user_id="ann").context("And?")
        engine.flush()
        assert "4711" in stored_text(server)
        plain.delete(SessionKey("one", "shop", "ann"))
        engine.session("two", caller_id="shop", user_id="ann").remove(
            [message.id for message in engine.session("two", caller_id="shop", user_id="ann").messages()]
        )
        assert stored_text(server).count("4711") == 2
        receipt = engine.admin.erase(caller_id="shop", user_id="ann")
        assert receipt.is_complete
        assert not [one for one in receipt.pending if "Redis" in one]
        assert "4711" not in stored_text(server)
        assert not server.client().keys()
        server.kill()
        receipt = engine.admin.erase(caller_id="shop", user_id="ann")
        server.start()
    (pending,) = [one for one in receipt.pending if "Redis" in one]
    assert "within 60 minutes" in pending


def test_erasing_a_caller_empties_the_cache_of_all_its_users(server: RedisServer, plain: SqlStore) -> None:
    """Another caller's messages stay; the receipt names possible remains of dead processes, with their expiry."""
    url, settings = plain.engine.url.render_as_string(), ArcSettings(redis={"url": server.url})
    with ContextEngine.open(url, settings=settings) as engine:
        for caller_id, user_id in (("shop", "ann"), ("shop", "ben"), ("shop", None), ("blog", "ann")):
            session = engine.session(f"of {user_id}", caller_id=caller_id, user_id=user_id)
            session.append(Message("user", f"My pin is 4711, {caller_id}."))
            session.context("And?")
        engine.flush()
        assert stored_text(server).count("4711, shop") == 3
        receipt = engine.admin.erase(caller_id="shop", user_id=None)
        assert receipt.is_complete
        (pending,) = [one for one in receipt.pending if "Redis" in one]
        assert "within 60 minutes" in pending
        assert "4711, shop" not in stored_text(server)
        assert stored_text(server).count("4711, blog") == 1
    assert len(server.client().keys()) == 3  # of the other caller: its messages, the user's list and the count
    assert server.client().zcard("arc:conversations") == 1


def test_an_archived_conversation_is_not_read_from_the_cache(
    server: RedisServer, tmp_path: Path, plain: SqlStore
) -> None:
    """The next use restores it for all processes, which also read later messages."""
    settings = ArcSettings(redis={"url": server.url}, archive={"url": str(tmp_path / "archive")})
    url = plain.engine.url.render_as_string()
    with ContextEngine.open(url, settings=settings) as one, ContextEngine.open(url, settings=settings) as two:
        sessions = [engine.session("s") for engine in (one, two)]
        sessions[0].append([Message("user", "My locker is 17."), Message("assistant", "Noted.")])
        assert [len(session.context("And?").messages) for session in sessions] == [3, 3]
        one.flush()
        assert sessions[1].archive()
        for session in sessions:
            assert [message.text for message in session.context("And?").messages][:2] == ["My locker is 17.", "Noted."]
        assert not list((tmp_path / "archive").rglob("*.gz"))
        sessions[1].append(Message("user", "Now it is 18."))
        assert sessions[0].context("And?").messages[2].text.startswith("Now it is 18.")
        assert sessions[0].archive()
        assert sessions[1].delete()
        assert "locker" not in stored_text(server)
        assert not list((tmp_path / "archive").rglob("*.gz"))


def test_a_value_that_arc_has_not_written_is_replaced(opened: Callable[..., CachedStore], server: RedisServer) -> None:
    store, client = opened(), server.client()
    fill(store)
    texts(store)
    (key,) = client.keys("arc:conversation:*")
    for version, rows in (("x", "y"), ("1 2 3 4", '["a"]'), ("1 6 0 6", "{}"), ("1 6 0 6", ""), ("", "[]")):
        client.hset(key, mapping={"current": version, "current:rows": rows})
        assert texts(store) == texts(store) == [f"text {n}" for n in range(6)]
        assert client.hget(key, "current") not in (version, None)


def test_long_tails_are_not_kept(opened: Callable[..., CachedStore], server: RedisServer) -> None:
    """More than a million bytes are not cached, even if they grow by appends."""
    store, client = opened(), server.client()
    store.append(KEY, [counted("m", "x" * 400_000)])
    for n in range(4):
        texts(store)
        store.append(KEY, [counted(f"n{n}", "y" * 300_000)])
    assert [len(text) for text in texts(store)] == [400_000, *[300_000] * 4]
    (key,) = client.keys("arc:conversation:*")
    assert not client.hget(key, "current:rows")


def test_it_says_once_that_redis_is_away(server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The database serves all reads; after three failures Redis is skipped until an attempt succeeds."""
    observer = CountingObserver()
    settings = ArcSettings(redis={"url": server.url, "retry_seconds": 1.0})
    with ContextEngine.open(sqlite_url(tmp_path), settings=settings, observer=observer) as engine:
        session = engine.session("s")
        session.append(Message("user", "My locker is 17."))
        assert engine.health().ok
        server.kill()
        with caplog.at_level(logging.WARNING):
            for n in range(6):
                session.append(Message("user", f"Question {n}?"))
                assert "My locker is 17." in [message.text for message in session.context("And?").messages]
        (line,) = [record.getMessage() for record in caplog.records if "Redis" in record.getMessage()]
        assert "ConnectionError" in line
        problems = engine.health().problems
        assert list(problems) == ["redis"]
        assert "ConnectionError" in problems["redis"]
        assert observer.counts["redis.errors"] == 3
        assert observer.counts["redis.refused"] >= 3
        server.start()
        wait_for(lambda: engine.health().ok)
        hits = observer.counts["redis.hits"]
        for _ in range(2):
            with ContextEngine.open(sqlite_url(tmp_path), settings=settings, observer=observer) as other:
                assert "Question 5?" in [message.text for message in other.session("s").context("And?").messages]
        assert observer.counts["redis.hits"] > hits


def test_a_redis_that_hangs_is_not_waited_for(opened: Callable[..., CachedStore], server: RedisServer) -> None:
    observer = CountingObserver()
    store = opened(observer, timeout_seconds=0.05)
    fill(store)
    texts(store)
    server.pause()
    begin = time.monotonic()
    try:
        assert [len(texts(store)) for _ in range(4)] == [6] * 4
        store.append(KEY, [counted("late", "late")])
        assert observer.counts["redis.errors"] == 3
        assert observer.counts["redis.refused"] > 1
        assert "Timeout" in store.problems()["redis"]
        assert time.monotonic() - begin < 4
    finally:
        server.resume()
    assert texts(opened())[-1] == "late"


def test_reads_fail_without_redis_if_the_settings_say_so(server: RedisServer, tmp_path: Path) -> None:
    """With fallback_to_sql off, reads fail, which spares the database the load of all processes; writes continue."""
    settings = ArcSettings(redis={"url": server.url, "fallback_to_sql": False, "retry_seconds": 0.01})
    with ContextEngine.open(sqlite_url(tmp_path), settings=settings) as engine:
        session = engine.session("s")
        session.append(Message("user", "one"))
        assert len(session.context("And?").messages) == 2
        server.kill()
        session.append(Message("user", "two"))
        for call in (session.messages, lambda: session.context("And?")):
            with pytest.raises(StoreUnavailableError, match="fallback_to_sql"):
                call()
        server.start()
        wait_for(lambda: engine.health().ok)
        assert [message.text for message in session.messages()] == ["one", "two"]


def test_no_password_of_redis_shows(server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"redis://ann:hunter2@127.0.0.1:{server.port}/0"
    with ContextEngine.open(sqlite_url(tmp_path), settings=ArcSettings(redis={"url": url})) as engine:
        session = engine.session("s")
        session.append(Message("user", "one"))
        assert len(session.context("And?").messages) == 2
        shown = f"{engine.health()} {engine!r} {engine.settings!r} {caplog.text}"
        assert "redis" in engine.health().problems
    assert "hunter2" not in shown


def test_a_cluster_of_three_serves_all_sessions(tmp_path: Path) -> None:
    """Sessions on all nodes are read, counted, limited and erased; the database serves those of a dead node."""
    with redis_cluster() as nodes:
        settings = RedisSettings(url=nodes[1].url, max_sessions=20)
        observer = CountingObserver()
        store = CachedStore(sqlite_url(tmp_path), redis=settings, observer=observer)
        keys = [SessionKey(f"s{n}", "shop", "ann") for n in range(24)]
        for _ in range(2):
            for key in keys[-20:]:
                store.append(key, [counted(f"m{len(texts(store, key))}")])
                texts(store, key)
        assert not store.problems()
        assert observer.counts["redis.misses"] == 40
        cached = [len(node.client().keys("arc:conversation:*")) for node in nodes]
        assert sum(cached) == 20
        assert all(cached)
        for key in keys:
            store.append(key, [counted("more")])
            texts(store, key)
        assert sum(len(node.client().keys("arc:conversation:*")) for node in nodes) == 20
        assert len(store.traces("shop", "ann").clean()) == 0
        assert not [key for node in nodes for key in node.client().keys("arc:*conversation*:*")]
        nodes[0].kill()
        assert [len(texts(store, key)) for key in keys] == [1] * 4 + [3] * 20
        store.close()


def test_a_mode_without_its_parts_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names the setting or the extra, and no other cache is used."""
    url, redis = sqlite_url(tmp_path), {"url": "redis://127.0.0.1:1"}
    for wrong, named in (
        ({"storage": {"mode": "redis"}}, r"storage.mode .*'redis', which needs redis.url \(ARC_REDIS__URL\)"),
        ({"storage": {"mode": "redis"}, "redis": {**redis, "enabled": False}}, "redis.enabled"),
        ({"storage": {"mode": "redis"}, "redis": redis}, "storage.mode .*'redis', which needs database_url"),
        ({"redis": redis}, r"redis.url \(ARC_REDIS__URL\).*needs database_url"),
        ({"redis": redis, "database_url": "sqlite://"}, "needs a database that processes share"),
        ({"redis": {"url": "http://127.0.0.1"}, "database_url": url}, "redis.url .*http://127.0.0.1: "),
    ):
        with pytest.raises(ConfigurationError, match=named):
            ContextEngine.open(settings=ArcSettings(**wrong)).close()
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingDependencyError, match=r"'arc-context-engine\[redis\]'"):
        ContextEngine.open(url, settings=ArcSettings(redis=redis))


@pytest.mark.parametrize(
    ("given", "is_cached"),
    [
        ({}, True),
        ({"storage": {"mode": "redis"}}, True),
        ({"storage": {"mode": "sql"}}, False),
        ({"redis": {"enabled": False}}, False),
        ({"storage": {"mode": "memory"}}, False),
    ],
    ids=str,
)
def test_settings_alone_choose_the_mode(
    server: RedisServer, tmp_path: Path, given: dict[str, Any], *, is_cached: bool
) -> None:
    redis = {"url": server.url, **given.get("redis", {})}
    settings = ArcSettings(**{**given, "redis": redis}, database_url=sqlite_url(tmp_path))
    with ContextEngine.open(settings=settings) as engine:
        engine.session("s").append(Message("user", "one"))
        assert len(engine.session("s").context("And?").messages) == 2
    assert bool(server.client().keys()) is is_cached


class Troubled:
    """Processes on PostgreSQL, and a Redis server that is killed, paused and emptied at random."""

    def __init__(self, url: str, server: RedisServer, seed: int) -> None:
        self.url, self.server, self.random = url, server, random.Random(seed)
        self.settings = RedisSettings(url=server.url, timeout_seconds=0.1, retry_seconds=0.05)
        self.acknowledged: dict[str, str] = {}
        self.done = Event()
        self.hits = 0

    def write(self, name: str, count: int) -> None:
        """Append one or two messages or edit an earlier one; a third of the writes never reaches Redis."""
        chance = random.Random(name)
        stores = [CachedStore(self.url, redis=self.settings), SqlStore(self.url)]
        for n in range(count):
            told = {f"{name}-{n}": "first"} | ({f"{name}-{n}b": "first"} if chance.random() < 0.3 else {})
            if n and chance.random() < 0.5:
                told = {f"{name}-{chance.randrange(n)}": f"edited {n}"}
            store = stores[chance.random() < 0.3]
            store.append(KEY, [counted(message_id, text) for message_id, text in told.items()])
            self.acknowledged.update(told)
        for store in stores:
            store.close()

    def read(self) -> None:
        """Read until the writers end, and check that acknowledged messages are there, once and in order."""
        observer = CountingObserver()
        store = CachedStore(self.url, redis=self.settings, observer=observer)
        while not self.done.is_set():
            before = dict(self.acknowledged)
            state = store.summaries.state(KEY, limit=256)
            found = {stored.message.id: stored.message.text for stored in state.messages}
            assert len(found) == len(state.messages) == state.message_count
            assert before.keys() <= found.keys()
            assert all(number(found[name]) >= number(text) for name, text in before.items())
            places = [stored.seq for stored in state.messages]
            assert places == sorted(set(places))
        self.hits += observer.counts["redis.hits"]
        store.close()

    def trouble(self) -> None:
        while not self.done.wait(self.random.random() * 0.1):
            what = self.random.choice(["kill", "pause", "flush", "evict"])
            if what == "kill":
                self.server.kill()
                self.server.start()
            elif what == "pause":
                self.server.pause()
                self.done.wait(0.2)
                self.server.resume()
            elif what == "flush":
                self.server.client().flushall()
            else:
                self.server.client().delete(*self.server.client().keys() or ["nothing"])

    def run(self, count: int) -> None:
        with ThreadPoolExecutor(5) as pool:
            others = [pool.submit(self.read), pool.submit(self.read), pool.submit(self.trouble)]
            try:
                for writer in [pool.submit(self.write, name, count) for name in ("a", "b")]:
                    writer.result(120)
            finally:
                self.done.set()
            for other in others:
                other.result(120)


def number(text: str) -> int:
    """Return the number of an edit, or 0 before the first."""
    return int(text.rpartition(" ")[2]) if " " in text else 0


def survive(url: str, seed: int, count: int) -> None:
    with redis_server("--save", "1", "1") as server:  # a killed server restarts with an older state
        troubled = Troubled(url, server, seed)
        troubled.run(count)
        plain, cached = SqlStore(url), CachedStore(url, redis=troubled.settings)
        for store in (plain, cached, cached):
            assert {one.message.id: one.message.text for one in store.read(KEY)} == troubled.acknowledged
            assert len(texts(store)) == len(troubled.acknowledged)
        plain.close()
        cached.close()
    assert troubled.hits


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_or_stale_while_redis_is_killed_paused_and_emptied(postgres: PostgresServer, seed: int) -> None:
    survive(new_database(postgres), seed, 60)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 120))
def test_nothing_is_lost_or_stale_in_long_troubles(postgres: PostgresServer, seed: int) -> None:
    survive(new_database(postgres), seed, 110)
