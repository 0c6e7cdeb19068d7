"""The contract in memory, and what only memory does."""

import logging

import pytest

from arc_common.protocols import SessionKey
from arc_common.stores import InMemoryStore
from arc_common.testing.conversation_store_contract import ConversationStoreContract, counted


class TestInMemoryStore(ConversationStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryStore:
        return InMemoryStore()


def test_the_longest_unused_session_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """More sessions than allowed push out the one used longest ago, said once; listing uses none."""
    store = InMemoryStore(max_sessions=3)
    for name in "abc":
        store.append(SessionKey(name), [counted("m")])
    store.tail(SessionKey("a"))
    store.conversations("default")
    with caplog.at_level(logging.WARNING):
        store.append(SessionKey("d"), [counted("m")])
        store.append(SessionKey("e"), [counted("m")])
    assert [record.key.session_id for record in store.conversations("default").conversations] == ["e", "d", "a"]
    assert [record.getMessage() for record in caplog.records] == [
        "more than 3 sessions in memory: the longest unused leave from now on; a database URL keeps all of them"
    ]
