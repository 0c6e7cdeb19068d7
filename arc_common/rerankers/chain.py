"""RerankerChain: one reranker behind the other."""

from collections.abc import Iterable, Sequence

from arc_common.documents import ScoredDocument, checked_documents, checked_items
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import Reranker
from arc_common.rerankers.base import DEFAULT_TOP_K, check_top_k, checked_request

__all__ = ["RerankerChain"]


class RerankerChain:
    """Gives each reranker what the one before it left.

    - Only the last one cuts to its number of documents. Those before it are asked for all that they let through, since
      five documents leave nothing to diversify; `depths` narrows them where a later step is costly.
    - Thresholds hold at every step; where nothing is left, no further step is asked.
    - A step that answers with something else than documents is an error, not an empty result.

    Args:
        rerankers: At least one, in order.
        depths: Documents that each step but the last leaves at most; all, if not given.
    """

    def __init__(self, rerankers: Sequence[Reranker], *, depths: Sequence[int] | None = None) -> None:
        self._rerankers = tuple(rerankers) if isinstance(rerankers, Iterable) else ()
        if not self._rerankers or not all(isinstance(reranker, Reranker) for reranker in self._rerankers):
            raise InvalidInputError("rerankers", rerankers, "rerankers, at least one")
        expected = f"{len(self._rerankers) - 1} numbers: one for each but the last"
        given = None if depths is None else checked_items("depths", depths, int, expected=expected)
        if given is not None and len(given) != len(self._rerankers) - 1:
            raise InvalidInputError("depths", depths, expected)
        self._depths = None if given is None else tuple(map(check_top_k, given))

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """What the last one leaves, best first (see `Reranker`)."""
        left, _ = checked_request(query, documents, top_k, usual=DEFAULT_TOP_K)
        *before, last = self._rerankers
        for step, reranker in enumerate(before):
            if not left:
                return []
            depth = len(left) if self._depths is None else self._depths[step]
            left = checked_documents("reranked", reranker.rerank(query, left, top_k=depth))
        return checked_documents("reranked", last.rerank(query, left, top_k=top_k)) if left else []
