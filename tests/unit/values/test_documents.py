"""Documents and scores: invalid values, and order."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import Document, InvalidInputError, ScoredDocument
from arc_common.documents import finite_score
from arc_common.retrieval.bm25 import best_places
from arc_common.retrieval.vectors import cosines


@pytest.mark.parametrize("wrong", ["0.5", b"1", [1], 1j, pytest.param(10**400, id="too large")], ids=repr)
def test_a_score_is_a_finite_number(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="score"):
        ScoredDocument(Document("text"), wrong)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_no_score(score: float) -> None:
    """The document is kept without a score."""
    assert ScoredDocument(Document("text"), score).score is None


def test_a_document_is_made_of_what_it_says() -> None:
    cases = [
        *(("text", wrong) for wrong in (None, 5, b"text")),
        *(("id", wrong) for wrong in (5, b"id", ["id"])),
        *(("source", wrong) for wrong in (5, b"source")),
        *(("metadata", wrong) for wrong in (None, 5, "{}", [("a", 1)])),
    ]
    for field, wrong in cases:
        with pytest.raises(InvalidInputError, match=rf"document\.{field}"):
            Document(**{"text": "text", field: wrong})


@pytest.mark.parametrize(
    ("told", "score"),
    [
        (1, 1.0),
        (np.float32(0.5), 0.5),
        (np.array(0.5), 0.5),
        *((wrong, None) for wrong in (None, True, "0.5", b"1", [0.5], {}, 1j, float("nan"), float("-inf"))),
        pytest.param(np.array([0.5]), None, id="an array"),
        pytest.param(10**400, None, id="too large"),
    ],
    ids=repr,
)
def test_what_others_tell_may_be_no_score(told: Any, score: float | None) -> None:
    assert finite_score(told) == score


scored = st.dictionaries(st.text("abcé한", min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=20)


@given(scored, st.integers(-1, 25))
def test_the_best_come_first_and_ids_decide_between_equals(scores: dict[str, float], limit: int) -> None:
    ids = list(scores)
    places = best_places(ids, np.array(list(scores.values())), limit)
    assert [ids[place] for place in places] == sorted(ids, key=lambda key: (-scores[key], key))[: max(limit, 0)]


def test_equal_vectors_have_equal_cosines_wherever_they_stand() -> None:
    rng = np.random.default_rng(1)
    one, query = rng.standard_normal((2, 100)).astype(np.float32)
    one, query = one / np.linalg.norm(one), query / np.linalg.norm(query)
    table = np.vstack([rng.standard_normal((7, 100)), one[None], rng.standard_normal((4, 100)), one[None]])
    found = cosines(table.astype(np.float32), query)
    assert found[7] == found[12] == cosines(one[None], query)[0]


def test_a_cosine_is_never_above_one() -> None:
    vector = np.full(3, 1 / 3**0.5, dtype=np.float32)
    assert cosines(vector[None], vector)[0] <= 1
