"""BM25 by the formula."""

from typing import Any

import numpy as np
import pytest

from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import LexicalCandidates
from arc_common.retrieval.bm25 import BM25


def candidates(frequency: float, *, length: float = 4, holders: int = 1, count: int = 10) -> LexicalCandidates:
    """One candidate of one term, in texts of 4 terms each."""
    return LexicalCandidates(
        ("a",), np.array([[frequency]]), np.array([length]), np.array([holders]), count, 4.0 * count
    )


def score(*args: float, k1: float = 1.5, b: float = 0.75, weight: float = 1, **fields: float) -> float:
    """Its score."""
    return float(BM25(k1, b).scores(candidates(*args, **fields), [weight])[0])  # type: ignore[arg-type]


def test_the_score_is_the_formula_s() -> None:
    """Of a text of mean length: idf × tf / (tf + k1)."""
    assert score(2) == pytest.approx(np.log(1 + 9.5 / 1.5) * 2 / 3.5)
    assert score(2, length=8) == pytest.approx(np.log(1 + 9.5 / 1.5) * 2 / (2 + 1.5 * 1.75))
    assert score(2, weight=0.3) == pytest.approx(0.3 * score(2))


def test_smoothing_is_added_to_the_texts_with_a_term() -> None:
    """Without any, a term that no text has is as rare as one that one has."""
    held = np.array([0, 1, 10])
    assert BM25(smoothing=0.5).idf(held, 10) == pytest.approx(np.log(11 / np.array([0.5, 1.5, 10.5])))
    assert BM25(smoothing=0).idf(held, 10) == pytest.approx(np.log(11 / np.array([1, 1, 10])))


def test_the_full_score_is_that_of_a_text_with_every_term() -> None:
    """Once, at mean length; a term that no text has counts too."""
    both = LexicalCandidates((), np.zeros((0, 2)), np.zeros(0), np.array([1, 0]), 10, 40.0)
    rarities = np.log(1 + 9.5 / 1.5), np.log(1 + 10.5 / 0.5)
    assert BM25(k1=1.5).full_score(both, [1.0, 0.5]) == pytest.approx((rarities[0] + 0.5 * rarities[1]) / 2.5)
    assert BM25(k1=1.5).full_score(candidates(1), [1.0]) == pytest.approx(score(1))


def test_the_parameters_do_what_they_say() -> None:
    """k1 = 0 counts a term once; b = 0 does not look at the length; rarer terms weigh more, common ones still count."""
    assert score(1, k1=0) == score(9, k1=0) > 0
    assert score(0, k1=0) == 0
    assert score(1, length=1, b=0) == score(1, length=99, b=0)
    assert score(1, length=1) > score(1, length=99)
    assert score(1, holders=1) > score(1, holders=9) > score(1, holders=10) > 0


@pytest.mark.parametrize(
    "wrong",
    [
        *({"k1": value} for value in (-1, float("nan"), float("inf"), None, "1", [1])),
        *({field: value} for field in ("b", "smoothing") for value in (1.1, -0.1, None, "1", [1])),
    ],
    ids=repr,
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """By name."""
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        BM25(**wrong)


def test_empty_texts_score_nothing() -> None:
    """Also where all of them are empty and have no mean length."""
    empty = LexicalCandidates(("a",), np.zeros((1, 1)), np.zeros(1), np.zeros(1, dtype=np.int64), 1, 0.0)
    assert BM25().scores(empty, [1.0]).tolist() == [0]
