"""How good a ranking is, by graded judgements: the measures of trec_eval. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ndcg", "recall"]


def ndcg(ranking: Sequence[str], grades: Mapping[str, float], *, depth: int = 10) -> float:
    """Normalised discounted cumulative gain (Järvelin & Kekäläinen 2002), as trec_eval's `ndcg_cut`: from 0 to 1.

    - The gain of a document is its grade, divided by log2(place + 1); what has no grade, or one below 0, gains nothing.
    - Ideal is the order by grade of all that was judged, found or not.
    - A document that comes twice counts where it comes first, and takes no place after that.

    Raises:
        ValueError: Nothing is relevant, so that no ranking is better than another.
    """
    ideal = _gain(sorted(grades.values(), reverse=True)[:depth])
    if not ideal:
        raise ValueError("no document has a grade above 0")
    return _gain([grades.get(name, 0) for name in _distinct(ranking)[:depth]]) / ideal


def recall(ranking: Sequence[str], grades: Mapping[str, float], *, depth: int = 100) -> float:
    """The share of the relevant documents (grade above 0) among the first ones: from 0 to 1.

    Raises:
        ValueError: Nothing is relevant.
    """
    relevant = {name for name, grade in grades.items() if grade > 0}
    if not relevant:
        raise ValueError("no document has a grade above 0")
    return len(relevant.intersection(_distinct(ranking)[:depth])) / len(relevant)


def _gain(grades: Iterable[float]) -> float:
    return math.fsum(max(grade, 0) / math.log2(place + 1) for place, grade in enumerate(grades, 1))


def _distinct(ranking: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranking))
