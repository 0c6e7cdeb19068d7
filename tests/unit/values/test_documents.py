"""Documents and scores: what they refuse."""

from typing import Any

import numpy as np
import pytest

from arc_common import Document, InvalidInputError, ScoredDocument
from arc_common.documents import finite_score


@pytest.mark.parametrize("wrong", ["0.5", b"1", [1], 1j, pytest.param(10**400, id="too large")], ids=repr)
def test_a_score_is_a_finite_number(wrong: Any) -> None:
    """What is none is refused by name."""
    with pytest.raises(InvalidInputError, match="score"):
        ScoredDocument(Document("text"), wrong)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_no_score(score: float) -> None:
    """It says nothing of the document, which is good for something nevertheless."""
    assert ScoredDocument(Document("text"), score).score is None


def test_a_document_is_made_of_what_it_says() -> None:
    """What is something else is refused by name."""
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
    """Then there is none."""
    assert finite_score(told) == score
