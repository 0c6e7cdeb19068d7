"""Two processes on one session's summaries, and what deletion leaves in the tables: nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from arc_common.protocols import ConversationStore
from arc_common.protocols.summaries import Commit
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from arc_common.testing.summary_store_contract import a_fact, a_leaf, a_view
from tests.support.summary_worker import KEY, worker

SECRET = "S3CRET"


def rows_with(url: str, wanted: str) -> list[str]:
    """The tables of arc that hold this text in any column."""
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = [name for name in inspect(engine).get_table_names() if name.startswith("arc_")]
        assert {"arc_views", "arc_messages", "arc_segments", "arc_facts"} <= set(tables)
        found = [
            name
            for name in tables
            if any(wanted in repr(row) for row in connection.execute(text(f"SELECT * FROM {name}")))
        ]
    engine.dispose()
    return sorted(found)


def test_two_processes_race_for_each_leaf(database: str, sql_store: SqlStore) -> None:
    """Each leaf is stored by one of them, once, with its one fact."""
    sql_store.append(KEY, [counted(f"m{n}") for n in range(1, 161)])
    with worker(database, "a") as a, worker(database, "b") as b:
        for one in (a, b):
            one.ask("wait", seconds=0)
        for one in (a, b):
            one.send("race", leaves=40)
        stored = sorted(a.answer() + b.answer())
    assert stored == list(range(1, 161, 4))
    assert [segment.start for segment in sql_store.summaries.segments(KEY)] == stored
    assert len(sql_store.summaries.facts(KEY)) == 40


def test_an_expired_lease_is_taken_over(database: str, sql_store: SqlStore) -> None:
    """Who was too slow stores nothing once another took over, and neither does who was killed."""
    sql_store.append(KEY, [counted(f"m{n}") for n in range(1, 33)])
    with worker(database, "slow") as slow, worker(database, "next") as after:
        first = slow.ask("acquire")
        assert after.ask("acquire") is None
        assert slow.ask("commit", start=1) is True
        after.ask("wait", seconds=61)
        second = after.ask("acquire")
        assert second > first
        assert slow.ask("commit", start=5, text=SECRET) is False
        assert after.ask("commit", start=5) is True
        slow.ask("wait", seconds=122)
        assert slow.ask("acquire") > second
        slow.process.kill()
        slow.process.wait()
        assert after.ask("commit", start=9) is False
        after.ask("wait", seconds=122)
        assert after.ask("acquire") > second + 1
        assert after.ask("commit", start=9) is True
    assert [segment.narrative.split()[0] for segment in sql_store.summaries.segments(KEY)] == ["slow", "next", "next"]
    assert rows_with(database, SECRET) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.delete(KEY),
        lambda store: store.delete(KEY, keep_session=True),
        lambda store: store.append(KEY, [counted("m2", "harmless")]),
        lambda store: store.remove(KEY, ["m2"]),
    ],
    ids=["delete", "clear", "edit", "remove"],
)
def test_nothing_of_what_was_removed_is_left_or_comes_back(
    database: str, sql_store: SqlStore, change: Callable[[ConversationStore], object]
) -> None:
    """A secret that was in a message, its leaf, what stood above, its fact, one merged with it, and the view."""
    summaries = sql_store.summaries
    sql_store.append(KEY, [counted(f"m{n}", SECRET if n == 2 else "hello") for n in range(1, 33)])
    epoch = summaries.state(KEY, limit=0).epoch
    secret: dict[str, Any] = {"value": SECRET, "key": SECRET, "sources": ("m2",)}
    for start in (1, 5, 9, 13):
        fact = a_fact(f"f{start}", start, **(secret if start in (1, 9) else {}))
        leaf = a_leaf(start, start + 3, narrative=SECRET if start in (1, 9) else "hello")
        assert summaries.commit(KEY, Commit(leaf, (fact,)), lease=None, epoch=epoch)
    for level in (1, 2, 3):
        assert summaries.commit(KEY, Commit(a_leaf(1, 16, level=level, narrative=SECRET)), lease=None, epoch=epoch)
    view = a_view(1, 16, narrative=SECRET, facts=(SECRET,), instructions=(SECRET,))
    assert summaries.adopt(KEY, view, epoch=epoch)
    assert rows_with(database, SECRET) == ["arc_facts", "arc_messages", "arc_segments", "arc_views"]
    with worker(database, "late") as late:
        late.ask("acquire")
        change(sql_store)
        assert rows_with(database, SECRET) == []
        assert late.ask("commit", start=17, text=SECRET) is False
        sql_store.append(KEY, [counted(f"n{n}") for n in range(1, 33)])
        assert late.ask("commit", start=17, text=SECRET) is False
        late.ask("acquire")
        assert late.ask("commit", start=17) is True
    assert rows_with(database, SECRET) == []


def test_a_deleted_session_leaves_no_row(database: str, sql_store: SqlStore) -> None:
    """In no table of arc."""
    sql_store.append(KEY, [counted(f"m{n}") for n in range(1, 9)])
    epoch = sql_store.summaries.state(KEY, limit=0).epoch
    sql_store.summaries.commit(KEY, Commit(a_leaf(1, 4), (a_fact("f"),)), lease=None, epoch=epoch)
    assert len(rows_with(database, KEY.caller_id)) == 5
    sql_store.delete(KEY)
    assert rows_with(database, KEY.caller_id) == []
