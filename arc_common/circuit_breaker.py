"""A circuit breaker that learns the outcomes of calls which it does not make itself."""

from contextlib import suppress
from datetime import UTC, datetime

from arc_common.concurrency import begin_in_each_process


class Breaker:
    """Opens for `reset_seconds` after `failures` calls in a row that failed. Thread-safe."""

    def __init__(self, failures: int, reset_seconds: float) -> None:
        self.failures = failures
        self._reset_seconds = reset_seconds
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        import pybreaker  # noqa: PLC0415 - arc is imported faster without it

        self._outcomes = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
        self._breaker = pybreaker.CircuitBreaker(self.failures, self._reset_seconds, state_storage=self._outcomes)

    @property
    def is_open(self) -> bool:
        """Return whether no call should be made now."""
        opened = self._outcomes.opened_at
        if self._outcomes.state != "open" or opened is None:
            return False
        return (datetime.now(UTC) - opened).total_seconds() < self._reset_seconds

    def record(self, error: Exception | None) -> None:
        """Learn a call's outcome: its error, or `None` if it succeeded."""

        def outcome() -> None:
            if error is not None:
                raise error

        with suppress(Exception):
            self._breaker.call(outcome)
