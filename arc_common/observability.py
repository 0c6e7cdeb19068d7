"""Counters and timers: a small protocol, silent unless somebody listens."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

__all__ = ["Observer", "SilentObserver", "timed"]


class Observer(Protocol):
    """Receives what arc counts and times. Called from any thread; must not block and must not raise."""

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        """Add `value` to the counter `name` ("save.errors")."""

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        """Record that the step `name` ("context.load") took `seconds`."""


class SilentObserver:
    """An observer that listens to nothing."""

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        """Do nothing."""

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        """Do nothing."""


@contextmanager
def timed(observer: Observer, name: str, **tags: str) -> Iterator[None]:
    """Time the block, also when it raises."""
    start = perf_counter()
    try:
        yield
    finally:
        observer.timing(name, perf_counter() - start, **tags)
