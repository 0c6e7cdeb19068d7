"""A conversation that was imported whole: no read waits for its summaries, and they are written at a linear cost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event

from arc_common.context import ContextWindow
from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.protocols import SessionKey
from arc_common.settings import ArcSettings
from arc_common.stores.conversations import SqlStore
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.selection import OLDER
from tests.integration.test_turn_costs import OwnThread
from tests.support.databases import sqlite_url
from tests.support.summaries import turn

KEY = SessionKey("s")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a conversation of 1,200 messages that nobody has summarised; not to be written to."""
    folder = tmp_path_factory.mktemp("imported")
    settings = ArcSettings(storage={"synchronous": "normal"}, summary={"enabled": False}, recall={"enabled": False})
    with ContextEngine.open(sqlite_url(folder), settings=settings) as engine:
        engine.session(KEY.session_id).append([message for number in range(600) for message in turn(number)])
    return folder / "arc.db"


@pytest.fixture
def imported(filled: Path, tmp_path: Path) -> str:
    """The address of a copy of it."""
    return f"sqlite:///{shutil.copy(filled, tmp_path)}"


READS: dict[str, Callable[[Session], object]] = {
    "context": lambda session: session.context("And my order?"),
    "context of few tokens": lambda session: session.context("And my order?", budget=TokenBudget(900, 100)),
    "window": lambda session: session.window(max_tokens=600, query="And my order?"),
    "window of a few messages": lambda session: session.window(max_messages=4),
    "facts": lambda session: session.facts(),
    "summary": lambda session: session.summary(),
    "messages": lambda session: session.messages(limit=10),
    "recall": lambda session: session.recall("And my order?", top_k=3),
}


@pytest.mark.parametrize("at_work", [True, False], ids=["beside the background", "alone"])
@pytest.mark.parametrize("name", READS)
def test_no_read_writes_more_than_one_leaf(imported: str, name: str, *, at_work: bool) -> None:
    """The first read after an import of 1,200 messages, whoever is at work on them."""
    rival, own = SqlStore(imported), OwnThread(imported)
    if not at_work:
        assert rival.summaries.claim(KEY, owner="rival", seconds=600) is not None
    settings = ArcSettings(recall={"enabled": False}, summary={"synchronous_timeout_seconds": 1e-6})
    with ContextEngine.open(own.database, settings=settings) as engine:
        session = engine.session(KEY.session_id)
        session.messages(limit=1)
        own.statements.clear()
        READS[name](session)
        written = sum(sql.startswith("INSERT INTO arc_segments") for sql in own.statements)
        began = own.statements.count("BEGIN IMMEDIATE")
    own.database.dispose()
    rival.close()
    assert written <= 1
    assert began <= 4, own.statements


def test_what_is_behind_is_worked_off_after_a_read(imported: str) -> None:
    """Until then the receipt names how many messages a request leaves out, afterwards a summary stands for them."""
    rival = SqlStore(imported)
    lease = rival.summaries.claim(KEY, owner="rival", seconds=600)
    assert lease is not None
    with ContextEngine.open(imported) as engine:
        session = engine.session(KEY.session_id)
        before = session.context("And my order?", budget=TokenBudget(900, 100))
        rival.summaries.release(KEY, lease)
        after = session.context("And my order?", budget=TokenBudget(900, 100))
        session.summarize()
        summary = session.summary()
        done = session.context("And my order?", budget=TokenBudget(900, 100))
    rival.close()
    for window in (before, after):
        assert window.total_tokens <= 800
        assert _missing(window) > 1_000
    assert any("not summarised yet" in note for note in before.receipt.notes)
    assert summary is not None
    assert summary.pending < 70
    assert _missing(done) < 70


def test_working_off_an_import_reads_each_segment_a_few_times(imported: str) -> None:
    """All segments of a session are read together, and not once more for each that is written: that is quadratic."""
    database, statements = create_engine(imported), list[str]()
    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(statements.append))
    with ContextEngine.open(database, settings=ArcSettings(recall={"enabled": False})) as engine:
        engine.session(KEY.session_id).summarize()
    database.dispose()
    written = sum(sql.startswith("INSERT INTO arc_segments") for sql in statements)
    read_whole = sum("FROM arc_segments" in sql and "covered = 0" in sql for sql in statements)
    assert written > 16
    assert read_whole <= 4


def _missing(window: ContextWindow) -> int:
    """Messages that are neither shown nor summarised."""
    left = window.receipt.rest.get(OLDER)
    return left.count if left else 0
