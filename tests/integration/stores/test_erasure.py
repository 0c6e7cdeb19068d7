"""Deleted data leaves nothing behind in any table, and other data stays."""

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from time import sleep
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, inspect, text

from arc_common import ArcSettings, ContextEngine, Message, Session
from arc_common.exceptions import InvalidInputError, NotFoundError, ReviewConflictError
from arc_common.protocols import SessionKey
from arc_common.protocols.records import IndexChange, RecordChange
from arc_common.protocols.search_index import EntryKind, IndexEntry, Scope
from arc_common.protocols.summaries import Commit
from arc_common.stores.conversations import SqlStore
from arc_common.testing.conversation_store_contract import counted
from tests.contracts.index_queries import count, embedding, lexical, vectors_of
from tests.contracts.records_contract import a_memory
from tests.contracts.search_index_contract import an_entry
from tests.contracts.summary_store_contract import a_fact, a_leaf, a_view
from tests.support.databases import new_database
from tests.support.servers import PostgresServer

KEY = SessionKey("session", caller_id="caller", user_id="user")
OWN, USERS = Scope("caller", "user", "session"), Scope("caller", "user")
SECRET = "S3CRET"


def rows(url: str) -> set[str]:
    """Return all rows of all tables as text that begins with the table's name."""
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = [name for name in inspect(engine).get_table_names() if name.startswith("arc_")]
        assert {"arc_views", "arc_messages", "arc_segments", "arc_facts"} <= set(tables)
        found = {f"{name}: {row!r}" for name in tables for row in connection.execute(text(f"SELECT * FROM {name}"))}
    engine.dispose()
    return found


def tables_with(url: str, wanted: str) -> list[str]:
    return sorted({row.partition(":")[0] for row in rows(url) if wanted in row})


# Sessions


REMOVALS: dict[str, Callable[[SqlStore], object]] = {
    "delete": lambda store: store.delete(KEY),
    "clear": lambda store: store.delete(KEY, keep_session=True),
    "edit": lambda store: store.append(KEY, [counted("m2", "harmless")]),
    "remove": lambda store: store.remove(KEY, ["m2"]),
}


@pytest.mark.parametrize("removal", REMOVALS)
def test_nothing_of_a_removed_message_is_left_or_comes_back(database: str, sql_store: SqlStore, removal: str) -> None:
    """A secret disappears from its message, leaf, blocks, facts and view, and a late lease can't bring it back."""
    summaries = sql_store.summaries
    sql_store.append(KEY, [counted(f"m{n}", SECRET if n == 2 else "hello") for n in range(1, 33)])
    epoch = summaries.state(KEY, limit=0).epoch
    secret: dict[str, Any] = {"value": SECRET, "key": SECRET, "sources": ("m2",)}
    for start in (1, 5, 9, 13):
        fact = a_fact(f"f{start}", start, **(secret if start in (1, 9) else {}))
        leaf = a_leaf(start, start + 3, narrative=SECRET if start in (1, 9) else "hello")
        assert summaries.commit(KEY, Commit(leaf, (fact,)), lease=None, epoch=epoch)
    for level in (1, 2, 3):
        assert summaries.commit(KEY, Commit(a_leaf(1, 16, level=level, narrative=SECRET)), lease=None, epoch=epoch)
    view = a_view(1, 16, narrative=SECRET, facts=(SECRET,), instructions=(SECRET,))
    assert summaries.adopt(KEY, view, epoch=epoch)
    assert tables_with(database, SECRET) == ["arc_facts", "arc_messages", "arc_segments", "arc_views"]
    late = SqlStore(database)
    lease = late.summaries.claim(KEY, owner="late", seconds=60)
    assert lease is not None
    REMOVALS[removal](sql_store)
    assert tables_with(database, SECRET) == []
    leaf = Commit(a_leaf(17, 20, narrative=SECRET))
    assert not late.summaries.commit(KEY, leaf, lease=lease, epoch=lease.epoch)
    sql_store.append(KEY, [counted(f"n{n}") for n in range(1, 33)])
    assert not late.summaries.commit(KEY, leaf, lease=lease, epoch=lease.epoch)
    assert tables_with(database, SECRET) == []
    late.close()


