"""The queue of background work, which no reply waits for."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Barrier, Event, Lock, current_thread, main_thread
from time import monotonic, sleep
from typing import Any

import pytest

from arc_common.concurrency import BackgroundQueue

LONG = 20.0
"""Seconds that no step of a test takes."""


class Work:
    """Counts its calls by key; calls for `held` keys wait until they are released."""

    def __init__(self, *held: str) -> None:
        self.calls: Counter[str] = Counter()
        self.errors: list[Exception] = []
        self.began = {key: Event() for key in held}
        self.may_end = {key: Event() for key in held}
        self.at_once: Counter[str] = Counter()
        self.most_at_once = 0
        self._lock = Lock()

    def __call__(self, key: str) -> None:
        assert current_thread() is not main_thread()
        with self._lock:
            self.calls[key] += 1
            self.at_once[key] += 1
            self.most_at_once = max(self.most_at_once, self.at_once[key])
        if key in self.began:
            self.began[key].set()
            assert self.may_end[key].wait(LONG)
        with self._lock:
            self.at_once[key] -= 1
        if key == "bad":
            raise ValueError(key)

    def queue(self, threads: int = 2) -> BackgroundQueue[str]:
        return BackgroundQueue(self, threads=threads, on_error=self.errors.append)


@pytest.fixture
def closing() -> Iterator[Callable[[BackgroundQueue[str]], BackgroundQueue[str]]]:
    queues: list[BackgroundQueue[str]] = []

    def keep(queue: BackgroundQueue[str]) -> BackgroundQueue[str]:
        queues.append(queue)
        return queue

    yield keep
    for queue in queues:
        queue.close()


def test_work_is_done_on_another_thread(closing: Any) -> None:
    work = Work()
    queue = closing(work.queue())
    queue.schedule("a")
    assert queue.wait(LONG)
    assert work.calls == {"a": 1}
    assert not queue.is_busy("a")


def test_what_waits_is_not_added_again(closing: Any) -> None:
    """Ten requests for a key while the only thread is busy give one call."""
    work = Work("busy")
    queue = closing(work.queue(threads=1))
    queue.schedule("busy")
    assert work.began["busy"].wait(LONG)
    for _ in range(10):
        queue.schedule("a")
    assert queue.is_busy("a")
    work.may_end["busy"].set()
    assert queue.wait(LONG)
    assert work.calls == {"busy": 1, "a": 1}


def test_scheduled_while_it_works_is_worked_on_once_more(closing: Any) -> None:
    """The second run sees everything that came meanwhile, and no two threads work on one key."""
    work = Work("a")
    queue = closing(work.queue(threads=4))
    queue.schedule("a")
    assert work.began["a"].wait(LONG)
    for _ in range(5):
        queue.schedule("a")
    assert work.calls == {"a": 1}
    work.may_end["a"].set()
    assert queue.wait(LONG)
    assert work.calls == {"a": 2}
    assert work.most_at_once == 1


def test_keys_are_worked_on_side_by_side(closing: Any) -> None:
    barrier = Barrier(2, timeout=LONG)
    met: list[int] = []
    queue = closing(BackgroundQueue(lambda _: met.append(barrier.wait()), threads=2, on_error=lambda _: None))
    queue.schedule("a")
    queue.schedule("b")
    assert queue.wait(LONG)
    assert sorted(met) == [0, 1]


def test_waiting_for_one_key(closing: Any) -> None:
    work = Work("slow")
    queue = closing(work.queue())
    queue.schedule("slow")
    queue.schedule("a")
    assert queue.wait(LONG, key="a")
    assert not queue.wait(0.01, key="slow")
    assert not queue.wait(0.01)
    work.may_end["slow"].set()


def test_errors_are_reported_and_end_nothing(closing: Any) -> None:
    work = Work()
    queue = closing(work.queue())
    for key in ("bad", "a", "bad"):
        queue.schedule(key)
        assert queue.wait(LONG)
    assert [str(error) for error in work.errors] == ["bad", "bad"]
    assert work.calls == {"bad": 2, "a": 1}


def test_closing_drops_what_waits() -> None:
    """Running work is asked to stop and given time; waiting and later work is not started."""
    work = Work("busy")
    queue = work.queue(threads=1)
    queue.schedule("busy")
    assert work.began["busy"].wait(LONG)
    queue.schedule("busy")
    queue.schedule("a")
    queue.close(timeout=0.01)
    assert queue.stopping
    work.may_end["busy"].set()
    assert queue.wait(LONG)
    queue.close()
    queue.schedule("b")
    assert not queue.is_busy("b")
    assert work.calls == {"busy": 1}


def test_closing_waits_for_what_runs() -> None:
    began, ended = Event(), Event()

    def work(_: str) -> None:
        began.set()
        while not queue.stopping:
            pass
        ended.set()

    queue = BackgroundQueue(work, threads=1, on_error=lambda _: None)
    queue.schedule("a")
    assert began.wait(LONG)
    queue.close(timeout=LONG)
    assert ended.is_set()


AT_EXIT = """
import atexit
from arc_common.concurrency import BackgroundQueue

