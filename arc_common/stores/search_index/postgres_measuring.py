"""Measures how wide walks of pgvector's graph have to be, by comparing what they find with what is nearest. Pure."""

from collections.abc import Callable, Sequence
from functools import cache
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

from arc_common.stores.search_index.postgres_statements import DEPTHS, WIDEST, least_width

__all__ = ["QUESTIONS", "measured", "questions_aside"]

QUESTIONS = 50
"""Of each kind. All vectors are compared with each: at 100,000 × 384 that takes 10 to 17 seconds, with the walks."""

_MISSED = 0.01
"""Which part of the nearest walks may miss in the mean."""

_SPARE = 2**0.5
"""How much wider than measured walks are for questions aside: of 100,000 sentences, 50 such questions told 480, others
340, 680 or 1000."""

_NEAR, _ASIDE = 0.7, 1.5
"""How far a question stands aside from what is stored. Of 100,000 sentences by a sentence embedder, walks of 120, 240
and 480 found .996, .999 and 1 for questions of the first kind, .993, .993 and 1 for 40 that people had asked about
them; .96, .985 and .995 for the second kind, .969, .985 and .997 for 189 about other things. Stored vectors themselves
are linked to what is nearest to them."""

_FAR = 0.2
"""So many of the questions of the first kind are taken for ones of the second, as what they find is the least near."""

_NOTHING = [nan] * len(DEPTHS)

Vector = NDArray[np.float32]
Compare = Callable[[Vector], Sequence[float]]
Search = Callable[[Vector, int], Sequence[float]]


def questions_aside(stored: Sequence[Vector], aside: float) -> list[Vector]:
    """Questions like those that will be asked: unit vectors near stored ones, and not stored.

    What sets them aside points to where vectors of the kind point to: it is a random mixture of all.

    Args:
        stored: Unit vectors without an order, two for each question.
        aside: How long what sets them aside is, the stored vector being 1.
    """
    table = np.array(stored)
    near = table[: len(table) // 2]
    mixture = np.random.default_rng(0).standard_normal((len(near), len(table)), dtype=np.float32) @ table
    return list(_unit(near + np.float32(aside) * _unit(mixture)))


def _unit(rows: Vector) -> Vector:
    unit: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def measured(stored: Sequence[Vector], compare: Compare, walk: Search) -> tuple[list[float], list[float], list[float]]:
    """How wide walks have to be for questions near what is stored and for those aside of it, and what tells them apart.

    Args:
        stored: Unit vectors without an order, two for each question of a kind.
        compare: The cosines of the nearest, best first, for a question: of as many as the greatest of `DEPTHS`.
        walk: The same as found by a walk of a width.

    Returns:
        Three times a number for each of `DEPTHS`: the widths, NaN where none finds enough, and the cosines that are
        the least of what is found for questions near what is stored. See `Reach`.
    """
    near = questions_aside(stored, _NEAR)
    nearest = [compare(question) for question in near]
    if not all(nearest):  # what was measured has gone meanwhile
        return _NOTHING, _NOTHING, _NOTHING
    cosines = [float(np.quantile([best[:depth][-1] for best in nearest], _FAR)) for depth in DEPTHS]
    widths = _widths(near, nearest, walk, cosines)
    aside = [] if all(map(isnan, widths)) else questions_aside(stored, _ASIDE)
    nearest = [compare(question) for question in aside]
    if not nearest or not all(nearest):
        return widths, _NOTHING, cosines
    wide = _widths(aside, nearest, walk, [-1.0] * len(DEPTHS))
    return widths, [min(_SPARE * width, WIDEST) for width in wide], cosines


def _widths(
    questions: Sequence[Vector], nearest: Sequence[Sequence[float]], walk: Search, cosines: Sequence[float]
) -> list[float]:
    """The least widths for each depth.

    What is as near as the last one wanted counts as found, whichever it is. Questions whose walk ends below the cosine
    don't count, as another search is made for them, unless they are more than half.
    """

    @cache
    def walked(place: int, width: int) -> Sequence[float]:
        return walk(questions[place], width)

    def least(depth: int, cosine: float) -> float:
        def finds(width: int) -> bool:
            shares = [
                sum(one >= best[:depth][-1] for one in found) / len(best[:depth])
                for best, found in ((best, walked(place, width)[:depth]) for place, best in enumerate(nearest))
                if found and found[-1] >= cosine
            ]
            return 2 * len(shares) >= len(questions) and sum(shares) >= (1 - _MISSED) * len(shares)

        return least_width(finds)

    return [least(*one) for one in zip(DEPTHS, cosines, strict=True)]