def test_a_deleted_session_leaves_no_row(database: str, sql_store: SqlStore) -> None:
    key = SessionKey("session", caller_id="somebody", user_id="user")
    sql_store.append(key, [counted(f"m{n}") for n in range(1, 9)])
    epoch = sql_store.summaries.state(key, limit=0).epoch
    sql_store.summaries.commit(key, Commit(a_leaf(1, 4), (a_fact("f"),)), lease=None, epoch=epoch)
    assert len(tables_with(database, "somebody")) == 5
    sql_store.delete(key)
    assert tables_with(database, "somebody") == []


# The search index


def test_a_session_takes_its_own_index_entries_along(sql_store: SqlStore) -> None:
    places: list[tuple[Scope, EntryKind]] = [
        (OWN, "message"), (OWN, "fact"), (USERS, "memory"), (Scope("caller"), "document"),
        (Scope("caller", "user", "other"), "message"), (Scope("another", "user", "session"), "message"),
    ]  # fmt: skip
    for removal in ("delete", "clear"):
        sql_store.append(KEY, [counted("m1")])
        for scope, kind in places:
            sql_store.index.put(scope, kind, [an_entry("a", f"word {SECRET}", vector=[1, 0], metadata={"k": SECRET})])
        REMOVALS[removal](sql_store)
        assert [count(sql_store.index, *place) for place in places] == [0, 0, 1, 1, 1, 1]
        assert embedding(sql_store.index, OWN, "message") is None


def test_nothing_of_the_index_is_left_in_the_tables(database: str, sql_store: SqlStore) -> None:
    """No text, token or vector stays in any table, including FTS5's own."""
    for removal in ("delete", "clear"):
        sql_store.append(KEY, [counted("m1")])
        before = rows(database)
        entry = an_entry("a", f"word {SECRET}", vector=[1, 0], metadata={"k": SECRET}, source=SECRET)
        sql_store.index.put(OWN, "message", [entry])
        assert any(SECRET in row for row in rows(database))
        REMOVALS[removal](sql_store)
        assert not any(SECRET in row for row in rows(database))
        left = {row for row in rows(database) - before if row.startswith("arc_index") and "_words_" not in row}
        assert left == set()


def test_a_database_file_keeps_no_word_of_what_was_erased(tmp_path: Path) -> None:
    """The file contains neither the text nor its words, although FTS5 keeps deleted rows until it merges."""
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


# Memories


def test_nothing_of_erased_memories_is_left_in_the_tables(database: str, sql_store: SqlStore) -> None:
    """No row or name is left after a scope is erased or its session is forgotten."""
    key = SessionKey(SECRET, "caller", SECRET)
    sql_store.records.find(USERS)
    before = rows(database)
    erase: list[Callable[[], object]] = [
        lambda: sql_store.records.erase(Scope("caller", SECRET)),
        lambda: sql_store.records.forget(key),
    ]
    for forget in erase:
        for scope in (Scope("caller", SECRET), Scope("caller", SECRET, SECRET)):
            memory = a_memory("a", SECRET, sources=((SECRET, SECRET),), metadata={SECRET: SECRET})
            assert sql_store.records.commit(scope, RecordChange((memory,)), version=0)
        forget()
        assert {row for row in rows(database) - before if row.startswith(("arc_scopes", "arc_record"))} == set()


@pytest.fixture
def store(sql_store: SqlStore) -> SqlStore:
    """Store one memory that its word finds and that has a vector."""
    index = IndexChange((an_entry("old", "word", vector=[1, 0]),))
    assert sql_store.records.commit(USERS, RecordChange((a_memory("old"),)), version=0, index=index)
    return sql_store


def held(store: SqlStore) -> tuple[list[str], list[str]]:
    """Return the ids of the stored memories and of the found ones."""
    known = store.records.changes(USERS)
    found = lexical(store.index, USERS, "memory", {"word": 1.0}, limit=9)
    return sorted(memory.id for memory in known.memories), sorted(found.ids)


def test_memories_and_their_index_entries_change_at_once(store: SqlStore) -> None:
    version = store.records.changes(USERS).version
    change = RecordChange((a_memory("new"),), ("old",))
    index = IndexChange((an_entry("new", "word"),), ("old", "never there"))
    assert store.records.commit(USERS, change, version=version, index=index)
    assert held(store) == (["new"], ["new"])
    assert count(store.index, USERS, "memory") == 1


