"""Scores that what is near each text has a say in. Pure.

Texts that are near each other tend to answer the same questions (van Rijsbergen's cluster hypothesis, 1979), so a score
that those of the nearest texts bear out is worth more than the same score alone: score regularization (Diaz 2005,
"Regularizing Ad Hoc Retrieval Scores").
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy takes a tenth of a second, which importing arc must not cost
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["smoothed"]

_SHARE = 0.25
_NEAREST = 5
"""How much of a score is its neighbours', and how many they are. From a fifth to a third and from 3 to 7 the order is
about as good: nDCG@10 of abstracts .416 to .428 (.409 without), of paragraphs in three languages and of one-line
descriptions within .002 of what it is without or better."""


def smoothed(
    scores: Mapping[str, float], vectors: "Mapping[str, NDArray[np.float32]]", *, trust: float
) -> dict[str, float]:
    """Each score and the mean of those of the texts nearest to it, weighted by their cosines: 3 parts to 1.

    - What has no vector is measured by the mean of all; fewer than three vectors change nothing.
    - Scores stay between the lowest and the highest there is. The same in whatever order they come.

    Args:
        scores: Of each text.
        vectors: Of those of the texts that have one, each of length 1 and all of one dimension.
        trust: How far the vectors are to be believed, from 0 (nothing changes) to 1.
    """
    import numpy as np  # noqa: PLC0415 - see above

    ids = sorted(entry_id for entry_id in scores if entry_id in vectors)
    if len(ids) < 3 or not trust:
        return dict(scores)
    own = np.array([scores[entry_id] for entry_id in ids])
    matrix = np.stack([vectors[entry_id] for entry_id in ids]).astype(np.float64)
    cosines = matrix @ matrix.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEAREST]
    weights = np.maximum(np.take_along_axis(cosines, nearest, axis=1), 0.0)
    total = weights.sum(axis=1)
    means = np.divide((weights * own[nearest]).sum(axis=1), total, out=own.copy(), where=total > 0)
    said = dict(zip(ids, means.tolist(), strict=True))
    mean, share = float(np.mean(sorted(scores.values()))), _SHARE * trust
    return {key: (1 - share) * score + share * said.get(key, mean) for key, score in scores.items()}
