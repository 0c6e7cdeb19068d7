"""One ranking from several. Pure."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arc_common.documents import Document, ScoredDocument, checked_documents
from arc_common.exceptions import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


_NEAREST = 5
_COUNTS = 0.25
"""How many neighbours a text has, and what one of cosine 1 counts beside the text itself. From 0.2 to 0.4 nDCG@10 of
abstracts is .422 to .427 (.408 without), of one-line descriptions .363 to .367 (.358), of chat messages .542 to .545
(.536), of paragraphs in three languages within .0001 of what it is without."""


def lifted(
    scores: Mapping[str, float], vectors: "Mapping[str, NDArray[np.float32]]", *, trust: float
) -> dict[str, float]:
    """The mean of each score and of the higher ones of the five texts nearest to it, which count ¼ of their cosines.

    - No score falls, and none rises above the highest there is. What has no vector keeps its score.
    - The same in whatever order scores come. Each vector is compared with each.

    Args:
        scores: Of each text.
        vectors: Of those of the texts that have one, each of length 1 and all of one dimension.
        trust: How far the vectors are to be believed, from 0 (nothing changes) to 1.
    """
    import numpy as np  # noqa: PLC0415 - see above

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
"""Of Cormack, Clarke & Büttcher (2009): how little the first place is worth more than the next ones."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one search found, and what its scores mean.

    Args:
        scores: What was found and how well, the best first where there are no scores.
        weight: What the ranking counts among others, from 0 on.
        floor: The score that stands for no match at all; `None`: the lowest one found, because worse ones were not.
        ideal: The score that stands for a perfect match (1 for a cosine); `None`: the highest one found.
    """

    scores: Mapping[str, float | None]
    weight: float = 1.0
    floor: float | None = None
    ideal: float | None = None

    def __post_init__(self) -> None:
        _check_from_zero("weight", self.weight)
        for name in ("floor", "ideal"):
            value = getattr(self, name)
            if value is not None and not _is_finite(value):
                raise InvalidInputError(name, value, "a finite number, or None")
        if not isinstance(self.scores, Mapping):
            raise InvalidInputError("scores", self.scores, "scores by what they are of")
        for key, score in self.scores.items():
            if score is not None and not _is_finite(score):
                raise InvalidInputError(f"scores[{key!r}]", score, "a finite number, or None")

    def relative(self) -> dict[str, float]:
        """Each score between floor (0) and ideal (1).

        Of several with scores, one without is worth 0. If none has a score, places are: from 1 for the first in equal
        steps towards 0. Where floor and ideal are the same, everything found is worth 1.
        """
        known = [score for score in self.scores.values() if score is not None]
        if not known:
            return {key: 1 - place / len(self.scores) for place, key in enumerate(self.scores)}
        floor = min(known) if self.floor is None else self.floor
        ideal = max(known) if self.ideal is None else self.ideal
        span = ideal / 2 - floor / 2  # halved: the distance of the largest floats is no float
        return {
            key: 0.0 if score is None else min(1.0, max(0.0, (score / 2 - floor / 2) / span)) if span > 0 else 1.0
            for key, score in self.scores.items()
        }

    def places(self) -> dict[str, int]:
        """The place of each, from 1 on; equal scores share the better one, and what has no score comes behind."""
        known = sorted((score for score in self.scores.values() if score is not None), reverse=True)
        if not known:
            return {key: place for place, key in enumerate(self.scores, 1)}
        first: dict[float, int] = {}
        for place, score in enumerate(known, 1):
            first.setdefault(score, place)
        last = len(known) + 1
        return {key: last if score is None else first[score] for key, score in self.scores.items()}


def fused_scores(rankings: Sequence[Ranking]) -> dict[str, float]:
    """The weighted mean of relative scores, between 0 and 1; where a ranking has not found something, 0 counts.

    A convex combination, which keeps what ranks throw away: how much better the best is (Bruch, Gai & Ingber 2023, "An
    Analysis of Fusion Functions for Hybrid Retrieval"). Cosines are not stretched to their best one but measured
    against 1: an embedder that does not know the language finds everything about equally far, and then its order counts
    for little. (On Korean with an English embedder nDCG@10 is .947 so, .742 when stretched, .354 by reciprocal ranks;
    words alone have .949. On English with the same embedder, all three are above words alone.)

    Raises:
        InvalidInputError: The sum of the weights is no float.
    """
    weight = _total_weight(rankings)
    return _sums([(ranking.weight / weight, ranking.relative()) for ranking in rankings]) if weight else {}


def reciprocal_ranks(rankings: Sequence[Ranking], *, k: float = RRF_K) -> dict[str, float]:
    """Weighted reciprocal rank fusion: the sum of weight / (k + place) (Cormack, Clarke & Büttcher 2009).

    Raises:
        InvalidInputError: k is negative or not finite, or the sum of the weights is no float.
    """
    _check_from_zero("k", k)
    _total_weight(rankings)  # no score is larger
    return _sums(
        [(ranking.weight, {key: 1 / (k + place) for key, place in ranking.places().items()}) for ranking in rankings]
    )


def _total_weight(rankings: Sequence[Ranking]) -> float:
    weights = [ranking.weight for ranking in rankings]
    try:
        return math.fsum(weights)
    except OverflowError as error:
        raise InvalidInputError("weights", weights, "numbers whose sum is a float") from error


def _check_from_zero(name: str, value: float) -> None:
    if not (_is_finite(value) and value >= 0):
        raise InvalidInputError(name, value, "a finite number from 0 on")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):  # text, for one, or an int that no float is as large as
        return False


def _sums(parts: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """The sum for each key, rounded once: the same in whatever order the parts come."""
    keys = {key for _, part in parts for key in part}
    return {key: math.fsum(weight * part[key] for weight, part in parts if key in part) for key in sorted(keys)}


def score_fusion(
    rankings: Mapping[str, Sequence[ScoredDocument]],
    *,
    weights: Mapping[str, float] | None = None,
    top_k: int | None = None,
) -> list[ScoredDocument]:
    """One ranking by the weighted mean of scores, each ranking's between its worst (0) and its best (1).

    - Each document comes once, with `score` and with `score_parts` that name what each ranking gave it. Within a
      ranking an id names one document; in two rankings, ids are the same document if their texts are the same (two
      stores may both count from 1). Without an id it is text and source that count.
    - Scores may be missing: beside scores `None` is the worst, and documents that all have none count by their places.
    - The result is the same in whatever order rankings and scored documents come; the inputs stay as they are.

    Args:
        rankings: What each search found, under its name.
        weights: What a ranking counts, by its name; 1 if it is not named.
        top_k: How many documents at most.

    Raises:
        InvalidInputError: These are no rankings, or a weight is negative, not finite or of no ranking.
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
    """One ranking by places alone, for scores that can't be compared: see `reciprocal_ranks`.

    Guarantees and arguments are those of `score_fusion`; documents with equal scores share a place.

    Raises:
        InvalidInputError: As `score_fusion`, or k is negative.
    """
    found = _found(rankings, weights)
    return _fused(found, reciprocal_ranks([ranking for ranking, _ in found.values()], k=k), top_k)


def raw_score_fusion(rankings: Mapping[str, Sequence[ScoredDocument]]) -> list[ScoredDocument]:
    """One ranking of several whose scores are on one scale, as those of the scopes of one index: best first.

    Each document comes once, as in `score_fusion`, with the best of its scores.

    Raises:
        InvalidInputError: These are no rankings.
    """
    distinct = _within_each(rankings)
    return _best_first(_distinct([one for documents in distinct.values() for one in documents], key=_identity))


def deduplicated(documents: Sequence[ScoredDocument]) -> list[ScoredDocument]:
    """Each document once, by its id (without one, by its text and source), with the best of its scores; best first.

    Documents without a score come last, in the order given.

    Raises:
        InvalidInputError: These are no documents with scores.
    """
    return _best_first(_distinct(checked_documents("documents", documents)))


def _best_first(distinct: Mapping[str, ScoredDocument]) -> list[ScoredDocument]:
    scored = [key for key, document in distinct.items() if document.score is not None]
    scored.sort(key=lambda key: (-(distinct[key].score or 0.0), key))
    return [distinct[key] for key in (*scored, *(key for key, document in distinct.items() if document.score is None))]


def _found(
    rankings: Mapping[str, Sequence[ScoredDocument]], weights: Mapping[str, float] | None
) -> dict[str, tuple[Ranking, dict[str, ScoredDocument]]]:
    """Each ranking with its documents by key, in the order of the names."""
    within = _within_each(rankings)
    if weights is not None and not isinstance(weights, Mapping):
        raise InvalidInputError("weights", weights, "numbers by the rankings' names, or None")
    weights = weights or {}
    for name in weights:
        if name not in within:
            raise InvalidInputError("weights", name, f"one of the rankings {list(within)}")
    found = {}
    for name, documents in within.items():
        distinct = {_identity(one.document): one for one in documents}
        scores = {key: document.score for key, document in distinct.items()}
        found[name] = Ranking(scores, weight=weights.get(name, 1.0)), distinct
    return found


def _fused(
    found: Mapping[str, tuple[Ranking, Mapping[str, ScoredDocument]]], scores: Mapping[str, float], top_k: int | None
) -> list[ScoredDocument]:
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1):
        raise InvalidInputError("top_k", top_k, "a whole number of at least 1, or None")
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
    """What tells a document from the others of its source."""
    return document.id if document.id is not None else f"\x00{document.source or ''}\x00{document.text}"


