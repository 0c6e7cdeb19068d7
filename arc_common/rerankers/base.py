"""What all rerankers share: scores on one scale, the order, and new values instead of changed ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real

from arc_common.documents import ScoredDocument, checked_documents
from arc_common.exceptions import InvalidInputError

__all__ = [
    "DEFAULT_TOP_K",
    "best_first",
    "check_min_score",
    "check_share",
    "check_top_k",
    "checked_request",
    "min_max",
    "rescored",
]

DEFAULT_TOP_K = 5
"""Documents that a reranker leaves."""

RETRIEVAL = "retrieval"
"""The part under which a document keeps the score that it was retrieved with."""


def min_max(scores: Sequence[float | None]) -> list[float]:
    """The scores between 0 (the worst) and 1 (the best); no score is as good as the worst.

    Scores that are all the same say nothing, and are all 1. Any finite numbers are accepted: ranks, cosines and BM25
    sums come out on the same scale, so what is mixed with them weighs the same.
    """
    known = [score for score in scores if score is not None]
    if not known:
        return [0.0] * len(scores)
    low, high = min(known) / 2, max(known) / 2  # halved: the distance of the largest floats is no float
    span = high - low
    return [
        0.0 if score is None else (min(1.0, max(0.0, (score / 2 - low) / span)) if span > 0 else 1.0)
        for score in scores
    ]


def best_first(scores: Sequence[float | None], *, top_k: int, min_score: float | None = None) -> list[int]:
    """The places of the best scores, best first: at most `top_k`, none below `min_score`.

    Equal scores stay in the order given; `None` comes last, and is below every threshold.
    """
    worst = float("-inf")
    values = [worst if score is None else score for score in scores]
    lowest = worst if min_score is None else min_score
    places = sorted((place for place, value in enumerate(values) if value >= lowest), key=lambda place: -values[place])
    return places[:top_k]


def rescored(document: ScoredDocument, score: float, parts: Mapping[str, float]) -> ScoredDocument:
    """The document with another score; its parts are kept, those given are added, and so is its score so far.

    The score it was retrieved with stays under "retrieval", however many rerankers come one behind the other.
    """
    before = {} if document.score is None else {RETRIEVAL: document.score}
    return replace(document, score=score, score_parts={**before, **document.score_parts, **parts})


def checked_request(
    query: object, documents: object, top_k: int | None, *, usual: int
) -> tuple[list[ScoredDocument], int]:
    """What a reranker is asked for: the candidates, and how many of them it leaves at most.

    Args:
        query: The question.
        documents: The candidates; whatever can be iterated over.
        top_k: How many are wanted at most.
        usual: How many, where `top_k` is `None`.

    Raises:
        InvalidInputError: One of them is something else.
    """
    if not isinstance(query, str):
        raise InvalidInputError("query", query, "text")
    return checked_documents("documents", documents), usual if top_k is None else check_top_k(top_k)


def check_top_k(value: object) -> int:
    """The number of documents wanted, if it is one: a whole number above 0, however large.

    Raises:
        InvalidInputError: It isn't.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError("top_k", value, "1 or more")
    return value


def check_min_score(value: float | None) -> float | None:
    """The threshold, if it is one.

    Raises:
        InvalidInputError: It isn't.
    """
    if value is not None and not (_is_number(value) and abs(value) < float("inf")):
        raise InvalidInputError("min_score", value, "a finite number or None")
    return value


def check_share(field: str, value: float) -> float:
    """The share, if it is one.

    Raises:
        InvalidInputError: It isn't.
    """
    if not (_is_number(value) and 0 <= value <= 1):
        raise InvalidInputError(field, value, "a share from 0 to 1")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
