"""Vectors: an embedder whose failures only cost vectors, and a table searched exactly by cosine."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arc_common.exceptions import InvalidInputError
from arc_common.observability import Observer
from arc_common.protocols import Embedder, QueryEmbedder
from arc_common.protocols.search_index import IndexEntry, unit_vector

_log = logging.getLogger("arc.retrieval")


class GuardedEmbedder:
    """Makes vectors of length 1; counts, logs and omits those that it can't make."""

    def __init__(self, embedder: Embedder, observer: Observer) -> None:
        if not isinstance(embedder, Embedder):
            raise InvalidInputError("embedder", embedder, "an Embedder: a name, and embed(texts)")
        self._embedder = embedder
        self._observer = observer

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._embedder.name

    def accepts(self, stored: tuple[str, int] | None) -> bool:
        """Return whether the stored vectors are from the embedder of this name; log a warning if not."""
        if stored is None or stored[0] == self.name:
            return True
        _log.warning(
            "the stored vectors are from %s, not from %s: only words are used until `re_embed`", stored[0], self.name
        )
        self._observer.count("index.other_embedder", embedder=self.name)
        return False

    def check(self, stored: tuple[str, int] | None) -> None:
        """Raise `InvalidInputError` if the stored vectors are from another embedder."""
        if stored is not None and stored[0] != self.name:
            expected = f"{stored[0]!r}, which made the stored vectors (`re_embed` replaces them)"
            raise InvalidInputError("embedder", self.name, expected)

    def of_query(self, text: str, dimension: int | None = None) -> NDArray[np.float32] | None:
        """Embed a query; return `None` if that fails or gives another dimension."""
        made = self._vectors([text], embed=self._embed_queries, dimension=dimension)
        return None if made is None else made[0]

    def of_entries(
        self, entries: Sequence[IndexEntry], stored: tuple[str, int] | None = None
    ) -> tuple[list[IndexEntry], bool]:
        """Return the entries with vectors of the stored dimension added, and whether the embedder works."""
        # Some services refuse a whole batch for one empty text.
        places = [place for place, entry in enumerate(entries) if entry.vector is None and entry.text.strip()]
        texts = [entries[place].text for place in places]
        dimension = stored[1] if stored else None
        made = self._vectors(texts, embed=self._embedder.embed, dimension=dimension) if places else []
        embedded = list(entries)
        for place, vector in zip(places, made or (), strict=False):
            if vector is not None:
                embedded[place] = replace(entries[place], vector=vector, embedder=self.name)
        return embedded, made is not None

    def _embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        embedder = self._embedder
        if isinstance(embedder, QueryEmbedder):
            return [embedder.embed_query(text) for text in texts]
        return embedder.embed(texts)

    def _vectors(
        self, texts: Sequence[str], *, embed: Callable[[Sequence[str]], list[list[float]]], dimension: int | None
    ) -> list[NDArray[np.float32] | None] | None:
        """Embed texts; return `None` for each unusable vector (models may give NaN), or for the call if it failed."""
        try:
            made = list(embed(texts))
            if len(made) != len(texts):
                raise ValueError(f"{len(made)} vectors for {len(texts)} texts")  # noqa: TRY301 - a failure like others
        except Exception as error:  # noqa: BLE001 - whatever a model's client raises: words must still be found
            _log.warning("the embedder %s failed: %s", self.name, type(error).__name__, exc_info=True)
            self._observer.count("index.embedder_errors", embedder=self.name)
            return None
        vectors = [_usable(vector) for vector in made]
        dimension = dimension or next((len(vector) for vector in vectors if vector is not None), None)
        vectors = [None if vector is None or len(vector) != dimension else vector for vector in vectors]
        if unusable := sum(vector is None for vector in vectors):
            self._observer.count("index.unusable_vectors", unusable, embedder=self.name)
        return vectors


def _usable(vector: Sequence[float]) -> NDArray[np.float32] | None:
    try:
        return unit_vector("vector", vector)
    except InvalidInputError:
        return None


