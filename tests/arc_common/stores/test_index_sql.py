"""The index's contract on SQLite files, SQLite in memory and PostgreSQL."""

import pytest

from arc_common.indexing import IndexStore
from arc_common.stores.sql import SqlStore
from arc_common.testing.index_contract import IndexStoreContract


class TestSqlIndexStore(IndexStoreContract):
    @pytest.fixture
    def store(self, shared: SqlStore) -> IndexStore:
        return shared.index
