"""DiversityReranker: maximal marginal relevance (Carbonell & Goldstein 1998), in time linear in the candidates."""

from collections.abc import Callable, Collection, Sequence, Sized
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arc_common.documents import ScoredDocument
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.protocols import Embedder, QueryEmbedder
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    BaseReranker,
    check_share,
    min_max,
    query_terms,
    rescored,
)
from arc_common.retrieval.vectors import cosines
from arc_common.text import analyze

Similarities: TypeAlias = Callable[[int], NDArray[np.floating]]


def vector_mmr(
    relevance: ArrayLike, vectors: ArrayLike | Sequence[ArrayLike], *, top_k: int, trade_off: float = 0.5
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
    units = _units("vectors", vectors)
    gains = _gains(relevance, len(units), top_k, trade_off)
    return _taken(gains, lambda place: cosines(units, units[place]), top_k, 1 - trade_off)


def query_mmr(
    query_vector: ArrayLike, vectors: ArrayLike | Sequence[ArrayLike], *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Select documents as `vector_mmr` does, with the cosine to the query's vector as relevance."""
    units = _units("vectors", vectors)
    asked = _units("query_vector", [query_vector])
    if len(units) and asked.shape[1] != units.shape[1]:
        raise InvalidInputError("query_vector", query_vector, f"{units.shape[1]} numbers")
    relevance = cosines(units, asked[0]) if len(units) else ()
    return vector_mmr(relevance, units, top_k=top_k, trade_off=trade_off)


def jaccard_mmr(
    relevance: ArrayLike, term_sets: Sequence[Collection[str]], *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Select documents as `vector_mmr` does, but by the Jaccard similarity of their sets of terms."""
    try:
        texts = [frozenset(terms) for terms in term_sets]
    except TypeError as error:
        raise InvalidInputError("term_sets", term_sets, "the terms of each document") from error

    def similarities(place: int) -> NDArray[np.floating]:
        shared = np.array([len(texts[place] & terms) for terms in texts], dtype=np.float64)
        sizes = np.array([len(terms) for terms in texts]) + len(texts[place]) - shared
        jaccard: NDArray[np.floating] = shared / np.maximum(sizes, 1)
        return jaccard

    return _taken(_gains(relevance, len(texts), top_k, trade_off), similarities, top_k, 1 - trade_off)


def _gains(relevance: ArrayLike, count: int, top_k: int, trade_off: float) -> NDArray[np.float64]:
    """Return each candidate's gain before any is taken, after checking all values."""
    check_whole("top_k", top_k)
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
    gains: NDArray[np.float64], similarities: Similarities, top_k: int, weight: float
) -> list[tuple[int, float]]:
    """Select greedily, updating every candidate's marginal gain after each selection."""
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


def _units(field: str, vectors: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Return the vectors, one for each document, at length 1; a zero vector stays as it is."""
    try:
        rows = np.array(vectors, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(field, vectors, "one vector for each document, all of the same length") from error
    rows = rows.reshape(0, 0) if rows.shape == (0,) else rows
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInputError(field, vectors, "finite numbers, one vector for each document")
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    np.divide(rows, largest, out=rows, where=largest > 0)  # so that no square is too large or too small
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows


class DiversityReranker(BaseReranker):
    """Selects relevant documents that differ from those selected before.

    - Each step takes the document that maximises `λ × relevance − (1 − λ) × similarity to the nearest one taken`; ties
      go to the earlier document.
    - Relevance is the document's score, scaled to between 0 and 1, or the similarity to the query if no document has a
      score. Similarity is the cosine of vectors if there is an embedder, otherwise the Jaccard similarity of terms.
    - The result begins with the most relevant document. A document's new score is its marginal relevance ("mmr" in its
      score parts), lowered where needed so that scores never rise from one document to the next.

    Args:
        trade_off: λ: 1 is relevance alone, 0 is diversity alone.
        embedder: Embeds the candidates (and the query if no candidate has a score).
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
        top_k: int = DEFAULT_TOP_K,
        min_score: float | None = None,
    ) -> None:
        super().__init__(top_k=top_k, min_score=min_score)
        self.trade_off = check_share("trade_off", trade_off)
        if embedder is not None and not isinstance(embedder, Embedder):
            raise InvalidInputError("embedder", embedder, "an Embedder: a name, and embed(texts)")
        self._embedder = embedder

    def _ranked(self, query: str, candidates: Sequence[ScoredDocument], most: int) -> list[ScoredDocument]:
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
        texts = [found.document.text for found in candidates]
        is_scored = any(score is not None for score in scores)
        if self._embedder is not None and not is_scored:
            asked = _embedded_query(self._embedder, query)
            taken = query_mmr(asked, _embedded(self._embedder, texts), top_k=top_k, trade_off=self.trade_off)
        else:
            normalised = min_max(scores)  # among all, because the lowest score above a threshold must not become 0
            relevance = [
                normalised[place] if is_scored else _likeness(query, _terms(documents[place])) for place in places
            ]
            if self._embedder is not None:
                vectors = _embedded(self._embedder, texts)
                taken = vector_mmr(relevance, vectors, top_k=top_k, trade_off=self.trade_off)
            else:
                terms = list(map(_terms, candidates))
                taken = jaccard_mmr(relevance, terms, top_k=top_k, trade_off=self.trade_off)
        return [(places[place], value) for place, value in taken]


def _terms(found: ScoredDocument) -> frozenset[str]:
    return frozenset(analyze(found.document.text))


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
