"""Background work gives way to replies."""

import os
from threading import Event, Thread
from time import monotonic, thread_time

import pytest

from arc_common.concurrency import BackgroundQueue, ReplyPriority, give_way, giving_way, replying

LONG = 20.0
"""Seconds that nothing here takes."""


class Waits:
    """Takes note of each wait, and lets something happen at one of them."""

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
    """A reply on another thread that lasts until the event; it has begun."""
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


def test_nobody_replies() -> None:
    """Then nothing waits."""
    waits = Waits()
    ReplyPriority(sleep=waits).give_way()
    assert waits.seconds == []


def test_until_the_reply_is_over() -> None:
    """Work goes on when the last part of it ends."""
    ends = Event()
    waits = Waits(at=3, ends=ends)
    priority = ReplyPriority(sleep=waits)
    thread = beside(priority, ends, waits.gone)
    priority.give_way()
    priority.give_way()
    assert len(waits.seconds) == 3
    thread.join(LONG)


def test_not_for_ever() -> None:
    """Replies without end hold each step up for 20 ms at most."""
    ends = Event()
    waits = Waits()
    priority = ReplyPriority(sleep=waits)
    thread = beside(priority, ends)
    priority.give_way()
    ends.set()
    thread.join(LONG)
    assert 0 < sum(waits.seconds) <= 0.0211


def test_a_reply_does_not_wait_for_itself() -> None:
    """Neither for others, also where it does the background's work."""
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


def test_a_reply_that_waits_for_the_work() -> None:
    """It is not given way to meanwhile, and is again afterwards."""
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
    """Those of its parent's threads never end there."""
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


def test_a_sequence_like_the_one_given() -> None:
    """It can be measured and cut as well."""
    items = giving_way([1, 2, 3])
    assert (len(items), items[1], items[1:], list(items)) == (3, 2, [2, 3], [1, 2, 3])


def test_only_queues_give_way() -> None:
    """A queue's work waits for a reply at each of forty steps; other threads don't."""
    took: dict[str, float] = {}

    def steps(name: str) -> None:
        begin = monotonic()
        for _ in range(40):
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
    assert took["queue"] > 0.8 > took["thread"]
