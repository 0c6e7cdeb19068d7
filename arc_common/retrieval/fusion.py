"""Fuses several rankings into one. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.documents import Document, ScoredDocument, checked_documents
from arc_common.exceptions import InvalidInputError, check_whole

_EXPECTED = 0.5
"""The expected agreement of an embedder that knows the language with a word search that answers all of a query. Medians
of MiniLM and BM25: .57 on abstracts, .66 on encyclopedia paragraphs, .39 on chats; .01 (Korean) and .13 (Chinese) on
scripts unknown to the embedder. From .3 to .6 the fused order is about as good (nDCG@10 within .003)."""


def credibility(scores: Mapping[Any, float], witness: Mapping[Any, float | None], *, answered: float) -> float:
    """Return the weight of a search's scores: at most 1, less if another search (the witness) does not confirm them.

    The less of the query the witness answers (`answered`, from 0 to 1), the less agreement is required, because
    correlations fall with the reliability of either side (Spearman 1904). Few scores prove little, so the standard
    error is added to both the measured and the required agreement. The weight is above 0, and 1 if nothing is answered.
    """
    if not scores:
        return 1.0
    error = 1 / math.sqrt(len(scores))
    return min(1.0, (max(0.0, agreement(scores, witness)) + error) / (_EXPECTED * answered + error))


def agreement(scores: Mapping[Any, float], witness: Mapping[Any, float | None]) -> float:
    """Return the Pearson correlation of `scores` and the witness's scores; 0 if either side's are all equal.

    The keys are those of `scores` alone: each search selects by its own scores, so the union would show disagreement.
    """
    keys = sorted(scores)
    own, other = _centred([scores[key] for key in keys]), _centred([witness.get(key) or 0.0 for key in keys])
    spread = math.sqrt(math.fsum(x * x for x in own)) * math.sqrt(math.fsum(y * y for y in other))
    shared = math.fsum(x * y for x, y in zip(own, other, strict=True))
    return min(1.0, max(-1.0, shared / spread)) if spread > 0 else 0.0


def _centred(values: list[float]) -> list[float]:
    """Scale values to a largest magnitude of 1, lest their squares overflow, and subtract their mean."""
    if len(set(values)) < 2:
        return [0.0] * len(values)
    largest = max(map(abs, values))
    values = [value / largest for value in values]
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


_NEAREST = 5
_COUNTS = 0.25
"""The number of a text's neighbours, and the weight of one with cosine 1 relative to the text itself. With weights from
0.2 to 0.4, nDCG@10 is .422 to .427 for abstracts (.408 without), .363 to .367 for one-line descriptions (.358), .542 to
.545 for chat messages (.536), and for paragraphs in three languages within .0001 of the value without."""


def lifted(
    scores: Mapping[str, float], vectors: Mapping[str, NDArray[np.float32]], *, trust: float
) -> dict[str, float]:
    """Return each score averaged with the higher scores of its text's five nearest neighbours, weighted by `trust`.

    No score falls, and none rises above the highest. A text without a vector keeps its score.
    """
    ids = sorted(entry_id for entry_id in scores if entry_id in vectors)
    if not ids:
        return dict(scores)
    own = np.array([scores[entry_id] for entry_id in ids])
    matrix = np.stack([vectors[entry_id] for entry_id in ids]).astype(np.float64)
    cosines = matrix @ matrix.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEAREST]
    weights = trust * _COUNTS * np.maximum(np.take_along_axis(cosines, nearest, axis=1), 0.0)
    gains = np.maximum(own[nearest] - own[:, None], 0.0)
    rise = (weights * gains).sum(axis=1) / (1 + (weights * (gains > 0)).sum(axis=1))
    return {**scores, **dict(zip(ids, (own + rise).tolist(), strict=True))}


RRF_K = 60
"""The constant k of Cormack, Clarke & Büttcher (2009): the larger, the smaller the advantage of the first ranks."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The results of one search by key, best first if there are no scores, and the range of its scores."""

    scores: Mapping[str, float | None]
    weight: float = 1.0
    floor: float | None = None  # the score of no match at all; by default the lowest score found
    ideal: float | None = None  # the score of a perfect match (1 for a cosine); by default the highest score found

    def __post_init__(self) -> None:
        _check_from_zero("weight", self.weight)
        for name in ("floor", "ideal"):
            value = getattr(self, name)
            if value is not None and not _is_finite(value):
                raise InvalidInputError(name, value, "a finite number, or None")
        if not isinstance(self.scores, Mapping):
            raise InvalidInputError("scores", self.scores, "a mapping of keys to scores")
        for key, score in self.scores.items():
            if score is not None and not _is_finite(score):
                raise InvalidInputError(f"scores[{key!r}]", score, "a finite number, or None")

    def relative(self) -> dict[str, float]:
        """Return each score relative to the floor (0) and the ideal (1); without any scores, by rank."""
        known = [score for score in self.scores.values() if score is not None]
        if not known:
            return {key: 1 - place / len(self.scores) for place, key in enumerate(self.scores)}
        floor = min(known) if self.floor is None else self.floor
        ideal = max(known) if self.ideal is None else self.ideal
        span = ideal / 2 - floor / 2  # halved: the difference of the largest floats overflows
        return {
            key: 0.0 if score is None else min(1.0, max(0.0, (score / 2 - floor / 2) / span)) if span > 0 else 1.0
            for key, score in self.scores.items()
        }

    def places(self) -> dict[str, int]:
        """Return the rank of each result, from 1; equal scores share the better rank, missing scores come last."""
        known = sorted((score for score in self.scores.values() if score is not None), reverse=True)
        if not known:
            return {key: place for place, key in enumerate(self.scores, 1)}
        first: dict[float, int] = {}
        for place, score in enumerate(known, 1):
            first.setdefault(score, place)
        last = len(known) + 1
        return {key: last if score is None else first[score] for key, score in self.scores.items()}


