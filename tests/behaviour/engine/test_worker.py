"""`engine.admin.work`: work for sessions of other processes, and stopping."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from arc_common import ContextEngine, InvalidInputError
from arc_common.messages import Message, Role
from arc_common.testing import CountingObserver
from tests.support.databases import rows, run, sqlite_url
from tests.support.summaries import LONG, Model, settings_with, turn

Open = Callable[..., ContextEngine]
NOT_HERE = {"background": {"in_process": False}, "memory": {"enabled": True}}
SAID_AT = datetime(2026, 1, 5, tzinfo=UTC)


MESSAGES = "SELECT scope FROM arc_index_scopes WHERE kind = 'message'"


class Words:
    """An embedder that works or fails."""

    name = "words"
    fails = False

    def embed(self, texts: list[str]) -> list[list[float]]:
        if self.fails:
            raise OSError("down")
        return [[1.0, float(len(text))] for text in texts]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path)


def talk(engine: ContextEngine, session_id: str = "s", turns: int = 30) -> None:
    session = engine.session(session_id, user_id=f"user of {session_id}")
    for number in range(turns):
        session.append(
            [
                Message(message.role, message.text + " I prefer tea.", id=message.id, created_at=SAID_AT)
                for message in turn(number)
            ]
        )


def derived(url: str) -> dict[str, list[Any]]:
    """Return the data derived from messages, without ids and times that differ by run."""
    return {
        "segments": rows(url, "SELECT conversation, level, start_seq, end_seq, made_by, narrative FROM arc_segments"),
        "facts": rows(url, "SELECT conversation, leaf_seq, place, folded_key, category FROM arc_facts"),
        "entries": rows(url, f"SELECT entry_id, length FROM arc_index_entries WHERE scope IN ({MESSAGES}) ORDER BY 1"),
        "memories": rows(url, "SELECT scope, type, status FROM arc_records WHERE kind = 'memory' ORDER BY scope, type"),
        "read to": rows(url, "SELECT conversation, summarized_seq, remembered_seq FROM arc_branches"),
    }


def test_a_worker_makes_what_the_sessions_own_process_makes(opened: Open, tmp_path: Path) -> None:
    """With `background.in_process` off, the appending process derives nothing and a worker everything."""
    urls = [sqlite_url(tmp_path, name) for name in ("own.db", "worked.db")]
    for url, more in zip(urls, ({"memory": {"enabled": True}}, NOT_HERE), strict=True):
        engine = opened(url, settings=settings_with(**more))
        talk(engine)
        assert engine.flush(LONG)
        engine.session("s", user_id="user of s").summarize() if url == urls[0] else None
        assert engine.flush(LONG)
    assert not any(derived(urls[1])[name] for name in ("segments", "facts", "entries", "memories"))
    done = opened(urls[1], settings=settings_with(**NOT_HERE)).admin.work()
    assert (done.sessions, done.failed) == (1, 0)
    own, worked = map(derived, urls)
    assert all(own.values())
    assert worked == own


def test_every_session_is_worked_on_once(opened: Open, url: str) -> None:
    """Sessions of all callers are included; a second worker has no work until something is said."""
    engine = opened(url, settings=settings_with(**NOT_HERE))
    for number in range(5):
        talk(engine, f"s{number}")
    seen: list[int] = []
    assert engine.admin.work(threads=3, progress=seen.append).sessions == 5
    assert sorted(seen) == [1, 2, 3, 4, 5]
    assert engine.admin.work().sessions == 0
    engine.session("s3", user_id="user of s3").append(Message(Role.USER, "One more thing."))
    assert engine.admin.work().sessions == 1


def test_every_branch_is_worked_on(opened: Open, url: str) -> None:
    """The current branch and other live ones are, but not a rewound one."""
    engine = opened(url, settings=settings_with(**NOT_HERE))
    talk(engine)
    session = engine.session("s", user_id="user of s")
    idea = session.fork(at="q2", name="idea")
    idea.append([message for number in range(100, 130) for message in turn(number)])
    left = session.fork(at="q3", name="left")
    left.append([message for number in range(200, 230) for message in turn(number)])
    left.rewind("q3")
    engine.admin.work()
    assert [len(idea.recall("ORD-1120", top_k=1)), idea.summary() is not None] == [1, True]
    assert rows(url, "SELECT summarized_seq > 0 FROM arc_branches ORDER BY branch") == [(1,), (1,), (0,), (0,)]


def test_work_is_limited(opened: Open, url: str) -> None:
    engine = opened(url, settings=settings_with(**NOT_HERE))
    for number in range(4):
        talk(engine, f"s{number}", turns=2)
    assert engine.admin.work(limit=1, threads=2).sessions == 1
    assert engine.admin.work(limit=5).sessions == 3


def test_a_worker_waits_for_work_until_it_is_stopped(opened: Open, url: str) -> None:
    """It finishes the current segment and leaves the rest to the next worker."""
    model = Model(held=True)
    engine = opened(url, model, settings=settings_with(**NOT_HERE))
    stop = Event()
    thread = threading.Thread(target=lambda: engine.admin.work(until_idle=False, stop=stop))
    thread.start()
    talk(engine)
    assert model.asked.wait(LONG)
    stop.set()
    model.may_answer.set()
    thread.join(LONG)
    assert not thread.is_alive()
    assert len(model.requests) == 1
    assert engine.admin.work().sessions == 1
    assert {made_by for (made_by,) in rows(url, "SELECT made_by FROM arc_segments WHERE level = 0")} == {"model"}


def test_failed_work_is_due_again_in_a_minute(opened: Open, url: str) -> None:
    """Without the embedder, messages are found by words; vectors follow when it is back."""
    now = [datetime(2026, 1, 5, tzinfo=UTC)]
    embedder = Words()
    embedder.fails = True
    engine = opened(url, settings=settings_with(**NOT_HERE), embedder=embedder, clock=lambda: now[0])
    talk(engine, turns=3)
    engine.admin.work()
    embedder.fails = False
    assert engine.admin.work().sessions == 0
    now[0] = datetime(2026, 1, 5, 0, 1, 1, tzinfo=UTC)
    assert engine.admin.work().sessions == 1
    assert rows(url, "SELECT count(*) FROM arc_index_vectors")[0][0] >= 6
    assert engine.admin.work().sessions == 0


def test_one_session_that_fails_does_not_stop_the_others(opened: Open, url: str) -> None:
    """The failure is counted, logged and due again later."""
    observer = CountingObserver()
    engine = opened(url, settings=settings_with(**NOT_HERE), observer=observer)
    for number in range(3):
        talk(engine, f"s{number}", turns=12)
    refuse = "BEFORE INSERT ON arc_index_scopes WHEN NEW.session_id = 's1' BEGIN SELECT RAISE(ABORT, 'refused'); END"
    run(url, f"CREATE TRIGGER refuse {refuse}")
    done = engine.admin.work()
    assert (done.sessions, done.failed) == (3, 1)
    assert observer.counts["background.errors"] == 1


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"threads": "2"}, {"limit": 0}], ids=str)
def test_wrong_numbers_are_refused(opened: Open, url: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        opened(url).admin.work(**wrong)


def test_a_reply_after_a_bulk_append_writes_nothing(opened: Open, url: str) -> None:
    """It shows the newest turns and says so on the receipt; the background does the backlog."""
    engine = opened(url, settings=settings_with(background={"in_process": False}))
    session = engine.session("s")
    session.append([message for number in range(400) for message in turn(number)])
    window = session.context("And now?")
    assert rows(url, "SELECT count(*) FROM arc_segments") == [(0,)]
    assert any("not summarised yet" in note for note in window.receipt.notes)
    assert "a399" in [message.id for message in window.messages]
    engine.admin.work()
    window = session.context("And now?")
    assert not any("not summarised yet" in note for note in window.receipt.notes)
    assert any(section.name == "summary" and section.tokens for section in window.sections)
