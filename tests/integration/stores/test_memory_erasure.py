"""Nothing stays of memories that are erased."""

from arc_common.protocols import SessionKey
from arc_common.protocols.memories import MemoryChange
from arc_common.protocols.search_index import Scope
from arc_common.stores.conversations import SqlStore
from arc_common.testing.memory_store_contract import a_memory
from tests.integration.stores.test_erasure import rows

SCOPE = Scope("caller", "user")
SECRET = "S3CRET"


def test_nothing_is_left_in_the_tables(database: str) -> None:
    """Neither rows nor names, whether a scope is erased or the session that all of it rests on is forgotten."""
    store = SqlStore(database)
    key = SessionKey(SECRET, "caller", SECRET)
    store.memories.find(SCOPE)
    before = rows(database)
    for forget in (lambda: store.memories.erase(Scope("caller", SECRET)), lambda: store.memories.forget(key)):
        for scope in (Scope("caller", SECRET), Scope("caller", SECRET, SECRET)):
            memory = a_memory("a", SECRET, sources=((SECRET, SECRET),), metadata={SECRET: SECRET})
            assert store.memories.commit(scope, MemoryChange((memory,)), version=0)
        forget()
        assert {row for row in rows(database) - before if row.startswith(("arc_scopes", "arc_record"))} == set()
    store.close()
