"""Worker: does the background work of every session in a database, whichever process made it due."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING

from arc_common.engine.user_data import Progress
from arc_common.exceptions import NotFoundError, StoreError
from arc_common.memory.summaries.background import HeldLease, SessionLeases
from arc_common.protocols import SessionKey

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

_log = logging.getLogger("arc.background")

_POLL_SECONDS = 1.0
"""The wait between two looks for due work while there is none."""
_MOST_THREADS = 256
_AGAIN = timedelta(seconds=60)
"""After a failure, a session's work is due again this much later."""


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The number of sessions worked on, and of those whose work failed and is due again in a minute."""

    sessions: int = 0
    failed: int = 0


class Worker:
    """Claims sessions whose work is due, one at a time on each thread, and does their work."""

    def __init__(
        self,
        runtime: "Runtime",
        *,
        until_idle: bool,
        limit: int | None = None,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> None:
        self._runtime = runtime
        self._until_idle = until_idle
        self._left = limit
        self._progress = progress
        self._stop = stop or Event()
        self._leases = SessionLeases(runtime.store.summaries, seconds=runtime.settings.background.lease_seconds)
        self._changed = Condition()
        self._working = 0
        self._sessions = self._failed = 0
        self._renewing = False
        self._error: Exception | None = None

    def run(self, threads: int) -> WorkDone:
        """Work until `stop` is set, the limit is reached or, if so asked, nothing is due; return the counts."""
        others = [Thread(target=self._loop, name="arc-worker", daemon=True) for _ in range(min(threads, _MOST_THREADS))]
        try:
            for one in others:
                one.start()
            while any(one.is_alive() for one in others):
                for one in others:  # in short steps, so that signals are handled
                    one.join(0.1)
                if self._stop.is_set():
                    self._end()
        finally:
            self._end()
            for one in others:
                one.join()
            self._leases.close()
        if self._error is not None:
            raise self._error
        return WorkDone(self._sessions, self._failed)

    def _end(self) -> None:
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def _loop(self) -> None:
        try:
            while self._may_begin():
                did = self._work_on_next_if_possible()
                with self._changed:
                    self._working -= 1
                    self._changed.notify_all()
                    if did:
                        continue
                    self._left = None if self._left is None else self._left + 1
                    if self._until_idle and not self._working:
                        return
                    if not self._stop.is_set():
                        self._changed.wait(_POLL_SECONDS)
        except Exception as error:  # noqa: BLE001 - raised by `run`: the store fails, or the engine is closed
            self._error = error
            self._end()

    def _may_begin(self) -> bool:
        with self._changed:
            if self._stop.is_set() or self._left == 0:
                return False
            self._left = None if self._left is None else self._left - 1
            self._working += 1
            return True

    def _work_on_next_if_possible(self) -> bool:
        """Call `_work_on_next`; a worker without an end survives a restart of the database."""
        try:
            return self._work_on_next()
        except StoreError as error:
            if self._until_idle or self._left is not None:
                raise
            _log.warning("the store failed; the worker will try again: %s", error)
            self._runtime.observer.count("background.errors", error=type(error).__name__)
            return False

    def _work_on_next(self) -> bool:
        """Do the due work of the session that has waited longest; return whether there was one."""
        with self._leases.hold(None) as held:
            if held is None:
                return self._renew_vectors()
            self._work_on(held)
        with self._changed:
            self._sessions += 1
            if self._progress is not None:
                self._progress(self._sessions)
        return True

    def _renew_vectors(self) -> bool:
        """Replace vectors of another embedder if it is time to look for them; return `False`: there is no session."""
        vectors = self._runtime.vectors
        with self._changed:
            is_due = vectors.is_due and not self._renewing
            self._renewing = self._renewing or is_due
        if is_due:
            try:
                vectors.run(stop=self._stop.is_set)
            finally:
                self._renewing = False
        return False

    def _work_on(self, held: HeldLease) -> None:
        runtime, now = self._runtime, self._runtime.clock
        held.worked = True

        def should_stop() -> bool:
            return self._stop.is_set() or held.lease is None  # another worker has it

        try:
            for key in self._branches(held.key):
                runtime.work(key, held, stop=should_stop)
        except NotFoundError:  # it was deleted meanwhile
            return
        except Exception as error:  # noqa: BLE001 - the other sessions' work continues; the error is reported
            _log.warning("work on session %r failed: %s", held.key.session_id, error, exc_info=error)
            runtime.observer.count("background.errors", error=type(error).__name__)
            with self._changed:
                self._failed += 1
            held.due_again = now() + _AGAIN
        else:
            if self._stop.is_set():
                held.due_again = now()
            elif runtime.services.models.problems():
                held.due_again = now() + _AGAIN

    def _branches(self, key: SessionKey) -> Iterator[SessionKey]:
        """Yield the session on each branch that someone may continue."""
        branches = self._runtime.store.branch(key, "list")
        if len(branches) == 1:
            yield key
            return
        for branch in branches:
            if branch.is_live:
                yield replace(key, branch=branch.id)
