"""Every store contract on SQLite in memory and files, PostgreSQL 18 and 16, partitions, PgBouncer and Redis.

The old version, the partitions and the pooler differ from `postgres` in dialect, tables and connections: one backend
has all three, and only the long form runs each alone. The long form also adds encrypted PostgreSQL, whose short form is
in `test_encryption.py`.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from cryptography.fernet import Fernet

from arc_common.protocols import ConversationStore
from arc_common.protocols.records import Records
from arc_common.protocols.search_index import IndexStore
from arc_common.settings import RedisSettings, StorageSettings
from arc_common.stores.conversations import SqlStore
from arc_common.stores.redis_cache import CachedStore
from arc_common.testing.conversation_store_contract import ConversationStoreContract
from tests.contracts.records_contract import RecordsContract
from tests.contracts.search_index_contract import IndexStoreContract
from tests.contracts.summary_store_contract import Clock, SummaryStoreContract
from tests.support.databases import new_database, partitioned_database
from tests.support.redis_servers import RedisServer
from tests.support.servers import PostgresServer, bouncer, bouncer_program


@pytest.fixture(scope="module")
def shared_clock() -> Clock:
    return Clock()


BACKENDS = [
    "memory",
    "file",
    "encrypted_file",
    "postgres",
    "pooled_partitions_of_postgres_16",
    "cached_postgres",
    pytest.param("postgres_16", marks=pytest.mark.torture),
    pytest.param("partitioned", marks=pytest.mark.torture),
    pytest.param("pooled_postgres", marks=pytest.mark.torture),
    pytest.param("encrypted_postgres", marks=pytest.mark.torture),
]
UNCACHED = [one for one in BACKENDS if one != "cached_postgres"]
"""The backends of what Redis does not cache: that would run the same code as `postgres` does."""


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pooled_partitions_of_postgres_16(postgres_16: PostgresServer) -> Iterator[str]:
    """Yield a partitioned database, through PgBouncer if it is installed; `transaction_pooling` is set either way."""
    url = partitioned_database(postgres_16)
    if bouncer_program() is None:
        yield url
        return
    with bouncer(postgres_16) as pooler:
        yield pooler.url(url.rpartition("/")[2])


@pytest.fixture(scope="module")
def url(backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if backend == "memory":
        return "sqlite://"
    if backend in ("file", "encrypted_file"):
        return f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'arc.db'}"
    if backend == "partitioned":
        return partitioned_database(request.getfixturevalue("postgres"))
    if backend == "pooled_partitions_of_postgres_16":
        return str(request.getfixturevalue(backend))
    if backend == "encrypted_postgres":
        return new_database(request.getfixturevalue("postgres"), tables=False)
    server: PostgresServer = request.getfixturevalue(backend.removeprefix("cached_"))
    if backend != "pooled_postgres":
        return new_database(server)
    return server.url(new_database(request.getfixturevalue("postgres")).rpartition("/")[2])


@pytest.fixture(scope="module")
def settings(backend: str) -> StorageSettings:
    return StorageSettings(transaction_pooling=backend.startswith("pooled"))


@pytest.fixture(scope="module")
def opened(
    backend: str, url: str, settings: StorageSettings, request: pytest.FixtureRequest
) -> Callable[..., SqlStore]:
    if backend != "cached_postgres":
        cipher = Fernet(Fernet.generate_key()) if backend.startswith("encrypted") else None
        return partial(SqlStore, url, settings=settings, cipher=cipher)
    server: RedisServer = request.getfixturevalue("redis")
    return partial(CachedStore, url, settings=settings, redis=RedisSettings(url=server.url))


@pytest.fixture(scope="module")
def shared(opened: Callable[..., SqlStore]) -> Iterator[SqlStore]:
    store = opened()
    yield store
    store.close()


@pytest.fixture(scope="module")
def shared_by_clock(opened: Callable[..., SqlStore], shared_clock: Clock) -> Iterator[SqlStore]:
    store = opened(clock=shared_clock)
    yield store
    store.close()


class TestConversations(ConversationStoreContract):
    @pytest.fixture
    def store(self, shared: SqlStore) -> ConversationStore:
        return shared


@pytest.mark.parametrize("backend", UNCACHED, indirect=True, scope="module")
class TestMemories(RecordsContract):
    @pytest.fixture
    def conversations(self, shared: SqlStore) -> SqlStore:
        return shared

    @pytest.fixture
    def store(self, shared: SqlStore) -> Records:
        return shared.records


@pytest.mark.parametrize("backend", UNCACHED, indirect=True, scope="module")
class TestSearchIndex(IndexStoreContract):
    @pytest.fixture
    def compares_texts(self, backend: str) -> bool:
        return not backend.startswith("encrypted")

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
