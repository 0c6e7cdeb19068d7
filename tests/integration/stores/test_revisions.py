"""Revisions of messages while others write: they undo the derived summaries and facts, and none is lost."""

import threading
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import psycopg
import pytest

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.protocols.summaries import Commit
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.summary_store_contract import a_fact, a_leaf, a_view
from tests.support import processes as workers
from tests.support.databases import new_database
from tests.support.processes import Helper
from tests.support.servers import PostgresServer

SHARED = SessionKey("shared")


def summarised(store: SqlStore) -> None:
    """Store messages m1 … m12 at positions 1 … 12, with two leaves, a block over them, and an adopted view."""
    store.append(SHARED, [counted(f"m{n}", str(n)) for n in range(1, 13)])
    for start in (1, 5):
        commit(store, a_leaf(start, start + 3), a_fact(f"f{start}", start, sources=(f"m{start}",)))
    commit(store, a_leaf(1, 8, level=1))
    assert store.summaries.adopt(SHARED, a_view(1, 8), epoch=store.summaries.state(SHARED, limit=0).epoch)


def commit(store: SqlStore, *what: object) -> None:
    segment, *facts = what
    epoch = store.summaries.state(SHARED, limit=0).epoch
    assert store.summaries.commit(SHARED, Commit(segment, tuple(facts)), lease=None, epoch=epoch)


def with_metadata(message: CountedMessage) -> CountedMessage:
    """Return the message with new metadata, which makes no revision."""
    return replace(message, message=replace(message.message, metadata={"note": "new"}))


def stretches(store: SqlStore) -> list[tuple[int, int, int, bool]]:
    """Return the current segments, with `True` for those that have text."""
    return [(one.level, one.start, one.end, bool(one.narrative)) for one in store.summaries.segments(SHARED)]


BESIDE = {
    "one with new metadata": [with_metadata(counted("m6", "6"))],
    "a known and a new one": [counted("m6", "6"), counted("new")],
    "one that is not summarised": [counted("m12", "other")],
    "another revision of it": [counted("m2", "once more")],
}


def test_only_what_was_made_from_the_revised_message_is_undone(sql_store: SqlStore) -> None:
    """Other summaries and facts stay, for any other messages in the append."""
    for (what, beside), cap in product(BESIDE.items(), (None, 20)):
        summarised(sql_store)
        sql_store.append(SHARED, [counted("m2", "other"), *beside], max_messages=cap)
        assert stretches(sql_store) == [(0, 1, 4, False), (0, 5, 8, True)], what
        assert [fact.id for fact in sql_store.summaries.facts(SHARED)] == ["f5"], what
        view = sql_store.summaries.state(SHARED, limit=0).view
        assert view is not None
        assert view.stale, what
        sql_store.delete(SHARED)


def test_a_block_without_its_leaves_is_undone_too(sql_store: SqlStore) -> None:
    """A worker may have stored a block although its leaves were refused."""
    sql_store.append(SHARED, [counted(f"m{n}", str(n)) for n in range(1, 9)])
    commit(sql_store, a_leaf(1, 8, level=1))
    sql_store.append(SHARED, [counted("m6", "other")])
    assert stretches(sql_store) == []


def test_many_messages_are_revised_at_once(sql_store: SqlStore) -> None:
    summarised(sql_store)
    given = [counted(f"m{n}", f"text {n}") for n in range(1, 13)]
    assert [one.revision for one in sql_store.append(SHARED, given)] == [2] * 12
    assert [one.message.text for one in sql_store.read(SHARED)] == [f"text {n}" for n in range(1, 13)]
    assert [(one[0], one[3]) for one in stretches(sql_store)] == [(0, False), (0, False)]
    assert sql_store.summaries.facts(SHARED, include_superseded=True) == []


