"""DiversityReranker: maximal marginal relevance (Carbonell & Goldstein 1998), in time linear in the candidates."""

from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeAlias

from arc_common.documents import ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import Embedder, QueryEmbedder
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    Analyses,
    check_min_score,
    check_share,
    check_top_k,
    checked_request,
    min_max,
    query_terms,
    rescored,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Similarities: TypeAlias = Callable[[int], NDArray[np.floating]]


_LEAST_SQUARE = {4: 1e-24, 8: 1e-276}
"""The least square computed at full precision, by the size of a number in bytes."""


def vector_mmr(
    relevance: "ArrayLike", vectors: "ArrayLike | Sequence[ArrayLike]", *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Return the place and marginal relevance of `top_k` documents by the cosines of their vectors, in order.

    Ties go to the earlier document.

    Args:
        relevance: Each document's relevance to the query, shape (N,).
        vectors: The documents' vectors, shape (N, dimension), of any lengths; a zero vector is similar to none.
        top_k: The most documents selected.
        trade_off: λ: 1 is relevance alone, 0 is diversity alone.

    Raises:
        InvalidInputError: Vectors differ in dimension, or a number is not finite.
    """
    cosines = _Cosines(vectors)
    return _taken(_gains(relevance, len(cosines.rows), top_k, trade_off), cosines.to_row, top_k, 1 - trade_off)


def query_mmr(
    query_vector: "ArrayLike", vectors: "ArrayLike | Sequence[ArrayLike]", *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Select documents as `vector_mmr` does, with the cosine to the query's vector as relevance."""
    cosines = _Cosines(vectors)
    relevance = cosines.to_query(query_vector) if len(cosines.rows) else ()
    return _taken(_gains(relevance, len(cosines.rows), top_k, trade_off), cosines.to_row, top_k, 1 - trade_off)


def jaccard_mmr(
    relevance: "ArrayLike", term_sets: Sequence[Collection[str]], *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Select documents as `vector_mmr` does, but by the Jaccard similarity of their sets of terms."""
    import numpy as np  # noqa: PLC0415 - a tenth of a second that importing arc must not cost

    try:
        texts = [frozenset(terms) for terms in term_sets]
    except TypeError as error:
        raise InvalidInputError("term_sets", term_sets, "the terms of each document") from error

    def similarities(place: int) -> "NDArray[np.floating]":
        shared = np.array([len(texts[place] & terms) for terms in texts], dtype=np.float64)
        sizes = np.array([len(terms) for terms in texts]) + len(texts[place]) - shared
        jaccard: NDArray[np.floating] = shared / np.maximum(sizes, 1)
        return jaccard

    return _taken(_gains(relevance, len(texts), top_k, trade_off), similarities, top_k, 1 - trade_off)


def _gains(relevance: "ArrayLike", count: int, top_k: int, trade_off: float) -> "NDArray[np.float64]":
    """Return each candidate's gain before any is taken, after checking all values."""
    import numpy as np  # noqa: PLC0415

    check_top_k(top_k)
    check_share("trade_off", trade_off)
    try:
        numbers = np.asarray(relevance, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError("relevance", relevance, "finite numbers") from error
    if len(numbers) != count:
        raise InvalidInputError("relevance", len(numbers), f"one number for each of {count} documents")
    if not np.isfinite(numbers).all():
        raise InvalidInputError("relevance", relevance, "finite numbers")
    gains: NDArray[np.float64] = trade_off * numbers
    return gains


def _taken(
    gains: "NDArray[np.float64]", similarities: "Similarities", top_k: int, weight: float
) -> list[tuple[int, float]]:
    """Select greedily, updating every candidate's marginal gain after each selection."""
    import numpy as np  # noqa: PLC0415

    marginal = gains
    taken: list[tuple[int, float]] = []
    while len(taken) < min(top_k, len(gains)):
        if taken:
            last = taken[-1][0]
            beside = gains - weight * similarities(last)
            marginal = beside if len(taken) == 1 else np.minimum(marginal, beside, out=marginal)
            marginal[last] = -np.inf
        place = int(np.argmax(marginal))
        taken.append((place, float(marginal[place])))
    return taken


class _Cosines:
    """Compares vectors of any length with each other and with a query, without copying an array."""

    def __init__(self, vectors: "ArrayLike | Sequence[ArrayLike]") -> None:
        import numpy as np  # noqa: PLC0415

        rows = _as_floats("vectors", vectors)
        rows = rows.reshape(0, 0) if rows.shape == (0,) else rows
        if rows.ndim != 2:
            raise InvalidInputError("vectors", vectors, "one vector for each document")
        self.rows, self._scale = _with_scale(rows)
        if not np.isfinite(self._scale).all():
            raise InvalidInputError("vectors", vectors, "finite numbers")

    def to_row(self, place: int) -> "NDArray[np.floating]":
        """Return the cosine of each vector and the vector at `place`."""
        return self._cosines(self.rows[place] * self._scale[place])

    def to_query(self, query: "ArrayLike") -> "NDArray[np.floating]":
        """Return the cosine of each vector and the query's vector."""
        import numpy as np  # noqa: PLC0415

        vector, scale = _with_scale(_as_floats("query_vector", query, self.rows.dtype).reshape(1, -1))
        if vector.shape[1] != self.rows.shape[1] or not np.isfinite(scale).all():
            raise InvalidInputError("query_vector", query, f"{self.rows.shape[1]} finite numbers")
        return self._cosines(vector[0] * scale)

    def _cosines(self, unit: "NDArray[np.floating]") -> "NDArray[np.floating]":
        cosines: NDArray[np.floating] = _products(unit, self.rows) * self._scale
        return cosines


def _products(vectors: "NDArray[np.floating]", rows: "NDArray[np.floating]") -> "NDArray[np.floating]":
    """Return each row's dot product, summed in an order that no other row changes (`rows @ vector` would)."""
    import numpy as np  # noqa: PLC0415

    if hasattr(np, "vecdot"):  # numpy 2
        products: NDArray[np.floating] = np.vecdot(vectors, rows)
    else:
        products = (vectors[..., None, :] @ rows[..., None])[..., 0, 0]
    return products


def _with_scale(rows: "NDArray[np.floating]") -> "tuple[NDArray[np.floating], NDArray[np.floating]]":
    """Return the rows (tiny ones enlarged) and each one's factor to length 1: 0 for zero, NaN for infinite ones."""
    import numpy as np  # noqa: PLC0415

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = _products(rows, rows)
        if len(rows) and _LEAST_SQUARE[rows.itemsize] <= squares.min() and squares.max() < np.inf:
            return rows, 1 / np.sqrt(squares)
        small = np.flatnonzero(squares < _LEAST_SQUARE[rows.itemsize])
        if rows[small].any():
            rows = rows.copy()
            rows[small] = np.ldexp(rows[small], -np.frexp(np.abs(rows[small]).max(axis=1, keepdims=True))[1])
            squares[small] = _products(rows[small], rows[small])
        squares[squares == np.inf] = np.nan
        return rows, np.divide(1, np.sqrt(squares), out=squares, where=squares != 0)


def _as_floats(
    field: str, vectors: "ArrayLike | Sequence[ArrayLike]", dtype: "np.dtype[Any] | None" = None
) -> "NDArray[np.floating]":
    import numpy as np  # noqa: PLC0415

    if dtype is None:
        dtype = np.dtype(np.float64 if getattr(vectors, "dtype", None) == np.float64 else np.float32)
    try:
        with np.errstate(over="ignore"):  # overflowing values become infinite and are reported as such
            return np.asarray(vectors, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(field, vectors, "numbers, as many for each document") from error


class DiversityReranker:
    """Selects relevant documents that differ from those selected before.

    - Each step takes the document that maximises `λ × relevance − (1 − λ) × similarity to the nearest one taken`; ties
      go to the earlier document.
    - Relevance is the document's score, scaled to between 0 and 1, or the similarity to the query if no document has a
      score. Similarity is the cosine of vectors if an embedder or vectors are given, otherwise the Jaccard similarity
      of terms.
    - The result begins with the most relevant document. A document's new score is its marginal relevance ("mmr" in its
      score parts), lowered where needed so that scores never rise from one document to the next.

    Args:
        trade_off: λ: 1 is relevance alone, 0 is diversity alone.
        embedder: Embeds the candidates (and the query if no candidate has a score).
        vectors: Vectors by document id, used in place of the embedder and read at each call.
        top_k: The most documents returned.
        min_score: The lowest previous score of a candidate; `None` accepts all.

    Raises:
        InvalidInputError: An argument is invalid; the error names it.
    """

    def __init__(
        self,
        *,
        trade_off: float = 0.5,
        embedder: Embedder | None = None,
        vectors: "Mapping[str, Sequence[float] | NDArray[np.floating]] | None" = None,
        top_k: int = DEFAULT_TOP_K,
        min_score: float | None = None,
    ) -> None:
        self.trade_off = check_share("trade_off", trade_off)
        self.top_k = check_top_k(top_k)
        self.min_score = check_min_score(min_score)
        if embedder is not None and not isinstance(embedder, Embedder):
            raise InvalidInputError("embedder", embedder, "an Embedder: a name, and embed(texts)")
        if vectors is not None and not isinstance(vectors, Mapping):
            raise InvalidInputError("vectors", vectors, "vectors by document id")
        self._analyses = Analyses()
        self._embedder = embedder
        self._vectors = vectors

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """Return relevant documents that differ from each other, best first (see `Reranker`)."""
        candidates, most = checked_request(query, documents, top_k, usual=self.top_k)
        taken = self._take(query, candidates, most)
        ranked, score = [], float("inf")
        for place, value in taken:
            score = min(score, value)
            ranked.append(rescored(candidates[place], score, {"mmr": value}))
        return ranked

    def _take(self, query: str, documents: Sequence[ScoredDocument], top_k: int) -> list[tuple[int, float]]:
        scores = [found.score for found in documents]
        lowest = self.min_score
        places = [
            place for place, score in enumerate(scores) if lowest is None or (score is not None and score >= lowest)
        ]
        if not places:
            return []
        candidates = [documents[place] for place in places]
        is_scored = any(score is not None for score in scores)
        if self._embedder is not None and not is_scored:
            asked = _embedded_query(self._embedder, query)
            taken = query_mmr(asked, self._vectors_of(candidates), top_k=top_k, trade_off=self.trade_off)
        else:
            normalised = min_max(scores)  # of all: the lowest score above a threshold must not become 0
            relevance = [
                normalised[place] if is_scored else _likeness(query, self._terms(documents[place])) for place in places
            ]
            if self._embedder is not None or self._vectors is not None:
                vectors = self._vectors_of(candidates)
                taken = vector_mmr(relevance, vectors, top_k=top_k, trade_off=self.trade_off)
            else:
                taken = jaccard_mmr(
                    relevance, list(map(self._terms, candidates)), top_k=top_k, trade_off=self.trade_off
                )
        return [(places[place], value) for place, value in taken]

    def _terms(self, found: ScoredDocument) -> frozenset[str]:
        return frozenset(self._analyses.terms(found.document.text))

    def _vectors_of(self, candidates: Sequence[ScoredDocument]) -> "Sequence[ArrayLike]":
        if self._vectors is None:
            assert self._embedder is not None  # noqa: S101 - for the type checker: one of the two is there
            return _embedded(self._embedder, [found.document.text for found in candidates])
        ids = [found.document.id for found in candidates]
        vectors = [None if document_id is None else self._vectors.get(document_id) for document_id in ids]
        dimension = next((len(vector) for vector in vectors if isinstance(vector, Sized)), 1)
        return [[0.0] * dimension if vector is None else vector for vector in vectors]


def _likeness(query: str, terms: frozenset[str]) -> float:
    """Return the Jaccard similarity of a query's terms and a text's terms."""
    asked = set(query_terms(query))
    return len(asked & terms) / len(asked | terms) if asked else 0.0


def _embedded_query(embedder: Embedder, query: str) -> Sequence[float]:
    if isinstance(embedder, QueryEmbedder):
        return embedder.embed_query(query)
    (vector,) = _embedded(embedder, [query])
    return vector


def _embedded(embedder: Embedder, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    vectors = embedder.embed(texts)
    if not isinstance(vectors, Sized) or len(vectors) != len(texts):
        raise InvalidInputError("vectors", vectors, f"{len(texts)}, one for each text")
    return vectors
