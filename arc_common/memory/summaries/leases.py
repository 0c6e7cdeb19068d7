"""Leases on sessions that are renewed while the work under them goes on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock, Thread
from uuid import uuid4

from arc_common.concurrency import begin_in_each_process
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Lease, SummaryStore

__all__ = ["HeldLease", "SessionLeases"]

_log = logging.getLogger("arc.memory")

_BEATS = 3
"""Renewals within the duration of a lease."""


class HeldLease:
    """A lease under which this process works. Thread-safe."""

    def __init__(self, store: SummaryStore, key: SessionKey, lease: Lease, *, seconds: float) -> None:
        self._store = store
        self._key = key
        self._seconds = seconds
        self._lock = Lock()
        self.lease: Lease | None = lease
        """The lease as last renewed; `None` once it is lost or released."""

    def renew(self) -> None:
        """Extend the lease, and read the session's current epoch with it."""
        with self._lock:
            before = self.lease
            if before is None:
                return
            renewed = self._store.acquire(self._key, owner=before.owner, seconds=self._seconds)
            self.lease = renewed if renewed is not None and renewed.fence == before.fence else None
            if renewed is not None and self.lease is None:  # it expired, and another process held it meanwhile
                self._store.release(self._key, renewed)

    def release(self) -> None:
        """Release the lease, unless it is lost."""
        with self._lock:
            before, self.lease = self.lease, None
            if before is not None:
                self._store.release(self._key, before)


class SessionLeases:
    """Takes leases on sessions, and renews them on a thread of its own, however long a step of the work takes.

    The leases of a process that dies expire within `seconds`.
    """

    def __init__(self, store: SummaryStore, *, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._name = uuid4().hex
        self._changed = Condition()
        self._held: set[HeldLease] = set()
        self._thread: Thread | None = None
        self._closed = False

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[HeldLease | None]:
        """Hold a session's lease; yields `None` if another process holds it or the session does not exist."""
        lease = self._store.acquire(key, owner=self._name, seconds=self._seconds)
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
        """Stop renewing leases."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

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
                except Exception as error:  # noqa: BLE001 - the next beat tries again, and the other leases go on
                    _log.warning("a lease was not renewed: %s", error)
