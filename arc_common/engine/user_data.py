"""Erases everything of a caller's user, or of a whole caller, and reports what was removed and what is left."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from arc_common.caches import forget_texts
from arc_common.engine.session import Session
from arc_common.protocols import Conversation
from arc_common.protocols.search_index import Scope

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

_PAGE = 100
_SAMPLES = 20
"""Conversations of which some words of the newest message are searched for in the database's file."""
_WORDS = re.compile(r"[^\W\d_][^\x00-\x1f\x7f\"\\\\]{15,59}")
"""A run of characters that is stored as it is, long enough to be nobody else's."""


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The result of an erasure.

    Args:
        removed: The number of rows removed, by table.
        left: The number of rows that still name the caller and user, or belong to nothing, by table; empty if the
            erasure is complete. Somebody may have written meanwhile: erase again.
        left_in_file: How many of up to twenty sampled texts still stand in a SQLite database's file, outside any row.
        pending: The places that this erasure could not clean, such as backups.
    """

    removed: Mapping[str, int]
    left: Mapping[str, int]
    left_in_file: int
    pending: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """True if nothing was found afterwards. Places named in `pending` are not searched."""
        return not self.left and not self.left_in_file


def erase(runtime: "Runtime", caller_id: str, user_id: str | None) -> ErasureReceipt:
    """Erase a user, or without one a whole caller: see `Admin.erase`."""
    traces = runtime.store.traces(caller_id, user_id)
    removed = traces.owned()
    samples = list(islice(_samples(runtime, caller_id, user_id), _SAMPLES))
    for conversation in _conversations(runtime, caller_id, user_id):
        Session(runtime, conversation.key).delete()
    scope = Scope(caller_id, user_id)
    runtime.store.records.erase(scope)
    runtime.store.index.remove(scope, None, None)
    forget_texts()
    pending = [*traces.clean(), "other processes' caches until they restart, logs, and backups of the database"]
    return ErasureReceipt(removed, traces.left(), traces.found_in_file(samples), tuple(pending))


def _conversations(runtime: "Runtime", caller_id: str, user_id: str | None) -> Iterator[Conversation]:
    """Yield the conversations page by page; each may be deleted before the next is read."""
    cursor = None
    while True:
        page = runtime.store.page(caller_id, user_id=user_id, limit=_PAGE, cursor=cursor)
        yield from page.conversations
        if (cursor := page.next_cursor) is None:
            return


def _samples(runtime: "Runtime", caller_id: str, user_id: str | None) -> Iterator[str]:
    """Yield some words of the newest message of each conversation."""
    for conversation in _conversations(runtime, caller_id, user_id):
        for stored in runtime.store.read(conversation.key, limit=1):
            if words := _WORDS.search(stored.message.text):
                yield words[0]
