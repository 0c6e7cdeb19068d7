"""RerankerChain: one reranker behind the other."""

from collections.abc import Sequence

from arc_common.documents import ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import Reranker
from arc_common.rerankers.ranking import check_top_k

__all__ = ["RerankerChain"]


class RerankerChain:
    """Gives each reranker what the one before it left.

    - Only the last one cuts to its number of documents. Those before it are asked for all that they let through, since
      five documents leave nothing to diversify; `depths` narrows them where a later step is costly.
    - Thresholds hold at every step; where nothing is left, no further step is asked.

    Args:
        rerankers: At least one, in order.
        depths: Documents that each step but the last leaves at most; all, if not given.
    """

    def __init__(self, rerankers: Sequence[Reranker], *, depths: Sequence[int] | None = None) -> None:
        self._rerankers = tuple(rerankers)
        if not self._rerankers:
            raise InvalidInputError("rerankers", rerankers, "at least one reranker")
        self._depths = None if depths is None else tuple(check_top_k(depth) for depth in depths)
        if self._depths is not None and len(self._depths) != len(self._rerankers) - 1:
            raise InvalidInputError("depths", depths, f"{len(self._rerankers) - 1} numbers: one for each but the last")

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """What the last one leaves, best first (see `Reranker`)."""
        left = list(documents)
        *before, last = self._rerankers
        for step, reranker in enumerate(before):
            if not left:
                return []
            left = reranker.rerank(query, left, top_k=len(left) if self._depths is None else self._depths[step])
        return last.rerank(query, left, top_k=top_k) if left else []
