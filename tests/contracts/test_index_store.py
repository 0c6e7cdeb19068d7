"""The index's contract on SQLite files, SQLite in memory and PostgreSQL."""

import pytest

from arc_common.protocols.search_index import IndexStore
from arc_common.stores.conversations import SqlStore
from arc_common.testing.search_index_contract import IndexStoreContract


class TestSqlIndexStore(IndexStoreContract):
    @pytest.fixture
    def store(self, shared: SqlStore) -> IndexStore:
        return shared.index
