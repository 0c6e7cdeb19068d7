"""Calls of several threads that run together, in one call of a function."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from arc_common.concurrency import Batcher

Items = dict[str, int]
LONG = 20.0
"""Seconds that no step of a test takes."""


class Work:
    """A function that doubles numbers, records its calls, and can be held up."""

    def __init__(self) -> None:
        self.calls: list[Items] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()

    def __call__(self, items: Items) -> dict[str, int]:
        self.calls.append(items)
        self.begun.release()
        assert self.go.wait(LONG)
        if -1 in items.values():
            raise ValueError(f"refused {sorted(items)}")
        return {key: 2 * item for key, item in items.items() if item}


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


@contextmanager
def held_up(work: Work, first: Callable[[], Future[int | None]]) -> Iterator[Future[int | None]]:
    """Hold up the first call within the block."""
    work.go.clear()
    try:
        future = first()
        assert work.begun.acquire(timeout=LONG)
        yield future
    finally:
        work.go.set()


def test_calls_that_come_during_a_run_go_together(work: Work, threads: ThreadPoolExecutor) -> None:
    """Four of them don't wait for it; each gets the result of its own item, and `None` for none."""
    batcher = Batcher(work, patience=LONG)
    with held_up(work, lambda: threads.submit(batcher.run, "a", 1)) as first:
        others = [threads.submit(batcher.run, key, item) for key, item in (("b", 2), ("c", 3), ("d", 0), ("e", 5))]
        assert work.begun.acquire(timeout=LONG)
        assert sorted(map(len, work.calls)) == [1, 4]
    assert first.result(LONG) == 2
    assert [one.result(LONG) for one in others] == [4, 6, None, 10]


def test_a_call_by_itself_runs_once(work: Work, threads: ThreadPoolExecutor) -> None:
    """It raises its own error, and has no result if its item has none."""
    batcher = Batcher(work, patience=LONG)
    with pytest.raises(ValueError, match=r"refused \['a'\]"):
        threads.submit(batcher.run, "a", -1).result(LONG)
    assert threads.submit(batcher.run, "a", 0).result(LONG) is None
    assert work.calls == [{"a": -1}, {"a": 0}]


def test_a_run_has_no_two_items_of_one_key(work: Work, threads: ThreadPoolExecutor) -> None:
    batcher = Batcher(work, patience=LONG)
    with held_up(work, lambda: threads.submit(batcher.run, "a", 1)):
        others = [threads.submit(batcher.run, "b", item) for item in range(1, 7)]
        assert work.begun.acquire(timeout=LONG)
    assert sorted(one.result(LONG) or 0 for one in others) == [2, 4, 6, 8, 10, 12]
    assert [len(items) for items in work.calls] == [1] * 7


def test_a_run_that_fails_is_tried_again_one_by_one(work: Work, threads: ThreadPoolExecutor) -> None:
    """Only the call whose item is refused raises, and the calls after it run as usual."""
    batcher = Batcher(work, patience=LONG)
    with held_up(work, lambda: threads.submit(batcher.run, "a", 1)):
        others = [threads.submit(batcher.run, key, item) for key, item in (("b", -1), ("c", 3), ("d", 4), ("e", 5))]
        assert work.begun.acquire(timeout=LONG)
    with pytest.raises(ValueError, match=r"refused \['b'\]"):
        others[0].result(LONG)
    assert [one.result(LONG) for one in others[1:]] == [6, 8, 10]
    assert threads.submit(batcher.run, "f", 6).result(LONG) == 12


def test_a_run_that_hangs_keeps_no_other_call_waiting(work: Work, threads: ThreadPoolExecutor) -> None:
    """A call that waits for it begins by itself, and later ones do not wait for it at all."""
    batcher = Batcher(work)
    with held_up(work, lambda: threads.submit(batcher.run, "a", 1)):
        second = threads.submit(batcher.run, "b", 2)
        assert work.begun.acquire(timeout=LONG)
        assert [sorted(items) for items in work.calls] == [["a"], ["b"]]
    assert second.result(LONG) == 4


class SlowKey(str):
    """A key whose second hash waits: that is within the lock under which a run takes the calls that wait."""

    __slots__ = ()
    hashes = iter(range(10**6))
    reached, go = threading.Event(), threading.Event()

    def __hash__(self) -> int:
        if next(SlowKey.hashes) == 1:
            SlowKey.reached.set()
            assert SlowKey.go.wait(LONG)
        return super().__hash__()


def test_a_call_that_stops_waiting_as_its_turn_comes_runs(work: Work, threads: ThreadPoolExecutor) -> None:
    """The call under way hands over to one whose patience has just ended."""
    batcher = Batcher(work, patience=0.3)
    with held_up(work, lambda: threads.submit(batcher.run, "a", 1)) as first:
        others = [threads.submit(batcher.run, SlowKey("b"), item) for item in range(2, 6)]
        assert SlowKey.reached.wait(LONG)
        work.go.set()  # the first call ends, and waits for the lock
        time.sleep(0.6)  # so do the others
        SlowKey.go.set()
        assert sorted(one.result(LONG) or 0 for one in others) == [4, 6, 8, 10]
    assert first.result(LONG) == 2


def test_the_main_thread_runs_its_items_by_itself(work: Work, threads: ThreadPoolExecutor) -> None:
    """An interrupt of it leaves nobody waiting, and it waits for nobody."""
    batcher = Batcher(work, patience=LONG)
    with held_up(work, lambda: threads.submit(batcher.run, "a", 1)):
        others = [threads.submit(batcher.run, key, 2) for key in "bcd"]
        opening = threading.Thread(target=lambda: work.begun.acquire(timeout=LONG) and work.go.set())
        opening.start()
        assert batcher.run("e", 5) == 10
        opening.join()
    assert [one.result(LONG) for one in others] == [4, 4, 4]
    assert {"e": 5} in work.calls
