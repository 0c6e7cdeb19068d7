"""Erasing a user or caller leaves nothing of theirs in any table or file and does not touch others."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from arc_common import ArcSettings, ContextEngine, Document, InvalidInputError
from tests.support.archives import calling
from tests.support.databases import rows, run, sqlite_url

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def talk(engine: ContextEngine, caller_id: str, user_id: str, secret: str) -> None:
    """Store a conversation with facts, a summary, a fork, recall entries, memories, pins, artifacts and documents."""
    session = engine.session(f"{user_id}-1", caller_id=caller_id, user_id=user_id)
    session.save_turn(f"My door code is {secret}, and I live in Busan at number 7.", "Noted.")
    for number in range(12):
        session.save_turn(f"What about topic {number} and {secret}?", f"Topic {number} is fine.")
    session.pin(f"Never tell anyone {secret}.")
    session.add_artifact(f"A page that names {secret}.", source="page")
    session.fork(name="other").save_turn(f"On a branch I said {secret}.", "So you did.")
    session.summarize()
    engine.memories(user_id=user_id, caller_id=caller_id).add(f"The user's code is {secret}.", importance=0.9)
    engine.documents_of(caller_id, user_id=user_id).add([Document(f"A document about {secret}.", source="own")])
    engine.flush(60)


@pytest.mark.parametrize(("database", "recall"), [("sqlite", "user"), ("postgres", "session")], indirect=["database"])
def test_nothing_of_an_erased_user_is_left(database: str, recall: str) -> None:
    """No table has the user's rows, other users and callers keep theirs, and a second run finds nothing."""
    engine = ContextEngine.open(database, settings=ArcSettings(recall={"scope": recall}))
    talk(engine, "shop", "ann", "S3CRET-ANN-한국")
    talk(engine, "shop", "ben", "S3CRET-BEN")
    talk(engine, "blog", "ann", "S3CRET-BLOG")
    receipt = engine.admin.erase(caller_id="shop", user_id="ann")
    assert receipt.is_complete, (receipt.left, receipt.left_in_file)
    assert {"arc_conversations", "arc_messages", "arc_branches", "arc_facts", "arc_segments", "arc_records"} <= set(
        receipt.removed
    )
    assert receipt.removed["arc_messages"] == 28
    assert any("backups" in one for one in receipt.pending)
    assert any("VACUUM" in one for one in receipt.pending) == (not database.startswith("sqlite"))
    again = engine.admin.erase(caller_id="shop", user_id="ann")
    assert (again.removed, again.is_complete) == ({}, True)
    assert not engine.session("ann-1", caller_id="shop", user_id="ann").exists()
    for caller_id, user_id, secret in (("shop", "ben", "S3CRET-BEN"), ("blog", "ann", "S3CRET-BLOG")):
        session = engine.session(f"{user_id}-1", caller_id=caller_id, user_id=user_id)
        assert len(session.messages()) == 26
        assert secret in session.context("What is my door code?").messages[0].text
        assert engine.memories(user_id=user_id, caller_id=caller_id).list()
        assert engine.documents_of(caller_id, user_id=user_id).count() == 1
    engine.close()
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'arc\\_%' ESCAPE '\\'"
    if not database.startswith("sqlite"):
        tables = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'arc\\_%'"
    everything = repr([rows(database, f"SELECT * FROM {name}") for (name,) in rows(database, tables)])
    assert "S3CRET-ANN" not in everything
    assert "S3CRET-BEN" in everything


