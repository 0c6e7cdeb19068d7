"""Counters, timers and spans: a small observer protocol, silent by default."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

Attributes = Mapping[str, str | int | float | bool]

SECTION_TOKENS = "arc.tokens."
"""Begins the names of attributes that hold the tokens of a request's sections."""


@dataclass(frozen=True, slots=True)
class Health:
    """The problems of an engine, if it has any.

    Args:
        problems: The error of each part that does not work: "engine", "store", "redis", "embedder", "spending"
            (the hour's tokens are spent), and the chat models by the name of their counters ("summary",
            "memory.model").
        model_tokens: The tokens of this process's own calls to chat models within the last hour, as the engine's
            counter counts them.
    """

    problems: Mapping[str, str]
    model_tokens: int = 0

    @property
    def ok(self) -> bool:
        """Return whether everything works."""
        return not self.problems


@runtime_checkable
class Observer(Protocol):
    """Receives arc's counts and timings. Called from any thread; must not block or raise."""

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        """Add `value` to the counter `name` ("save.errors")."""

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        """Record that the step `name` ("context.load") took `seconds`."""


class Span(Protocol):
    """A running step, and the attributes known so far."""

    def set(self, attributes: Attributes) -> None:
        """Add attributes, by the names of OpenTelemetry's conventions or "arc.…"."""


class Tracer(Observer, Protocol):
    """An observer that also wants the steps as spans, which may lie within each other."""

    def span(self, name: str, **tags: str) -> AbstractContextManager[Span]:
        """Begin the span of a step, which ends with the block."""


class SilentObserver:
    """An observer that ignores everything."""

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        """Do nothing."""

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        """Do nothing."""


_NO_SPAN = nullcontext()


def timed(observer: Observer, name: str, **tags: str) -> AbstractContextManager[Span | None]:
    """Report the block's duration, even if it raises; yield its span if the observer is a `Tracer`."""
    return _NO_SPAN if type(observer) is SilentObserver else _timed(observer, name, tags)


@contextmanager
def _timed(observer: Any, name: str, tags: Mapping[str, str]) -> Iterator[Span | None]:
    begin = getattr(observer, "span", None)
    start = perf_counter()
    try:
        if begin is None:
            yield None
        else:
            with begin(name, **tags) as span:
                yield span
    finally:
        observer.timing(name, perf_counter() - start, **tags)