def cosines(vectors: NDArray[np.floating], vector: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return each unit row's cosine with a unit vector; equal rows get equal cosines, unlike in a matrix product."""
    products: NDArray[np.float64] = vectors.astype(np.float64, copy=False) * vector.astype(np.float64)
    similarities: NDArray[np.float64] = np.clip(products.sum(axis=1), -1.0, 1.0)
    return similarities


_BLOCK_BYTES = 24 * 2**20
"""The size of a full block. One matrix that grows in place would be simpler but loses the large memory pages that numpy
requests at allocation: a product then takes 1.4 times as long as with a matrix allocated at once; with blocks, 1.03."""

_FIRST_ROWS = 16

_AT_ONCE = 4096
"""The number of rows whose cosines are computed at once."""

_ROUNDING = 1e-5
"""A tolerance far above the rounding error of float32 products of unit vectors: rows this close may change order."""

_FEW = 0.1
"""The share of rows up to which copying and multiplying them is faster than picking them from the full product."""


class VectorTable:
    """A table of unit vectors of one dimension. Not thread-safe.

    - Vectors are stored in blocks, of which only the last one grows, so that spare capacity stays small.
    - A search costs one float32 product with all vectors, or with the allowed ones if they are few.
    """

    def __init__(self, embedder: str, dimension: int) -> None:
        self.embedder = embedder
        self.dimension = dimension
        self._full = max(_FIRST_ROWS, _BLOCK_BYTES // (4 * dimension))
        self._blocks: list[NDArray[np.float32]] = []
        self._there = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self._size = 0
        self._count = 0
        # Reused by each search: a new allocation costs a page fault for every 4 KB.
        self._scores = np.empty(0, dtype=np.float32)

    def put(self, row: int, vector: NDArray[np.float32]) -> None:
        """Store a row's vector (float32, of length 1)."""
        block, place = divmod(row, self._full)
        while block >= len(self._blocks) or place >= len(self._blocks[block]):
            self._grow()
        if row >= len(self._there):
            more = row + 1 - len(self._there) + max(_FIRST_ROWS, row // 8)
            self._there = np.concatenate([self._there, np.zeros(more, dtype=np.bool_)])
        self._blocks[block][place] = vector
        self._count += not self._there[row]
        self._there[row] = True
        self._size = max(self._size, row + 1)

    def remove(self, row: int) -> None:
        """Remove a row's vector if it has one."""
        if row < self._size and self._there[row]:
            self._there[row] = False
            self._count -= 1

    def best(
        self, vector: NDArray[np.float32], limit: int, *, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return at least the `limit` nearest allowed rows (near ties too, or all rows) and their cosines."""
        if allowed is None and self._count == self._size:
            rows, scores = None, self._product(vector)
        else:
            eligible = self._there[: self._size].copy()
            if allowed is not None:
                shared = min(len(allowed), self._size)
                eligible[:shared] &= allowed[:shared]
                eligible[shared:] = False
            rows = np.flatnonzero(eligible)
            if len(rows) <= _FEW * self._size:
                scores = self._gather(rows) @ vector
            else:
                scores = self._product(vector)[rows]
        if limit < len(scores):
            chosen = _highest(scores, limit)
            rows = chosen if rows is None else rows[chosen]
        elif rows is None:
            rows = np.arange(self._size)
        chunks = (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))
        exact = [cosines(self._gather(chunk), vector) for chunk in chunks]
        return rows, np.concatenate(exact) if exact else np.zeros(0)

    def _product(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        if len(self._scores) < self._size:
            self._scores = np.empty(len(self._there), dtype=np.float32)
        scores = self._scores[: self._size]
        for start in range(0, self._size, self._full):
            part = scores[start : start + self._full]
            np.dot(self._blocks[start // self._full][: len(part)], vector, out=part)
        return scores

    def _gather(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        gathered = np.empty((len(rows), self.dimension), dtype=np.float32)
        blocks, places = np.divmod(rows, self._full)
        for block in np.unique(blocks).tolist():
            mine = blocks == block
            gathered[mine] = self._blocks[block][places[mine]]
        return gathered

    def _grow(self) -> None:
        """Give the last block an eighth more room; if it is full, begin a new one."""
        last = self._blocks[-1] if self._blocks else None
        if last is None or len(last) == self._full:
            self._blocks.append(np.zeros((_FIRST_ROWS, self.dimension), dtype=np.float32))
        else:
            rows = min(self._full, len(last) + max(_FIRST_ROWS, len(last) // 8))
            self._blocks[-1] = np.zeros((rows, self.dimension), dtype=np.float32)
            self._blocks[-1][: len(last)] = last


def _highest(scores: NDArray[np.float32], limit: int) -> NDArray[np.intp]:
    """Return the positions of the `limit` highest scores and near ties, ascending."""
    last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= last - _ROUNDING)
