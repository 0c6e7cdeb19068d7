"""Ranks results by score, and by id at equal scores, the same way for every retriever. Pure."""

from collections.abc import Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # numpy takes 0.1 s, which would slow down importing arc
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["best_places", "cosines"]


def best_places(ids: Sequence[str], scores: "NDArray[Any]", limit: int) -> list[int]:
    """Return the positions of the best scores, best first; at equal scores the smaller id (by code points) first.

    Args:
        ids: The ids of the n scored items.
        scores: Of shape (n,), without NaN.
        limit: The most positions to return.
    """
    import numpy as np  # noqa: PLC0415 - see above

    if limit < 1 or not len(scores):
        return []
    if limit < len(scores):
        last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        better = np.flatnonzero(scores > last).tolist()
        # A thousand greetings may all score the same, so only the best of the tied ones are sorted.
        tied = nsmallest(limit - len(better), np.flatnonzero(scores == last).tolist(), key=lambda place: ids[place])
    else:
        better, tied = list(range(len(scores))), []
    values = scores.tolist() if limit >= len(scores) else {place: float(scores[place]) for place in better}
    return sorted(better, key=lambda place: (-values[place], ids[place])) + tied


def cosines(vectors: "NDArray[np.float32]", vector: "NDArray[np.float32]") -> "NDArray[np.float64]":
    """Return the cosine of each row with the vector: float64 of shape (n,).

    Unlike in a matrix product, each row's result depends on that row alone, so equal vectors get equal cosines.

    Args:
        vectors: Of shape (n, dimension), each of length 1.
        vector: Of shape (dimension,) and length 1.
    """
    import numpy as np  # noqa: PLC0415 - see above

    products: NDArray[np.float64] = vectors.astype(np.float64) * vector.astype(np.float64)
    similarities: NDArray[np.float64] = np.clip(products.sum(axis=1), -1.0, 1.0)
    return similarities
