"""Upkeep of conversations: archives or deletes idle ones, purges deleted ones, and clears those of a caller."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Condition, Thread
from typing import TYPE_CHECKING

from arc_common.concurrency import begin_in_each_process
from arc_common.engine.user_data import Progress, conversations_of
from arc_common.exceptions import (
    ArchiveError,
    ConfigurationError,
    EngineClosedError,
    InvalidInputError,
    NotFoundError,
    StoreError,
)
from arc_common.protocols import ConversationStatus, SessionKey
from arc_common.protocols.conversations import Idle

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

_log = logging.getLogger("arc.maintenance")

_FAILURES = 5
"""After this many failures in a row, check that database and archive can be reached; if not, the run ends."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The result of a run: how many conversations were archived and deleted, and how many could not be."""

    archived: int = 0
    deleted: int = 0
    failed: int = 0

    def __str__(self) -> str:
        return f"archived {self.archived:,}, deleted {self.deleted:,}, failed {self.failed:,}"


def maintain(runtime: "Runtime", progress: Progress | None) -> Maintenance:
    """Archive or delete idle conversations: see `Admin.maintain`."""
    archive_settings, hours = runtime.settings.archive, runtime.settings.conversation.ttl_hours
    ages = [] if hours is None else [timedelta(hours=hours)]
    if archive_settings.enabled:
        return archive(runtime, min([*ages, timedelta(days=archive_settings.after_days)]), progress)
    if archive_settings.location is not None:  # for single sessions
        _sweep(runtime)
    if not ages:
        return Maintenance()
    idle = idle_for(runtime, ConversationStatus.ACTIVE, ages[0])
    keys = runtime.store.idle(idle)
    deleted, errors = _each(runtime, keys, lambda key: runtime.delete_session(key, idle=idle), progress)
    runtime.observer.count("maintenance.deleted", deleted)
    return Maintenance(deleted=deleted, failed=len(errors))


def archive(runtime: "Runtime", older_than: timedelta | None, progress: Progress | None) -> Maintenance:
    """Archive idle conversations: see `Admin.archive`."""
    if runtime.settings.archive.location is None:
        raise ConfigurationError("archive.url (ARC_ARCHIVE__URL): not set, expected the address of the archive")
    if older_than is None:
        older_than = timedelta(days=runtime.settings.archive.after_days)
    idle = idle_for(runtime, ConversationStatus.ACTIVE, older_than)
    _sweep(runtime)
    keys = runtime.store.idle(idle)
    archived, errors = _each(runtime, keys, lambda key: runtime.archive_session(key, idle=idle), progress)
    runtime.observer.count("maintenance.archived", archived)
    return Maintenance(archived=archived, failed=len(errors))


def _sweep(runtime: "Runtime") -> None:
    try:
        runtime.store.sweep()
    except ArchiveError as error:
        _log.warning("objects without a conversation stay in the archive for now: %s", error)


def purge(runtime: "Runtime", older_than: timedelta, progress: Progress | None) -> int:
    """Remove softly deleted sessions: see `Admin.purge`."""
    idle = idle_for(runtime, ConversationStatus.DELETED, older_than)
    keys = runtime.store.idle(idle)
    return _all(*_each(runtime, keys, lambda key: runtime.delete_session(key, idle=idle), progress))


def clear(runtime: "Runtime", caller_id: str, user_id: str | None, progress: Progress | None) -> int:
    """Delete the sessions of a caller or user: see `Admin.clear`."""
    keys = (one.key for one in conversations_of(runtime, caller_id, user_id))
    return _all(*_each(runtime, keys, runtime.delete_session, progress))


def _all(count: int, errors: Sequence[StoreError]) -> int:
    """Return how many steps had an effect, or raise the first error once the others have been tried."""
    if errors:
        raise errors[0]
    return count


def idle_for(runtime: "Runtime", status: ConversationStatus, older_than: timedelta) -> Idle:
    """Return which conversations have been idle for a time."""
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise InvalidInputError("older_than", older_than, "a timedelta of 0 or more")
    try:
        return Idle(status, runtime.clock() - older_than)
    except OverflowError:
        raise InvalidInputError("older_than", older_than, "a timedelta that begins in the year 1 or later") from None


def _each(
    runtime: "Runtime", keys: Iterable[SessionKey], step: Callable[[SessionKey], bool], progress: Progress | None
) -> tuple[int, list[StoreError]]:
    """Take a step for each conversation; return how many had an effect, and the errors of those that failed."""
    errors = list[StoreError]()
    count = in_a_row = 0
    for key in keys:
        try:
            had_effect = step(key)
            in_a_row = 0
        except StoreError as error:
            errors.append(error)
            in_a_row += 1
            _log.warning("maintenance of session %r failed: %s", key.session_id, error)
            runtime.observer.count("maintenance.errors", error=type(error).__name__)
            if in_a_row % _FAILURES == 0 and not _is_reachable(runtime):
                break
            continue
        except NotFoundError:  # deleted meanwhile
            continue
        if had_effect:
            count += 1
            if progress is not None:
                progress(count)
    return count, errors


def _is_reachable(runtime: "Runtime") -> bool:
    try:
        runtime.store.page("default", limit=1)
        if runtime.settings.archive.location is not None:
            runtime.store.sweep()
    except StoreError as error:
        _log.error("maintenance ends early: %s", error)
        return False
    return True


class MaintenanceTimer:
    """Calls `maintain` repeatedly on a thread of its own, in each process that the engine is forked into."""

    def __init__(self, run: Callable[[], Maintenance], minutes: float) -> None:
        self._run = run
        self._seconds = minutes * 60
        self._closed = False
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._changed = Condition()
        Thread(target=self._repeat, name="arc-maintenance", daemon=True).start()

    def _repeat(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, self._seconds):
                    return
            try:
                _log.info("maintenance: %s", self._run())
            except EngineClosedError:
                return
            except Exception as error:  # noqa: BLE001 - the next run tries again
                _log.warning("maintenance failed and will be tried again: %s", error, exc_info=error)

    def close(self) -> None:
        """Start no further run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