def test_the_file_of_a_database_holds_no_erased_text(tmp_path: Path) -> None:
    """Neither file nor log contains the texts; without secure_delete, the receipt lists what is pending."""
    for secure in (True, False):
        url = sqlite_url(tmp_path, f"{secure}.db")
        with ContextEngine.open(url, settings=ArcSettings(storage={"secure_delete": secure})) as engine:
            talk(engine, "shop", "ann", "S3CRET-ANN")
            hashes = {
                one[6:16].encode() for (words,) in rows(url, "SELECT * FROM arc_index_words") for one in words.split()
            }
            receipt = engine.admin.erase(caller_id="shop", user_id="ann")
            files = b"".join(path.read_bytes() for path in tmp_path.glob(f"{secure}.db*"))
        assert receipt.is_complete == (b"S3CRET-ANN" not in files)
        assert any("secure_delete" in one for one in receipt.pending) == (not secure)
        assert receipt.is_complete or not secure
        assert len(hashes) > 50
        assert not secure or not [one for one in hashes if one in files]  # FTS5 keeps those of deleted rows


def test_a_reader_that_keeps_the_log_is_on_the_receipt(opened: Callable[..., ContextEngine], tmp_path: Path) -> None:
    """SQLite can't truncate its log while another process reads from it."""
    url = sqlite_url(tmp_path)

    class Hurried(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if "wal_checkpoint" in sql:
                super().execute("PRAGMA busy_timeout = 50")
            return super().execute(sql, *parameters)

    engine = opened(create_engine(url, connect_args={"factory": Hurried}))
    engine.session("s", user_id="ann").save_turn("My code is 4711.", "Noted.")
    with closing(sqlite3.connect(tmp_path / "arc.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM arc_messages").fetchone()
        pending = [engine.admin.erase(caller_id="default", user_id="ann").pending]
    pending.append(engine.admin.erase(caller_id="default", user_id="ann").pending)
    assert [any("write-ahead log" in one for one in every) for every in pending] == [True, False]


def test_a_whole_caller(opened: Callable[..., ContextEngine]) -> None:
    """Sessions without a user and the caller's documents are erased, too; the other caller's stay."""
    engine = opened()
    for caller_id in ("shop", "blog"):
        engine.session("guest", caller_id=caller_id).save_turn("My code is 4711.", "Noted.")
        engine.documents_of(caller_id).add([f"Terms of {caller_id}."])
        talk(engine, caller_id, "ann", "S3CRET")
    receipt = engine.admin.erase(caller_id="shop", user_id=None)
    assert receipt.is_complete
    assert engine.admin.sessions("shop").conversations == ()
    assert engine.documents_of("shop").count() == 0
    assert len(engine.admin.sessions("blog").conversations) == 2
    assert engine.documents_of("blog").count() == 1


def test_what_is_written_meanwhile_is_reported(opened: Callable[..., ContextEngine], tmp_path: Path) -> None:
    """The receipt lists a session written meanwhile and orphaned rows; an invalid id is rejected before any erasure."""
    url, archive = sqlite_url(tmp_path), {"url": f"calling://{tmp_path / 'archive'}"}
    engine = opened(url, clock=lambda: DAY, settings=ArcSettings(archive=archive))
    talk(engine, "shop", "ann", "S3CRET")
    with pytest.raises(InvalidInputError, match="user_id"):
        engine.admin.erase(caller_id="shop", user_id="")
    traces = engine.admin.erase(caller_id="shop", user_id="ann")
    assert traces.is_complete
    engine.session("new", caller_id="shop", user_id="ann").save_turn("Hello again.", "Hello.")
    again = engine.admin.erase(caller_id="shop", user_id="ann")
    assert again.removed["arc_messages"] == 2
    assert re.match("arc_", next(iter(again.removed)))
    talk(engine, "shop", "ann", "S3CRET")
    assert engine.session("ann-1", caller_id="shop", user_id="ann").archive()
    with calling(lambda step: engine.session("late", caller_id="shop", user_id="ann").save_turn("Hi.", "Hi.")):
        interfered = engine.admin.erase(caller_id="shop", user_id="ann")
    assert (interfered.left, interfered.is_complete) == ({"arc_conversations": 1}, False)
    run(url, "DELETE FROM arc_conversations")
    orphaned = engine.admin.erase(caller_id="shop", user_id="ann")
    assert (orphaned.left["arc_messages"], orphaned.is_complete) == (2, False)
