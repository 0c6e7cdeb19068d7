"""Leases on sessions that are renewed for as long as the work under them goes on."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock, Thread
from uuid import uuid4

from arc_common.exceptions import ArcError
from arc_common.protocols import SessionKey
from arc_common.summaries import Lease, SummaryStore

__all__ = ["HeldLease", "SessionLeases"]

_log = logging.getLogger("arc.memory")

_BEATS = 3
"""Renewals in the time for which a lease is taken."""


class HeldLease:
    """A lease under which this process works. Thread-safe.

    Args:
        store: Where it is kept.
        key: The session.
        lease: As it was taken.
        seconds: How long it lasts.
    """

    def __init__(self, store: SummaryStore, key: SessionKey, lease: Lease, *, seconds: float) -> None:
        self._store = store
        self._key = key
        self._seconds = seconds
        self._lock = Lock()
        self.lease: Lease | None = lease
        """The lease as it was renewed last; `None` once it is lost or given back."""

    def renew(self) -> None:
        """Take the lease again before it expires; then it names the session's epoch of now."""
        with self._lock:
            before = self.lease
            if before is None:
                return
            renewed = self._store.acquire(self._key, owner=before.owner, seconds=self._seconds)
            self.lease = renewed if renewed is not None and renewed.fence == before.fence else None
            if renewed is not None and self.lease is None:  # it expired, and another process had it meanwhile
                self._store.release(self._key, renewed)

    def release(self) -> None:
        """Give the lease back, unless it is lost."""
        with self._lock:
            before, self.lease = self.lease, None
            if before is not None:
                self._store.release(self._key, before)


class SessionLeases:
    """Takes leases on sessions and renews them from a thread of its own, however long a step of the work takes.

    A process that dies renews nothing: its leases expire within `seconds`.

    Args:
        store: Where leases are kept.
        seconds: How long a lease lasts that is not renewed.
    """

    def __init__(self, store: SummaryStore, *, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._name = uuid4().hex
        self._begin()

    def _begin(self) -> None:
        self._changed = Condition()
        self._held: set[HeldLease] = set()
        self._thread: Thread | None = None
        self._closed = False
        self._process = os.getpid()

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[HeldLease | None]:
        """Hold the lease of a session; `None` where another process holds it, or there is no such session."""
        self._begin_in_child()
        lease = self._store.acquire(key, owner=f"{self._name}-{self._process}", seconds=self._seconds)
        if lease is None:
            yield None
            return
        held = HeldLease(self._store, key, lease, seconds=self._seconds)
        with self._changed:
            self._held.add(held)
            if self._thread is None and not self._closed:
                self._thread = Thread(target=self._beat, name="arc-leases", daemon=True)
                self._thread.start()
        try:
            yield held
        finally:
            with self._changed:
                self._held.discard(held)
            held.release()

    def close(self) -> None:
        """Renew nothing from now on."""
        self._begin_in_child()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _begin_in_child(self) -> None:
        if self._process != os.getpid():  # another owner, without the thread
            self._begin()

    def _beat(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, self._seconds / _BEATS)
                if self._closed or not self._held:
                    self._thread = None
                    return
                held = list(self._held)
            for one in held:
                try:
                    one.renew()
                except ArcError as error:  # it is tried again at the next beat
                    _log.warning("a lease was not renewed: %s", error)
