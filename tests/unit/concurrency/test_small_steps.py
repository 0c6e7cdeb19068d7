"""Work that no reply waits for is done in steps that hold no reply up for long."""

import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType

from arc_common.concurrency import BackgroundQueue, give_way
from arc_common.engine.context_engine import ContextEngine
from arc_common.messages import Message, Role
from arc_common.settings import ArcSettings
from tests.support.databases import sqlite_url

MOST = 10_000
"""Calls of functions, Python's and C's, of which a millisecond has some thousands. Today the longest step has 6,000."""

_BEGINS = {give_way.__code__, BackgroundQueue._run.__code__, BackgroundQueue._end.__code__}


class Steps:
    """Counts what background threads call between two looks at who replies."""

    def __init__(self) -> None:
        self.longest: dict[str, int] = defaultdict(int)
        self._called: dict[int, int] = defaultdict(int)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """As `threading.setprofile` wants it."""
        me = threading.get_ident()
        if event == "call" and frame.f_code in _BEGINS:
            before = frame.f_back
            where = f"{before.f_code.co_qualname}:{before.f_lineno}" if before else ""
            self.longest[where] = max(self.longest[where], self._called[me])
            self._called[me] = 0
        elif event in ("call", "c_call"):
            self._called[me] += 1


def converse(engine: ContextEngine, session_id: str) -> None:
    """A conversation whose facts have few keys and whose summary is written in between."""
    session = engine.session(session_id, user_id="ann")
    for number in range(150):
        session.append(
            [
                Message(
                    Role.USER,
                    f"Question {number}: my order is ORD-{1000 + number}, the delivery to {number} High Street "
                    f"must not come before {number % 28 + 1} May, and the budget is ${number * 7}.",
                ),
                Message(Role.ASSISTANT, f"Noted, answer {number}. We will write to you when it has been sent."),
            ]
        )
        if number % 8 == 7:
            session.context("And what of my order?")
            session.summarize()
    engine.flush()


def test_steps_are_small(tmp_path: Path) -> None:
    """Also with hundreds of facts under one key, with segments and blocks, and with messages being indexed."""
    steps = Steps()
    settings = ArcSettings(storage={"synchronous": "normal"})
    with ContextEngine.open(sqlite_url(tmp_path), settings=settings) as engine:
        threading.setprofile(steps)  # concerns threads that start from now on
        try:
            converse(engine, "first")  # imports and compiles
            steps.longest.clear()
            converse(engine, "second")
        finally:
            threading.setprofile(None)
    assert len(steps.longest) > 5
    assert max(steps.longest.values()) <= MOST, dict(steps.longest)
