"""What the index costs: round trips to a server, and work in SQLite whatever other tenants hold."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, event

from arc_common.filters import Condition, Not
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.stores.conversations import SqlStore
from arc_common.stores.drivers import SqlOptions
from arc_common.testing.search_index_contract import an_entry
from tests.support.databases import new_database, sqlite_url
from tests.support.probes import Wire, wire
from tests.support.servers import PostgresServer

SCOPE = Scope("caller", "user")
VECTOR = np.array([1, 0], np.float32)


def filled(index: object, scope: Scope, count: int = 200) -> None:
    """Entries with words that all share, in pages."""
    entries = [
        an_entry(f"{n:04}", f"common word{n % 7}", vector=[1, n], metadata={"n": n, "part": n % 10})
        for n in range(count)
    ]
    index.put(scope, "document", entries)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def on_the_wire(postgres: PostgresServer) -> Iterator[tuple[SqlStore, Wire]]:
    """A store that has searched before, whose round trips are counted."""
    with wire(postgres.port) as proxy:
        url = new_database(PostgresServer(postgres.port, 0)).replace(f":{postgres.port}/", f":{proxy.port}/")
        store = SqlStore(url)
        filled(store.index, SCOPE)
        store.index.lexical(SCOPE, "document", {"common": 1.0}, limit=5)
        yield store, proxy
        store.close()


PARTS = Condition("part", "eq", 3)
RANGE = Not(Condition("n", "gt", 50))

CALLS: dict[str, tuple[Callable[[SqlStore], object], int]] = {
    "lexical": (lambda store: store.index.lexical(SCOPE, "document", {"common": 1.0}, limit=5), 1),
    "lexical, filtered": (
        lambda store: store.index.lexical(SCOPE, "document", {"common": 1.0}, filters=RANGE, limit=5), 1,
    ),
    "dense": (lambda store: store.index.dense(SCOPE, "document", VECTOR, embedder="test", limit=5), 1),
    "dense, filtered": (
        lambda store: store.index.dense(SCOPE, "document", VECTOR, embedder="test", filters=PARTS, limit=5), 1,
    ),
    "fetch": (lambda store: store.index.fetch(SCOPE, "document", [f"{n:04}" for n in range(100)]), 1),
    "vectors": (lambda store: store.index.vectors(SCOPE, "document", ["0001", "0002"]), 1),
    "scan": (lambda store: store.index.scan(SCOPE, "document", filters=PARTS, limit=9), 1),
    "count": (lambda store: store.index.count(SCOPE, "document", filters=PARTS), 1),
    "embedding": (lambda store: store.index.embedding(SCOPE, "document"), 1),
    "put": (lambda store: store.index.put(SCOPE, "document", [an_entry("new", "a b c", vector=[1, 1])]), 2),
    "put 100": (lambda store: filled(store.index, SCOPE, 100), 2),
    "remove": (lambda store: store.index.remove(SCOPE, "document", ["0001", "0002"]), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_round_trips(on_the_wire: tuple[SqlStore, Wire], name: str) -> None:
    """One for what reads, two for what writes: the lock with what is there, and all the rest."""
    (store, proxy), (call, trips) = on_the_wire, CALLS[name]
    taken = []
    for _ in range(4):  # a process that the machine holds up in the middle of a batch looks as if it waited
        filled(store.index, SCOPE)
        before = proxy.round_trips
        call(store)
        taken.append(proxy.round_trips - before)
    assert min(taken) == trips


def test_a_scope_s_first_search_takes_one_more(on_the_wire: tuple[SqlStore, Wire]) -> None:
    """Which finds out what the scope is."""
    store, proxy = on_the_wire
    for kind in ("lexical", "dense"):
        taken = []
        for n in range(4):  # a busy machine makes a batch look like two
            scope = Scope("caller", f"first {kind} {n}")
            filled(store.index, scope)
            before = proxy.round_trips
            if kind == "dense":
                store.index.dense(scope, "document", VECTOR, embedder="test", limit=5)
            else:
                store.index.lexical(scope, "document", {"common": 1.0}, limit=5)
            taken.append(proxy.round_trips - before)
        assert min(taken) == 2


def test_the_words_of_a_question_are_one_statement_on_sqlite(tmp_path: Path) -> None:
    """However many they are, and however many frequencies each of them has."""
    engine = create_engine(sqlite_url(tmp_path))
    ran: list[str] = []
    event.listen(engine, "connect", lambda connection, _: connection.set_trace_callback(ran.append))
    store = SqlStore(engine)
    store.index.put(SCOPE, "document", [IndexEntry(str(n), "", {"a": 1 + n / 7, "b": 1.0}) for n in range(90)])

    def statements(terms: str) -> int:
        ran.clear()
        found = store.index.lexical(SCOPE, "document", dict.fromkeys(terms, 1.0), limit=99)
        assert len(found.ids) == 90
        return sum(not sql.startswith("--") for sql in ran)  # those are FTS5's own

    statements("a")
    assert statements("abcdefghijklmnop") == statements("b")
    engine.dispose()


def test_other_tenants_cost_nothing_on_sqlite(tmp_path: Path) -> None:
    """SQLite takes as many steps for a search beside thirty tenants with the same words as with none."""
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
        store.index.lexical(SCOPE, "document", {"common": 1.0, "word3": 1.0}, limit=5)
        store.index.dense(SCOPE, "document", VECTOR, embedder="test", filters=PARTS, limit=5)
        store.index.dense(SCOPE, "document", VECTOR, embedder="test", filters=RANGE, limit=5)
        return steps

    filled(store.index, SCOPE)
    search()
    alone = search()
    for n in range(30):
        filled(store.index, Scope("caller", f"other {n}"))
    search()
    assert search() <= alone * 1.3  # trees are deeper by a level
    store.index.put(SCOPE, "document", [IndexEntry("new", "text", {"common": 1.0})])
    behind_a_change = search()
    assert behind_a_change <= alone * 3
    engine.dispose()


def test_a_scope_too_large_for_memory_is_searched_page_by_page(tmp_path: Path) -> None:
    """With the same answers as one that is kept."""
    url = f"sqlite:///{tmp_path / 'arc.db'}"
    store, small = SqlStore(url), SqlStore(url, options=SqlOptions(index_cache_bytes=100))
    filled(store.index, SCOPE)
    for filters in (None, PARTS, RANGE):
        asked = {"embedder": "test", "filters": filters, "limit": 7}
        expected = store.index.dense(SCOPE, "document", VECTOR, **asked)  # type: ignore[arg-type]
        found = small.index.dense(SCOPE, "document", VECTOR, **asked)  # type: ignore[arg-type]
        assert found == expected
        assert len(found) == 7
    store.close()
    small.close()
