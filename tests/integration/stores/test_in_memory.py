"""Databases in memory: their limit of sessions, and their copies in forked children."""

import logging
import os
from datetime import UTC, datetime
from itertools import count as numbers
from pathlib import Path
from threading import Event, Thread

import pytest

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import SessionKey
from arc_common.protocols.records import IndexChange, RecordChange
from arc_common.protocols.search_index import Scope
from arc_common.protocols.summaries import Commit
from arc_common.stores import SqlIndexStore, SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.index_queries import count, lexical
from tests.contracts.records_contract import a_memory
from tests.contracts.search_index_contract import an_entry
from tests.contracts.summary_store_contract import a_fact, a_leaf

OLD = SessionKey("old", user_id="ann")


def test_the_session_written_longest_ago_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """A session that is written again stays; one warning is logged; other callers' sessions count, too."""
    seconds = numbers()
    store = SqlStore(max_sessions=3, clock=lambda: datetime.fromtimestamp(next(seconds), UTC))
    for name in "abc":
        store.append(SessionKey(name), [counted("m")])
    store.append(SessionKey("a"), [counted("n")])
    with caplog.at_level(logging.WARNING):
        store.append(SessionKey("d", caller_id="another"), [counted("m")])
        store.append(SessionKey("e"), [counted("m")])
    assert [record.key.session_id for record in store.page("default").conversations] == ["e", "a"]
    assert store.get(SessionKey("d", caller_id="another")) is not None
    (said,) = caplog.records
    assert said.getMessage().startswith("more than 3 sessions in memory: those written longest ago are deleted")


def test_everything_made_from_it_leaves_too() -> None:
    store = SqlStore(max_sessions=1)
    (message,) = store.append(OLD, [counted("m1")])
    epoch = store.summaries.state(OLD, limit=0).epoch
    leaf = a_leaf(message.seq, message.seq)
    assert store.summaries.commit(OLD, Commit(leaf, (a_fact("f1", leaf.start),)), lease=None, epoch=epoch)
    own, users = Scope("default", "ann", "old"), Scope("default", "ann")
    store.index.put(own, "message", [an_entry("e1", "word")])
    kept = a_memory("kept", sources=(("old", "m1"), ("new", "m1")))
    index = IndexChange((an_entry("gone", "word"), an_entry("kept", "word")))
    memories = RecordChange((a_memory("gone", sources=(("old", "m1"),)), kept))
    assert store.records.commit(users, memories, version=0, index=index)
    store.append(SessionKey("new", user_id="ann"), [counted("m1")])
    assert store.get(OLD) is None
    assert count(store.index, own, "message") == 0
    assert [memory.id for memory in store.records.find(users, limit=9)] == ["kept"]
    assert lexical(store.index, users, "memory", {"word": 1.0}, limit=9).ids == ("kept",)
    store.append(OLD, [counted("m1")])
    assert store.summaries.segments(OLD, part="all") == []
    assert store.summaries.facts(OLD) == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the test forks on purpose
def test_both_sides_of_a_fork_go_on() -> None:
    store, stop = SqlStore(), Event()
    store.append(OLD, [counted("m0")])
    place = Scope("default", "ann")

    def write() -> None:
        for number in numbers():
            if stop.is_set():
                return
            store.index.put(place, "document", [an_entry(f"e{number}", "word")])

    writer = Thread(target=write)
    writer.start()
    for number in range(1, 6):
        child = os.fork()
        if not child:
            store.append(OLD, [counted(f"child {number}")])
            whole = len(store.read(OLD)) == number + 1 and count(store.index, place, "document") >= 0
            os._exit(0 if whole else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.append(OLD, [counted(f"m{number}")])
    stop.set()
    writer.join()
    assert [stored.message.id for stored in store.read(OLD)] == [f"m{number}" for number in range(6)]


def test_an_index_without_a_conversation_store(tmp_path: Path) -> None:
    """Each index in memory is separate; closing one on a file closes the file, which can be opened again."""
    place = Scope("default", "ann")
    one, other = SqlIndexStore.open(), SqlIndexStore.open()
    one.put(place, "document", [an_entry("e1", "word")])
    assert (count(one, place, "document"), count(other, place, "document")) == (1, 0)
    on_file = SqlIndexStore.open(f"sqlite:///{tmp_path / 'index.db'}")
    on_file.put(place, "document", [an_entry("e1", "word")])
    on_file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["index.db"]
    again = SqlIndexStore.open(f"sqlite:///{tmp_path / 'index.db'}")
    assert count(again, place, "document") == 1
    again.close()


def test_a_cap_below_one_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="max_sessions"):
        SqlStore(max_sessions=0)
