"""The contract in memory, and what only memory does."""

import pytest

from arc_common.retrieval.in_memory import InMemoryIndexStore
from arc_common.testing.index_contract import IndexStoreContract


class TestInMemoryIndexStore(IndexStoreContract):
    @pytest.fixture
    def store(self) -> InMemoryIndexStore:
        return InMemoryIndexStore()
