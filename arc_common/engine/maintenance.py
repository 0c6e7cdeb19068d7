"""Upkeep of conversations: purges deleted ones, and clears those of a caller."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from arc_common.engine.session import delete_session
from arc_common.engine.user_data import Progress, conversations_of
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import ConversationStatus
from arc_common.protocols.conversations import Idle

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime


def purge(runtime: "Runtime", older_than: timedelta, progress: Progress | None) -> int:
    """Remove softly deleted sessions: see `Admin.purge`."""
    idle = idle_for(runtime, ConversationStatus.DELETED, older_than)
    found = (delete_session(runtime, key, idle=idle) for key in runtime.store.idle(idle))
    return _counted(found, progress)


def clear(runtime: "Runtime", caller_id: str, user_id: str | None, progress: Progress | None) -> int:
    """Delete the sessions of a caller or user: see `Admin.clear`."""
    found = (delete_session(runtime, one.key) for one in conversations_of(runtime, caller_id, user_id))
    return _counted(found, progress)


def idle_for(runtime: "Runtime", status: ConversationStatus, older_than: timedelta) -> Idle:
    """Return which conversations have been idle for a time."""
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise InvalidInputError("older_than", older_than, "a timedelta of 0 or more")
    try:
        return Idle(status, runtime.clock() - older_than)
    except OverflowError:
        raise InvalidInputError("older_than", older_than, "a timedelta that begins in the year 1 or later") from None


def _counted(done: Iterable[bool], progress: Progress | None) -> int:
    """Return how many steps did something, and tell `progress` after each that did."""
    count = 0
    for _ in filter(None, done):
        count += 1
        if progress is not None:
            progress(count)
    return count
