"""Counters, timers and spans: a small observer protocol, silent by default."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, Self, cast, runtime_checkable

_log = logging.getLogger(__name__)

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
    """Receives arc's counts and timings. Called from any thread, in the midst of a call: it must not block.

    An error that it raises breaks nothing; the first one is logged.
    """

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


def guarded_observer(observer: Observer | None) -> Observer:
    """Return an observer that passes everything on to the given one, suppresses its failures and logs the first.

    Without an observer, return a silent one.
    """
    if observer is None:
        return SilentObserver()
    if isinstance(observer, _GuardedObserver):
        return observer
    return _GuardedTracer(observer) if hasattr(observer, "span") else _GuardedObserver(observer)


class _GuardedObserver:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._failed = False

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        self.attempt(self._observer.count, name, value, **tags)

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        self.attempt(self._observer.timing, name, seconds, **tags)

    def attempt(self, call: Callable[..., Any], /, *arguments: Any, **tags: str) -> Any:
        """Return what the user's function returns, or None if it raises."""
        try:
            return call(*arguments, **tags)
        except Exception as error:  # noqa: BLE001 - the user's own observer must not break a reply
            if not self._failed:
                self._failed = True
                _log.exception("the observer failed; its next failures are not logged: %r", error)
            return None


class _GuardedTracer(_GuardedObserver):
    def span(self, name: str, **tags: str) -> "_GuardedSpan":
        return _GuardedSpan(self, self.attempt(cast("Tracer", self._observer).span, name, **tags))


class _GuardedSpan:
    """A user's span. One that could not begin receives nothing; none can suppress the error of its block."""

    def __init__(self, observer: _GuardedObserver, block: AbstractContextManager[Span] | None) -> None:
        self._observer = observer
        self._block = block
        self._span: Span | None = None
        self._begun = False

    def __enter__(self) -> Self:
        if self._block is not None:
            self._observer.attempt(self._begin, self._block)
        return self

    def _begin(self, block: AbstractContextManager[Span]) -> None:
        self._span = block.__enter__()
        self._begun = True

    def __exit__(self, *error: Any) -> None:
        if self._block is not None and self._begun:
            self._observer.attempt(self._block.__exit__, *error)

    def set(self, attributes: Attributes) -> None:
        if self._span is not None:
            self._observer.attempt(self._span.set, attributes)


@contextmanager
def timed(observer: Observer, name: str, **tags: str) -> Iterator[Span | None]:
    """Report the block's duration, even if it raises; yield its span if the observer is a `Tracer`."""
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
