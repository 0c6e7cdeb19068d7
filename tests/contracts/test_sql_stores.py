"""Every store contract on SQLite files and PostgreSQL; on SQLite in memory in the long form only.

The random operations in `tests/properties` show that a store in memory answers as the others do.
"""

from collections.abc import Callable, Iterator

import pytest

from arc_common.protocols import ConversationStore
from arc_common.protocols.records import Records
from arc_common.protocols.search_index import IndexStore
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import ConversationStoreContract
from arc_common.testing.records_contract import RecordsContract
from arc_common.testing.search_index_contract import IndexStoreContract
from arc_common.testing.summary_store_contract import Clock, SummaryStoreContract


@pytest.fixture(scope="module")
def shared_clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module", params=["file", "postgres", pytest.param("memory", marks=pytest.mark.torture)])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "postgres":
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        return make()
    return "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'arc.db'}"


@pytest.fixture(scope="module")
def shared(url: str) -> Iterator[SqlStore]:
    store = SqlStore(url)
    yield store
    store.close()


@pytest.fixture(scope="module")
def shared_by_clock(url: str, shared_clock: Clock) -> Iterator[SqlStore]:
    store = SqlStore(url, clock=shared_clock)
    yield store
    store.close()


class TestConversations(ConversationStoreContract):
    @pytest.fixture
    def store(self, shared: SqlStore) -> ConversationStore:
        return shared


class TestMemories(RecordsContract):
    @pytest.fixture
    def conversations(self, shared: SqlStore) -> SqlStore:
        return shared

    @pytest.fixture
    def store(self, shared: SqlStore) -> Records:
        return shared.records


class TestSearchIndex(IndexStoreContract):
    @pytest.fixture
    def store(self, shared: SqlStore) -> IndexStore:
        return shared.index


class TestSummaries(SummaryStoreContract):
    @pytest.fixture
    def clock(self, shared_clock: Clock) -> Clock:
        return shared_clock

    @pytest.fixture
    def store(self, shared_by_clock: SqlStore) -> SqlStore:
        return shared_by_clock
