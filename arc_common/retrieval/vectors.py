"""Vectors: an embedder whose failures only cost vectors, and a table searched exactly by cosine."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arc_common.exceptions import InvalidInputError, ModelCallError
from arc_common.model_calls import EMBEDDER, ModelHealth
from arc_common.observability import Observer, timed
from arc_common.protocols import Embedder, QueryEmbedder
from arc_common.protocols.search_index import IndexEntry, check_comparable, unit_vector

_log = logging.getLogger("arc.retrieval")


class GuardedEmbedder:
    """Makes vectors of length 1; counts, logs and omits those that it can't make."""

    def __init__(self, embedder: Embedder, observer: Observer, models: ModelHealth | None = None) -> None:
        if not isinstance(embedder, Embedder):
            raise InvalidInputError("embedder", embedder, "an Embedder: a name, and embed(texts)")
        self._embedder = embedder
        self._observer = observer
        self._models = models or ModelHealth()

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
        if stored is not None:
            check_comparable(stored, self.name, stored[1])

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
            with timed(self._observer, "embedder.call", model=self.name):
                made = list(embed(texts))
            if len(made) != len(texts):
                raise ValueError(f"{len(made)} vectors for {len(texts)} texts")  # noqa: TRY301 - a failure like others
        except Exception as error:  # noqa: BLE001 - whatever a model's client raises: words must still be found
            failure = ModelCallError(f"the embedder {self.name} failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._models.failed(EMBEDDER, self._embedder, failure, meanwhile="only words are searched")
            self._observer.count("index.embedder_errors", embedder=self.name)
            return None
        self._models.answered(self._embedder)
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


_SPARE = 16
"""The fewest rows by which a full table grows; a large one grows by an eighth."""

_AT_ONCE = 4096
"""The number of rows whose cosines are computed at once."""

_ROUNDING = 1e-5
"""A tolerance far above the rounding error of float32 products of unit vectors: rows this close may change order."""

_FEW = 0.1
"""The share of rows up to which copying and multiplying them is faster than picking them from the full product."""


class VectorTable:
    """A table of unit vectors of one dimension, with room for some rows. Not thread-safe."""

    def __init__(self, dimension: int, *, rows: int = _SPARE) -> None:
        self.dimension = dimension
        self._vectors = np.zeros((rows, dimension), dtype=np.float32)
        self._there = np.zeros(rows, dtype=np.bool_)

    def put(self, row: int, vector: NDArray[np.float32]) -> None:
        """Store a row's vector (float32, of length 1)."""
        if (missing := row + 1 - len(self._there)) > 0:
            more = missing + max(_SPARE, row // 8)
            self._vectors = np.concatenate([self._vectors, np.zeros((more, self.dimension), dtype=np.float32)])
            self._there = np.concatenate([self._there, np.zeros(more, dtype=np.bool_)])
        self._vectors[row] = vector
        self._there[row] = True

    def remove(self, row: int) -> None:
        """Remove a row's vector if it has one."""
        self._there[row : row + 1] = False

    def best(
        self, vector: NDArray[np.float32], limit: int, *, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return at least the `limit` nearest allowed rows (near ties too, or all rows) and their cosines."""
        eligible = self._there.copy()
        if allowed is not None:
            shared = min(len(allowed), len(eligible))
            eligible[:shared] &= allowed[:shared]
            eligible[shared:] = False
        rows = np.flatnonzero(eligible)
        if len(rows) <= _FEW * len(eligible):
            scores = self._vectors[rows] @ vector
        else:
            scores = (self._vectors @ vector)[rows]
        if limit < len(scores):
            rows = rows[_highest(scores, limit)]
        chunks = (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))
        exact = [cosines(self._vectors[chunk], vector) for chunk in chunks]
        return rows, np.concatenate(exact) if exact else np.zeros(0)


def _highest(scores: NDArray[np.float32], limit: int) -> NDArray[np.intp]:
    """Return the positions of the `limit` highest scores and near ties, ascending."""
    last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= last - _ROUNDING)
