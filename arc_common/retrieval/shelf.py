"""The entries of one scope and kind in memory: each has a row, which its terms and its vector share."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter, matcher
from arc_common.protocols.search_index import DOCUMENT_ID, IndexEntry, LexicalCandidates, chunk_prefix
from arc_common.ranking import best_places
from arc_common.retrieval.bm25 import BM25
from arc_common.retrieval.inverted import InvertedIndex
from arc_common.retrieval.vectors import VectorTable

__all__ = ["Shelf"]

_NO_METADATA: Mapping[str, Any] = MappingProxyType({})

_MASKS = 8
"""Filters whose answers are kept until an entry changes: asking 100,000 entries takes Python some 50 ms."""


class Shelf:
    """Entries by row. Not thread-safe.

    Args:
        bm25: The formula by which the best candidates are found.
    """

    def __init__(self, bm25: BM25) -> None:
        self._bm25 = bm25
        self._row_of: dict[str, int] = {}
        # Lists beside each other: an object for each entry would be a tenth of what an entry with its vector takes.
        self._ids: list[str | None] = []
        self._texts: list[str] = []
        self._sources: list[str | None] = []
        self._metadata: list[Mapping[str, Any]] = []
        self._free: list[int] = []
        self._words = InvertedIndex(bm25)
        self._vectors: VectorTable | None = None
        self._masks: OrderedDict[str, NDArray[np.bool_]] = OrderedDict()
        self._sorted: list[str] | None = None

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def embedding(self) -> tuple[str, int] | None:
        """Embedder and dimension of the vectors."""
        return (self._vectors.embedder, self._vectors.dimension) if self._vectors else None

    def check_vectors(self, entries: Sequence[IndexEntry]) -> None:
        """Refuse vectors that can't be compared with each other and with those that are there.

        Raises:
            InvalidInputError: One is of another embedder or another dimension.
        """
        embedding = self.embedding
        for entry in entries:
            if entry.vector is not None and entry.embedder is not None:
                if embedding is None:
                    embedding = entry.embedder, len(entry.vector)
                check_comparable(embedding, entry.embedder, len(entry.vector))

    def put(self, entry: IndexEntry) -> None:
        """Store an entry, in the place of the one with its id."""
        row = self._row_of.get(entry.id)
        if row is None:
            row = self._new_row()
            self._row_of[entry.id] = row
            self._sorted = None
        self._ids[row], self._texts[row], self._sources[row] = entry.id, entry.text, entry.source
        self._metadata[row] = entry.metadata or _NO_METADATA
        self._words.put(row, entry.terms, entry.length)
        self._set_vector(row, entry)
        self._masks.clear()

    def attach(self, entry: IndexEntry) -> bool:
        """Give a stored entry the vector of this one, if its text is the same; whether it got one."""
        row = self._row_of.get(entry.id)
        if row is None or entry.vector is None or self._texts[row] != entry.text:
            return False
        self._set_vector(row, entry)
        return True

    def detach(self) -> int:
        """Forget all vectors; how many there were."""
        vectors, self._vectors = self._vectors, None
        return vectors.count if vectors else 0

    def remove(self, entry_id: str) -> bool:
        """Remove an entry; whether it was there."""
        row = self._row_of.pop(entry_id, None)
        if row is None:
            return False
        self._ids[row], self._texts[row], self._sources[row], self._metadata[row] = None, "", None, _NO_METADATA
        self._free.append(row)
        self._words.remove(row)
        self._drop_vector(row)
        self._masks.clear()
        self._sorted = None
        return True

    def shown(self, entry_id: str) -> IndexEntry | None:
        """An entry without terms and vector."""
        row = self._row_of.get(entry_id)
        return None if row is None else self._entry(row)

    def vector(self, entry_id: str) -> NDArray[np.float32] | None:
        """A copy of an entry's vector, if it has one."""
        row = self._row_of.get(entry_id, len(self._ids))
        return self._vectors.vector(row) if self._vectors and self._vectors.has(row) else None

    def terms(self, entry_id: str) -> dict[str, float] | None:
        """An entry's terms, if it is there."""
        row = self._row_of.get(entry_id)
        return None if row is None else self._words.terms(row)

    def scan(self, filters: Filter | None, *, unembedded: bool, after: str | None, limit: int) -> list[IndexEntry]:
        """Return the first entries by id, with terms, metadata and vectors."""
        test = matcher(filters)
        rows = (self._row_of[entry_id] for entry_id in self._behind(after))
        kept = (row for row in rows if not (unembedded and self._has_vector(row)) and test(self._metadata[row]))
        return [self._whole(row) for row in islice(kept, limit)]

    def chunks(self, document_id: str) -> list[str]:
        """Return the ids of a document's chunks."""
        prefix = chunk_prefix(document_id)
        alike = takewhile(lambda entry_id: entry_id.startswith(prefix), self._behind(prefix))
        return [one for one in alike if self._metadata[self._row_of[one]].get(DOCUMENT_ID) == document_id]

    def count(self, filters: Filter | None) -> int:
        """Count the entries that match."""
        return len(self) if filters is None else int(self._matching(filters).sum())

    def lexical(
        self, terms: Mapping[str, float], *, filters: Filter | None, ids: Collection[str] | None, limit: int
    ) -> LexicalCandidates:
        """See `IndexStore.lexical`."""
        found = np.zeros(0, dtype=np.intp)
        if limit and terms:
            found = self._words.best(terms, limit, allowed=self._allowed(filters, ids))
        candidates = self._candidates(found, terms)
        if len(found) > limit:
            best = best_places(candidates.ids, self._bm25.scores(candidates, list(terms.values())), limit)
            candidates = self._candidates(found[best], terms)
        return candidates

    def dense(
        self, vector: NDArray[np.float32], *, filters: Filter | None, ids: Collection[str] | None, limit: int
    ) -> list[tuple[str, float]]:
        """See `IndexStore.dense`."""
        if self._vectors is None or not limit:
            return []
        rows, similarities = self._vectors.best(vector, limit, allowed=self._allowed(filters, ids))
        found = self._names(rows)
        return [(found[place], float(similarities[place])) for place in best_places(found, similarities, limit)]

    def _behind(self, entry_id: str | None) -> Iterator[str]:
        """Iterate over the ids after this one, in order; over all for `None`."""
        if self._sorted is None:
            self._sorted = sorted(self._row_of)
        return islice(self._sorted, 0 if entry_id is None else bisect_right(self._sorted, entry_id), None)

    def _candidates(self, rows: NDArray[np.intp], terms: Mapping[str, float]) -> LexicalCandidates:
        return LexicalCandidates(
            ids=tuple(self._names(rows)),
            frequencies=self._words.frequencies(terms, rows),
            lengths=self._words.lengths(rows),
            document_frequencies=self._words.document_frequencies(terms),
            count=len(self),
            total_length=self._words.total_length,
        )

    def _allowed(self, filters: Filter | None, ids: Collection[str] | None) -> NDArray[np.bool_] | None:
        """Whether each row passes; `None` if all do."""
        allowed = None if filters is None else self._matching(filters)
        if ids is not None:
            named = np.zeros(len(self._ids), dtype=np.bool_)
            named[[row for entry_id in ids if (row := self._row_of.get(entry_id)) is not None]] = True
            allowed = named if allowed is None else named & allowed
        return allowed

    def _matching(self, filters: Filter) -> NDArray[np.bool_]:
        name = repr(filters)  # not the filter itself: Python takes 1 and True for the same key
        mask = self._masks.get(name)
        if mask is None:
            test = matcher(filters)
            held = zip(self._ids, self._metadata, strict=True)
            matching = (entry_id is not None and test(metadata) for entry_id, metadata in held)
            mask = np.fromiter(matching, dtype=np.bool_, count=len(self._ids))
            self._masks[name] = mask
            if len(self._masks) > _MASKS:
                self._masks.popitem(last=False)
        return mask

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        self._ids.append(None)
        self._texts.append("")
        self._sources.append(None)
        self._metadata.append(_NO_METADATA)
        return len(self._ids) - 1

    def _names(self, rows: NDArray[np.intp]) -> list[str]:
        return [entry_id for row in rows.tolist() if (entry_id := self._ids[row]) is not None]

    def _entry(self, row: int) -> IndexEntry:
        """A row's entry without terms and vector; it copies the metadata."""
        metadata, source = self._metadata[row], self._sources[row]
        return IndexEntry(self._ids[row] or "", self._texts[row], metadata=metadata, source=source)

    def _whole(self, row: int) -> IndexEntry:
        vectors = self._vectors if self._has_vector(row) else None
        return replace(
            self._entry(row),
            terms=self._words.terms(row),
            vector=vectors.vector(row) if vectors else None,
            embedder=vectors.embedder if vectors else None,
        )

    def _has_vector(self, row: int) -> bool:
        return self._vectors is not None and self._vectors.has(row)

    def _set_vector(self, row: int, entry: IndexEntry) -> None:
        if entry.vector is None or entry.embedder is None:
            self._drop_vector(row)
            return
        if self._vectors is None:
            self._vectors = VectorTable(entry.embedder, len(entry.vector))
        self._vectors.put(row, entry.vector)

    def _drop_vector(self, row: int) -> None:
        if self._vectors is not None:
            self._vectors.remove(row)
            if not self._vectors.count:
                self._vectors = None


def check_comparable(embedding: tuple[str, int], embedder: str, dimension: int) -> None:
    """Refuse a vector that can't be compared with the stored ones.

    Raises:
        InvalidInputError: It is of another embedder or another dimension.
    """
    name, size = embedding
    if embedder != name:
        expected = f"{name!r}, which made the stored vectors (`detach` them to change the embedder)"
        raise InvalidInputError("embedder", embedder, expected)
    if dimension != size:
        raise InvalidInputError("vector", f"{dimension} numbers", f"{size}, as in the stored vectors of {name!r}")
