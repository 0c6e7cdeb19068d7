"""Several writers on one session's summaries: each leaf is stored once, by the holder of the lease."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Commit, Lease
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.summary_store_contract import Clock, a_fact, a_leaf

KEY = SessionKey("shared", user_id="user")


class Writer:
    """Writes leaves with its own connections and clock, like a separate process."""

    def __init__(self, url: str, name: str) -> None:
        self.clock = Clock()
        self.store = SqlStore(url, clock=self.clock)
        self.name = name
        self.lease: Lease | None = None

    def acquire(self) -> int | None:
        """Take the lease for a minute, and return its fence."""
        self.lease = self.store.summaries.claim(KEY, owner=self.name, seconds=60)
        return self.lease.fence if self.lease else None

    def commit(self, start: int, text: str = "") -> bool:
        """Store a leaf of four messages under the lease."""
        assert self.lease is not None
        leaf = a_leaf(start, start + 3, narrative=f"{self.name} {text}")
        fact = a_fact(f"{self.name}-{start}", start)
        return self.store.summaries.commit(KEY, Commit(leaf, (fact,)), lease=self.lease, epoch=self.lease.epoch)

    def race(self, leaves: int) -> list[int]:
        """Store leaf after leaf under the lease until all exist, and return the starts of its own."""
        stored = []
        while len(there := self.store.summaries.segments(KEY)) < leaves:
            if self.acquire() is None:
                continue
            start = len(there) * 4 + 1
            if self.commit(start):
                stored.append(start)
            assert self.lease is not None
            self.store.summaries.release(KEY, self.lease)
        return stored


@pytest.fixture
def writers(database: str) -> Iterator[tuple[Writer, Writer]]:
    both = Writer(database, "one"), Writer(database, "other")
    yield both
    for writer in both:
        writer.store.close()


def test_two_writers_race_for_each_leaf(writers: tuple[Writer, Writer], sql_store: SqlStore) -> None:
    sql_store.append(KEY, [counted(f"m{n}") for n in range(1, 81)])
    with ThreadPoolExecutor(2) as pool:
        stored = [start for each in pool.map(lambda writer: writer.race(20), writers) for start in each]
    assert sorted(stored) == list(range(1, 81, 4))
    assert [segment.start for segment in sql_store.summaries.segments(KEY)] == sorted(stored)
    assert len(sql_store.summaries.facts(KEY)) == 20


def test_an_expired_lease_is_taken_over(writers: tuple[Writer, Writer], sql_store: SqlStore) -> None:
    sql_store.append(KEY, [counted(f"m{n}") for n in range(1, 33)])
    slow, after = writers
    first = slow.acquire()
    assert first is not None
    assert after.acquire() is None
    assert slow.commit(1)
    after.clock.pass_by(61)
    second = after.acquire()
    assert second is not None
    assert second > first
    assert not slow.commit(5, "late")
    assert after.commit(5)
    slow.clock.pass_by(122)
    third = slow.acquire()
    assert third is not None
    assert third > second
    assert not after.commit(9)
    after.clock.pass_by(122)
    assert (after.acquire() or 0) > third
    assert after.commit(9)
    narratives = [segment.narrative.strip() for segment in sql_store.summaries.segments(KEY)]
    assert narratives == ["one", "other", "other"]
