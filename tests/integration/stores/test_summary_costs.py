"""What reading and storing summaries costs: round trips, rows and indexes, none of them by the clock."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mode

import pytest

from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Commit
from arc_common.stores.conversations import SqlStore
from arc_common.stores.summaries_statements import summary_statements_for
from arc_common.testing.conversation_store_contract import counted
from arc_common.testing.summary_store_contract import a_fact, a_leaf, a_view
from tests.integration.stores.test_costs import driver_connection, pooled_store
from tests.support.databases import new_database, sqlite_url
from tests.support.probes import Wire, counted_syncs, wire
from tests.support.servers import PostgresServer

KEY = SessionKey("session", user_id="user")


def fill(store: SqlStore, *, leaves: int) -> int:
    """A conversation with so many leaves of four messages, and four messages more; its epoch."""
    store.append(KEY, [counted(f"m{n}") for n in range(1, leaves * 4 + 5)])
    epoch = store.summaries.state(KEY, limit=0).epoch
    for start in range(1, leaves * 4, 4):
        fact = a_fact(f"f{start}", start, sources=(f"m{start}",))
        assert store.summaries.commit(KEY, Commit(a_leaf(start, start + 3), (fact,)), lease=None, epoch=epoch)
    assert store.summaries.adopt(KEY, a_view(1, leaves * 4), epoch=epoch)
    return epoch


@pytest.fixture
def on_the_wire(postgres: PostgresServer) -> Iterator[tuple[SqlStore, Wire]]:
    with wire(postgres.port) as proxy:
        store = SqlStore(
            new_database(PostgresServer(postgres.port, 0)).replace(f":{postgres.port}/", f":{proxy.port}/")
        )
        fill(store, leaves=16)
        yield store, proxy
        store.close()


def _commit(store: SqlStore, number: int) -> None:
    epoch = store.summaries.state(KEY, limit=0).epoch
    leaf = a_leaf(100 + number, 100 + number)
    assert store.summaries.commit(KEY, Commit(leaf, (a_fact(f"n{number}", leaf.start),)), lease=None, epoch=epoch)


def _edit_what_is_summarised(store: SqlStore, number: int) -> None:
    """Edit a message under a leaf, a block and a view, with one that is not summarised and a new one."""
    if number == 0:
        epoch = store.summaries.state(KEY, limit=0).epoch
        assert store.summaries.commit(KEY, Commit(a_leaf(1, 64, level=1)), lease=None, epoch=epoch)
    new = [counted(f"m{number + 1}", "other"), counted("m67", str(number)), counted(f"new{number}")]
    store.append(KEY, new)


@pytest.mark.parametrize(
    ("call", "trips"),
    [
        (lambda store, n: store.summaries.state(KEY, limit=20), 1),
        (lambda store, n: store.summaries.segments(KEY), 1),
        (lambda store, n: store.summaries.facts(KEY, limit=20), 1),
        (lambda store, n: store.summaries.facts(KEY, keys=["key of f1"]), 1),
        (_commit, 1 + 2),
        (lambda store, n: store.append(KEY, [counted("m67", str(n))]), 4),
        (_edit_what_is_summarised, 6),
        (lambda store, n: store.append(KEY, [counted(f"m{n + 1}", "other"), counted(f"new{n}")], max_messages=50), 2),
        (lambda store, n: store.append(KEY, [counted(f"new{n}")]), 2),
    ],
    ids=[
        "state", "cover", "facts", "facts of keys", "state and commit", "late edit", "early edit",
        "early edit with a cap", "append",
    ],
)  # fmt: skip
def test_round_trips(on_the_wire: tuple[SqlStore, Wire], call: Callable[[SqlStore, int], object], trips: int) -> None:
    """A read is one; a commit two; an edit four, and two more to find what it undoes."""
    store, proxy = on_the_wire
    counts = []
    for number in range(12):
        before = proxy.round_trips
        call(store, number)
        counts.append(proxy.round_trips - before)
    assert mode(counts[7:]) == trips, counts  # on a busy machine the proxy once saw one more


def test_a_commit_and_an_early_edit_are_one_sync_each(tmp_path: Path) -> None:
    """Also with all that they undo; reading syncs nothing."""
    with counted_syncs() as syncs:
        store = SqlStore(sqlite_url(tmp_path))
        fill(store, leaves=8)
        syncs.clear()
        store.append(KEY, [counted("m2", "changed")])
        assert len(syncs) == 1
        _commit(store, 1)
        assert len(syncs) == 2
        store.remove(KEY, ["m6"])
        assert len(syncs) == 3
        store.summaries.segments(KEY)
        store.close()


READING = [
    "session", "messages_behind", "cover", "parts", "unfinished", "outlines", "facts_that_hold", "facts_of_keys",
    "segments",
    "overlapping", "known_facts", "leaves_over", "leaves_citing",
]  # fmt: skip
SORTED_IN_MEMORY = {"facts_of_keys", "leaves_citing", "leaves_over"}


@pytest.mark.parametrize("name", READING)
def test_reads_go_by_index(tmp_path: Path, name: str) -> None:
    """No statement scans a table; only a few rows are ever sorted."""
    store = SqlStore(sqlite_url(tmp_path))
    fill(store, leaves=2)
    names = {
        "conversation": b"c", "branch": 0, "caller_id": "c", "user_id": "u", "row_limit": 1, "after": 1,
        "keys": "[]", "leaf": 1, "leaves": "[]", "places": "[]", "message_ids": "[]", "ids": "[]",
        "least": 1, "level": 0, "start_seq": 1, "end_seq": 1, "level_below": 0, "from_seq": 1, "to_seq": 1,
    }  # fmt: skip
    statement = getattr(summary_statements_for("sqlite"), name)
    with store.engine.connect() as connection:
        steps = [
            str(row[-1])
            for row in connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {statement.sql}", {**statement.defaults, **names}
            )
        ]
    store.close()
    assert not [step for step in steps if "SCAN" in step and "VIRTUAL TABLE" not in step], steps
    assert name in SORTED_IN_MEMORY or not [step for step in steps if "TEMP B-TREE" in step], steps


def test_every_statement_names_the_caller() -> None:
    """No statement reads or writes without a scope."""
    for dialect in ("sqlite", "postgresql"):
        for name, statement in summary_statements_for(dialect).by_name.items():
            assert "caller_id" in statement.sql, name


@pytest.mark.parametrize("leaves", [4, 400])
def test_a_state_reads_as_many_rows_as_it_returns(tmp_path: Path, leaves: int) -> None:
    """Two selects, whatever the length: the steps of SQLite's machine do not grow with it."""
    store = pooled_store(tmp_path / "arc.db")
    fill(store, leaves=leaves)
    connection = driver_connection(store)
    steps: list[int] = []
    connection.set_progress_handler(lambda: steps.append(1), 1)
    state = store.summaries.state(KEY, limit=20)
    connection.set_progress_handler(None, 0)
    store.close()
    assert len(state.messages) == 4
    assert len(steps) < 250


def test_a_state_is_one_moment(tmp_path: Path) -> None:
    """What another connection commits between its two selects is in neither."""
    url = sqlite_url(tmp_path)
    store, other = pooled_store(tmp_path / "arc.db"), SqlStore(url)
    fill(store, leaves=2)
    done: list[str] = []

    def interrupt(sql: str) -> None:
        if "FROM arc_messages" in sql and not done:
            done.append(sql)
            other.append(KEY, [counted("late")])

    connection = driver_connection(store)
    connection.set_trace_callback(interrupt)
    state = store.summaries.state(KEY, limit=99)
    connection.set_trace_callback(None)
    assert done
    assert (state.message_count, len(state.messages)) == (12, 4)
    assert store.summaries.state(KEY, limit=99).message_count == 13
    store.close()
    other.close()


def test_a_state_is_one_moment_while_others_write(sql_store: SqlStore) -> None:
    """The count and the messages agree in every one of many states."""
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
