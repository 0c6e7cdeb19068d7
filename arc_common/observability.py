"""Counters and timers: a small observer protocol, silent by default."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol


class Observer(Protocol):
    """Receives arc's counts and timings. Called from any thread; must not block or raise."""

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        """Add `value` to the counter `name` ("save.errors")."""

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        """Record that the step `name` ("context.load") took `seconds`."""


class SilentObserver:
    """An observer that ignores everything."""

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        """Do nothing."""

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        """Do nothing."""


@contextmanager
def timed(observer: Observer, name: str, **tags: str) -> Iterator[None]:
    """Report the block's duration, even if it raises."""
    start = perf_counter()
    try:
        yield
    finally:
        observer.timing(name, perf_counter() - start, **tags)
