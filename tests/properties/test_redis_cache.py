"""A cached store reads what the database has, whatever writers and readers do and the database and Redis lose."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arc_common.exceptions import ArcError
from arc_common.protocols import SessionKey
from arc_common.settings import RedisSettings
from arc_common.stores.conversations import SqlStore
from arc_common.stores.redis_cache import CachedStore
from arc_common.testing import CountingObserver
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.summary_store_contract import a_view
from tests.support.databases import sqlite_url
from tests.support.redis_servers import RedisServer, redis_server

KEYS = [SessionKey("one", "caller", "user"), SessionKey("two", "caller")]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """Start a server that these tests may empty."""
    with redis_server() as started:
        yield started


class Fleet:
    """Two processes with a cache, and one whose writes never reach Redis, as if it were killed after each commit."""

    def __init__(self, url: str, server: RedisServer, seed: int) -> None:
        self.random = random.Random(seed)
        self.only_appends = seed % 2 == 1
        self.redis = server.client_of_bytes()
        self.redis.flushall()
        self.observer = CountingObserver()
        self.plain = SqlStore(url)
        settings = RedisSettings(url=server.url, max_sessions=self.random.choice([1, 10]))
        self.cached = [CachedStore(url, redis=settings, observer=self.observer) for _ in range(2)]
        self.said = 0
        self.kept: list[dict[bytes, bytes]] = [{}]
        self.exported: list[Any] = []

    def step(self) -> None:
        chances = {self.append: 12, self.adopt: 2, self.keep: 3, self.restore: 3, self.evict: 1}
        if not self.only_appends:
            chances |= {self.edit: 6, self.remove: 3, self.branch: 2, self.delete: 1, self.export: 1, self.go_back: 1}
        self.random.choices(list(chances), list(chances.values()))[0]()
        for _ in range(self.random.randint(0, 2)):
            self.read()

    def key(self) -> SessionKey:
        if self.only_appends:
            return KEYS[0]
        key = self.random.choice(KEYS)
        return replace(key, branch=self.random.randrange(3)) if self.random.random() < 0.2 else key

    def writer(self) -> SqlStore:
        return self.random.choice([self.plain, *self.cached])

    def append(self) -> None:
        """Append one to three messages, sometimes after stored ones, as in a retry."""
        more = self.random.randint(1, 3)
        first = max(self.said - self.random.choice([0, 0, 1, 4]), 0)
        new = [
            counted(f"m{n}", f"text {n}") for n in [*range(first, self.said)[:1], *range(self.said, self.said + more)]
        ]
        self.said += more
        with suppress(ArcError):
            self.writer().append(self.key(), new, max_messages=self.random.choice([None, None, 5]))

    def edit(self) -> None:
        self.said += 1
        if names := self.names(key := self.key()):
            self.writer().append(key, [counted(self.random.choice(names), f"edited {self.said}")])

    def remove(self) -> None:
        if names := self.names(key := self.key()):
            self.writer().remove(key, [self.random.choice(names)])

    def branch(self) -> None:
        key = self.key()
        action: Any = self.random.choice(["fork", "rewind", "switch", "delete"])
        named = {"at": self.random.choice(names)} if (names := self.names(key)) and action in ("fork", "rewind") else {}
        with suppress(ArcError):
            self.writer().branch(key, action, **named)

    def adopt(self) -> None:
        key = self.key()
        with suppress(ArcError):
            state = self.plain.summaries.state(key, limit=9)
            version, last = (state.view.version if state.view else 0), state.messages[-1].seq if state.messages else 0
            view = a_view(version + 1, self.random.randint(0, last))
            self.writer().summaries.adopt(key, view, epoch=state.epoch)

    def delete(self) -> None:
        self.writer().delete(replace(self.key(), branch=None), keep_session=self.random.random() < 0.5)

    def keep(self) -> None:
        """Save the content of Redis, as its own snapshots do."""
        self.kept.append({key: self.redis.dump(key) for key in self.redis.scan_iter()})

    def restore(self) -> None:
        """Restore an earlier content of Redis, as after a crash or a failover, or let one late write arrive."""
        kept = self.random.choice(self.kept)
        if self.random.random() < 0.5:
            self.redis.flushall()
        for key, value in self.random.sample(sorted(kept.items()), self.random.randint(0, len(kept))):
            self.redis.restore(key, 60_000, value, replace=True)

    def evict(self) -> None:
        if keys := self.redis.keys():
            self.redis.delete(self.random.choice(keys))

    def export(self) -> None:
        self.exported = list(self.plain.dump("caller", None))

    def go_back(self) -> None:
        """Restore an earlier state of the database, from which it continues differently."""
        for key in KEYS:
            self.plain.delete(key)
        for record in self.exported:
            self.plain.load(record)

    def names(self, key: SessionKey) -> list[str]:
        with suppress(ArcError):
            return [stored.message.id or "" for stored in self.plain.read(key)]
        return []

    def read(self) -> None:
        key, limit = self.key(), self.random.choice([1, 3, 256])
        stored, cached = (
            result_of(lambda store=store: store.summaries.state(key, limit=limit))  # type: ignore[misc]
            for store in (self.plain, self.random.choice(self.cached))
        )
        assert cached == stored

    def close(self) -> None:
        for store in (self.plain, *self.cached):
            store.close()


def result_of(call: Callable[[], object]) -> object:
    try:
        return call()
    except ArcError as error:
        return type(error)


def live(url: str, server: RedisServer, seed: int, steps: int) -> CountingObserver:
    fleet = Fleet(url, server, seed)
    for _ in range(steps):
        fleet.step()
    fleet.close()
    return fleet.observer


def test_reads_are_never_stale(server: RedisServer, tmp_path: Path) -> None:
    """After each step of random histories, cached stores read what a store without a cache does."""
    hits = misses = 0
    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        counts = live(sqlite_url(folder), server, seed, steps=120).counts
        assert not counts["redis.errors"]
        hits, misses = hits + counts["redis.hits"], misses + counts["redis.misses"]
    assert hits > 150  # the cache was used
    assert misses > 50


@pytest.mark.torture
def test_reads_are_never_stale_in_long_histories(server: RedisServer, tmp_path: Path) -> None:
    for seed in range(100, 400):
        folder = tmp_path / str(seed)
        folder.mkdir()
        live(sqlite_url(folder), server, seed, steps=300)
