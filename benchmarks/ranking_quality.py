"""Pure measures of a ranking by graded judgements, as defined by trec_eval."""

import math
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ndcg", "recall"]


def ndcg(ranking: Sequence[str], grades: Mapping[str, float], *, depth: int = 10) -> float:
    """Return the normalised discounted cumulative gain (Järvelin & Kekäläinen 2002), trec_eval's `ndcg_cut`: 0 to 1.

    - A document gains its grade divided by log2(rank + 1). A missing or negative grade gains nothing.
    - The ideal ranking orders all judged documents by grade, found or not.
    - A repeated document counts at its first place only and takes up no other.

    Raises:
        ValueError: No document is relevant, so that all rankings are equal.
    """
    ideal = _gain(sorted(grades.values(), reverse=True)[:depth])
    if not ideal:
        raise ValueError("no document has a grade above 0")
    return _gain([grades.get(name, 0) for name in _distinct(ranking)[:depth]]) / ideal


def recall(ranking: Sequence[str], grades: Mapping[str, float], *, depth: int = 100) -> float:
    """Return the share of the relevant documents (grade above 0) among the first `depth`: 0 to 1.

    Raises:
        ValueError: No document is relevant.
    """
    relevant = {name for name, grade in grades.items() if grade > 0}
    if not relevant:
        raise ValueError("no document has a grade above 0")
    return len(relevant.intersection(_distinct(ranking)[:depth])) / len(relevant)


def _gain(grades: Iterable[float]) -> float:
    return math.fsum(max(grade, 0) / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def _distinct(ranking: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranking))
