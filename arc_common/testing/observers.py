"""An observer that records counts and timings, for tests."""

from collections import Counter
from threading import Lock


class CountingObserver:
    """Adds up counts by name, and lists the names of timings in the order in which they ended; tags are not kept.

    Any number of threads may report to the same observer.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.timings: list[str] = []
        self._lock = Lock()

    def count(self, name: str, value: int = 1, **tags: str) -> None:  # noqa: ARG002 - the protocol's
        """See `Observer.count`."""
        with self._lock:
            self.counts[name] += value

    def timing(self, name: str, seconds: float, **tags: str) -> None:  # noqa: ARG002 - the same
        """See `Observer.timing`."""
        with self._lock:
            self.timings.append(name)