def fused_scores(rankings: Sequence[Ranking]) -> dict[str, float]:
    """Return the weighted mean of relative scores, between 0 and 1; a key that a ranking lacks counts as 0 there.

    This convex combination keeps the differences between scores, which ranks discard (Bruch, Gai & Ingber 2023, "An
    Analysis of Fusion Functions for Hybrid Retrieval"). Cosines are measured against 1 instead of their maximum: an
    embedder that does not know the language places all texts at about the same distance, so that its order then counts
    for little. (On Korean with an English embedder, nDCG@10 is .947; .742 if scaled to the maximum, .354 by reciprocal
    ranks, .949 by words alone.)
    """
    weight = _total_weight(rankings)
    return _sums([(ranking.weight / weight, ranking.relative()) for ranking in rankings]) if weight else {}


def reciprocal_ranks(rankings: Sequence[Ranking], *, k: float = RRF_K) -> dict[str, float]:
    """Return the scores of weighted reciprocal rank fusion: the sum of weight / (k + rank)."""
    _check_from_zero("k", k)
    _total_weight(rankings)  # an upper bound of every score
    return _sums(
        [(ranking.weight, {key: 1 / (k + place) for key, place in ranking.places().items()}) for ranking in rankings]
    )


def _total_weight(rankings: Sequence[Ranking]) -> float:
    weights = [ranking.weight for ranking in rankings]
    try:
        return math.fsum(weights)
    except OverflowError as error:
        raise InvalidInputError("weights", weights, "numbers with a finite sum") from error


def _check_from_zero(name: str, value: float) -> None:
    if not (_is_finite(value) and value >= 0):
        raise InvalidInputError(name, value, "a finite number from 0 on")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):  # text, for example, or an int that overflows a float
        return False


