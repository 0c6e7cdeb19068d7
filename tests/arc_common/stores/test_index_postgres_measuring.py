"""How wide walks have to be, told by what they find."""

from collections.abc import Callable, Sequence
from math import nan
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from arc_common.stores.search_index.postgres_measuring import measured, questions_aside

Vector = NDArray[np.float32]
STORED = list(np.eye(100, dtype=np.float32))
NEAREST = [1 - n / 1000 for n in range(100)]
Walk = Callable[[Vector, int], Sequence[float]]


def compare(question: Vector) -> Sequence[float]:
    return NEAREST


def place_of(question: Vector) -> int:
    """Which of the questions it is."""
    return int(question[:50].argmax())


def is_near(question: Vector) -> bool:
    """Whether it is one of those near what is stored."""
    return bool(question.max() > 0.7)


@pytest.mark.parametrize(
    ("needed", "widths"),
    [
        ((1, 1, 1), [120, 120, 120]),
        ((121, 240, 300), [170, 240, 340]),
        ((1000, 1000, 1001), [1000, 1000, nan]),
        ((1001, 1001, 1001), [nan, nan, nan]),
    ],
    ids=["at once", "wider", "not a hundred", "nothing"],
)
def test_the_least_width_that_finds_enough(needed: tuple[int, int, int], widths: list[float]) -> None:
    """Of the ten, the fifty and the hundred nearest."""

    def walk(question: Vector, width: int) -> Sequence[float]:
        found = NEAREST.copy()
        for depth, least in zip((10, 50, 100), needed, strict=True):
            if width < least:
                del found[depth // 2 : depth]
                return [*found, *[0.0] * depth][:100]
        return found

    near, aside, _ = measured(STORED, compare, walk)
    assert near == pytest.approx(widths, nan_ok=True)
    assert aside == pytest.approx([min(width * 2**0.5, 1000) for width in widths], nan_ok=True)


def test_questions_aside_are_measured_by_themselves() -> None:
    """They need wider walks, and are told by cosines which a fifth of the others don't come up to."""

    def walk(question: Vector, width: int) -> Sequence[float]:
        return NEAREST if is_near(question) or width >= 400 else [0.0] * 100

    def nearer(question: Vector) -> Sequence[float]:
        return [cosine - place_of(question) / 10_000 for cosine in NEAREST] if is_near(question) else NEAREST

    near, aside, cosines = measured(STORED, nearer, walk)
    assert near == [120.0] * 3
    assert aside == pytest.approx([480 * 2**0.5] * 3)
    assert cosines == pytest.approx([NEAREST[depth - 1] - 39.2 / 10_000 for depth in (10, 50, 100)])


def test_a_few_may_be_missed() -> None:
    """One of a hundred; not one more."""

    def missing(of_ten: int, of_hundred: int) -> Any:
        def walk(question: Vector, width: int) -> Sequence[float]:
            if place_of(question) < of_ten:
                return [0.0, *NEAREST[:9], *NEAREST[10:]]
            return [*NEAREST[: 100 - of_hundred], *[0.0] * of_hundred]

        return np.round(measured(STORED, compare, walk)[1]).tolist()

    assert missing(5, of_hundred=0) == [170] * 3
    assert missing(6, of_hundred=0) == pytest.approx([nan, 170, 170], nan_ok=True)
    assert missing(0, of_hundred=1) == [170] * 3
    assert missing(0, of_hundred=2) == pytest.approx([170, 170, nan], nan_ok=True)


def test_another_search_is_made_for_some() -> None:
    """What is not as near as the cosines has the next walk to find it, unless that were more than half of all."""

    def astray(often: int) -> list[float]:
        def walk(question: Vector, width: int) -> Sequence[float]:
            return [0.0] * 100 if is_near(question) and place_of(question) < often else NEAREST

        return measured(STORED, compare, walk)[0]

    assert astray(25) == [120.0] * 3
    assert astray(26) == pytest.approx([nan] * 3, nan_ok=True)


def test_what_is_as_near_counts_as_found() -> None:
    """Of many that are alike, any will do."""
    alike = [1.0] * 100
    near, aside, _ = measured(STORED, lambda question: alike, lambda question, width: alike)
    assert near == [120.0] * 3
    assert aside == pytest.approx([120 * 2**0.5] * 3)


def test_what_leads_nowhere_is_not_measured_further() -> None:
    """All vectors are compared with each question: where no walk finds anything, not with those aside."""
    compared: list[Vector] = []

    def compare(question: Vector) -> Sequence[float]:
        compared.append(question)
        return NEAREST

    near, aside, _ = measured(STORED, compare, lambda question, width: [])
    assert near == aside == pytest.approx([nan] * 3, nan_ok=True)
    assert len(compared) == 50


def test_vectors_that_have_gone_tell_nothing() -> None:
    """Another process may take them away meanwhile, all of them or those of the later questions."""
    for there in (0, 30, 70):
        left = iter([NEAREST] * there)
        widths = measured(STORED, lambda question, left=left: next(left, []), lambda question, width: NEAREST)
        assert widths[1] == pytest.approx([nan] * 3, nan_ok=True)


@pytest.mark.parametrize(("aside", "nearest"), [(0.7, 0.95), (1.5, 0.75)])
def test_questions_are_near_what_is_stored(aside: float, nearest: float) -> None:
    """One for two stored vectors, of length 1, nearer to its own than to any other, and none of them."""
    rows = np.random.default_rng(1).standard_normal((100, 64), dtype=np.float32)
    stored = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    questions = np.array(questions_aside(list(stored), aside))
    assert questions.shape == (50, 64)
    assert np.linalg.norm(questions, axis=1) == pytest.approx(np.ones(50), abs=1e-5)
    cosines = questions @ stored.T
    assert cosines.max() < nearest
    if aside < 1:
        assert (cosines.argmax(axis=1) == np.arange(50)).all()
