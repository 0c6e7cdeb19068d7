"""What adding a memory and searching for some cost a database: round trips to a server, statements in a file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from arc_common.memories import ProposedMemory
from arc_common.memory.long_term.policy import Outcome
from arc_common.memory.long_term.service import MemoryKeeper
from arc_common.protocols.search_index import Scope
from arc_common.stores.conversations import SqlStore
from tests.support.databases import new_database, sqlite_url
from tests.support.probes import Wire, wire
from tests.support.servers import PostgresServer
from tests.support.services import services

SCOPE = Scope("caller", "user")
PLACES = ("Seoul", "Busan", "Incheon", "Daegu")


def a_keeper(store: SqlStore) -> MemoryKeeper:
    """One that knows its scope: it has added before."""
    keeper = MemoryKeeper(services(store))
    for text in ("The user keeps bees", "The user speaks Welsh", "The user plays the harp in an orchestra"):
        keeper.add(SCOPE, ProposedMemory(text))
    return keeper


@pytest.fixture(scope="module")
def on_the_wire(postgres: PostgresServer) -> Iterator[tuple[MemoryKeeper, Wire]]:
    """On a server, with what counts its round trips."""
    with wire(postgres.port) as proxy:
        url = new_database(PostgresServer(postgres.port, 0)).replace(f":{postgres.port}/", f":{proxy.port}/")
        store = SqlStore(url)
        keeper = a_keeper(store)
        keeper.search(SCOPE, "bees", limit=5)
        yield keeper, proxy
        keeper.close()
        store.close()


def added(keeper: MemoryKeeper, text: str) -> Outcome:
    return keeper.add(SCOPE, ProposedMemory(text, sources=[("s", "m")])).outcome


def found(keeper: MemoryKeeper, query: str) -> int:
    """How many; what a search notes behind itself is written when this returns."""
    memories = keeper.search(SCOPE, query, limit=5)
    assert keeper.store is not None
    return len(memories)


CALLS: dict[str, tuple[Callable[[MemoryKeeper, int], object], object, int]] = {
    "new": (lambda keeper, n: added(keeper, f"{'abcdef'[n] * 9} is the user's {'ghijkl'[n] * 9}"), Outcome.NEW, 2),
    "a contradiction": (lambda keeper, n: added(keeper, f"The user lives in {PLACES[n]}"), Outcome.NEW, 3),
    "known": (lambda keeper, n: added(keeper, "The user keeps bees"), Outcome.KNOWN, 2),
    "search": (lambda keeper, n: found(keeper, "Who plays the harp?"), 1, 4),
    "search for nothing": (lambda keeper, n: found(keeper, "zebra"), 0, 1),
    "has any": (lambda keeper, n: keeper.has_any(SCOPE), True, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_round_trips(on_the_wire: tuple[MemoryKeeper, Wire], name: str) -> None:
    """Adding: the lock with what is there, then all that is written; what a memory takes the place of is read before.

    Searching: the index by words, its texts, the memories, and the note of what was found.
    """
    (keeper, proxy), (call, result, trips) = on_the_wire, CALLS[name]
    call(keeper, 0)
    taken = []
    for number in range(1, 4):  # a process that the machine holds up in the middle of a batch looks as if it waited
        before = proxy.round_trips
        assert call(keeper, number) == result
        taken.append(proxy.round_trips - before)
    assert min(taken) == trips


def test_statements(tmp_path: Path) -> None:
    """One addition reads none of the texts that are there and writes each row once, with one commit."""
    store = SqlStore(create_engine(sqlite_url(tmp_path), pool_size=1))
    keeper = a_keeper(store)
    sent: list[str] = []
    with store.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
    driver.set_trace_callback(lambda sql: sent.append(" ".join(sql.split()[:3])))
    added(keeper, "The user owns a kayak")
    driver.set_trace_callback(None)
    assert [statement for statement in sent if not statement.startswith("--")] == [
        "BEGIN IMMEDIATE",
        "INSERT INTO arc_scopes",
        "INSERT INTO arc_index_scopes",
        "SELECT arc_index_entries.entry_id, arc_index_entries.id,",
        "SELECT seq FROM",
        "INSERT INTO arc_records",
        "DELETE FROM arc_record_sources",
        "INSERT INTO arc_record_sources",
        "INSERT INTO arc_index_entries",
        "INSERT INTO arc_index_texts",
        "INSERT INTO arc_index_values",
        "INSERT INTO arc_index_words",
        "UPDATE arc_index_scopes SET",
        "COMMIT",
    ]
    keeper.close()
    store.close()