def _identity(document: Document) -> str:
    """What tells a document from those of all sources."""
    return _key(document) if document.id is None else f"{document.id}\x00{document.text}"


def _within_each(rankings: Mapping[str, Sequence[ScoredDocument]]) -> dict[str, Collection[ScoredDocument]]:
    """Each document of each ranking once, in the order of the names."""
    if not isinstance(rankings, Mapping) or not all(isinstance(name, str) for name in rankings):
        raise InvalidInputError("rankings", rankings, "documents with scores by each ranking's name")
    return {
        name: _distinct(checked_documents(f"rankings[{name!r}]", rankings[name])).values() for name in sorted(rankings)
    }


def _distinct(
    documents: Sequence[ScoredDocument], *, key: Callable[[Document], str] = _key
) -> dict[str, ScoredDocument]:
    """The best version of each document by its key, in the order in which the documents first came."""
    distinct: dict[str, ScoredDocument] = {}
    for scored in documents:
        name = key(scored.document)
        if name not in distinct or _precedence(scored) > _precedence(distinct[name]):
            distinct[name] = scored
    return distinct


def _precedence(scored: ScoredDocument) -> tuple[float, str]:
    """The better score first; of versions with the same score, always the same one."""
    return -math.inf if scored.score is None else scored.score, repr(scored)
