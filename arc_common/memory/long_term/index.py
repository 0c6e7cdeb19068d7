"""MemoryIndex: finds memories for questions, and memories that mean the same."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from arc_common.documents import ScoredDocument
from arc_common.exceptions import InvalidInputError, StoreError
from arc_common.memories import Memory
from arc_common.observability import Observer
from arc_common.protocols import Embedder
from arc_common.protocols.memories import IndexChange, MemoryStore, memory_entry
from arc_common.protocols.search_index import IndexEntry, IndexStore, Scope
from arc_common.retrieval import HybridIndex
from arc_common.retrieval.vectors import GuardedEmbedder
from arc_common.settings import ArcSettings

_log = logging.getLogger("arc.memory")

_NEAREST = 3
_PAGE = 256


class MemoryIndex:
    """Keeps the memories that hold in the hybrid index (kind "memory"), each in its own scope."""

    def __init__(
        self, store: Callable[[], IndexStore], *, embedder: Embedder | None, settings: ArcSettings, observer: Observer
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._guarded = None if embedder is None else GuardedEmbedder(embedder, observer)
        self._settings = settings
        self._observer = observer

    def entry(self, memory: Memory) -> IndexEntry:
        """Return the index entry of a memory, with a vector if there is a working embedder."""
        entry = memory_entry(memory)
        return entry if self._guarded is None else self._guarded.of_entries([entry])[0][0]

    def alike(self, scope: Scope, entry: IndexEntry) -> list[str]:
        """Return the ids of the memories near enough to mean the same, the nearest first."""
        if entry.vector is None:
            return []
        try:
            found = self._index(scope).search(
                entry.text,
                top_k=_NEAREST,
                mode="dense",
                vector=entry.vector.tolist(),
                threshold=self._settings.memory.merge_cosine,
            )
        except (InvalidInputError, StoreError) as error:
            self._say(error)
            return []
        return [str(one.document.id) for one in found]

    def search(self, scope: Scope, query: str, *, top_k: int) -> list[ScoredDocument]:
        """Return the entries that match a question; search by words alone if the vectors do not fit."""
        index = self._index(scope)
        try:
            return index.search(query, top_k=top_k)
        except InvalidInputError as error:  # vectors of another embedder
            self._say(error)
            return index.search(query, top_k=top_k, mode="lexical")

    def is_beside(self, memories: MemoryStore) -> bool:
        """Return whether memories and their entries are stored in one transaction."""
        return memories.is_beside(self._store())

    def committed(self, change: IndexChange, commit: Callable[[IndexChange], int | None]) -> int | None:
        """Commit memories with their entries; omit vectors if the stored ones are from another embedder."""
        try:
            return commit(change)
        except InvalidInputError as error:
            if all(entry.vector is None for entry in change.put):
                raise
            self._say(error)
            return commit(replace(change, put=tuple(map(_without_vector, change.put))))

    def put(self, scope: Scope, entries: Sequence[IndexEntry]) -> None:
        """Store entries; log errors of the store instead of raising them."""
        if not entries:
            return
        try:
            try:
                self._index(scope, embeds=False).add(entries)
            except InvalidInputError as error:
                self._say(error)
                self._index(scope, embeds=False).add(list(map(_without_vector, entries)))
        except StoreError as error:
            self._say(error)

    def drop(self, scope: Scope, ids: Collection[str]) -> None:
        """Remove entries of memories that no longer hold; log errors of the store instead of raising them."""
        if not ids:
            return
        try:
            self._index(scope, embeds=False).delete(ids)
        except StoreError as error:
            self._say(error)

    def erase(self, places: Iterable[tuple[Scope, str]]) -> None:
        """Remove entries, and raise if the store fails."""
        by_scope: dict[Scope, list[str]] = {}
        for scope, memory_id in places:
            by_scope.setdefault(scope, []).append(memory_id)
        for scope, ids in by_scope.items():
            self._index(scope, embeds=False).delete(ids)

    def complete(self, scope: Scope) -> None:
        """Make vectors for the entries that have none; log failures, which the next call retries."""
        if self._embedder is None:
            return
        try:
            self._index(scope).embed_pending()
        except (InvalidInputError, StoreError) as error:
            self._say(error)

    def erase_within(self, scope: Scope) -> None:
        """Remove the entries of a scope and of every scope within it. Raises as `erase`."""
        self._store().erase(scope, kind="memory")

    def mend(
        self,
        scope: Scope,
        holding: Mapping[str, str],
        read: Callable[[Sequence[str]], Sequence[Memory]],
        *,
        reads_all: bool = False,
    ) -> None:
        """Repair entries that a failed process or index left missing, outdated or obsolete."""
        try:
            index = self._index(scope)
            if not reads_all and index.count() == len(holding):
                return
            there = {str(document.id): document.text for document in index.get(sorted(holding))}
            missing = sorted(name for name, text in holding.items() if there.get(name) != text)
            self.put(scope, [self.entry(memory) for memory in read(missing)])
            self._drop_unless_holding(scope, missing, read)
            after = ""
            while page := self._store().scan(scope, "memory", after=after, limit=_PAGE):
                after = page[-1].id
                self._drop_unless_holding(scope, [entry.id for entry in page if entry.id not in holding], read)
        except StoreError as error:
            self._say(error)

    def _drop_unless_holding(
        self, scope: Scope, ids: Sequence[str], read: Callable[[Sequence[str]], Sequence[Memory]]
    ) -> None:
        """Remove entries, except those of memories that hold in the store now."""
        hold = {memory.id for memory in read(ids)} if ids else set()
        self.drop(scope, [name for name in ids if name not in hold])

    def _index(self, scope: Scope, *, embeds: bool = True) -> HybridIndex:
        return HybridIndex(
            self._store(),
            scope=scope,
            kind="memory",
            embedder=self._embedder if embeds else None,
            batch_size=self._settings.embeddings.batch_size,
            observer=self._observer,
        )

    def _say(self, error: Exception) -> None:
        _log.warning("the index of memories does not do all it should: %s", error, exc_info=error)
        self._observer.count("memory.index_errors", error=type(error).__name__)


def _without_vector(entry: IndexEntry) -> IndexEntry:
    return replace(entry, vector=None, embedder=None)
