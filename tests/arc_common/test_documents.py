"""Documents and scores: what they refuse."""

from typing import Any

import pytest

from arc_common import Document, InvalidInputError, ScoredDocument


@pytest.mark.parametrize("wrong", ["0.5", b"1", [1], float("nan"), float("inf"), 1 + float("inf") * 1j], ids=repr)
def test_a_score_is_a_finite_number(wrong: Any) -> None:
    """What is none is refused by name."""
    with pytest.raises(InvalidInputError, match="score"):
        ScoredDocument(Document("text"), wrong)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("text", wrong) for wrong in (None, 5, b"text")),
        *(("id", wrong) for wrong in (5, b"id", ["id"])),
        *(("source", wrong) for wrong in (5, b"source")),
        *(("metadata", wrong) for wrong in (None, 5, "{}", [("a", 1)])),
    ],
    ids=repr,
)
def test_a_document_is_made_of_what_it_says(field: str, wrong: Any) -> None:
    """What is something else is refused by name."""
    with pytest.raises(InvalidInputError, match=rf"document\.{field}"):
        Document(**{"text": "text", field: wrong})
