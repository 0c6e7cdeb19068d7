"""The contract for long-term memories in memory, on SQLite files, SQLite in memory and PostgreSQL."""

from collections.abc import Callable, Iterator

import pytest

from arc_common.memory_stores import MemoryStore
from arc_common.stores import InMemoryStore
from arc_common.stores.sql import SqlStore
from arc_common.testing.memory_store_contract import MemoryStoreContract


@pytest.fixture(scope="module", params=["file", "memory", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    if request.param == "postgres":
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        url = make()
    elif request.param == "file":
        url = f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'arc.db'}"
    else:
        url = "sqlite://"
    store = SqlStore(url)
    yield store
    store.close()


class TestInMemoryMemories(MemoryStoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return InMemoryStore().memories


class TestSqlMemories(MemoryStoreContract):
    @pytest.fixture
    def store(self, shared: SqlStore) -> MemoryStore:
        return shared.memories
