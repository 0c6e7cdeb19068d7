"""A past request is shown as sent; storing it delays no reply, and nothing removed stays in it."""

import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer

import pytest
from sqlalchemy import create_engine, text

from arc_common import (
    ArcSettings,
    ContextEngine,
    InvalidInputError,
    Message,
    SessionNotFoundError,
    TokenBudget,
    with_receipt,
)
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import CountedMessage
from arc_common.protocols.receipts import KeptReceipt
from arc_common.stores.conversations import SqlStore
from arc_common.testing import CountingObserver
from tests.support.databases import on_sqlite, rows, sqlite_url

NOW, SECOND = datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=1)
KEPT = ArcSettings(context={"store_receipts": "all"}, memory={"enabled": True})


@on_sqlite
def test_a_request_is_shown_as_it_was_sent(database: str, opened: Callable[..., ContextEngine]) -> None:
    """Another process shows it verbatim with its receipt, after the session has continued."""
    engine = opened(database, settings=KEPT)
    engine.documents.add("Refunds take three days.")
    session = engine.session("s", user_id="ann")
    session.save_turn("My name is Ann, and I live in Porto.", [Message("assistant", "Hello Ann.")])
    session.pin("Answer in English.")
    window = session.context("How long do refunds take?", system_prompt="Be kind.")
    session.save_turn("How long do refunds take?", "Three days.")
    session.context("And for how much?")
    other = opened(database, settings=KEPT)
    assert engine.flush(60)
    newest, sent = other.admin.requests("s", user_id="ann")
    assert sent.window.messages == tuple(one for one in window.messages)
    assert sent.window.receipt.to_dict(texts=True) == window.receipt.to_dict(texts=True)
    texts = [item.text for section in sent.window.sections for item in section.items]
    assert texts == [item.text for section in window.sections for item in section.items]
    assert "Refunds take three days." in sent.window._repr_html_()
    assert newest.created_at >= sent.created_at
    assert len(other.admin.requests("s", user_id="ann", limit=1)) == 1
    debug = other.admin.debug("s", user_id="ann")
    assert debug.receipt == newest.window.receipt
    with pytest.raises(SessionNotFoundError):
        other.admin.requests("s", user_id="ben")
    with pytest.raises(InvalidInputError, match="limit"):
        other.admin.requests("s", user_id="ann", limit=0)


