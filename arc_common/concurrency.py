"""Threads: async forms of blocking methods, background work that yields to replies, and safety when forking."""

import asyncio
import contextvars
import inspect
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Condition, Event, Lock, RLock, Thread, current_thread, get_ident, local, main_thread
from time import monotonic
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from arc_common.caches import reading_texts
from arc_common.exceptions import ArchiveError, EngineClosedError, SessionNotFoundError

T = TypeVar("T")


_log = logging.getLogger("arc.background")

K = TypeVar("K", bound=Hashable)

_beginnings: "WeakKeyDictionary[Any, Callable[[Any], None]]" = WeakKeyDictionary()


def begin_in_each_process(begin: Callable[[], None]) -> None:
    """Call a method that creates an object's locks, threads and caches, now and in each forked child."""
    method: Any = begin
    begin()
    _beginnings[method.__self__] = method.__func__


def _begin_in_child() -> None:
    for owner, begin in list(_beginnings.items()):
        begin(owner)


os.register_at_fork(after_in_child=_begin_in_child)


class BackgroundQueue(Generic[K]):
    """Runs one function for scheduled keys in the background."""

    def __init__(
        self,
        work: Callable[[K], None],
        *,
        threads: int,
        on_error: Callable[[Exception], None],
        settle: float = 0.1,
    ) -> None:
        self._work = work
        self._settle = settle
        self._threads = threads
        self._on_error = on_error
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        # The lock is entered directly: an interrupt in Condition.__exit__, which is Python code, would leave it held.
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._alone = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: set[K] = set()
        self._running: set[K] = set()
        self._awaited = 0  # the number of callers in `wait`, and one if the program is ending
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Return whether running work should stop."""
        return self._stopping

    def schedule(self, key: K) -> None:
        """Schedule the work for this key. Does nothing after `close`."""
        with self._lock:
            if self._stopping or key in self._waiting:
                return
            try:
                self._waiting.add(key)
                if key not in self._running:
                    self._submit(key)
            except BaseException:  # an interrupt: the key would never run, and `wait` would never end
                self._waiting.discard(key)
                raise

    def is_busy(self, key: K) -> bool:
        """Return whether work for this key is queued or running."""
        return key in self._waiting or key in self._running

    def wait(self, timeout: float | None = None, *, key: K | None = None) -> bool:
        """Wait until no work (for this key) is queued or running; return whether it ended within `timeout` seconds."""
        with self._lock:
            try:
                self._awaited += 1
                self._changed.notify_all()
                return self._changed.wait_for(
                    lambda: not (self._waiting or self._running) if key is None else not self.is_busy(key), timeout
                )
            finally:
                self._awaited -= 1

    def begin_now(self) -> None:
        """Begin queued work without letting it settle, from now on."""
        with self._lock:
            self._awaited += 1
            self._changed.notify_all()

    def close(self, *, timeout: float = 5.0) -> None:
        """Drop queued work, and wait up to `timeout` seconds for running work. Safe to call twice."""
        with self._lock:
            self._stopping = True
            self._waiting.clear()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running, timeout)
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, key: K) -> None:
        try:
            if _ending.is_set() and current_thread() is not main_thread():
                Thread(target=self._run_alone, args=(key,), name="arc-background").start()
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="arc-background")
            self._pool.submit(self._run, key, monotonic() + self._settle)
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            self._waiting.discard(key)
            self._report(error)

    def _run_alone(self, key: K) -> None:
        """Run work of threads that are left when a program ends: Python waits for them, but its pools refuse work."""
        with self._alone:
            self._run(key, monotonic())

    def _run(self, key: K, begin: float) -> None:
        with self._lock:
            self._changed.wait_for(lambda: self._awaited or self._stopping, begin - monotonic())
            if key not in self._waiting or key in self._running:
                return
            self._waiting.discard(key)
            self._running.add(key)
        try:
            _background.is_working, _background.until = True, 0.0
            with reading_texts():
                self._work(key)
        except (EngineClosedError, ArchiveError, SessionNotFoundError):  # the session's next use, if any, catches up
            pass
        except Exception as error:  # noqa: BLE001 - nothing waits for this thread; the error is reported
            self._report(error)
        finally:
            self._end(key)

    def _report(self, error: Exception) -> None:
        _log.warning("background work failed: %s", error, exc_info=error)
        self._on_error(error)

    def _end(self, key: K) -> None:
        with self._lock:
            self._running.discard(key)
            if key in self._waiting and not self._stopping:
                self._submit(key)
            self._changed.notify_all()


R = TypeVar("R")
_ENOUGH = 4
"""The number of waiting calls at which a second run starts beside one that is under way."""


class _BatchedCall(Generic[K, T, R]):
    """A thread's call of a `Batcher`."""

    __slots__ = ("is_done", "item", "key", "leads", "result", "turn")

    def __init__(self, key: K, item: T) -> None:
        self.key, self.item = key, item
        self.turn = Lock()  # released when the call is done, or leads
        self.turn.acquire()
        self.leads = self.is_done = False
        self.result: R | None = None


