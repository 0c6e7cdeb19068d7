"""Counters and timers: a small observer protocol, silent by default."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Health:
    """The problems of an engine, if it has any.

    Args:
        problems: What is wrong with each part that does not work: "engine", "store", "embedder", and the chat models by
            the name of their counters ("summary", "memory.model").
    """

    problems: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """Return whether everything works."""
        return not self.problems


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
