"""The contract for long-term memories on SQLite files, SQLite in memory and PostgreSQL."""

import pytest

from arc_common.protocols.memories import MemoryStore
from arc_common.stores.conversations import SqlStore
from arc_common.testing.memory_store_contract import MemoryStoreContract


class TestSqlMemories(MemoryStoreContract):
    @pytest.fixture
    def conversations(self, shared: SqlStore) -> SqlStore:
        return shared

    @pytest.fixture
    def store(self, shared: SqlStore) -> MemoryStore:
        return shared.memories
