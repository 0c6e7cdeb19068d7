"""From the tables without memories to those with them, and back; and that nothing stays of what is erased."""

from sqlalchemy import inspect

from arc_common.protocols import SessionKey
from arc_common.protocols.memories import MemoryChange
from arc_common.protocols.search_index import Scope
from arc_common.stores.conversations import SqlStore
from arc_common.stores.migrate import current_revision
from arc_common.testing.memory_store_contract import a_memory
from tests.arc_common.stores.test_index_sessions import rows
from tests.arc_common.stores.test_summaries_migration import KEY, migrate, old_database

SCOPE = Scope("caller", "user")
SECRET = "S3CRET"


def test_an_old_database_gets_memories_and_gives_them_up(empty_database: str) -> None:
    """Its conversation stays through both; nothing of the memories is left behind, and they can come again."""
    engine = old_database(empty_database)
    migrate(engine, "0003")
    before = sorted(inspect(engine).get_table_names())
    for _ in range(2):
        store = SqlStore(engine)
        assert store.memories.commit(SCOPE, MemoryChange((a_memory("a", sources=(("s", "m"),)),)), version=0)
        assert store.memories.count(SCOPE) == 1
        assert len(store.tail(KEY)) == 4
        migrate(engine, "0003")
        assert sorted(inspect(engine).get_table_names()) == before
        assert current_revision(engine) == "0003"
    engine.dispose()


def test_nothing_is_left_in_the_tables(database: str) -> None:
    """Neither rows nor names, whether a scope is erased or the session that all of it rests on is forgotten."""
    store = SqlStore(database)
    key = SessionKey(SECRET, "caller", SECRET)
    store.memories.count(SCOPE)
    before = rows(database)
    for forget in (lambda: store.memories.erase(Scope("caller", SECRET)), lambda: store.memories.forget_session(key)):
        for scope in (Scope("caller", SECRET), Scope("caller", SECRET, SECRET)):
            memory = a_memory("a", SECRET, sources=((SECRET, SECRET),), metadata={SECRET: SECRET})
            assert store.memories.commit(scope, MemoryChange((memory,)), version=0)
        forget()
        assert {row for row in rows(database) - before if "arc_memor" in row} == set()
    store.close()


def test_what_was_said_before_an_upgrade_counts_as_read(empty_database: str) -> None:
    """What is said after it does not."""
    engine = old_database(empty_database)
    migrate(engine, "0004")
    store = SqlStore(engine)
    end = store.tail(KEY)[-1].seq
    assert store.memories.read_to(KEY) == end
    assert store.memories.unread(Scope(KEY.caller_id)) == []
    engine.dispose()
