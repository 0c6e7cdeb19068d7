"""The protocol of stores for records (memories and pins), and the values that it exchanges."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from arc_common.memories import Memory, MemoryStatus, MemoryType, Pin, ProposedMemory
from arc_common.protocols.conversations import SessionKey
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.text import analyze

MOST_REVISIONS = 32
"""The most revisions of one memory that are kept, the newest included: a memory edited for years stays small."""


def memory_entry(memory: Memory) -> IndexEntry:
    """Return a memory's index entry, without a vector."""
    metadata = {"type": memory.type.value, **({"tags": list(memory.tags)} if memory.tags else {})}
    return IndexEntry(memory.id, memory.attributed, dict(Counter(analyze(memory.attributed))), metadata)


@dataclass(frozen=True, slots=True)
class RecordUpdates:
    """The memories of a scope, or the changes to them.

    Args:
        version: The scope's version: it changes with every commit and every removal; 0 for an empty scope.
        memories: The memories that changed; all memories if `is_whole`.
        is_whole: True if memories that are not listed no longer exist.
    """

    version: int
    memories: tuple[Memory, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of reading a conversation for memories: from the `seq` read up to before, to the new one."""

    key: SessionKey
    after: int
    to: int


@dataclass(frozen=True, slots=True)
class RecordChange:
    """An atomic change to a scope's records.

    Args:
        put: Memories to store; each replaces the one with its id, which stays as history if its revision was an earlier
            one, one of the newest `MOST_REVISIONS`. The time of its last access does not move back.
        removed: The ids of memories and pins to remove.
        stated: The proposed memory by its id: it counts on the branches that show its sources.
        pins: Pins to store; each replaces the one with its id.
        points: The session of each pin or artifact, by its id: only branches that show the session's newest message
            show it.
        accessed: The times of the last access to memories, by id; none moves back.
        progress: The progress of reading a conversation for memories.
    """

    put: tuple[Memory, ...] = ()
    removed: tuple[str, ...] = ()
    stated: Mapping[str, ProposedMemory] = field(default_factory=dict)
    pins: tuple[Pin, ...] = ()
    points: Mapping[str, SessionKey] = field(default_factory=dict)
    accessed: Mapping[str, datetime] = field(default_factory=dict)
    progress: Progress | None = None

    @property
    def is_content(self) -> bool:
        """True if it changes memories, pins or artifacts, and so the scope's version."""
        return bool(self.put or self.removed or self.pins or self.points)


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The accompanying change to the scope's index entries of kind "memory": those to store, and the ids to remove."""

    put: tuple[IndexEntry, ...] = ()
    removed: tuple[str, ...] = ()


Onlooker = SessionKey | Literal["live"]
"""The view of records: a session's (of its path, and of the live branches of other sessions), or "live" (of all live
branches)."""


class Records(Protocol):
    """Stores memories and pins beside the conversations. Thread-safe; every method is atomic and accesses one scope.

    - Scopes are separate (see `Scope`); only `erase` and `forget` work across scopes.
    - An edit or removal of a message also removes, atomically, everything derived from that message alone: a memory, or
      the wording of one that has other sources too (`Memory.without`).
    - The pin of a message shows the message as the session's path does, and is removed with it. Pins of a session are
      removed with it. `SessionState` holds the pins of a session and the pinned memories of its scopes.
    - Deleting a branch removes the records that only it shows.
    - A memory that loses a source also loses its earlier revisions.
    - A forgotten memory leaves the index of the same database at once; the memory valid in its place is then
      searchable by its words.
    - The progress of reading a conversation for memories is stored with it (`Conversation.remembered_seq`) and removed
      with it.
    - Memories are returned as they were put; stored values share no objects with the caller's.
    """

    def changes(self, scope: Scope, *, after: int = 0) -> RecordUpdates:
        """Return the changes since the version `after`, or all memories without it, in one snapshot."""

    def commit(
        self, scope: Scope, change: RecordChange, *, version: int | None, index: IndexChange | None = None
    ) -> int | None:
        """Apply a change if its conditions still hold; return the new version, or `None` if they do not.

        - The scope's version must be `version`, if that is given, and a conversation with progress must have been read
          up to its `after`. A change of neither memories nor pins leaves the version, and returns 0.
        - `index` is the change to the index of the same database, applied in the same transaction.

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
        history: bool = False,
        on: Onlooker | None = None,
    ) -> list[Memory]:
        """Return the stored memories with these ids, in their order and each once, whatever the other arguments are.

        With `on`, returns the memories and wordings that are seen from there, superseded only by a memory that is.

        Without ids, returns memories newest first (by `valid_from`, then by id); `None` matches any status or type.
        Superseded memories, and those that are no longer valid, are included on request. With `history`, returns every
        revision, by id and then by revision, of these memories or of all, whatever the other arguments are.
        """

    def shown(self, scope: Scope, ids: Sequence[str], key: SessionKey) -> list[str]:
        """Return the ids of the artifacts that the session's path shows."""

    def erase(self, scope: Scope) -> int:
        """Remove all records of the scope and the scopes within it; return the number of memories.

        Their entries in the index of the same database, and those of artifacts, are removed with them.
        """

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """Remove everything derived only from a session, or from some of its messages; return the number of memories.

        - Removes every memory in the scopes of the session, its user and its caller that has no source elsewhere; the
          others lose these sources and the wording that only they support.
        - Without message ids, removes all memories and artifacts in the session's own scope; else memories without
          sources stay.
        - Memories that only removed memories had superseded become valid again.
        """
