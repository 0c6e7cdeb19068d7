"""The contract on SQLite files, SQLite in memory and PostgreSQL."""

import pytest

from arc_common.protocols import ConversationStore
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import ConversationStoreContract


class TestSqlStore(ConversationStoreContract):
    @pytest.fixture
    def store(self, shared: SqlStore) -> ConversationStore:
        return shared
