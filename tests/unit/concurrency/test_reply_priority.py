"""Background work gives way to replies, in small steps."""

import os
import threading
from collections import defaultdict
from pathlib import Path
from threading import Event, Thread
from time import monotonic, thread_time
from types import FrameType

import pytest

from arc_common.concurrency import BackgroundQueue, ReplyPriority, give_way, replying
from arc_common.engine.context_engine import ContextEngine
from arc_common.messages import Message, Role
from arc_common.settings import ArcSettings
from tests.support.databases import sqlite_url

LONG = 20.0
"""Seconds that no step of a test takes."""


class Waits:
    """Records each wait and calls a function at one of them."""

    def __init__(self, *, at: int = 0, ends: Event | None = None) -> None:
        self.seconds: list[float] = []
        self._at = at
        self._ends = ends
        self.gone = Event()

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self._ends is not None and len(self.seconds) == self._at:
            self._ends.set()
            assert self.gone.wait(LONG)


def beside(priority: ReplyPriority, ends: Event, gone: Event | None = None) -> Thread:
    """Reply on another thread until the event; return once the reply has begun."""
    begun = Event()

    def reply() -> None:
        with priority.reply(), priority.reply():
            begun.set()
            assert ends.wait(LONG)
        if gone is not None:
            gone.set()

    thread = Thread(target=reply)
    thread.start()
    assert begun.wait(LONG)
    return thread


def test_work_goes_on_while_nobody_replies() -> None:
    waits = Waits()
    ReplyPriority(sleep=waits).give_way()
    assert waits.seconds == []


def test_work_waits_until_the_reply_is_over() -> None:
    ends = Event()
    waits = Waits(at=3, ends=ends)
    priority = ReplyPriority(sleep=waits)
    thread = beside(priority, ends, waits.gone)
    priority.give_way()
    priority.give_way()
    assert len(waits.seconds) == 3
    thread.join(LONG)


def test_work_does_not_wait_for_ever() -> None:
    ends = Event()
    waits = Waits()
    priority = ReplyPriority(sleep=waits)
    thread = beside(priority, ends)
    priority.give_way()
    ends.set()
    thread.join(LONG)
    assert 0 < sum(waits.seconds) <= 0.0211


def test_a_reply_does_not_wait_for_itself() -> None:
    ends = Event()
    waits = Waits()
    priority = ReplyPriority(sleep=waits)
    thread = beside(priority, ends)
    with priority.reply():
        with priority.reply():
            priority.give_way()
        priority.give_way()
    assert waits.seconds == []
    ends.set()
    thread.join(LONG)


def test_work_goes_on_while_the_reply_waits_for_it() -> None:
    waits = Waits()
    priority = ReplyPriority(sleep=waits)
    work = Thread(target=priority.give_way)
    with priority.reply():
        with priority.waiting():
            work.start()
            work.join(LONG)
        assert waits.seconds == []
        again = Thread(target=priority.give_way)
        again.start()
        again.join(LONG)
    assert waits.seconds


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_no_replies() -> None:
    ends = Event()
    waits = Waits()
    priority = ReplyPriority(sleep=waits)
    thread = beside(priority, ends)
    child = os.fork()
    if child == 0:
        priority.give_way()
        os._exit(len(waits.seconds))
    _, status = os.waitpid(child, 0)
    ends.set()
    thread.join(LONG)
    assert os.waitstatus_to_exitcode(status) == 0


def test_only_a_queues_threads_give_way() -> None:
    """A queue's work waits for a reply at each of twenty steps; other threads don't."""
    took: dict[str, float] = {}

    def steps(name: str) -> None:
        begin = monotonic()
        for _ in range(20):
            end = thread_time() + 0.003
            while thread_time() < end:
                pass
            give_way()
        took[name] = monotonic() - begin

    queue = BackgroundQueue(steps, threads=1, on_error=lambda _: None)
    with replying():
        thread = Thread(target=steps, args=("thread",))
        thread.start()
        thread.join(LONG)
        queue.schedule("queue")
        assert queue.wait(LONG)
    queue.close()
    assert took["queue"] > took["thread"] + 0.2


MOST = 10_000
"""Maximum function calls in a step. A millisecond has some thousands; the longest step today has 6,000."""

BEGINS = {"give_way", "BackgroundQueue._run", "BackgroundQueue._end"}


class Steps:
    """Counts the calls of background threads between two checks for replies."""

    def __init__(self) -> None:
        self.longest: dict[str, int] = defaultdict(int)
        self._called: dict[int, int] = defaultdict(int)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        me = threading.get_ident()
        if event == "call" and frame.f_code.co_qualname in BEGINS:
            before = frame.f_back
            where = f"{before.f_code.co_qualname}:{before.f_lineno}" if before else ""
            self.longest[where] = max(self.longest[where], self._called[me])
            self._called[me] = 0
        elif event in ("call", "c_call"):
            self._called[me] += 1


def converse(engine: ContextEngine, session_id: str, *, turns: int) -> None:
    """Append a conversation with few fact keys, whose summary is written along the way."""
    session = engine.session(session_id, user_id="ann")
    for number in range(turns):
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
    """This includes many facts under one key, segments and blocks, and messages being indexed."""
    steps = Steps()
    settings = ArcSettings(storage={"synchronous": "normal"})
    with ContextEngine.open(sqlite_url(tmp_path), settings=settings) as engine:
        threading.setprofile(steps)  # applies to threads started from now on
        try:
            converse(engine, "first", turns=45)  # warm-up
            steps.longest.clear()
            converse(engine, "second", turns=45)
        finally:
            threading.setprofile(None)
    assert len(steps.longest) > 5
    assert max(steps.longest.values()) <= MOST, dict(steps.longest)