def test_a_refused_change_leaves_memories_and_index_alone(store: SqlStore) -> None:
    """Neither changes if another writer was first or the index rejects an entry."""
    version = store.records.changes(USERS).version
    index = IndexChange((an_entry("new", "word"),), ("old",))
    assert store.records.commit(USERS, RecordChange((a_memory("new"),)), version=version + 1, index=index) is None
    index = IndexChange((an_entry("new", "word", vector=[1, 0, 0]),))
    with pytest.raises(InvalidInputError):
        store.records.commit(USERS, RecordChange((a_memory("new"),)), version=version, index=index)
    assert held(store) == (["old"], ["old"])
    assert store.records.changes(USERS).version == version


def test_what_is_forgotten_is_found_no_more(store: SqlStore) -> None:
    version = store.records.changes(USERS).version
    said = RecordChange((a_memory("said", sources=(("s", "m"),)), a_memory("more", sources=(("s", "n"),))))
    index = IndexChange((an_entry("said", "word"), an_entry("more", "word", vector=[0, 1])))
    assert store.records.commit(USERS, said, version=version, index=index)
    store.records.forget(SessionKey("s", "caller", "user"), ["m"])
    assert held(store) == (["more", "old"], ["more", "old"])
    store.records.forget(SessionKey("s", "caller", "user"))
    assert held(store) == (["old"], ["old"])
    assert list(vectors_of(store.index, USERS, "memory", ["old", "more", "said"])) == ["old"]


LETTERS = str.maketrans("0123456789", "bcdfghjklm")
"""Secrets are of letters, so that the analyser keeps them whole."""
RACING: dict[str, Any] = {
    "summary": {"trigger_message_count": 6, "recent_message_count": 2},
    "rag": {"ingestion": {"enabled": True, "require_review": True, "min_query_chars": 1, "min_response_chars": 1}},
}


def test_an_answer_approved_during_a_deletion_leaves_no_document(postgres: PostgresServer) -> None:
    """The deletion waits for the approval, and removes the document that it has made."""
    url = new_database(postgres)
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    engine = ContextEngine.open(url, settings=ArcSettings.model_validate(RACING))
    session = engine.session("session", user_id="user")
    session.append(Message("user", "Where is it?"))
    engine.documents.add(["Another document."])
    for run in ("first", "second"):
        engine.ingestion.capture("Where is it?", SECRET, run_id=run, session_id="session", user_id="user")
    first, second = engine.ingestion.candidates().candidates
    engine.ingestion.approve(first.id, reviewer="bob")
    with (
        ThreadPoolExecutor(2) as threads,
        psycopg.connect(postgres.dsn(url.rpartition("/")[2])) as other,
        psycopg.connect(postgres.dsn(url.rpartition("/")[2]), autocommit=True) as onlooker,
    ):
        other.execute("SELECT 1 FROM arc_index_scopes WHERE kind = 'document' FOR UPDATE")
        ends = []
        for place, act in enumerate((partial(engine.ingestion.approve, second.id, reviewer="bob"), session.delete), 1):
            ends.append(threads.submit(act))
            while onlooker.execute(waits).fetchone() != (place,):
                sleep(0.01)
        other.rollback()
        for end in ends:
            end.result(30)
    assert tables_with(url, SECRET) == []
    engine.close()


def test_an_answer_captured_during_a_deletion_keeps_its_scope(postgres: PostgresServer) -> None:
    """The deletion of its user's other answers, which takes away the scope of all of them, waits for it."""
    url = new_database(postgres)
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    engine = ContextEngine.open(url, settings=ArcSettings.model_validate(RACING))
    capture = partial(engine.ingestion.capture, "Where is it?", "In Porto.", session_id="session", user_id="user")
    capture(run_id="first")
    dsn = postgres.dsn(url.rpartition("/")[2])
    with (
        ThreadPoolExecutor(2) as threads,
        psycopg.connect(dsn) as other,
        psycopg.connect(dsn, autocommit=True) as deleting,
        psycopg.connect(dsn, autocommit=True) as onlooker,
    ):
        other.execute("LOCK TABLE arc_records IN SHARE MODE")
        second = threads.submit(capture, run_id="second")
        while onlooker.execute(waits).fetchone() != (1,):
            sleep(0.01)
        deleted = threads.submit(deleting.execute, "DELETE FROM arc_scopes WHERE kind = 'candidate'")
        while not deleted.done() and onlooker.execute(waits).fetchone() != (2,):
            sleep(0.01)
        other.rollback()
        assert second.result(30) is not None
        deleted.result(30)
    engine.close()


