"""DiversityReranker: maximal marginal relevance (Carbonell & Goldstein 1998), in time linear in the candidates."""

from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from itertools import chain
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


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Similarities: TypeAlias = Callable[[int], NDArray[np.floating]]


_BLOCK = 32
"""The number of candidates compared again at once. Of 1,000 candidates with normally distributed vectors, the least
similar kind, 30 on average need it for each one taken: 24 to 48 at once took the same time."""

_FEW = 500
"""The number of candidates up to which all are compared with each one taken: reading them costs less than choosing."""

_LEAST_SQUARE = {4: 1e-24, 8: 1e-276}
"""The least square computed at full precision, by the size of a number in bytes."""


def vector_mmr(
    relevance: "ArrayLike", vectors: "ArrayLike | Sequence[ArrayLike]", *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Select documents by maximal marginal relevance over vectors, with cosine similarity.

    Args:
        relevance: Each document's relevance to the query, shape (N,).
        vectors: The documents' vectors, shape (N, dimension), of any lengths; a zero vector is similar to none.
        top_k: The maximum number of documents to select.
        trade_off: λ: 1 is relevance alone, 0 is diversity alone.

    Returns:
        The position and marginal relevance of each selected document, in the order of selection; ties go to the
        earlier document.

    Raises:
        InvalidInputError: Vectors differ in dimension, or a number is not finite.
    """
    cosines = _Cosines(vectors)
    return _lazily_taken(_gains(relevance, len(cosines.rows), top_k, trade_off), cosines, top_k, 1 - trade_off)


def query_mmr(
    query_vector: "ArrayLike", vectors: "ArrayLike | Sequence[ArrayLike]", *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Select documents as `vector_mmr` does, with the cosine to the query's vector as relevance."""
    cosines = _Cosines(vectors)
    relevance = cosines.to_query(query_vector) if len(cosines.rows) else ()
    return _lazily_taken(_gains(relevance, len(cosines.rows), top_k, trade_off), cosines, top_k, 1 - trade_off)


def jaccard_mmr(
    relevance: "ArrayLike", term_sets: Sequence[Collection[str]], *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Select documents as `vector_mmr` does, but over sets of terms with Jaccard similarity.

    Args:
        relevance: Each document's relevance to the query, shape (N,).
        term_sets: The distinct terms of each document.
        top_k: The maximum number of documents to select.
        trade_off: λ: 1 is relevance alone, 0 is diversity alone.

    Returns:
        The position and marginal relevance of each selected document, as `vector_mmr` returns them.

    Raises:
        InvalidInputError: An argument is invalid; the error names it.
    """
    import numpy as np  # noqa: PLC0415 - a tenth of a second that importing arc must not cost

    numbers: dict[str, int] = {}
    try:
        sizes = np.array([len(terms) for terms in term_sets], dtype=np.int64)
        columns = np.fromiter(
            (numbers.setdefault(term, len(numbers)) for term in chain.from_iterable(term_sets)), dtype=np.int64
        )
    except TypeError as error:
        raise InvalidInputError("term_sets", term_sets, "the terms of each document") from error
    if len(columns) != sizes.sum():
        raise InvalidInputError("term_sets", term_sets, "the terms of each document, to be read twice")
    rows = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.concatenate(([0], np.cumsum(sizes)))

    def similarities(place: int) -> "NDArray[np.floating]":
        is_own = np.zeros(len(numbers), dtype=bool)
        is_own[columns[starts[place] : starts[place + 1]]] = True
        shared = np.bincount(rows[is_own[columns]], minlength=len(sizes))
        jaccard: NDArray[np.floating] = shared / np.maximum(sizes + sizes[place] - shared, 1)
        return jaccard

    return _taken(_gains(relevance, len(sizes), top_k, trade_off), similarities, top_k, 1 - trade_off)


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


def _lazily_taken(
    gains: "NDArray[np.float64]", cosines: "_Cosines", top_k: int, weight: float
) -> list[tuple[int, float]]:
    """Make the same selection with fewer comparisons (lazy greedy: Minoux 1978), each of which reads a vector.

    Once the first candidate is taken, a marginal gain can only fall, so the last computed value is an upper bound. The
    best candidates are compared again until one remains the best. A cosine does not depend on the other vectors, so the
    result is identical to the last bit.
    """
    import numpy as np  # noqa: PLC0415

    if len(gains) <= _FEW:
        return _taken(gains, cosines.to_row, top_k, weight)
    wanted = min(top_k, len(gains))
    first = int(np.argmax(gains))
    taken = [(first, float(gains[first]))]
    bounds = gains - weight * cosines.to_row(first)
    bounds[first] = -np.inf
    compared = np.ones(len(gains), dtype=np.intp)  # the number of taken candidates that each was compared with
    units = np.empty((wanted, cosines.rows.shape[1]), dtype=cosines.rows.dtype)
    block = _BLOCK
    while len(taken) < wanted:
        best = int(np.argmax(bounds))
        if compared[best] == len(taken):
            units[len(taken)] = cosines.unit(best)
            taken.append((best, float(bounds[best])))
            bounds[best] = -np.inf
            block = _BLOCK
            continue
        some: NDArray[np.intp] | slice = slice(None)
        if 2 * block < len(gains):  # comparing more than half of them in place costs less than gathering them
            some = np.argpartition(bounds, -block)[-block:]
            some[0] = best  # replaces an arbitrary member of the block: among equal bounds, `best` may be outside
        since = units[int(compared[some].min()) : len(taken)]
        bounds[some] = np.minimum(bounds[some], gains[some] - weight * cosines.nearest(since, some))
        compared[some] = len(taken)
        block *= 2
    return taken


class _Cosines:
    """Compares vectors of any length with each other and with a query; a zero vector is similar to none.

    - Computes in float64 for a float64 array and in float32 otherwise, without copying an array: reading the vectors
      dominates the cost.
    - A cosine depends on its two vectors alone, unlike in a product of matrices, so equal vectors get equal cosines.
    """

    def __init__(self, vectors: "ArrayLike | Sequence[ArrayLike]") -> None:
        import numpy as np  # noqa: PLC0415

        rows = _as_floats("vectors", vectors)
        rows = rows.reshape(0, 0) if rows.shape == (0,) else rows
        if rows.ndim != 2:
            raise InvalidInputError("vectors", vectors, "one vector for each document")
        self.rows, self._scale = _with_scale(rows)
        if not np.isfinite(self._scale).all():
            raise InvalidInputError("vectors", vectors, "finite numbers")

    def unit(self, place: int) -> "NDArray[np.floating]":
        """Return one of the vectors, normalised to length 1."""
        vector: NDArray[np.floating] = self.rows[place] * self._scale[place]
        return vector

    def to_row(self, place: int) -> "NDArray[np.floating]":
        """Return the cosine of each vector and the vector at `place`."""
        cosines: NDArray[np.floating] = _products(self.unit(place), self.rows) * self._scale
        return cosines

    def nearest(self, units: "NDArray[np.floating]", some: "NDArray[np.intp] | slice") -> "NDArray[np.floating]":
        """Return, for each of some vectors, its highest cosine with any of the unit vectors."""
        cosines: NDArray[np.floating] = _products(units[:, None], self.rows[some]).max(axis=0) * self._scale[some]
        return cosines

    def to_query(self, query: "ArrayLike") -> "NDArray[np.floating]":
        """Return the cosine of each vector and the query's vector."""
        import numpy as np  # noqa: PLC0415

        vector, scale = _with_scale(_as_floats("query_vector", query, self.rows.dtype).reshape(1, -1))
        if vector.shape[1] != self.rows.shape[1] or not np.isfinite(scale).all():
            raise InvalidInputError("query_vector", query, f"{self.rows.shape[1]} finite numbers")
        cosines: NDArray[np.floating] = _products(vector[0] * scale, self.rows) * self._scale
        return cosines


def _products(vectors: "NDArray[np.floating]", rows: "NDArray[np.floating]") -> "NDArray[np.floating]":
    """Return the dot product of each pair of vectors, summing in an order that does not depend on the other vectors.

    A product of a matrix and a vector takes a tenth less time, but its summation order depends on the row's position;
    `einsum` takes two thirds more time.
    """
    import numpy as np  # noqa: PLC0415

    if hasattr(np, "vecdot"):  # numpy 2
        products: NDArray[np.floating] = np.vecdot(vectors, rows)
    else:
        products = (vectors[..., None, :] @ rows[..., None])[..., 0, 0]
    return products


def _with_scale(rows: "NDArray[np.floating]") -> "tuple[NDArray[np.floating], NDArray[np.floating]]":
    """Return the rows and the factor that scales each to length 1: 0 for a zero row, NaN for one that is not finite.

    Rows whose squares are too small to be exact are returned multiplied by a power of two.
    """
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

    Each step takes the document that maximises `λ × relevance − (1 − λ) × similarity to the nearest one taken`.

    - Relevance is the document's score, scaled to between 0 and 1 (see `min_max`), or the similarity to the query if
      no document has a score.
    - Similarity is the cosine of vectors if an embedder or vectors are given, otherwise the Jaccard similarity of the
      analyzer's terms. A document without a vector, or without terms, is similar to none.
    - The result is best first and begins with the most relevant document. A document's new score is its marginal
      relevance, lowered where needed so that scores never rise from one document to the next and sorting by score
      keeps the order; "mmr" in its score parts holds the exact value.
    - Ties go to the earlier document. With `min_score`, documents with a lower previous score are no candidates.
    - Selecting k of N documents computes at most k × N similarities by terms, and mostly far fewer by vectors.

    Args:
        trade_off: λ: 1 is relevance alone, 0 is diversity alone.
        embedder: Embeds the candidates (and the query if no candidate has a score).
        vectors: Vectors by document id, all of one dimension, to use in place of the embedder's. They are looked up at
            each call, so a live view of an index may be passed.
        top_k: The maximum number of documents returned.
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
