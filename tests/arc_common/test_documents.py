"""Documents and scores: what they refuse."""

from typing import Any

import pytest

from arc_common import Document, InvalidInputError, ScoredDocument


@pytest.mark.parametrize("wrong", ["0.5", b"1", [1], float("nan"), float("inf"), 1 + float("inf") * 1j], ids=repr)
def test_a_score_is_a_finite_number(wrong: Any) -> None:
    """What is none is refused by name."""
    with pytest.raises(InvalidInputError, match="score"):
        ScoredDocument(Document("text"), wrong)


@pytest.mark.parametrize("wrong", [None, 5, b"text"], ids=repr)
def test_a_document_is_text(wrong: Any) -> None:
    """What is none is refused by name."""
    with pytest.raises(InvalidInputError, match=r"document\.text"):
        Document(wrong)
