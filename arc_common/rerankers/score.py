"""SimpleScoreReranker: ranks by the existing scores, with a threshold."""

from collections.abc import Sequence

from arc_common.documents import ScoredDocument
from arc_common.rerankers.base import DEFAULT_TOP_K, best_first, check_min_score, check_top_k, checked_request


class SimpleScoreReranker:
    """Returns the documents with the best scores.

    - Equal scores keep the order given; documents without a score come last.
    - With `min_score`, omits documents below it or without a score, even if none remains.

    Args:
        top_k: The maximum number of documents returned.
        min_score: The lowest score accepted; `None` accepts all.

    Raises:
        InvalidInputError: An argument is invalid; the error names it.
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
        """Return the documents with the best scores, best first (see `Reranker`)."""
        candidates, most = checked_request(query, documents, top_k, usual=self.top_k)
        places = best_first([found.score for found in candidates], top_k=most, min_score=self.min_score)
        return [candidates[place] for place in places]
