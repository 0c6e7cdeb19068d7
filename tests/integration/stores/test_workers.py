"""Workers in separate processes: they share the work, and finish the work of a killed one once."""

import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from arc_common import ContextEngine
from arc_common.messages import Message, Role
from tests.support import processes as workers
from tests.support.databases import rows, sqlite_url
from tests.support.processes import WORKED, Helper

DAY = datetime(2026, 1, 5, tzinfo=UTC)
THINGS = ("tea", "rice", "chess", "jazz", "Rome", "bread", "wool", "roses", "rain", "owls")


def said(session: int, turns: int) -> list[Message]:
    """Return a conversation that is equal in each run and repeats no turn."""
    messages = []
    for number in range(turns):
        at = DAY + timedelta(minutes=number)
        text = f"Order {number} is ORD-{1_000 * session + number}. I like {THINGS[number % 10]} number {number}."
        messages.append(Message(Role.USER, text, id=f"q{number}", created_at=at))
        messages.append(Message(Role.ASSISTANT, f"Order {number} is noted.", id=f"a{number}", created_at=at))
    return messages


def fill(url: str, *, sessions: int, turns: int) -> None:
    with ContextEngine.open(url, settings=WORKED) as engine:
        for number in range(sessions):
            engine.session(f"s{number}", user_id=f"u{number}").append(said(number, turns))


def made(url: str, *, sessions: int) -> list[Any]:
    """Return everything derived from the messages, without ids and times."""
    with ContextEngine.open(url, settings=WORKED) as engine:
        found: list[Any] = []
        for number in range(sessions):
            session = engine.session(f"s{number}", user_id=f"u{number}")
            summary = session.summary()
            facts = [(fact.key, fact.value, fact.sources, fact.segment) for fact in session.facts()]
            memories = engine.memories(user_id=f"u{number}").list(limit=1_000)
            found.append(
                (summary and summary.narrative, sorted(facts), sorted((one.text, one.sources) for one in memories))
            )
    segments = "SELECT conversation, level, start_seq, end_seq, made_by, narrative FROM arc_segments ORDER BY 1, 2, 3"
    entries = (
        "SELECT s.session_id, e.entry_id, e.length, t.text FROM arc_index_entries e, arc_index_scopes s, "
        "arc_index_texts t WHERE e.scope = s.scope AND t.scope = s.scope AND t.id = e.id AND s.kind = 'message' "
        "ORDER BY 1, 2"
    )
    return [*found, *([tuple(row) for row in rows(url, statement)] for statement in (segments, entries))]


@pytest.mark.parametrize(
    ("sessions", "kills"), [(6, 8), pytest.param(250, 300, marks=pytest.mark.torture)], ids=["short", "long"]
)
def test_what_killed_workers_began_is_done_once(
    helper: Helper, database: str, tmp_path: Path, sessions: int, kills: int
) -> None:
    """Two workers at a time are killed at random; in the end, all is as if one worker had run undisturbed."""
    whole = sqlite_url(tmp_path, "whole.db")
    for url in (whole, database):
        fill(url, sessions=sessions, turns=40)
    helper.run(workers.work, tmp_path, [{"url": whole}])
    chance = random.Random(20260102 + kills)
    interrupted = 0
    for number in range(kills // 2):
        logs = [tmp_path / f"killed-{number}-{which}.log" for which in range(2)]
        pids = [helper.start(workers.work, log, url=database) for log in logs]
        time.sleep(chance.uniform(0.05, 0.3))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        interrupted += [helper.wait(pid) for pid in pids].count(-signal.SIGKILL)
    assert interrupted > kills // 4, "most had nothing to do any more"
    _wait_until_done(helper, database, tmp_path)
    assert made(database, sessions=sessions) == made(whole, sessions=sessions)


def _wait_until_done(helper: Helper, url: str, folder: Path) -> None:
    """Run workers until no work is due, which takes until the leases of dead ones have expired."""
    deadline = time.monotonic() + 120
    number = 0
    while rows(url, "SELECT count(*) FROM arc_conversations WHERE work_due_at IS NOT NULL") != [(0,)]:
        assert time.monotonic() < deadline
        helper.wait(helper.start(workers.work, folder / f"last-{number}.log", url=url))
        number += 1


@pytest.mark.parametrize("sessions", [6, pytest.param(300, marks=pytest.mark.torture)], ids=["short", "long"])
def test_workers_share_the_work(helper: Helper, database: str, tmp_path: Path, sessions: int) -> None:
    """More than one of four workers takes part, and the model is asked each question once."""
    fill(database, sessions=sessions, turns=20)
    reported = helper.run(workers.work, tmp_path, [{"url": database, "asks": True}] * 4)
    asked = [one for mine in reported for one in mine]
    assert len(asked) == len(set(asked)) >= 2 * sessions
    assert sum(map(bool, reported)) > 1
    assert rows(database, "SELECT DISTINCT made_by FROM arc_segments WHERE level = 0") == [("model",)]
    assert rows(database, "SELECT count(*) FROM arc_conversations WHERE work_due_at IS NOT NULL") == [(0,)]
