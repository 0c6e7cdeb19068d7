"""A database in memory holds so many sessions; those written longest ago leave with all that was made from them."""

import logging
from datetime import UTC, datetime
from itertools import count

import pytest

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import SessionKey
from arc_common.protocols.memories import IndexChange, MemoryChange
from arc_common.protocols.search_index import Scope
from arc_common.protocols.summaries import Commit
from arc_common.stores import SqlStore
from arc_common.testing.conversation_store_contract import counted
from arc_common.testing.memory_store_contract import a_memory
from arc_common.testing.search_index_search_contract import an_entry
from arc_common.testing.summary_store_contract import a_fact, a_leaf

OLD = SessionKey("old", user_id="ann")


def test_the_session_written_longest_ago_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """One that was written again stays; the log says so once; another caller's counts like any."""
    seconds = count()
    store = SqlStore(max_sessions=3, clock=lambda: datetime.fromtimestamp(next(seconds), UTC))
    for name in "abc":
        store.append(SessionKey(name), [counted("m")])
    store.append(SessionKey("a"), [counted("n")])
    with caplog.at_level(logging.WARNING):
        store.append(SessionKey("d", caller_id="another"), [counted("m")])
        store.append(SessionKey("e"), [counted("m")])
    assert [record.key.session_id for record in store.conversations("default").conversations] == ["e", "a"]
    assert store.conversation(SessionKey("d", caller_id="another")) is not None
    (said,) = caplog.records
    assert said.getMessage().startswith("more than 3 sessions in memory: those written longest ago are deleted")


def test_everything_made_from_it_leaves_too() -> None:
    """Summaries, facts, its entries in the index, and memories that rest on it alone; other memories stay."""
    store = SqlStore(max_sessions=1)
    (message,) = store.append(OLD, [counted("m1")])
    epoch = store.summaries.state(OLD, limit=0).epoch
    leaf = a_leaf(message.seq, message.seq)
    assert store.summaries.commit(OLD, Commit(leaf, (a_fact("f1", leaf.start),)), lease=None, epoch=epoch)
    own, users = Scope("default", "ann", "old"), Scope("default", "ann")
    store.index.put(own, "message", [an_entry("e1", "word")])
    kept = a_memory("kept", sources=(("old", "m1"), ("new", "m1")))
    index = IndexChange((an_entry("gone", "word"), an_entry("kept", "word")))
    memories = MemoryChange((a_memory("gone", sources=(("old", "m1"),)), kept))
    assert store.memories.commit(users, memories, version=0, index=index)
    store.append(SessionKey("new", user_id="ann"), [counted("m1")])
    assert store.conversation(OLD) is None
    assert store.index.count(own, "message") == 0
    assert [memory.id for memory in store.memories.newest(users, limit=9)] == ["kept"]
    assert store.index.lexical(users, "memory", {"word": 1.0}, limit=9).ids == ("kept",)
    store.append(OLD, [counted("m1")])
    assert store.summaries.segments(OLD) == []
    assert store.summaries.facts(OLD) == []


def test_a_cap_below_one_is_refused() -> None:
    """By name."""
    with pytest.raises(InvalidInputError, match="max_sessions"):
        SqlStore(max_sessions=0)