class Batcher(Generic[K, T, R]):
    """Runs one function for several threads' items at once: for all that arrive while another run is under way.

    - No two items of a run have the same key. If a run of several has no result for one, or fails, that item runs by
      itself, so that no thread gets another's error.
    - The main thread runs its items by itself, because an interrupt there could leave other threads waiting.
    - A call waits at most `patience` seconds for a run to end that others began; a connection may hang.
    """

    def __init__(self, work: Callable[[dict[K, T]], Mapping[K, R]], *, patience: float = 0.05) -> None:
        self._work = work
        self._patience = patience
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()
        self._waiting: list[_BatchedCall[K, T, R]] = []
        self._running: dict[_BatchedCall[K, T, R], float] = {}  # with their starts

    def run(self, key: K, item: T) -> R | None:
        """Return what the function returns for the item's key, or `None`."""
        if current_thread() is main_thread():
            return self._work({key: item}).get(key)
        call = _BatchedCall[K, T, R](key, item)
        with self._lock:
            latest = monotonic() - self._patience
            under_way = sum([start > latest for start in self._running.values()])
            if under_way > (len(self._waiting) + 1 >= _ENOUGH):
                self._waiting.append(call)
            else:
                self._start(call)
        while not (call.leads or call.is_done):
            if not call.turn.acquire(timeout=self._patience):
                with self._lock:
                    if call in self._waiting:
                        self._waiting.remove(call)
                        self._start(call)
        is_alone = self._lead(call) == 1 if call.leads else False
        if call.result is None and not is_alone:
            return self._work({key: item}).get(key)
        return call.result

    def _start(self, call: _BatchedCall[K, T, R]) -> None:
        call.leads = True
        self._running[call] = monotonic()

    def _lead(self, leader: _BatchedCall[K, T, R]) -> int:
        """Run the leader's call and those that wait, then let the next one lead; return the number of calls."""
        calls = {leader.key: leader}
        with self._lock:
            for call in self._waiting:
                calls.setdefault(call.key, call)
            self._waiting = [call for call in self._waiting if calls[call.key] is not call]
        results: Mapping[K, R] = {}
        try:
            results = self._work({key: call.item for key, call in calls.items()})
        except Exception:
            if len(calls) == 1:
                raise
        finally:
            with self._lock:
                del self._running[leader]
                if self._waiting:
                    following = self._waiting.pop(0)
                    self._start(following)
                    following.turn.release()
            for key, call in calls.items():
                call.result = results.get(key)
                call.is_done = True
                if call is not leader:  # its turn is released already if it stopped waiting just as it was to lead
                    call.turn.release()
        return len(calls)


_ending = Event()


def _at_exit() -> None:
    _ending.set()
    for reference in _beginnings.keyrefs():  # at once: other threads continue, and may add one
        if isinstance(owner := reference(), BackgroundQueue):
            owner.begin_now()


# A program that ends joins the threads of pools, which would let work settle. `atexit` calls nothing before that.
threading._register_atexit(_at_exit)  # type: ignore[attr-defined]  # noqa: SLF001


_STEP_SECONDS = 0.002
_PATIENCE = 0.02
_PAUSE = 0.001


class ReplyPriority:
    """Tracks the threads that are replying, and pauses background work for them between two steps."""

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._replying: dict[int, int] = {}  # the nesting depth of each thread's replies
        self._numbers: dict[int, int] = {}  # the number of replies each thread has begun

    @contextmanager
    def reply(self) -> Iterator[None]:
        """Mark the current thread as replying within the block; may be nested."""
        me = get_ident()
        if me not in self._replying:
            self._numbers[me] = self._numbers.get(me, 0) + 1
        self._replying[me] = self._replying.get(me, 0) + 1
        try:
            with reading_texts():
                yield
        finally:
            if depth := self._replying.pop(me, 1) - 1:
                self._replying[me] = depth

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Suspend the thread's mark within the block, while its reply waits for background work."""
        depth = self._replying.pop(get_ident(), 0)
        try:
            yield
        finally:
            if depth:
                self._replying[get_ident()] = depth

    def give_way(self) -> None:
        """Pause background work briefly while other threads reply. Does nothing within a reply."""
        if not self._replying or get_ident() in self._replying:
            return
        waited = 0.0
        under_way = {thread: self._numbers.get(thread) for thread in list(self._replying)}
        while waited < _PATIENCE and any(
            thread in self._replying and self._numbers.get(thread) == number for thread, number in under_way.items()
        ):
            self._sleep(_PAUSE)
            waited += _PAUSE