def test_a_request_is_shown_although_it_is_just_being_stored(
    opened: Callable[..., ContextEngine], tmp_path: Path
) -> None:
    engine = opened(sqlite_url(tmp_path), settings=KEPT)
    session = engine.session("s")
    session.save_turn("Hello.", "Hello.")
    assert engine.flush(60)
    with closing(sqlite3.connect(tmp_path / "arc.db", check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        session.context("How long do refunds take?")
        unlocking = Timer(0.5, other.rollback)
        unlocking.start()
        time.sleep(0.2)  # by now, arc waits for the file to store it
        sent = engine.admin.requests("s")
        unlocking.join()
    assert [one.window.messages[-1].text for one in sent] == ["How long do refunds take?"]


@on_sqlite
@pytest.mark.parametrize(("mode", "least", "most"), [("off", 0, 0), ("sampled", 1, 20), ("all", 50, 50)])
def test_the_newest_are_kept(
    database: str, opened: Callable[..., ContextEngine], mode: str, least: int, most: int
) -> None:
    """The setting keeps none, one in ten or all, up to fifty per session."""
    engine = opened(database, settings=ArcSettings(context={"store_receipts": mode}))
    session = engine.session("s")
    session.save_turn("Hello.", "Hello.")
    for number in range(60):
        session.context(f"Question {number}?")
        if number % 20 == 19:
            assert engine.flush(60)
    kept = engine.admin.requests("s", limit=100)
    assert least <= len(kept) <= most
    if mode == "all":
        questions = [one.window.messages[-1].text for one in kept]
        assert questions == [f"Question {number}?" for number in range(59, 9, -1)]


def test_a_first_request_waits_for_the_first_message(opened: Callable[..., ContextEngine]) -> None:
    """It is built before its session is stored, and kept once something is."""
    engine = opened(settings=KEPT)
    session = engine.session("s")
    session.context("First?")
    engine.flush(60)
    assert not session.exists()
    session.save_turn("First?", "Yes.")
    engine.flush(60)
    assert [one.window.messages[-1].text for one in engine.admin.requests("s")] == ["First?"]


def test_they_follow_their_branch(opened: Callable[..., ContextEngine]) -> None:
    engine = opened(settings=KEPT)
    session = engine.session("s")
    session.save_turn("Hello.", "Hello.")
    session.fork(name="idea").context("On the fork?")
    session.context("On the main branch?")
    engine.flush(60)
    assert [one.window.messages[-1].text for one in engine.admin.requests("s", branch=1)] == ["On the fork?"]
    assert len(engine.admin.requests("s")) == 2


@on_sqlite
def test_a_failing_store_breaks_no_reply(database: str, opened: Callable[..., ContextEngine]) -> None:
    """The failure is counted, and few receipts are queued."""
    observer = CountingObserver()
    engine = opened(database, settings=KEPT, observer=observer)
    session = engine.session("s")
    session.save_turn("Hello.", "Hello.")
    session.context("Before?")
    engine.flush(60)
    broken = create_engine(database)
    with broken.begin() as connection:
        connection.execute(text("DROP TABLE arc_receipts"))
    broken.dispose()
    for number in range(3):
        assert session.context(f"After {number}?").messages
        engine.flush(60)
    assert observer.counts["receipts.errors"] == 3


@pytest.mark.parametrize(
    ("database", "removal"),
    [
        *(("sqlite", removal) for removal in ("remove", "clear", "delete", "branch", "memory", "erase")),
        *(("postgres", removal) for removal in ("remove", "erase")),
    ],
    indirect=["database"],
)
def test_nothing_removed_stays_in_a_stored_request(
    database: str, opened: Callable[..., ContextEngine], removal: str
) -> None:
    """This covers the session's own requests and those of the user's other sessions that quote it."""
    settings = ArcSettings(context={"store_receipts": "all"}, memory={"enabled": True}, recall={"scope": "user"})
    engine = opened(database, settings=settings)
    session = engine.session("s", user_id="ann")
    session.append([Message("user", "Hello.", id="m1"), Message("assistant", "Hello.", id="m2")])
    (message, _) = session.append([Message("user", "My code is S3CRET."), Message("assistant", "Noted.")])
    memory = engine.memories(user_id="ann").add("The code is S3CRET.")
    other = engine.session("t", user_id="ann")
    other.save_turn("Hello.", "Hello.")
    for one in (session, other):
        one.context("What is my code?")
    ben = engine.session("b", user_id="ben")
    ben.save_turn("Hello.", "Hello.")
    ben.context("What of ben?")
    engine.flush(60)
    assert "S3CRET" in repr(rows(database, "SELECT body FROM arc_receipts"))
    if removal == "memory":
        engine.memories(user_id="ann").delete(memory.id)
    elif removal == "remove":
        session.remove([message.id or ""])
    elif removal == "branch":
        session.rewind(to="m2")
        session.delete_branch(0)
    elif removal == "erase":
        assert engine.admin.erase(caller_id="default", user_id="ann").is_complete
    else:
        getattr(session, removal)()
    assert "S3CRET" not in repr(rows(database, "SELECT body FROM arc_receipts"))
    assert len(engine.admin.requests("b", user_id="ben")) == (removal != "erase")


@on_sqlite
@pytest.mark.parametrize("forked", [False, True], ids=["one branch", "forked"])
def test_removing_what_is_not_stored_changes_nothing(
    database: str, opened: Callable[..., ContextEngine], *, forked: bool
) -> None:
    """Stored requests, the last receipt and the time of the last change stay."""
    engine = opened(database, settings=KEPT)
    session = engine.session("s", user_id="ann")
    session.save_turn("Hello.", "Hello.")
    if forked:
        session.fork(name="idea")
    window = session.context("Anything else?")
    engine.flush(60)
    tables = ("arc_conversations", "arc_branches", "arc_messages", "arc_receipts")
    before = {name: rows(database, f"SELECT * FROM {name}") for name in tables}
    assert session.remove(["unknown"]) == 0
    assert {name: rows(database, f"SELECT * FROM {name}") for name in tables} == before
    assert [one.window for one in engine.admin.requests("s", user_id="ann")] != []
    assert session.receipt() is window.receipt


@on_sqlite
@pytest.mark.parametrize("removal", ["delete", "clear"])
def test_deleting_what_is_not_there_changes_nothing(
    database: str, opened: Callable[..., ContextEngine], removal: str
) -> None:
    """Nor does a request of the REST API that names no session, which anybody with a token may send."""
    engine = opened(database, settings=KEPT)
    session = engine.session("s", user_id="ann")
    session.save_turn("Hello.", "Hello.")
    session.context("Anything else?")
    engine.flush(60)
    unknown = engine.session("unknown", user_id="ann")
    assert not (unknown.delete() if removal == "delete" else unknown.clear())
    assert len(engine.admin.requests("s", user_id="ann")) == 1


@pytest.mark.parametrize("other", [{"user_id": "ben"}, {"user_id": "ann", "caller_id": "bank"}], ids=["user", "caller"])
def test_a_removal_leaves_what_others_have_not_stored_yet(
    opened: Callable[..., ContextEngine], other: dict[str, str]
) -> None:
    """Another session's first receipt still waits for its first message."""
    engine = opened(settings=KEPT)
    session = engine.session("o", **other)
    session.context("First?")
    engine.flush(60)
    mine = engine.session("s", user_id="ann")
    (message, _) = mine.append([Message("user", "My code is S3CRET."), Message("assistant", "Noted.")])
    mine.remove([message.id or ""])
    session.save_turn("First?", "Yes.")
    engine.flush(60)
    assert [one.window.messages[-1].text for one in engine.admin.requests("o", **other)] == ["First?"]


@on_sqlite
def test_a_late_receipt_of_a_deleted_session_is_not_stored(database: str, opened: Callable[..., ContextEngine]) -> None:
    """This holds even if another session has its id by then."""
    engine = opened(database, settings=KEPT)
    session = engine.session("s")
    session.save_turn("Hello.", "Hello.")
    session.context("What is S3CRET?")
    session.delete()
    session.save_turn("New.", "New.")
    engine.flush(60)
    assert engine.admin.requests("s") == []


def test_a_request_from_before_a_session_is_not_its_own(sql_store: SqlStore) -> None:
    """Before this process stored its receipt, another one deleted the session and created one with the same id."""
    key = SessionKey("s")
    sql_store.append(key, [CountedMessage(Message("user", "New.", id="m", created_at=NOW), 3, "c")])
    made = sql_store.get(key)
    assert made is not None
    late = [KeptReceipt(name, made.created_at + age, 7, {}, ()) for name, age in (("old", -SECOND), ("new", SECOND))]
    sql_store.receipts.keep(key, late)
    assert [one.run_id for one in sql_store.receipts.find(key, limit=9)] == ["new"]


def test_a_request_that_is_too_large_is_kept_without_its_messages(opened: Callable[..., ContextEngine]) -> None:
    """Its receipt stays."""
    engine = opened(settings=KEPT)
    session = engine.session("s")
    session.save_turn("Hello.", "Hello.")
    window = session.context("Long" * 250_001, budget=TokenBudget(2_000_000, 0))
    assert engine.flush(60)
    (sent,) = engine.admin.requests("s")
    assert sent.window.messages == ()
    assert sent.window.receipt.total_tokens == window.total_tokens


def test_no_more_receipts_wait_than_a_few(tmp_path: Path, opened: Callable[..., ContextEngine]) -> None:
    """While the store is busy, further ones are dropped and counted; no reply waits."""
    observer = CountingObserver()
    engine = opened(sqlite_url(tmp_path), settings=KEPT, observer=observer)
    session = engine.session("s")
    session.save_turn("Hello.", "Hello.")
    with closing(sqlite3.connect(tmp_path / "arc.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        for number in range(150):
            session.context(f"Question {number}?")
        busy.execute("ROLLBACK")
    assert engine.flush(60)
    assert observer.counts["receipts.dropped"] >= 150 - 2 * 64
    assert len(engine.admin.requests("s", limit=99)) == 50


async def test_debug_logs_and_streams_the_receipt(
    opened: Callable[..., ContextEngine], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments follow the application's events, sync or async, only with MEMORY_DEBUG."""
    monkeypatch.setenv("MEMORY_DEBUG", "true")
    engine = opened(settings=ArcSettings())
    monkeypatch.delenv("MEMORY_DEBUG")
    session = engine.session("s")
    assert list(with_receipt(session, ["data: a\n\n"])) == ["data: a\n\n"]
    with caplog.at_level(logging.INFO, logger="arc.context"):
        window = session.context("Hello S3CRET?")
    assert window.receipt.to_json() in caplog.text
    assert session.receipt() == window.receipt
    events = list(with_receipt(session, ["data: a\n\n"]))
    assert events[0] == "data: a\n\n"
    assert all(event.startswith(": ") and event.endswith("\n\n") and event.count("\n") == 2 for event in events[1:])
    told = json.loads(events[1].removeprefix(": MEMORY_DEBUG "))
    assert told["total_tokens"] == window.total_tokens
    assert "S3CRET" not in "".join(events)

    async def stream() -> AsyncIterator[str]:
        yield "data: a\n\n"

    assert [event async for event in with_receipt(session, stream())] == events
    quiet = opened().session("s")
    quiet.context("Hello?")
    assert list(with_receipt(quiet, ["data: a\n\n"])) == ["data: a\n\n"]
