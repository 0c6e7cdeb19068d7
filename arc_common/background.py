"""Work that no reply waits for, on threads of its own."""

import logging
import os
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, RLock
from typing import Generic, TypeVar

__all__ = ["BackgroundQueue"]

_log = logging.getLogger("arc.background")

K = TypeVar("K", bound=Hashable)


class BackgroundQueue(Generic[K]):
    """Runs one function for keys, soon and not on the caller's thread.

    - Coalesced: a key that waits is not added again; one that is being worked on is worked on once more afterwards.
    - At most one thread works on a key at a time.
    - Needs no event loop. A forked child begins with an empty queue and threads of its own.
    - What the function raises is logged and counted by `on_error`; it never reaches whoever scheduled. Neither does it
      that no thread can be started: the key is then dropped.

    Args:
        work: Called with a key; asks `stopping` between its steps.
        threads: How many at most.
        on_error: Called with what `work` raised.
    """

    def __init__(self, work: Callable[[K], None], *, threads: int, on_error: Callable[[Exception], None]) -> None:
        self._work = work
        self._threads = threads
        self._on_error = on_error
        self._begin()

    def _begin(self) -> None:
        # Entered directly: a Condition's own __exit__ is Python code, in which an interrupt would leave the lock held.
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: set[K] = set()
        self._running: set[K] = set()
        self._process = os.getpid()
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether work that is under way should end."""
        return self._stopping

    def schedule(self, key: K) -> None:
        """Schedule the work for this key. After `close` this does nothing."""
        self._begin_in_child()
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
        """Whether work for this key waits or is under way."""
        self._begin_in_child()
        return key in self._waiting or key in self._running

    def wait(self, timeout: float | None = None, *, key: K | None = None) -> bool:
        """Wait until no work (for this key) waits or runs; return whether that happened within `timeout` seconds."""
        self._begin_in_child()
        with self._lock:
            return self._changed.wait_for(
                lambda: not (self._waiting or self._running) if key is None else not self.is_busy(key), timeout
            )

    def close(self, *, timeout: float = 5.0) -> None:
        """Drop waiting work, and give running work a moment to end. Safe to call twice."""
        self._begin_in_child()
        with self._lock:
            self._stopping = True
            self._waiting.clear()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running, timeout)
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin_in_child(self) -> None:
        if self._process != os.getpid():
            self._begin()

    def _submit(self, key: K) -> None:
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="arc-background")
            self._pool.submit(self._run, key)
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            self._waiting.discard(key)
            self._report(error)

    def _run(self, key: K) -> None:
        with self._lock:
            if key not in self._waiting or key in self._running:
                return
            self._waiting.discard(key)
            self._running.add(key)
        try:
            self._work(key)
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
