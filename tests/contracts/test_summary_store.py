"""The contract for summaries on SQLite files, SQLite in memory and PostgreSQL."""

from collections.abc import Callable, Iterator

import pytest

from arc_common.stores.conversations import SqlStore
from arc_common.testing.summary_store_contract import Clock, SummaryStoreContract


@pytest.fixture(scope="module")
def shared_clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module", params=["file", "memory", "postgres"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_clock: Clock
) -> Iterator[SqlStore]:
    if request.param == "postgres":
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        url = make()
    elif request.param == "file":
        url = f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'arc.db'}"
    else:
        url = "sqlite://"
    store = SqlStore(url, clock=shared_clock)
    yield store
    store.close()


class TestSqlSummaries(SummaryStoreContract):
    @pytest.fixture
    def clock(self, shared_clock: Clock) -> Clock:
        return shared_clock

    @pytest.fixture
    def store(self, shared: SqlStore) -> SqlStore:
        return shared
