"""The protocol of stores for long-term memories, and the values that it exchanges."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from arc_common.memories import Memory, MemoryOutline, MemoryStatus, MemoryType
from arc_common.protocols.conversations import SessionKey
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.text import analyze


def memory_entry(memory: Memory) -> IndexEntry:
    """Return a memory's index entry, without a vector."""
    return IndexEntry(memory.id, memory.text, dict(Counter(analyze(memory.text))), {"type": memory.type.value})


@dataclass(frozen=True, slots=True)
class MemoryUpdates:
    """The memories of a scope, or the changes to them.

    Args:
        version: The scope's version: it changes with every commit and every removal; 0 for an empty scope.
        outlines: The memories that changed; all memories if `is_whole`.
        is_whole: Whether memories not listed no longer exist.
    """

    version: int
    outlines: tuple[MemoryOutline, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """An atomic change to a scope's memories.

    Args:
        put: Memories to store; each replaces the one with its id.
        removed: The ids of memories to remove.
    """

    put: tuple[Memory, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The accompanying change to the scope's index entries of kind "memory".

    Args:
        put: Entries to store; each replaces the one with its id.
        removed: The ids of entries to remove.
    """

    put: tuple[IndexEntry, ...] = ()
    removed: tuple[str, ...] = ()


class MemoryStore(Protocol):
    """Stores memories beside the conversations. Thread-safe; every method is atomic and accesses one scope.

    - Scopes are separate (see `Scope`); only `erase` and `forget` work across scopes.
    - An edit or removal of a message also removes, atomically, what is derived from that message alone: a memory, or
      the wording of one that has other sources too (`Memory.without`).
    - A forgotten memory leaves the index of the same database at once; the memory valid in its place is then
      searchable by its words.
    - The position up to which a session was read is stored with the session and removed with it.
    - Memories are returned as they were put; stored values share no objects with the caller's.
    """

    def changes(self, scope: Scope, *, after: int = 0) -> MemoryUpdates:
        """Return the changes since the version `after`, or all memories without it, in one snapshot."""

    def commit(
        self, scope: Scope, change: MemoryChange, *, version: int, index: IndexChange | None = None
    ) -> int | None:
        """Apply a change if the scope's version is still `version`; return the new version, or `None` if it is not.

        Args:
            scope: The scope to change.
            change: The change to its memories.
            version: The version of the scope on which the change is based.
            index: The change to the index of the same database, applied in the same transaction.

        Raises:
            InvalidInputError: A value can't be stored, or `IndexStore.put` would raise; nothing was written.
        """

    def find(
        self,
        scope: Scope,
        ids: Sequence[str] | None = None,
        *,
        status: MemoryStatus | None = MemoryStatus.ACTIVE,
        type: MemoryType | None = None,  # noqa: A002 - the field's name
        include_superseded: bool = False,
        limit: int | None = None,
    ) -> list[Memory]:
        """Return the stored memories with these ids, in their order and each once, whatever the other arguments are.

        Without ids, returns memories newest first (by `valid_from`, then by id); `None` matches any status or type.
        """

    def touch(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> int:
        """Set the last access of memories to `at`, never moving it back; return their number. The version stays."""

    def erase(self, scope: Scope) -> int:
        """Remove all memories of the scope and of every scope within it (`Scope.contains`); return their number."""

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove what rests on a session, or on some of its messages, alone; return the number of memories removed.

        - Removes every memory in the scopes of the session, its user and its caller that has no source elsewhere; the
          others lose these sources and the wording that only they support.
        - Without message ids, removes all memories in the session's own scope; else those without sources stay.
        - Memories that only removed memories had superseded become valid again.
        """

    def read_to(self, key: SessionKey) -> int:
        """Return the `seq` up to which the session's messages were read for memories; 0 if none was read."""

    def mark_read(self, key: SessionKey, *, after: int, to: int) -> bool:
        """Record that a session was read up to `to` if the recorded place is `after`; return whether it was."""

    def unread(self, scope: Scope) -> list[SessionKey]:
        """Return the sessions with unread messages among the 64 newest sessions within a scope, newest first."""
