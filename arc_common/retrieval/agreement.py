"""How far one search is to be believed beside another that answers the same query. Pure.

A cosine says how near a text is, not whether the embedder can read it: one trained on English puts Korean texts in an
order too. Words are evidence of another kind, and two searches that both see what is relevant agree about it far more
than two of which one guesses (Lee 1997, "Analyses of Multiple Evidence Combination").
"""

import math
from collections.abc import Mapping

__all__ = ["agreement", "credibility"]

_EXPECTED = 0.5
"""The agreement of an embedder that can read with words that answer all of the query. Medians of MiniLM and BM25: on
abstracts .57, on encyclopedia paragraphs .66, on chats .39; on scripts it can't read, .01 (Korean) and .13 (Chinese).
From .3 to .6 the fused order is about as good (nDCG@10 within .003)."""


def credibility(scores: Mapping[str, float], witness: Mapping[str, float | None], *, answered: float) -> float:
    """What scores should count beside those of another search: 1, and less where that one does not bear them out.

    - A search that answers little of the query is no witness: the less is answered, the less agreement is asked for
      (correlations fall with the reliability of either side: Spearman 1904).
    - Few scores prove nothing: the standard error of the agreement is added to both, what is found and what is asked.
    - Above 0 and at most 1, whatever is given; 1 where nothing was answered.

    Args:
        scores: What the search found, and how well.
        witness: What the other one found; what it has not found, or without a score, is 0 there.
        answered: How much of the query the witness's best answers, from 0 to 1.
    """
    if not scores:
        return 1.0
    error = 1 / math.sqrt(len(scores))
    return min(1.0, (max(0.0, agreement(scores, witness)) + error) / (_EXPECTED * answered + error))


def agreement(scores: Mapping[str, float], witness: Mapping[str, float | None]) -> float:
    """The correlation (Pearson) of scores and the witness's scores, over all that have one of the former: −1 to 1.

    - Over what one of them found, not both: what either found is chosen by its own scores, and would seem to disagree.
    - 0 where either is the same for all. The same in whatever order the scores come.
    """
    keys = sorted(scores)
    own, other = _centred([scores[key] for key in keys]), _centred([witness.get(key) or 0.0 for key in keys])
    spread = math.sqrt(math.fsum(x * x for x in own)) * math.sqrt(math.fsum(y * y for y in other))
    shared = math.fsum(x * y for x, y in zip(own, other, strict=True))
    return min(1.0, max(-1.0, shared / spread)) if spread > 0 else 0.0


def _centred(values: list[float]) -> list[float]:
    """The values less their mean, the largest of them 1: squares of the largest floats are infinite."""
    if len(set(values)) < 2:
        return [0.0] * len(values)
    largest = max(map(abs, values))
    values = [value / largest for value in values]
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]
