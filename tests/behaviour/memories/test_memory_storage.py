"""Memories in store and index: added, found and removed, in memory, on SQLite and on PostgreSQL."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from arc_common.memories import ProposedMemory
from arc_common.memory.long_term.policy import Outcome
from arc_common.memory.long_term.service import MemoryKeeper
from arc_common.protocols.search_index import Scope
from arc_common.settings import ArcSettings
from arc_common.stores.conversations import SqlStore
from arc_common.testing import CountingObserver
from tests.support.services import services

on_both_databases = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
SCOPE = Scope("caller", "ann")


class WordEmbedder:
    """Embeds sets of words by hand-made vectors; counts its texts."""

    name = "words"

    def __init__(self, **vectors):
        self.vectors, self.asked, self.broken = vectors, [], False

    def embed(self, texts):
        self.asked += texts
        if self.broken:
            raise ConnectionError("down")
        return [next((vector for word, vector in self.vectors.items() if word in text), [1, 0, 0]) for text in texts]


@pytest.fixture
def store(request):
    """Return a store in memory, or on PostgreSQL if a test requests it."""
    is_postgres = getattr(request, "param", "") == "postgres"
    url = request.getfixturevalue("postgres_database")() if is_postgres else "sqlite://"
    sql = SqlStore(url)
    yield sql
    sql.close()


class With:
    def __init__(self, store, memories):
        self._store, self.records = store, memories

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture
def make(store):
    numbers, made, time = count(1), [], [datetime(2026, 1, 1, tzinfo=UTC)]

    def clock():
        time[0] += timedelta(seconds=1)
        return time[0]

    def keeper(embedder=None, observer=None, memories=None, **settings):
        made.append(
            MemoryKeeper(
                services(
                    store if memories is None else With(store, memories),
                    settings=ArcSettings(memory=settings),
                    observer=observer or CountingObserver(),
                    clock=clock,
                    embedder=embedder,
                    new_id=lambda: f"m{next(numbers)}",
                ),
            )
        )
        return made[-1]

    yield keeper
    for one in made:
        one.access_times.close()


def said(text, *sources, **values):
    return ProposedMemory(text, sources=sources, **values)


def texts(keeper, scope=SCOPE, **asked):
    return sorted(memory.text for memory in keeper.store.find(scope, **asked))


def found(keeper, query, scope=SCOPE):
    return [one.memory.text for one in keeper.search(scope, query, limit=5)]


def indexed(store, scope=SCOPE):
    return sorted(entry.id for entry in store.index.scan(scope, "memory", limit=100))


def test_memories_with_near_vectors_are_merged(make, store):
    embedder = WordEmbedder(walks=[0, 1, 0], hiking=[0, 0.99, 0.14], tea=[0, 0, 1])
    keeper = make(embedder)
    first = keeper.add(SCOPE, said("User enjoys long walks")).memory
    assert keeper.add(SCOPE, said("Free days: hiking")).memory.id == first.id
    assert keeper.add(SCOPE, said("User drinks tea")).outcome is Outcome.NEW
    assert embedder.asked == ["User enjoys long walks", "Free days: hiking", "User drinks tea"]
    assert found(keeper, "hiking")[0] == "User enjoys long walks"


def test_an_embedder_that_fails_and_another_one(make, store):
    embedder = WordEmbedder()
    keeper = make(embedder)
    keeper.add(SCOPE, said("User keeps bees"))
    embedder.broken = True
    keeper.add(SCOPE, said("User keeps goats"))
    assert found(keeper, "goats") == ["User keeps goats"]
    other, observer = WordEmbedder(), CountingObserver()
    other.name = "other"
    keeper = make(other, observer)
    assert keeper.add(SCOPE, said("User keeps sheep")).outcome is Outcome.NEW
    assert found(keeper, "sheep") == ["User keeps sheep"]
    assert observer.counts["memory.index_errors"] > 0


def test_a_search_notes_what_it_returned(make, store):
    observer = CountingObserver()
    keeper = make(observer=observer)
    bees = keeper.add(SCOPE, said("User keeps bees")).memory
    goats = keeper.add(SCOPE, said("User keeps goats")).memory
    assert found(keeper, "bees") == ["User keeps bees"]
    after = {memory.id: memory.last_accessed_at for memory in keeper.get(SCOPE, [bees.id, goats.id])}
    assert after[bees.id] is not None
    assert after[goats.id] is None
    assert observer.counts == {"memory.saved.count": 2, "memory.retrieved.count": 1}


@on_both_databases
def test_keepers_at_once_lose_and_double_nothing(make, store):
    """Two of them, as in two processes, decide by the actual content of the scope."""
    keepers = [make(max_per_scope=500), make(max_per_scope=500)]
    statements = [f"Statement {'abcdefghij'[n % 10] * 8} {n}" for n in range(20)]
    with ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(lambda n: keepers[n % 2].add(SCOPE, said(statements[n // 2], ("s", str(n)))).outcome, range(40))
        )
    assert Counter(done) == {Outcome.NEW: 20, Outcome.KNOWN: 20}
    assert texts(keepers[0]) == texts(keepers[1]) == sorted(statements)
    assert all(len(memory.sources) == 2 for memory in keepers[0].store.find(SCOPE))
    assert len(indexed(store)) == 20


class Reading:
    """A store of memories that records its reads."""

    def __init__(self, memories):
        self._memories, self.changed, self.whole = memories, 0, 0

    def changes(self, scope, *, after=0):
        updates = self._memories.changes(scope, after=after)
        self.changed += len(updates.memories)
        return updates

    def find(self, scope, ids=None, **more):
        found = self._memories.find(scope, ids, **more)
        self.whole += len(found)
        return found

    def __getattr__(self, name):
        return getattr(self._memories, name)


def test_neither_adding_nor_searching_loads_what_it_does_not_need(make, store):
    """A scope is read once; then an addition reads others' changes, and a search its candidates."""
    reading = Reading(store.records)
    filling = make(max_per_scope=9_999)
    for number in range(60):
        filling.add(SCOPE, said(f"Note {number}: {'abcdefghij'[number % 10] * (5 + number // 10)} of the archive"))
    keeper = make(memories=reading, max_per_scope=9_999)
    keeper.add(SCOPE, said("User lives in Seoul"))
    assert (reading.changed, reading.whole) == (60, 0)
    for statement in ("User keeps bees", "User speaks Welsh", "User plays the harp"):
        keeper.add(SCOPE, said(statement))
    assert (reading.changed, reading.whole) == (60, 0)
    keeper.add(SCOPE, said("User lives in Busan"))
    assert (reading.changed, reading.whole) == (60, 0)
    filling.add(SCOPE, said("Another wrote this meanwhile"))
    keeper.add(SCOPE, said("User owns a kayak"))
    assert (reading.changed, reading.whole) == (61, 0)
    assert len(keeper.search(SCOPE, "notes of the archive", limit=5)) == 5
    assert (reading.changed, reading.whole) == (61, 20)


def test_what_a_caller_does_with_a_memory_does_not_reach_the_store(make, store):
    """Superseded and merged memories are written from the store's state, not from callers' objects."""
    keeper, metadata = make(), {"tags": ["home"]}
    first = keeper.add(SCOPE, said("User lives in Seoul", metadata=metadata), by_hand=True).memory
    again = keeper.add(SCOPE, said("User lives in Seoul", reinforces=False)).memory
    for each in (metadata, first.metadata, again.metadata):
        each["tags"].append("changed")
    keeper.add(SCOPE, said("User lives in Busan"))
    (was,) = keeper.get(SCOPE, [first.id])
    assert (was.superseded_by is None, was.metadata) == (False, {"tags": ["home"]})