def _sums(parts: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Sum the weighted scores of each key, rounding once, so that the order of the parts does not matter."""
    keys = {key for _, part in parts for key in part}
    return {key: math.fsum(weight * part[key] for weight, part in parts if key in part) for key in sorted(keys)}


def score_fusion(
    rankings: Mapping[str, Sequence[ScoredDocument]],
    *,
    weights: Mapping[str, float] | None = None,
    top_k: int | None = None,
) -> list[ScoredDocument]:
    """Fuse rankings by the weighted mean of scores, after scaling each ranking from its worst (0) to its best (1).

    - Returns each document once, with its `score` and with `score_parts` that hold its score in each ranking. Id and
      text together identify a document (two stores may both count from 1), or source and text if it has no id.
    - Scores may be missing: `None` counts as the worst score, or by rank if no document of the ranking has a score.
    - The result does not depend on the order of rankings and scored documents; the inputs are not changed.

    Args:
        rankings: The results of each search, by the search's name.
        weights: The weight of each ranking, by name; 1 for a ranking not listed.
        top_k: The maximum number of documents; all if `None`.

    Raises:
        InvalidInputError: An argument is invalid.
    """
    found = _found(rankings, weights)
    return _fused(found, fused_scores([ranking for ranking, _ in found.values()]), top_k)


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[ScoredDocument]],
    *,
    weights: Mapping[str, float] | None = None,
    k: float = RRF_K,
    top_k: int | None = None,
) -> list[ScoredDocument]:
    """Fuse rankings by ranks alone, for scores that can't be compared (RRF: Cormack, Clarke & Büttcher 2009).

    Arguments, guarantees and errors are those of `score_fusion`; `k` is the constant in weight / (k + rank), 0 or more.
    Documents with equal scores share a rank.
    """
    found = _found(rankings, weights)
    return _fused(found, reciprocal_ranks([ranking for ranking, _ in found.values()], k=k), top_k)


def deduplicated(documents: Sequence[ScoredDocument]) -> list[ScoredDocument]:
    """Return each document once with its best score, best first.

    Documents are identified by id and text, or by source and text if they have no id. Those without a score come last,
    in the order given.
    """
    distinct = _distinct(checked_documents("documents", documents))
    scored = [key for key, document in distinct.items() if document.score is not None]
    scored.sort(key=lambda key: (-(distinct[key].score or 0.0), key))
    return [distinct[key] for key in (*scored, *(key for key, document in distinct.items() if document.score is None))]


def _found(
    rankings: Mapping[str, Sequence[ScoredDocument]], weights: Mapping[str, float] | None
) -> dict[str, tuple[Ranking, dict[str, ScoredDocument]]]:
    """Return each ranking with its documents by key, ordered by name."""
    within = _within_each(rankings)
    if weights is not None and not isinstance(weights, Mapping):
        raise InvalidInputError("weights", weights, "numbers by the rankings' names, or None")
    weights = weights or {}
    for name in weights:
        if name not in within:
            raise InvalidInputError("weights", name, f"one of the rankings {list(within)}")
    found = {}
    for name, distinct in within.items():
        scores = {key: document.score for key, document in distinct.items()}
        found[name] = Ranking(scores, weight=weights.get(name, 1.0)), distinct
    return found


def _fused(
    found: Mapping[str, tuple[Ranking, Mapping[str, ScoredDocument]]], scores: Mapping[str, float], top_k: int | None
) -> list[ScoredDocument]:
    if top_k is not None:
        check_whole("top_k", top_k)
    best = sorted(scores, key=lambda key: (-scores[key], key))[:top_k]
    return [_with_parts(key, scores[key], found) for key in best]


def _with_parts(
    key: str, score: float, found: Mapping[str, tuple[Ranking, Mapping[str, ScoredDocument]]]
) -> ScoredDocument:
    versions = {name: documents[key] for name, (_, documents) in found.items() if key in documents}
    parts: dict[str, float] = {}
    for version in versions.values():
        parts |= version.score_parts
    parts |= {name: version.score for name, version in versions.items() if version.score is not None}
    return ScoredDocument(next(iter(versions.values())).document, score, parts)


def _key(document: Document) -> str:
    """Return the key that identifies a document."""
    name = f"\x00{document.source or ''}" if document.id is None else document.id
    return f"{name}\x00{document.text}"


def _within_each(rankings: Mapping[str, Sequence[ScoredDocument]]) -> dict[str, dict[str, ScoredDocument]]:
    """Return each ranking's distinct documents by key, ordered by the rankings' names."""
    if not isinstance(rankings, Mapping) or not all(isinstance(name, str) for name in rankings):
        raise InvalidInputError("rankings", rankings, "documents with scores by each ranking's name")
    return {name: _distinct(checked_documents(f"rankings[{name!r}]", rankings[name])) for name in sorted(rankings)}


def _distinct(documents: Sequence[ScoredDocument]) -> dict[str, ScoredDocument]:
    """Return the best version of each document by key, in order of first occurrence."""
    distinct: dict[str, ScoredDocument] = {}
    for scored in documents:
        name = _key(scored.document)
        if name not in distinct or _precedence(scored) > _precedence(distinct[name]):
            distinct[name] = scored
    return distinct


def _precedence(scored: ScoredDocument) -> tuple[float, str]:
    """Return a sort key: the score, with a deterministic order among equal scores."""
    return -math.inf if scored.score is None else scored.score, repr(scored)
