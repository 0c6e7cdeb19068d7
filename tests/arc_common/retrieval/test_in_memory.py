"""The contract in memory, and what only memory does."""

import os

import pytest

from arc_common.filters import Condition
from arc_common.protocols.search_index import EntryKind, Scope
from arc_common.retrieval.in_memory import InMemoryIndexStore
from arc_common.testing.search_index_contract import IndexStoreContract
from arc_common.testing.search_index_search_contract import an_entry, matching


class TestInMemoryIndexStore(IndexStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryIndexStore:
        return InMemoryIndexStore()


DOCUMENT: tuple[Scope, EntryKind] = (Scope(), "document")


def test_what_is_kept_of_filters_and_orders_is_given_up_with_every_change() -> None:
    """Asked before and after each change, filters and pages show what is there."""
    store = InMemoryIndexStore()
    shown = [1, 2]

    def check() -> None:
        assert store.count(*DOCUMENT, filters=Condition("n", "gt", 0)) == len(shown)
        assert [entry.metadata["n"] for entry in store.scan(*DOCUMENT, limit=9)] == shown

    store.put(*DOCUMENT, [an_entry("b", metadata={"n": 1}), an_entry("d", metadata={"n": 2})])
    check()
    store.put(*DOCUMENT, [an_entry("c", metadata={"n": 3})])
    shown.insert(1, 3)
    check()
    store.put(*DOCUMENT, [an_entry("b", metadata={"n": 4})])
    shown[0] = 4
    check()
    store.remove(*DOCUMENT, ["c"])
    del shown[1]
    check()
    store.put(*DOCUMENT, [an_entry("a", metadata={"n": 5})])
    shown.insert(0, 5)
    check()


def test_filters_that_python_takes_for_equal_are_kept_apart() -> None:
    """`1 == True`, and their answers are remembered."""
    store = InMemoryIndexStore()
    store.put(*DOCUMENT, [an_entry("one", metadata={"v": 1}), an_entry("true", metadata={"v": True})])
    for value, expected in ((1, "one"), (True, "true"), (1.0, "one")):
        (found,) = store.scan(*DOCUMENT, filters=Condition("v", "eq", value), limit=9)
        assert found.id == expected
    store.put(*DOCUMENT, [an_entry(name, "x", metadata={"v": v}) for name, v in (("one", 1), ("true", True))])
    for value, expected in ((1, "one"), (True, "true")):
        assert store.lexical(*DOCUMENT, {"x": 1}, filters=Condition("v", "eq", value), limit=9).ids == (expected,)


def test_a_scope_without_entries_takes_no_room() -> None:
    """A caller may have a million users who came once."""
    store = InMemoryIndexStore()
    for n in range(100):
        scope = Scope("c", f"user{n}")
        store.put(scope, "memory", [an_entry("a", "word", vector=[1, 0])])
        store.lexical(Scope("c", f"other{n}"), "memory", {"word": 1}, limit=9)
        store.remove(scope, "memory", ["a"])
    assert store._shelves == {}


def test_rows_of_removed_entries_are_used_again() -> None:
    """What comes and goes for long holds no more than what is there at once."""
    store = InMemoryIndexStore()
    for n in range(300):
        store.put(*DOCUMENT, [an_entry(f"d{n}", f"word{n}", vector=[1, n])])
        if n >= 10:
            store.remove(*DOCUMENT, [f"d{n - 10}"])
    (shelf,) = store._shelves.values()
    assert len(shelf._ids) <= 11
    assert len(shelf._words._postings) == 10
    assert matching(store, *DOCUMENT[:1], "word299") == ["d299"]


def test_an_index_goes_on_in_a_forked_child() -> None:
    """Also when another thread of the parent held the lock at that moment."""
    store = InMemoryIndexStore()
    store.put(*DOCUMENT, [an_entry("a", "word")])
    with store._lock:
        child = os.fork()
        if not child:
            os._exit(0 if store.count(*DOCUMENT) == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
