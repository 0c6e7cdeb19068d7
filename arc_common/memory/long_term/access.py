"""When memories were returned for the last time: noted at once, written in the background."""

import logging
import os
from collections.abc import Sequence
from datetime import datetime
from threading import Lock

from arc_common.background import BackgroundQueue
from arc_common.observability import Observer
from arc_common.protocols.memories import MemoryStore
from arc_common.protocols.search_index import Scope

__all__ = ["Touches"]

_log = logging.getLogger("arc.memory")


class Touches:
    """Writes what searches returned, so that none of them waits for a disk.

    - Searches of one scope that come meanwhile are one write.
    - Who reads after `flush` sees all that was noted before.

    Args:
        store: Where memories are.
        observer: Receives `memory.touch_errors`.
    """

    def __init__(self, store: MemoryStore, *, observer: Observer) -> None:
        self._store = store
        self._observer = observer
        self._process = os.getpid()
        self._lock = Lock()
        self._noted: dict[Scope, dict[str, datetime]] = {}
        self._queue: BackgroundQueue[Scope] = BackgroundQueue(self._write, threads=1, on_error=self._count)

    def note(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> None:
        """Note that memories were returned."""
        with self._guard():
            self._noted.setdefault(scope, {}).update(dict.fromkeys(ids, at))
        self._queue.schedule(scope)

    def flush(self, scope: Scope | None = None) -> None:
        """Write what was noted (in this scope) and wait for what is being written; never raises."""
        with self._guard():
            scopes = list(self._noted) if scope is None else [scope] if scope in self._noted else []
        for place in scopes:
            try:
                self._write(place)
            except Exception as error:  # noqa: BLE001 - a time of access is not worth an error
                _log.warning("times of access were not stored: %s", error)
                self._count(error)
        self._queue.wait(1.0)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all notes are written; return whether that was so within `timeout` seconds."""
        return self._queue.wait(timeout)

    def close(self) -> None:
        """Write what was noted, and end."""
        self.flush()
        self._queue.close()

    def _guard(self) -> Lock:
        if self._process != os.getpid():  # a lock that another thread of the parent held would stay held for good
            self._lock, self._process = Lock(), os.getpid()
        return self._lock

    def _write(self, scope: Scope) -> None:
        with self._guard():
            noted = self._noted.pop(scope, {})
        by_time: dict[datetime, list[str]] = {}
        for memory_id, at in noted.items():
            by_time.setdefault(at, []).append(memory_id)
        for at in sorted(by_time):
            self._store.touch(scope, by_time[at], at=at)

    def _count(self, error: Exception) -> None:
        self._observer.count("memory.touch_errors", error=type(error).__name__)
