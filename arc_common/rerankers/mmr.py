"""DiversityReranker: maximal marginal relevance (Carbonell & Goldstein 1998), in time linear in the candidates."""

from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING

from arc_common.documents import ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import Embedder, QueryEmbedder
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    check_min_score,
    check_share,
    check_top_k,
    checked_request,
    min_max,
    rescored,
)
from arc_common.rerankers.marginal_relevance import jaccard_mmr, query_mmr, vector_mmr
from arc_common.rerankers.terms import Analyses, query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["DiversityReranker"]


class DiversityReranker:
    """Takes relevant documents that differ from those taken before.

    Each step takes the document with the most of `λ × relevance − (1 − λ) × similarity to the nearest one taken`.

    - Relevance is the document's score, brought between 0 and 1 (see `min_max`). Where no document has a score, it is
      the similarity to the query.
    - Similarity is the cosine of vectors, where an embedder or vectors are given, else Jaccard's of the analyzer's
      terms. A document without a vector, or without terms, is similar to none.
    - Best first: the first is the most relevant one. The result's score is what it was taken for ("mmr" in the parts
      has it exactly), and never rises from one to the next, so that ordering by score keeps the order.
    - Of equal documents the earlier is taken. With `min_score`, documents that score less before are no candidates.
    - k of N documents take k × N similarities at most by terms, and mostly far fewer by vectors.

    Args:
        trade_off: λ: 1 is relevance alone, 0 is diversity alone.
        embedder: Embeds the candidates (and, where they have no scores, the query).
        vectors: Vectors by document id, all of one dimension, in place of the embedder's. They are looked up at each
            call, so that a view of an index serves.
        top_k: Documents left at most.
        min_score: The lowest score that a candidate has; `None` lets all through.
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
        """Relevant documents that differ, best first (see `Reranker`)."""
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
            normalised = min_max(scores)  # with those left out: a threshold must not make the next one worthless
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
    """Jaccard's similarity of a query's terms and a text's."""
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
