"""Rerankers by the scores that documents have: alone, or mixed with the share of the query's words."""

from collections.abc import Sequence

from arc_common.documents import ScoredDocument
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    BaseReranker,
    best_first,
    check_share,
    min_max,
    query_terms,
    rescored,
)
from arc_common.text import analyze


class SimpleScoreReranker(BaseReranker):
    """Returns the documents with the best scores.

    Equal scores keep the order given; documents without a score come last, and are left out if `min_score` is set.

    Args:
        top_k: The most documents returned.
        min_score: The lowest score accepted; `None` accepts all.

    Raises:
        InvalidInputError: An argument is invalid; the error names it.
    """

    def _ranked(self, query: str, candidates: Sequence[ScoredDocument], most: int) -> list[ScoredDocument]:  # noqa: ARG002
        places = best_first([found.score for found in candidates], top_k=most, min_score=self.min_score)
        return [candidates[place] for place in places]


class KeywordWeightedReranker(BaseReranker):
    """Ranks by `score × (1 − weight) + keywords × weight`.

    - Scores are first scaled to between 0 and 1, so that BM25 sums, cosines and reciprocal ranks are mixed alike;
      documents without a score count as the worst.
    - `keywords` is the share of the query's distinct terms that a document contains ("keyword" in its score parts).
    - Equal results keep the order given.

    Args:
        weight: The share of the keywords, from 0 to 1.
        top_k: The most documents returned.
        min_score: The lowest result accepted, from 0 to 1; `None` accepts all.

    Raises:
        InvalidInputError: An argument is invalid; the error names it.
    """

    def __init__(self, *, weight: float = 0.3, top_k: int = DEFAULT_TOP_K, min_score: float | None = None) -> None:
        super().__init__(top_k=top_k, min_score=min_score)
        self.weight = check_share("weight", weight)

    def _ranked(self, query: str, candidates: Sequence[ScoredDocument], most: int) -> list[ScoredDocument]:
        wanted = frozenset(query_terms(query))
        shared = [wanted.intersection(analyze(found.document.text)) for found in candidates]
        keywords = [len(terms) / max(len(wanted), 1) for terms in shared]
        scores = min_max([found.score for found in candidates])
        mixed = [
            score * (1 - self.weight) + keyword * self.weight for score, keyword in zip(scores, keywords, strict=True)
        ]
        return [
            rescored(candidates[place], mixed[place], {"keyword": keywords[place]})
            for place in best_first(mixed, top_k=most, min_score=self.min_score)
        ]
