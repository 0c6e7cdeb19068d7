"""What stores keep of long-term memories: the protocol, and what passes through it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from arc_common.memories import Memory, MemoryOutline, MemoryStatus, MemoryType
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import IndexEntry, IndexStore, Scope
from arc_common.text import analyze

__all__ = ["Forgotten", "IndexChange", "MemoryChange", "MemoryStore", "MemoryUpdates", "memory_entry"]


def memory_entry(memory: Memory) -> IndexEntry:
    """What the index has of a memory, without a vector."""
    return IndexEntry(memory.id, memory.text, dict(Counter(analyze(memory.text))), {"type": memory.type.value})


@dataclass(frozen=True, slots=True)
class MemoryUpdates:
    """What a scope holds, or what has changed in it.

    Args:
        version: The scope's: it changes with every commit and every removal; 0 for a scope that holds nothing.
        outlines: The memories that changed; all of them if it is whole.
        is_whole: Whether those not named are gone.
    """

    version: int
    outlines: tuple[MemoryOutline, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """What happens to a scope at once.

    Args:
        put: Memories, each in the place of the one with its id.
        removed: The ids of those that go.
    """

    put: tuple[Memory, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexChange:
    """What happens with it to the scope's entries in the index, of kind "memory".

    Args:
        put: Entries, each in the place of the one with its id.
        removed: The ids of those that go.
    """

    put: tuple[IndexEntry, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What forgetting a session or some of its messages did.

    Args:
        removed: Memories that rested on nothing else.
        renewed: Memories that hold and that are new to the index: only what was removed had taken their place, or what
            is left says them in other words.
    """

    removed: tuple[tuple[Scope, str], ...] = ()
    renewed: tuple[tuple[Scope, str], ...] = ()


class MemoryStore(Protocol):
    """Where memories are kept, beside the conversations. Thread-safe; every method is atomic and sees one scope.

    - A scope is a place of its own (see `Scope`); only `erase`, `resting_on` and the two `forget_…` look across.
    - What rests on a message alone goes with what edits or removes the message, both or neither: a memory, or the
      words of one that others say too (`Memory.without`).
    - What is forgotten leaves an index beside it at once, and what holds in its place is there, by its words.
    - How far a session was read is noted beside the session, and leaves with it.
    - Memories come back as they were put; nothing of a caller's own is shared with what is stored.
    """

    def updates(self, scope: Scope, *, after: int = 0) -> MemoryUpdates:
        """What has changed since the version `after`, in one snapshot; without it, all that is there."""

    def commit(
        self, scope: Scope, change: MemoryChange, *, version: int, index: IndexChange | None = None
    ) -> int | None:
        """Make a change if the scope's version is still this one: its new version, or `None` if nothing was done.

        Args:
            scope: Whose.
            change: What happens.
            version: The scope's, by which that was decided.
            index: What happens to the index with it, both or neither. Only where `is_beside` says so.

        Raises:
            InvalidInputError: Something can't be stored, or as `IndexStore.put`; nothing was written.
        """

    def is_beside(self, index: IndexStore) -> bool:
        """Whether a commit may change this index too: it is in the same database."""

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Those of the memories that are there, in the order of the ids, each once."""

    def newest(
        self,
        scope: Scope,
        *,
        status: MemoryStatus | None = MemoryStatus.ACTIVE,
        type: MemoryType | None = None,  # noqa: A002 - the field's name
        include_superseded: bool = False,
        limit: int | None = None,
    ) -> list[Memory]:
        """Memories, the newest first (by `valid_from`, then by id); `None` for any status and any type."""

    def touch(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> int:
        """Note when memories were returned, no earlier than was noted before; how many. The version stays."""

    def count(self, scope: Scope) -> int:
        """How many memories hold."""

    def erase(self, scope: Scope) -> int:
        """Remove all memories of the scope and of every scope within it (`Scope.contains`); how many there were."""

    def resting_on(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> list[tuple[Scope, str]]:
        """The memories that `forget_session` or `forget_messages` would remove now."""

    def forget_session(self, key: SessionKey) -> Forgotten:
        """Remove what was remembered of a session; call it after the messages are gone.

        - All that the session's own scope holds goes.
        - Of its user's and its caller's, every memory goes that has no source elsewhere; the others lose their sources
          in the session, with the words that only these say.
        - What only removed memories had taken the place of holds again.
        """

    def forget_messages(self, key: SessionKey, message_ids: Sequence[str]) -> Forgotten:
        """The same for some messages of a session; memories without sources stay."""

    def read_to(self, key: SessionKey) -> int:
        """The place in a session up to which its messages were read for memories; 0 where none was."""

    def mark_read(self, key: SessionKey, *, after: int, to: int) -> bool:
        """Note that a session was read up to this place, if `after` is what was noted before; whether that was so."""

    def unread(self, scope: Scope) -> list[SessionKey]:
        """Of the 64 newest sessions within a scope those with messages behind the place noted, newest first."""
