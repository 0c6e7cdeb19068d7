"""From the tables without an index to those with one, and back."""

from sqlalchemy import inspect

from arc_common.protocols.search_index import Scope
from arc_common.stores.conversations import SqlStore
from arc_common.stores.migrate import current_revision
from arc_common.testing.search_index_search_contract import an_entry, matching
from tests.arc_common.stores.test_summaries_migration import KEY, migrate, old_database

SCOPE = Scope("caller")


def test_an_old_database_gets_an_index_and_gives_it_up(empty_database: str) -> None:
    """Its conversation stays through both; nothing of the index is left behind, and it can come again."""
    engine = old_database(empty_database)
    migrate(engine, "0002")
    before = sorted(inspect(engine).get_table_names())
    for _ in range(2):
        store = SqlStore(engine)
        store.index.put(SCOPE, "document", [an_entry("a", "word", vector=[1, 0], metadata={"n": 1})])
        assert matching(store.index, SCOPE, "word") == ["a"]
        assert len(store.tail(KEY)) == 4
        migrate(engine, "0002")
        assert sorted(inspect(engine).get_table_names()) == before
        assert current_revision(engine) == "0002"
    engine.dispose()
