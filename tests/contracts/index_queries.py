"""Single queries of an `IndexStore`, for tests and benchmarks."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.filters import Filter
from arc_common.protocols.search_index import Candidates, EntryKind, IndexQuery, IndexStore, Scope


def lexical(store: IndexStore, scope: Scope, kind: EntryKind, terms: Mapping[str, float], **more: Any) -> Candidates:
    """Return the lexical candidates; `more` are fields of `IndexQuery`."""
    return store.candidates(IndexQuery(scope, kind, terms, **more))[0]


def dense(
    store: IndexStore, scope: Scope, kind: EntryKind, vector: NDArray[np.float32], **more: Any
) -> list[tuple[str, float]]:
    """Return the entries nearest to a vector; `more` are fields of `IndexQuery`."""
    return list(store.candidates(IndexQuery(scope, kind, {}, vector, **more))[0].near)


def embedding(store: IndexStore, scope: Scope, kind: EntryKind) -> tuple[str, int] | None:
    """Return the embedder and dimension of the stored vectors."""
    return store.candidates(IndexQuery(scope, kind))[0].embedding


def count(store: IndexStore, scope: Scope, kind: EntryKind, *, filters: Filter | None = None) -> int:
    """Return the number of entries with matching metadata."""
    if filters is None:
        return store.candidates(IndexQuery(scope, kind))[0].count
    return len(store.scan(scope, kind, filters=filters, limit=2**31))


def vectors_of(
    store: IndexStore, scope: Scope, kind: EntryKind, ids: Collection[str]
) -> dict[str, NDArray[np.float32]]:
    """Return the vectors of entries, by id."""
    found = store.fetch(scope, kind, list(ids), vectors=True)
    return {entry.id: entry.vector for entry in found if entry.vector is not None}