# One per process, because the threads of all engines share the interpreter.
_priority = ReplyPriority()
_background = local()

replying = _priority.reply
waiting_for_background = _priority.waiting


def in_background() -> bool:
    """Return whether this thread does background work: a queue's, or any within `as_background`."""
    return getattr(_background, "is_working", False)


@contextmanager
def as_background() -> Iterator[None]:
    """Let this thread's work within the block give way to replies, and restore no archived conversation."""
    before, _background.is_working, _background.until = in_background(), True, 0.0
    try:
        yield
    finally:
        _background.is_working = before


def give_way() -> None:
    """Pause a queue's work while other threads reply, after every 2 ms of its CPU time."""
    if getattr(_background, "is_working", False) and time.thread_time() > _background.until:
        _priority.give_way()
        _background.until = time.thread_time() + _STEP_SECONDS


def giving_way(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, giving way before each."""
    for item in items:
        give_way()
        yield item


_LONGEST_WAIT = 60.0
"""The longest time, in seconds, that a fork waits for running operations; longer than any of them waits for a lock."""


class ForkGate:
    """Wraps a store's operations (`with gate.operation():`), so that a fork happens between them, never within."""

    def __init__(self, *, before: Callable[[], None], in_child: Callable[[], None]) -> None:
        self._before = before
        self._in_child = in_child
        self._reset()
        _gates.add(self)

    def _reset(self) -> None:
        self._own = local()
        self._locks: WeakSet[Any] = WeakSet()
        self._fork = Lock()
        self._taken: list[Any] = []

    def operation(self) -> Any:
        """Return the thread's lock, for a `with` block."""
        try:
            return self._own.lock
        except AttributeError:
            with self._fork:
                lock = self._own.lock = RLock()
                self._locks.add(lock)
            return lock

    def shut(self) -> None:
        """Wait until no other thread runs an operation, and block new ones."""
        self._fork.acquire()
        deadline = monotonic() + _LONGEST_WAIT
        for lock in list(self._locks):
            if lock.acquire(timeout=max(deadline - monotonic(), 0.0)):
                self._taken.append(lock)
        self._before()

    def open(self, *, in_child: bool) -> None:
        """Unblock operations."""
        if in_child:
            self._reset()
            self._in_child()
            return
        while self._taken:
            self._taken.pop().release()
        self._fork.release()


# Fork hooks are process-wide and can't be removed, so there is one registration with weak references.
_gates: WeakSet[ForkGate] = WeakSet()
_shut: list[ForkGate] = []


def _before_fork() -> None:
    for gate in list(_gates):
        gate.shut()
        _shut.append(gate)


def _after_fork(*, in_child: bool) -> None:
    while _shut:
        _shut.pop().open(in_child=in_child)


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(in_child=False),
    after_in_child=lambda: _after_fork(in_child=True),
)


P = ParamSpec("P")


def started(call: Callable[[], T], *, name: str) -> "Future[T]":
    """Run a call that may hang on its own daemon thread, with the caller's context variables."""
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - raised by the future's `result`
            future.set_exception(error)

    Thread(target=work, name=name, daemon=True).start()
    return future


class Workers:
    """A thread pool, started at first use."""

    def __init__(self, threads: int, *, name: str) -> None:
        self._threads = threads
        self._name = name
        self._closed = False
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function on a thread, and await its result or exception."""
        call = partial(contextvars.copy_context().run, partial(function, *args, **kwargs))
        future = self._submit(reading_texts()(call))
        return await asyncio.shield(asyncio.wrap_future(future))

    def close(self) -> None:
        """Finish submitted calls, and accept no further ones. Safe to call twice."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def _submit(self, call: Callable[[], T]) -> "Future[T]":
        with self._lock:
            if self._closed:
                raise EngineClosedError("the engine is closed")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            return self._pool.submit(call)


class _HasWorkers(Protocol):
    _workers: Workers


S = TypeVar("S", bound=_HasWorkers)


def async_form(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the async form of a method, with its signature; it runs on the object's own threads (`_workers`)."""
    name = method.__name__

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._workers.run(getattr(self, name), *args, **kwargs)

    run.__name__ = f"a{name}"
    run.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.a{name}"
    run.__module__ = method.__module__
    run.__doc__ = f"Async form of `{name}`."
    run.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]  # any function may have one
    run.__annotations__ = method.__annotations__
    return run
