"""SimpleScoreReranker: the best scores, and a threshold."""

from collections.abc import Sequence

from arc_common.documents import ScoredDocument
from arc_common.rerankers.base import DEFAULT_TOP_K, best_first, check_min_score, check_top_k, checked_request


class SimpleScoreReranker:
    """Takes the documents with the best scores.

    - Equal scores stay in the order given; documents without a score come last.
    - With `min_score`, documents below it or without a score are left out, all of them if need be.

    Args:
        top_k: Documents left at most.
        min_score: The lowest score that is let through; `None` lets all through.
    """

    def __init__(self, *, top_k: int = DEFAULT_TOP_K, min_score: float | None = None) -> None:
        self.top_k = check_top_k(top_k)
        self.min_score = check_min_score(min_score)

    def rerank(
        self,
        query: str,
        documents: Sequence[ScoredDocument],
        *,
        top_k: int | None = None,
    ) -> list[ScoredDocument]:
        """The documents with the best scores, best first (see `Reranker`)."""
        candidates, most = checked_request(query, documents, top_k, usual=self.top_k)
        places = best_first([found.score for found in candidates], top_k=most, min_score=self.min_score)
        return [candidates[place] for place in places]