def test_two_roles_under_one_id_are_refused(sql_store: SqlStore) -> None:
    """A question and an answer are no revisions of each other; nothing is written, so none is lost."""
    given = [counted("new"), counted("same", "question", role="user"), counted("same", "answer", role="assistant")]
    twice = [counted("same", "first", role="user"), counted("same", "then", role="user")]
    with pytest.raises(InvalidInputError, match=r"'same'.*user and assistant"):
        sql_store.append(SHARED, given)
    assert sql_store.get(SHARED) is None
    assert [one.message.text for one in sql_store.append(SHARED, twice)] == ["then", "then"]
    assert sql_store.append(SHARED, [counted("same", "by another", role="assistant")])[0].revision > 1


REVISED = """UPDATE arc_messages SET body = '{"content":"theirs"}', revision = 2 WHERE message_id = 'm2'"""
REMOVED = "DELETE FROM arc_messages WHERE message_id = 'm2'"
QUOTED = """INSERT INTO arc_facts
    SELECT conversation, branch, 12, 0, caller_id, 9, 12, 'f9', 'f9', 'f9', 0, NULL, folded_key, category, status,
        importance, '["m2"]', valid_from, made_by, body FROM arc_facts WHERE fact_id = 'f1'"""


@pytest.mark.parametrize(
    ("theirs", "revision", "facts"),
    [(REVISED, 3, ["f5"]), (REMOVED, 1, ["f5", "f1"]), (QUOTED, 2, ["f5"])],
    ids=["it was revised", "it was removed", "a fact was read from it"],
)
def test_a_change_between_preparation_and_lock_counts(
    postgres: PostgresServer, theirs: str, revision: int, facts: list[str]
) -> None:
    """If another writer changes the session after a revision is prepared, it is prepared again under the lock."""
    url = new_database(postgres)
    store = SqlStore(url)
    summarised(store)
    dsn = postgres.dsn(url.rpartition("/")[2])
    results: list[int] = []

    def revise() -> None:
        (stored,) = store.append(SHARED, [counted("m2", "mine")])
        results.append(stored.revision)

    with psycopg.connect(dsn) as other, psycopg.connect(dsn, autocommit=True) as admin:
        other.execute("UPDATE arc_conversations SET updated_at = updated_at + 1")
        writer = threading.Thread(target=revise)
        writer.start()
        deadline = time.monotonic() + 20
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while not admin.execute(waiting).fetchone():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        other.execute(theirs)
        other.commit()
        writer.join()
    assert results == [revision]
    assert [fact.id for fact in store.summaries.facts(SHARED)] == facts
    store.close()


@pytest.mark.parametrize("each", [25, pytest.param(400, marks=pytest.mark.torture)], ids=["short", "long"])
def test_processes_revise_the_same_messages_while_they_are_summarised(
    helper: Helper, database: str, tmp_path: Path, each: int
) -> None:
    """No revision is lost, the sums agree, and no summary is based on replaced text."""
    store = SqlStore(database)
    store.append(SHARED, [counted(f"m{n}", "first") for n in range(1, 9)])
    at = time.time() + 0.3
    pids = [
        helper.start(workers.summarise, tmp_path / f"s{n}.log", url=database, stop=str(tmp_path / "end"))
        for n in range(2)
    ]
    helper.run(
        workers.revise, tmp_path, [{"url": database, "name": f"w{n}", "count": each, "at": at} for n in range(4)]
    )
    (tmp_path / "end").touch()
    assert [helper.wait(pid) for pid in pids] == [0, 0]
    stored = store.read(SHARED)
    assert sum(one.revision - 1 for one in stored) == 4 * each
    record = store.get(SHARED)
    assert record is not None
    assert (record.message_count, record.total_tokens) == (8, sum(one.tokens for one in stored))
    texts = {one.seq: one.message.text for one in stored}
    for segment in store.summaries.segments(SHARED):
        if segment.narrative:
            assert segment.narrative == "|".join(texts[seq] for seq in range(segment.start, segment.end + 1))
    made = [int((tmp_path / f"s{n}.log").read_text()) for n in range(2)]
    assert sum(made) > 0
    store.close()