DELETIONS = [pytest.param(6, id="short"), pytest.param(300, id="long", marks=pytest.mark.torture)]


@pytest.mark.parametrize("deletions", DELETIONS)
def test_nothing_deleted_is_left_whatever_ran_meanwhile(database: str, tmp_path: Path, deletions: int) -> None:
    """Threads of two engines write, read, review and archive a session at random while it is deleted time and again.

    What was stored when a deletion began is in no table and no archive afterwards, nor is anything made from it: a
    message, a pin, an artifact, an answer under review. No call fails for another reason than the deletion.
    """
    settings = ArcSettings.model_validate(RACING | {"archive": {"url": (tmp_path / "archive").as_uri()}})
    engines = [ContextEngine.open(database, settings=settings) for _ in range(2)]
    numbers, stored, deleted = iter(range(10**6)), list[str](), set[str]()
    ended = Event()

    def secret(store: Callable[[Session, str], object]) -> Callable[[Session], None]:
        def act(session: Session) -> None:
            word = f"zq{next(numbers):06}".translate(LETTERS)
            store(session, word)
            stored.append(word)

        return act

    def newest(act: Callable[[Session, str], object]) -> Callable[[Session], None]:
        def on_newest(session: Session) -> None:
            if there := session.messages(limit=1):
                act(session, there[0].id or "")

        return on_newest

    def review(_: Session) -> None:
        for candidate in engines[0].ingestion.candidates(limit=1).candidates:
            engines[0].ingestion.approve(candidate.id, reviewer="bob")

    actions: list[Callable[[Session], object]] = [
        secret(lambda session, word: session.append(Message("user", f"My sister lives in {word}."))),
        secret(lambda session, word: session.save_turn(f"I moved to {word}.", "I see.")),
        secret(lambda session, word: session.append(Message("user", f"Never {word}, please.", id="edited"))),
        secret(lambda session, word: session.pin(f"Never {word}.")),
        secret(lambda session, word: session.add_artifact(f"It is in {word}.", source="search")),
        secret(
            lambda _, word: engines[0].ingestion.capture(
                "Where is it?", f"It is in {word}.", run_id=word, session_id="session", user_id="user"
            )
        ),
        newest(lambda session, name: session.fork(at=name)),
        newest(lambda session, name: session.pin(name)),
        newest(lambda session, name: session.remove([name])),
        review,
        Session.summarize,
        Session.archive,
        lambda session: session.recall("Where does my sister live?"),
        lambda session: session.context("Where does my sister live?"),
    ]

    def act_at_random(chosen: Random) -> None:
        while not ended.is_set():
            with suppress(NotFoundError, InvalidInputError, ReviewConflictError):  # deleted, or decided, meanwhile
                chosen.choice(actions)(chosen.choice(engines).session("session", user_id="user"))

    def delete_at_random(chosen: Random) -> None:
        for _ in range(deletions):
            enough = len(stored) + chosen.randint(1, 9)
            while len(stored) < enough and not ended.wait(0.01):
                pass
            before, engine = stored[:], chosen.choice(engines)
            session = engine.session("session", user_id="user")
            erase = partial(engine.admin.erase, caller_id="default", user_id="user")
            chosen.choice([session.delete, session.clear, erase])()
            deleted.update(before)

    def until_one_ends(work: Callable[[Random], None], seed: int) -> None:
        try:
            work(Random(seed))
        finally:
            ended.set()

    with ThreadPoolExecutor(5) as threads:
        works = [act_at_random] * 4 + [delete_at_random]
        ends = [threads.submit(until_one_ends, work, seed) for seed, work in enumerate(works)]
        for end in ends:
            end.result()
    assert all(engine.flush(30) for engine in engines)
    archived = [gzip.decompress(path.read_bytes()).decode() for path in tmp_path.rglob("*.json.gz")]
    found = [row[:200] for row in [*rows(database), *archived] for word in deleted if word in row]
    for engine in engines:
        engine.close()
    assert not found
