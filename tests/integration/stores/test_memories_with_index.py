"""A memory and its entry in the index are stored in one transaction, where both are in one database."""

from collections.abc import Iterator

import pytest

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import SessionKey
from arc_common.protocols.memories import IndexChange, MemoryChange
from arc_common.protocols.search_index import Scope
from arc_common.stores.conversations import SqlStore
from arc_common.testing.memory_store_contract import a_memory
from arc_common.testing.search_index_contract import an_entry

SCOPE = Scope("caller", "user")


@pytest.fixture
def store(database: str) -> Iterator[SqlStore]:
    """On each database, with one memory that is found by its word and has a vector."""
    store = SqlStore(database)
    index = IndexChange((an_entry("old", "word", vector=[1, 0]),))
    assert store.memories.commit(SCOPE, MemoryChange((a_memory("old"),)), version=0, index=index)
    yield store
    store.close()


def held(store: SqlStore) -> tuple[list[str], list[str]]:
    """The memories that there are, and those that are found."""
    known = store.memories.changes(SCOPE)
    found = store.index.lexical(SCOPE, "memory", {"word": 1.0}, limit=9)
    return sorted(outline.id for outline in known.outlines), sorted(found.ids)


def test_both_change_at_once(store: SqlStore) -> None:
    """What comes is found, and what goes is not."""
    version = store.memories.changes(SCOPE).version
    change = MemoryChange((a_memory("new"),), ("old",))
    index = IndexChange((an_entry("new", "word"),), ("old", "never there"))
    assert store.memories.commit(SCOPE, change, version=version, index=index)
    assert held(store) == (["new"], ["new"])
    assert store.index.count(SCOPE, "memory") == 1


def test_another_was_first(store: SqlStore) -> None:
    """Then neither is changed."""
    stale = store.memories.changes(SCOPE).version + 1
    index = IndexChange((an_entry("new", "word"),), ("old",))
    assert store.memories.commit(SCOPE, MemoryChange((a_memory("new"),)), version=stale, index=index) is None
    assert held(store) == (["old"], ["old"])


def test_what_the_index_refuses_is_no_memory(store: SqlStore) -> None:
    """Both or neither."""
    version = store.memories.changes(SCOPE).version
    index = IndexChange((an_entry("new", "word", vector=[1, 0, 0]),))
    with pytest.raises(InvalidInputError):
        store.memories.commit(SCOPE, MemoryChange((a_memory("new"),)), version=version, index=index)
    assert held(store) == (["old"], ["old"])
    assert store.memories.changes(SCOPE).version == version


def test_what_is_forgotten_is_found_no_more(store: SqlStore) -> None:
    """Its entry goes with the memory, and no other's."""
    version = store.memories.changes(SCOPE).version
    said = MemoryChange((a_memory("said", sources=(("s", "m"),)), a_memory("more", sources=(("s", "n"),))))
    index = IndexChange((an_entry("said", "word"), an_entry("more", "word", vector=[0, 1])))
    assert store.memories.commit(SCOPE, said, version=version, index=index)
    store.memories.forget(SessionKey("s", "caller", "user"), ["m"])
    assert held(store) == (["more", "old"], ["more", "old"])
    store.memories.forget(SessionKey("s", "caller", "user"))
    assert held(store) == (["old"], ["old"])
    assert list(store.index.vectors(SCOPE, "memory", ["old", "more", "said"])) == ["old"]