errors = []
queue = BackgroundQueue(lambda key: None, threads=1, on_error=errors.append)

def late():
    queue.schedule("a")
    print(len(errors), queue.is_busy("a"))

atexit.register(late)
"""


def test_a_save_succeeds_when_no_thread_can_start() -> None:
    """A save at the interpreter's exit succeeds although no thread for summaries can start; this is reported."""
    assert _run(AT_EXIT) == "1 False\n"


LEFT_OPEN = """
from arc_common.concurrency import BackgroundQueue

queue = BackgroundQueue(print, threads=1, on_error=print, settle=50)
queue.schedule("done")
"""


def test_a_program_that_ends_does_not_let_work_settle() -> None:
    begin = monotonic()
    assert _run(LEFT_OPEN) == "done\n"
    assert monotonic() - begin < LONG


OTHERS_GO_ON = """
import sys
from threading import Thread
from time import monotonic
from arc_common.concurrency import BackgroundQueue, begin_in_each_process

class Owner:
    def __init__(self):
        begin_in_each_process(self.begin)

    def begin(self):
        pass

def make():
    until = monotonic() + 0.5
    while monotonic() < until:
        kept.append(Owner())

sys.setswitchinterval(1e-6)
kept = [Owner() for _ in range(30_000)]
queue = BackgroundQueue(print, threads=1, on_error=print, settle=50)
queue.schedule("done")
Thread(target=make).start()
"""


def test_a_program_ends_while_other_threads_open_engines() -> None:
    begin = monotonic()
    assert _run(OTHERS_GO_ON) == "done\n"
    assert monotonic() - begin < LONG


LATE = """
from threading import Event, Thread
from time import sleep
from arc_common.concurrency import BackgroundQueue

began, may_end = Event(), Event()

def work(key):
    began.set()
    may_end.wait(20)
    print(key)

def late():
    sleep(0.3)  # until the program is ending
    queue.schedule("again")
    may_end.set()
    queue.wait(20)
    queue.schedule("late")

queue = BackgroundQueue(work, threads=1, on_error=print, settle=0)
queue.schedule("again")
began.wait(20)
Thread(target=late).start()
"""


def test_threads_that_are_left_when_a_program_ends_have_their_work_done() -> None:
    """Neither work that was scheduled again while it ran nor new work is refused."""
    assert _run(LATE) == "again\nagain\nlate\n"


FORK = """
import os
from threading import Event
from arc_common.concurrency import BackgroundQueue

began, may_end = Event(), Event()
def work(key):
    if os.getpid() == parent:
        began.set()
        may_end.wait(20)
    else:
        os.write(write, b"done")

parent = os.getpid()
read, write = os.pipe()
queue = BackgroundQueue(work, threads=1, on_error=lambda error: None)
queue.schedule("a")
began.wait(20)
queue.schedule("b")
child = os.fork()
if child == 0:
    assert not queue.is_busy("a") and not queue.is_busy("b")
    assert queue.wait(5)
    queue.schedule("a")
    assert queue.wait(5)
    queue.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert os.read(read, 9) == b"done"
assert queue.is_busy("a") and queue.is_busy("b")
may_end.set()
assert queue.wait(20)
print("fine")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_begins_anew() -> None:
    """It has its own threads and none of its parent's work; the parent continues."""
    assert _run(FORK) == "fine\n"


def _run(script: str) -> str:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_burst_is_one_piece_of_work(closing: Any) -> None:
    work = Work()
    queue = closing(BackgroundQueue(work, threads=1, on_error=work.errors.append, settle=0.5))
    for _ in range(10):
        queue.schedule("a")
        sleep(0.01)
    assert work.calls == {}
    assert queue.wait(LONG)
    assert work.calls == {"a": 1}


def test_waiting_and_closing_skip_the_settling_time(closing: Any) -> None:
    work = Work()
    queue = closing(BackgroundQueue(work, threads=1, on_error=work.errors.append, settle=LONG))
    begin = monotonic()
    queue.schedule("a")
    assert queue.wait(LONG)
    queue.schedule("a")
    queue.close()
    assert work.calls == {"a": 1}
    assert monotonic() - begin < LONG / 2
