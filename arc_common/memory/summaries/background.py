"""Background work on sessions' summaries: scheduling, leases and preparation of turns."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from threading import Condition, Lock, Thread
from uuid import uuid4

from arc_common.concurrency import BackgroundQueue, begin_in_each_process, give_way
from arc_common.exceptions import BranchNotFoundError
from arc_common.memory.services import Services
from arc_common.memory.summaries.writer import SummaryWriter
from arc_common.protocols import SessionKey
from arc_common.protocols.summaries import Lease, SummaryStore

_log = logging.getLogger("arc.memory")

_BEATS = 3
"""Renewals within the duration of a lease."""


class HeldLease:
    """A lease under which this process works. Thread-safe."""

    def __init__(self, store: SummaryStore, key: SessionKey, lease: Lease, *, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._lock = Lock()
        self.key = key
        self.lease: Lease | None = lease
        """The lease as last renewed; `None` once it is lost or released."""
        self.worked = False
        """Set it before the release if the session's work was claimed and is done, or `due_again`."""
        self.due_again: datetime | None = None

    def renew(self) -> None:
        """Extend the lease, and read the session's current epoch with it."""
        with self._lock:
            before = self.lease
            if before is None:
                return
            renewed = self._store.claim(self.key, owner=before.owner, seconds=self._seconds)
            self.lease = renewed if renewed is not None and renewed.fence == before.fence else None
            if renewed is not None and self.lease is None:  # it expired, and another process held it meanwhile
                self._store.release(self.key, renewed)

    def release(self) -> None:
        """Release the lease, unless it is lost."""
        with self._lock:
            before, self.lease = self.lease, None
            if before is not None:
                self._store.release(self.key, before, worked=self.worked, due_again=self.due_again)


class SessionLeases:
    """Takes leases on sessions, and renews them on a thread of its own while work runs."""

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
    def hold(self, key: SessionKey | None) -> Iterator[HeldLease | None]:
        """Hold a session's lease, or that of the next one whose work is due; yields `None` if there is none to hold."""
        lease = self._store.claim(key, owner=self._name, seconds=self._seconds)
        if lease is None or (key := key or lease.key) is None:
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
                except Exception as error:  # noqa: BLE001 - the next beat tries again, and the other leases continue
                    _log.warning("a lease was not renewed: %s", error)


_POLL_SECONDS = 0.25
_PATIENCE = timedelta(seconds=60)
"""The longest wait in `finish` for another process at work."""

_PREPARING = 10
"""Before a turn is prepared again, segments are written for this many times as long as preparing takes."""


class SummaryQueues:
    """Schedules the writing of sessions' summaries, the storing of adopted views and the preparation of turns."""

    def __init__(
        self,
        services: Services,
        writer: SummaryWriter,
        *,
        prepare: Callable[[SessionKey, bool], None],
        save: Callable[[SessionKey], object],
        pause: Callable[[float], None],
    ) -> None:
        background = services.settings.background
        self.in_process = background.in_process
        """`False` if only `arc worker` writes summaries."""
        self._store = services.store.summaries
        self._writer = writer
        self._leases = SessionLeases(self._store, seconds=background.lease_seconds)
        self._prepare = prepare
        self._save = save
        self._observer = services.observer
        self._clock = services.clock
        self._pause = pause
        self._refused: set[SessionKey] = set()  # sessions whose lease another process held
        self.queue: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._work, threads=background.threads, on_error=self._count_error
        )
        self._quick: BackgroundQueue[SessionKey] = BackgroundQueue(
            self._work_quickly, threads=1, on_error=self._count_error
        )

    def schedule(self, key: SessionKey) -> None:
        """Schedule due summaries; write leaves by rules even while a model is at work, so that no turn has to."""
        if not self.in_process:
            return
        busy = self.queue.is_busy(key)
        self.queue.schedule(key)
        if busy and self._writer.has_model:
            self._quick.schedule(key)

    def save_soon(self, key: SessionKey) -> None:
        """Schedule the storing of adopted views."""
        self._quick.schedule(key)

    def is_busy(self, key: SessionKey) -> bool:
        """Return whether work on this session is waiting or running."""
        return self.queue.is_busy(key) or self._quick.is_busy(key)

    def is_writing(self, key: SessionKey) -> bool:
        """Return whether the session's summaries are being written or are scheduled."""
        return self.queue.is_busy(key)

    def write(self, key: SessionKey, *, timeout: float) -> None:
        """Schedule the writing of due summaries, and wait for it at most `timeout` seconds."""
        self.queue.schedule(key)
        self.queue.wait(timeout, key=key)

    def finish(self, key: SessionKey) -> None:
        """Write all due summaries and wait for them, up to a limit also for another process at work."""
        until = self._clock() + _PATIENCE
        while True:
            self.queue.schedule(key)
            self.queue.wait(key=key)
            self._quick.wait(key=key)
            if key not in self._refused or not self._writer.is_due(key):
                return
            if self._clock() > until or self.queue.stopping:
                break
            self._pause(_POLL_SECONDS)
        _log.warning("session %r is still being summarised by another process", key.session_id)
        self._observer.count("summary.lease_held")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until both queues are empty; return whether each was within `timeout` seconds."""
        return self.queue.wait(timeout) and self._quick.wait(timeout)

    def close(self) -> None:
        """Drop waiting work and stop running work."""
        self._quick.close()
        self.queue.close()
        self._leases.close()

    def _work(self, key: SessionKey) -> None:
        with suppress(BranchNotFoundError):  # it was deleted meanwhile
            self._save(key)
            if not self._writer.is_due(key):  # as after most messages; a lease would cost two commits
                self._refused.discard(key)
                self._prepare(key, False)
                return
            with self._leases.hold(key) as held:
                if held is None:
                    self._refused.add(key)
                    self._prepare(key, True)
                    return
                self._refused.discard(key)
                changed = self.work(key, held)
            self._prepare(key, changed)

    def work(self, key: SessionKey, held: HeldLease, *, stop: Callable[[], bool] = bool) -> bool:
        """Write all due segments of a session under a lease on it; return whether any was written."""
        changed, not_before = False, 0.0
        while not (self.queue.stopping or stop()) and (lease := held.lease) is not None:
            if self._writer.step(key, lease):
                changed = True
                give_way()
                if (begin := time.monotonic()) >= not_before:
                    self._prepare(key, changed)
                    end = time.monotonic()
                    not_before = end + _PREPARING * (end - begin)
            elif self._store.state(key, limit=0).epoch != lease.epoch:  # a message was edited meanwhile
                held.renew()
            else:
                break
        return changed

    def _work_quickly(self, key: SessionKey) -> None:
        """Store adopted views, and write leaves by rules while a model is at work."""
        with suppress(BranchNotFoundError):
            self._save(key)
            if self.queue.is_busy(key) and self._writer.has_model:
                epoch, changed = self._store.state(key, limit=0).epoch, False
                while not self._quick.stopping and self._writer.leaf_by_rules(key, epoch=epoch):
                    changed = True
                self._prepare(key, changed)

    def _count_error(self, error: Exception) -> None:
        self._observer.count("background.errors", error=type(error).__name__)
