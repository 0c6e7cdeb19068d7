"""What the index has of a session goes with the session, and nothing else does."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import EntryKind, IndexEntry, Scope
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from arc_common.testing.search_index_contract import an_entry

KEY = SessionKey("session", caller_id="caller", user_id="user")
OWN = Scope("caller", "user", "session")
SECRET = "S3CRET"

ENDS: list[Callable[[SqlStore], object]] = [
    lambda store: store.delete(KEY),
    lambda store: store.delete(KEY, keep_session=True),
]


def everywhere(store: SqlStore) -> list[tuple[Scope, EntryKind]]:
    """Scopes with an entry of the session's and others; the first two are the session's."""
    places: list[tuple[Scope, EntryKind]] = [
        (OWN, "message"), (OWN, "fact"), (Scope("caller", "user"), "memory"), (Scope("caller"), "document"),
        (Scope("caller", "user", "other"), "message"), (Scope("another", "user", "session"), "message"),
    ]  # fmt: skip
    for scope, kind in places:
        store.index.put(scope, kind, [an_entry("a", f"word {SECRET}", vector=[1, 0], metadata={"k": SECRET})])
    return places


@pytest.mark.parametrize("end", ENDS, ids=["delete", "clear"])
def test_a_session_takes_its_entries_along(sql_store: SqlStore, end: Callable[[SqlStore], object]) -> None:
    """Those of all kinds; its user's, its caller's and those of other sessions stay."""
    store = sql_store
    store.append(KEY, [counted("m1")])
    places = everywhere(store)
    end(store)
    assert [store.index.count(*place) for place in places] == [0, 0, 1, 1, 1, 1]
    assert store.index.embedding(OWN, "message") is None


@pytest.mark.parametrize("end", ENDS, ids=["delete", "clear"])
def test_nothing_is_left_in_the_tables(database: str, end: Callable[[SqlStore], object]) -> None:
    """Neither readable text nor a token nor a vector: not in any table of the index, FTS5's own ones included."""
    store = SqlStore(database)
    store.append(KEY, [counted("m1")])
    before = rows(database)
    entry = an_entry("a", f"word {SECRET}", vector=[1, 0], metadata={"k": SECRET}, source=SECRET)
    store.index.put(OWN, "message", [entry])
    assert any(SECRET in row for row in rows(database))
    end(store)
    assert not any(SECRET in row for row in rows(database))
    left = {row for row in rows(database) - before if row.startswith("arc_index") and "_words_" not in row}
    assert left == set()
    store.close()


def test_a_database_file_keeps_no_word_of_what_was_erased(tmp_path: Path) -> None:
    """Its bytes hold neither the text nor its words, although FTS5 keeps deleted rows until it merges."""
    path = tmp_path / "arc.db"
    store = SqlStore(f"sqlite:///{path}")
    store.append(KEY, [counted("m1")])
    store.index.put(OWN, "message", [IndexEntry("a", f"a {SECRET}", {SECRET.lower(): 1.0, "harmless": 1.0})])
    store.delete(KEY)
    with store.engine.connect() as connection:
        connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
    store.close()
    held = path.read_bytes().lower()
    assert SECRET.lower().encode() not in held
    assert b"harmless" not in held


def rows(url: str) -> set[str]:
    """All rows of all tables, as text."""
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = [name for name in inspect(engine).get_table_names() if name.startswith("arc_")]
        found = {f"{name}: {row!r}" for name in tables for row in connection.execute(text(f"SELECT * FROM {name}"))}
    engine.dispose()
    return found
