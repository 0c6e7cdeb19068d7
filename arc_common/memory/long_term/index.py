"""MemoryIndex: finds memories for questions, and memories that mean the same."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from arc_common.exceptions import InvalidInputError, StoreError
from arc_common.filters import OneOf
from arc_common.memories import Memory
from arc_common.memory.services import Services
from arc_common.protocols.records import IndexChange, memory_entry
from arc_common.protocols.search_index import Candidates, IndexEntry, Scope
from arc_common.retrieval import HybridIndex

_log = logging.getLogger("arc.memory")

_NEAREST = 3


def with_one_of(tags: Sequence[str]) -> OneOf | None:
    """Return a filter for memories with one of the tags; `None` for no tags."""
    return OneOf("tags", tuple(tags)) if tags else None


class MemoryIndex:
    """Searches the valid memories in the hybrid index (kind "memory"), each in its own scope."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._embedder = services.guarded_embedder()

    def entry(self, memory: Memory) -> IndexEntry:
        """Return the index entry of a memory, with a vector if there is a working embedder."""
        entry = memory_entry(memory)
        return entry if self._embedder is None else self._embedder.of_entries([entry])[0][0]

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
                threshold=self._services.settings.memory.merge_cosine,
            )
        except (InvalidInputError, StoreError) as error:
            self._report(error)
            return []
        return [str(one.document.id) for one in found]

    def search(
        self, scope: Scope, query: str, *, top_k: int, tags: Sequence[str] = (), candidates: Candidates | None = None
    ) -> dict[str, float]:
        """Return the scores of the memories (with one of the tags) that match a question, by id, the best first.

        They are found by words alone if the vectors do not fit.
        """
        find = partial(self._index(scope).find, query, top_k=top_k, filters=with_one_of(tags), only_ids=True)
        try:
            found = find(found=candidates)
        except InvalidInputError as error:  # vectors of another embedder
            self._report(error)
            found = find(mode="lexical")
        return {str(one.document.id): one.score or 0.0 for one in found.documents}

    def committed(self, change: IndexChange, commit: Callable[[IndexChange], int | None]) -> int | None:
        """Commit memories with their entries; omit vectors if the stored ones are from another embedder."""
        try:
            return commit(change)
        except InvalidInputError as error:
            if all(entry.vector is None for entry in change.put):
                raise
            self._report(error)
            return commit(replace(change, put=tuple(replace(one, vector=None, embedder=None) for one in change.put)))

    def complete(self, scope: Scope) -> None:
        """Make vectors for the entries that have none; log failures, which the next call retries."""
        if self._embedder is None:
            return
        try:
            self._index(scope).embed_pending()
        except (InvalidInputError, StoreError) as error:
            self._report(error)

    def _index(self, scope: Scope) -> HybridIndex:
        return self._services.index(scope, "memory")

    def _report(self, error: Exception) -> None:
        _log.warning("memories are compared and found by their words alone: %s", error, exc_info=error)
        self._services.observer.count("memory.index_errors", error=type(error).__name__)
