"""How wide walks have to be, told by what they find."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from arc_common.stores.index_postgres_measuring import measured, questions_near

Vector = NDArray[np.float32]
QUESTIONS = list(np.eye(50, dtype=np.float32))
NEAREST = [1 - n / 1000 for n in range(100)]


@pytest.mark.parametrize(
    ("needed", "widths"),
    [
        ({10: 1, 100: 1}, (120, 120)),
        ({10: 121, 100: 300}, (170, 340)),
        ({10: 1000, 100: 1001}, (1000, None)),
        ({10: 1001, 100: 1}, (None, None)),
    ],
    ids=["at once", "wider", "not a hundred", "nothing"],
)
def test_the_least_width_that_finds_enough(needed: dict[int, int], widths: tuple[int | None, int | None]) -> None:
    """Of the ten and of the hundred nearest; where none finds the ten, the hundred are not asked for."""

    def walk(question: Vector, width: int, wanted: int) -> Sequence[float]:
        return NEAREST[:wanted] if width >= needed[wanted] else NEAREST[2:wanted]

    assert measured(QUESTIONS, lambda question, wanted: NEAREST[:wanted], walk) == widths


def test_a_few_may_be_missed() -> None:
    """One of ten in every twentieth question, one of a hundred in each; not one more."""

    def missing(often: int, of_hundred: int) -> tuple[int | None, int | None]:
        def walk(question: Vector, width: int, wanted: int) -> Sequence[float]:
            place = int(question.argmax())
            of_ten = 1 if place % often == 0 else 0
            return NEAREST[of_ten:wanted] if wanted == 10 else NEAREST[1 if place else of_hundred : wanted]

        return measured(QUESTIONS, lambda question, wanted: NEAREST[:wanted], walk)

    assert missing(25, of_hundred=1) == (120, 120)
    assert missing(25, of_hundred=2) == (120, None)
    assert missing(20, of_hundred=1) == (None, None)


def test_what_is_as_near_counts_as_found() -> None:
    """Of many that are alike, any will do."""
    alike = [1.0] * 100
    widths = measured(QUESTIONS, lambda question, wanted: alike, lambda question, width, wanted: alike[:wanted])
    assert widths == (120, 120)


def test_what_leads_nowhere_is_told_soon() -> None:
    """All vectors are compared with each question: where walks find nothing, not with all of them."""
    compared: list[Vector] = []

    def compare(question: Vector, wanted: int) -> Sequence[float]:
        compared.append(question)
        return NEAREST

    assert measured(QUESTIONS, compare, lambda question, width, wanted: []) == (None, None)
    assert len(compared) == 1


def test_vectors_that_have_gone_tell_nothing() -> None:
    """Another process may take them away meanwhile."""
    assert measured(QUESTIONS, lambda question, wanted: [], lambda question, width, wanted: []) == (None, None)


def test_questions_are_near_what_is_stored() -> None:
    """One for two stored vectors, of length 1, nearer to its own than to any other, and none of them."""
    rows = np.random.default_rng(1).standard_normal((100, 64), dtype=np.float32)
    stored = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    questions = np.array(questions_near(list(stored)))
    assert questions.shape == (50, 64)
    assert np.linalg.norm(questions, axis=1) == pytest.approx(np.ones(50), abs=1e-5)
    cosines = questions @ stored.T
    assert (cosines.argmax(axis=1) == np.arange(50)).all()
    assert cosines.max() < 0.95
