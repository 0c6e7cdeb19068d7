"""Runs blocking work for coroutines on threads of the engine's own, so that no event loop owns a resource."""

import asyncio
import contextvars
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock, Thread
from typing import ParamSpec, TypeVar

from arc_common.exceptions import EngineClosedError

__all__ = ["Workers", "started"]

P = ParamSpec("P")
T = TypeVar("T")


def started(call: Callable[[], T], *, name: str) -> "Future[T]":
    """Start a call that may hang on a daemon thread of its own, with the caller's context variables."""
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - whoever waits for the result raises it
            future.set_exception(error)

    Thread(target=work, name=name, daemon=True).start()
    return future


class Workers:
    """A pool of threads, started at first use.

    - Context variables are those of the caller.
    - Works from any number of event loops, and in a forked child (which starts threads of its own).
    - Work that was handed in is done, also when whoever waits for it is cancelled: a save is never half wanted.

    Args:
        threads: How many at most.
        name: What the threads are called.
    """

    def __init__(self, threads: int, *, name: str) -> None:
        self._threads = threads
        self._name = name
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()
        self._closed = False

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function on a thread and wait for what it returns or raises."""
        future = self._submit(partial(contextvars.copy_context().run, partial(function, *args, **kwargs)))
        return await asyncio.shield(asyncio.wrap_future(future))

    def close(self) -> None:
        """Finish what was handed in and take no more. Safe to call twice."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.shutdown(wait=True)

    def _submit(self, call: Callable[[], T]) -> "Future[T]":
        if self._process != os.getpid():
            self._lock, self._pool, self._process = Lock(), None, os.getpid()
        with self._lock:
            if self._closed:
                raise EngineClosedError("the engine is closed")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            return self._pool.submit(call)
