"""The hybrid index in this process's memory."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter
from arc_common.protocols.search_index import EntryKind, IndexEntry, LexicalCandidates, Scope
from arc_common.retrieval.bm25 import BM25
from arc_common.retrieval.shelf import Shelf, check_comparable

__all__ = ["InMemoryIndexStore"]

_MOST = 2**62
"""What can be asked for at most: as in stores on SQL, which know no such numbers as may be given."""


class InMemoryIndexStore:
    """An `IndexStore` that lasts as long as the process.

    - Searches are exact, lexical and dense ones.
    - Changing an entry takes time in proportion to its own terms.

    Args:
        bm25: The formula that candidates are found by; the one that scores them.
    """

    def __init__(self, *, bm25: BM25 | None = None) -> None:
        self._bm25 = bm25 or BM25()
        self._shelves: dict[tuple[Scope, EntryKind], Shelf] = {}
        self._lock = Lock()
        self._process = os.getpid()

    def put(
        self, scope: Scope, kind: EntryKind, entries: Sequence[IndexEntry], *, removed: Collection[str] = ()
    ) -> None:
        """See `IndexStore.put`."""
        with self._guarded():
            shelf = self._shelf(scope, kind)
            shelf.check_vectors(entries)
            for name in _leaving(shelf, kind, removed).difference(entry.id for entry in entries):
                shelf.remove(name)
            for entry in entries:
                shelf.put(entry)
            self._keep(scope, kind, shelf)

    def attach(self, scope: Scope, kind: EntryKind, entries: Sequence[IndexEntry]) -> int:
        """See `IndexStore.attach`."""
        with self._guarded():
            shelf = self._shelf(scope, kind)
            shelf.check_vectors(entries)
            return sum(shelf.attach(entry) for entry in entries)

    def detach(self, scope: Scope, kind: EntryKind) -> int:
        """See `IndexStore.detach`."""
        with self._guarded():
            return self._shelf(scope, kind).detach()

    def remove(self, scope: Scope, kind: EntryKind, ids: Collection[str]) -> int:
        """See `IndexStore.remove`."""
        with self._guarded():
            shelf = self._shelf(scope, kind)
            removed = sum(map(shelf.remove, _leaving(shelf, kind, ids)))
            self._keep(scope, kind, shelf)
            return removed

    def erase(self, scope: Scope, *, kind: EntryKind | None = None) -> int:
        """See `IndexStore.erase`."""
        with self._guarded():
            inside = [place for place in self._shelves if scope.contains(place[0]) and kind in (None, place[1])]
            return sum(len(self._shelves.pop(place)) for place in inside)

    def fetch(self, scope: Scope, kind: EntryKind, ids: Sequence[str]) -> list[IndexEntry]:
        """See `IndexStore.fetch`."""
        with self._guarded():
            shelf = self._shelf(scope, kind)
            return [entry for entry_id in _checked_ids(ids) if (entry := shelf.shown(entry_id)) is not None]

    def vectors(self, scope: Scope, kind: EntryKind, ids: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """See `IndexStore.vectors`."""
        with self._guarded():
            shelf = self._shelf(scope, kind)
            found = ((entry_id, shelf.vector(entry_id)) for entry_id in _checked_ids(ids))
            return {entry_id: vector for entry_id, vector in found if vector is not None}

    def terms(self, scope: Scope, kind: EntryKind, ids: Collection[str]) -> dict[str, Mapping[str, float]]:
        """See `IndexStore.terms`."""
        with self._guarded():
            shelf = self._shelf(scope, kind)
            found = ((entry_id, shelf.terms(entry_id)) for entry_id in _checked_ids(ids))
            return {entry_id: terms for entry_id, terms in found if terms is not None}

    def scan(
        self,
        scope: Scope,
        kind: EntryKind,
        *,
        filters: Filter | None = None,
        unembedded: bool = False,
        after: str | None = None,
        limit: int,
    ) -> list[IndexEntry]:
        """See `IndexStore.scan`."""
        _check_limit(limit)
        with self._guarded():
            return self._shelf(scope, kind).scan(filters, unembedded=unembedded, after=after, limit=limit)

    def lexical(
        self,
        scope: Scope,
        kind: EntryKind,
        terms: Mapping[str, float],
        *,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
    ) -> LexicalCandidates:
        """See `IndexStore.lexical`."""
        _check_limit(limit)
        with self._guarded():
            return self._shelf(scope, kind).lexical(terms, filters=filters, ids=ids, limit=limit)

    def dense(
        self,
        scope: Scope,
        kind: EntryKind,
        vector: NDArray[np.float32],
        *,
        embedder: str,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
        exact: bool = False,  # noqa: ARG002 - it always is
    ) -> list[tuple[str, float]]:
        """See `IndexStore.dense`."""
        _check_limit(limit)
        with self._guarded():
            shelf = self._shelf(scope, kind)
            if shelf.embedding is not None:
                check_comparable(shelf.embedding, embedder, len(vector))
            return shelf.dense(vector, filters=filters, ids=ids, limit=limit)

    def count(self, scope: Scope, kind: EntryKind, *, filters: Filter | None = None) -> int:
        """See `IndexStore.count`."""
        with self._guarded():
            return self._shelf(scope, kind).count(filters)

    def embedding(self, scope: Scope, kind: EntryKind) -> tuple[str, int] | None:
        """See `IndexStore.embedding`."""
        with self._guarded():
            return self._shelf(scope, kind).embedding

    def close(self) -> None:
        """See `IndexStore.close`."""
        with self._guarded():
            self._shelves = {}

    def _shelf(self, scope: Scope, kind: EntryKind) -> Shelf:
        shelf = self._shelves.get((scope, kind))
        return Shelf(self._bm25) if shelf is None else shelf

    def _keep(self, scope: Scope, kind: EntryKind, shelf: Shelf) -> None:
        if len(shelf):
            self._shelves[scope, kind] = shelf
        else:
            self._shelves.pop((scope, kind), None)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        if self._process != os.getpid():  # a lock that another thread of the parent held would stay held for good
            self._lock, self._process = Lock(), os.getpid()
        with self._lock:
            yield


def _leaving(shelf: Shelf, kind: EntryKind, ids: Collection[str]) -> set[str]:
    """Return the ids, with those of documents' chunks."""
    names = _checked_ids(ids)
    chunks = (chunk for name in names for chunk in shelf.chunks(name)) if kind == "document" else ()
    return {*names, *chunks}


def _checked_ids(ids: Collection[str]) -> list[str]:
    """Each of the ids once, in their order."""
    if isinstance(ids, str):
        raise InvalidInputError("ids", ids, "a collection of ids")
    return list(dict.fromkeys(ids))


def _check_limit(limit: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= _MOST:
        raise InvalidInputError("limit", limit, f"a whole number from 0 to {_MOST}")
