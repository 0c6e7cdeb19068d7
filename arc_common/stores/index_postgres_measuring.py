"""Measures how wide walks of pgvector's graph have to be, by comparing what they find with what is nearest. Pure."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from arc_common.stores.index_postgres_plan import FAR, NEAR, least_width

__all__ = ["QUESTIONS", "measured", "questions_near"]

QUESTIONS = 50
"""All vectors are compared with each: at 100,000 × 384 that takes 4 to 7 seconds with the walks."""

_MISSED = {NEAR: 0.05, FAR: 1.0}
"""How many walks miss of the nearest for each question, in the mean: one of the hundred, which are candidates among
others, and of the ten one in twenty questions, as people's may stand farther aside than those that are made here."""

_ASIDE = 0.7
"""How far a question stands aside from what is stored. Of 100,000 sentences by a sentence embedder, walks of 120 and of
170 found .997 and .998 for such questions, .997 and 1 for 40 that people had asked about them; .955 and .973 for 755
about other things, to which nothing is near. Stored vectors themselves are linked to what is nearest to them."""

Vector = NDArray[np.float32]


def questions_near(stored: Sequence[Vector]) -> list[Vector]:
    """Questions like those that will be asked: unit vectors near stored ones, and not stored.

    What sets them aside points to where vectors of the kind point to: it is a random mixture of all.

    Args:
        stored: Unit vectors without an order, two for each question.
    """
    table = np.array(stored)
    near = table[: len(table) // 2]
    mixture = np.random.default_rng(0).standard_normal((len(near), len(table)), dtype=np.float32) @ table
    return list(_unit(near + np.float32(_ASIDE) * _unit(mixture)))


def _unit(rows: Vector) -> Vector:
    unit: Vector = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def measured(
    questions: Sequence[Vector],
    compare: Callable[[Vector, int], Sequence[float]],
    walk: Callable[[Vector, int, int], Sequence[float]],
) -> tuple[int | None, int | None]:
    """The least widths that find the ten and the hundred nearest; `None` where none does.

    What is as near as the last one wanted counts as found, whichever it is.

    Args:
        questions: Unit vectors.
        compare: The cosines of the nearest, best first, for a question and how many are wanted.
        walk: The same as found by a walk of the width in the middle.
    """
    nearest: dict[int, Sequence[float]] = {}

    def width(wanted: int) -> int | None:
        def finds(width: int) -> bool:
            spare = _MISSED[wanted] * len(questions)
            for place, question in enumerate(questions):
                if place not in nearest:
                    nearest[place] = compare(question, FAR)
                best = nearest[place][:wanted]
                if not best:  # what was measured has gone meanwhile
                    return False
                spare -= len(best) - sum(cosine >= best[-1] for cosine in walk(question, width, wanted))
                if spare < 0:  # often at the first question, where no walk gets anywhere
                    return False
            return True

        return least_width(finds)

    near = width(NEAR)
    return near, None if near is None else width(FAR)
