"""Scores that what is near each text has a say in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arc_common.retrieval.smoothing import smoothed

numbers = st.floats(-1, 1, allow_subnormal=False)
scored = st.dictionaries(
    st.text(max_size=3), st.tuples(st.floats(0, 1), st.none() | st.tuples(numbers, numbers, numbers)), max_size=12
)


def unit(*numbers: float) -> NDArray[np.float32]:
    vector = np.array(numbers, dtype=np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length > 1e-3 else np.array([1, 0, 0], dtype=np.float32)


def apart(
    texts: dict[str, tuple[float, tuple[float, float, float] | None]],
) -> tuple[dict[str, float], dict[str, NDArray[np.float32]]]:
    scores = {key: score for key, (score, _) in texts.items()}
    return scores, {key: unit(*vector) for key, (_, vector) in texts.items() if vector is not None}


@given(scored, st.floats(0, 1))
def test_scores_stay_between_the_lowest_and_the_highest(
    texts: dict[str, tuple[float, tuple[float, float, float] | None]], trust: float
) -> None:
    """One for each text, whatever order they come in; without trust, as they are."""
    scores, vectors = apart(texts)
    given_scores = dict(scores)
    result = smoothed(scores, vectors, trust=trust)
    assert result.keys() == scores.keys()
    assert scores == given_scores
    for score in result.values():
        assert min(scores.values()) - 1e-9 <= score <= max(scores.values()) + 1e-9
    assert smoothed(dict(reversed(scores.items())), dict(reversed(vectors.items())), trust=trust) == result
    assert smoothed(scores, vectors, trust=0) == scores


def test_a_score_that_its_neighbours_bear_out_is_worth_more() -> None:
    """A quarter of it is theirs, weighted by their cosines."""
    scores = {"lone": 0.8, "one": 0.8, "two": 0.6, "three": 0.6, "far": 0.0}
    vectors = {"lone": unit(0, 0, 1), "one": unit(1, 0, 0), "two": unit(1, 0, 0), "three": unit(1, 0, 0)}
    vectors["far"] = unit(0, 0.6, 0.8)
    result = smoothed(scores, vectors, trust=1)
    assert result["one"] == pytest.approx(0.75 * 0.8 + 0.25 * 0.6)
    assert result["lone"] == pytest.approx(0.75 * 0.8)
    assert result["far"] == pytest.approx(0.25 * 0.8)
    assert smoothed(scores, vectors, trust=0.5)["lone"] == pytest.approx(0.875 * 0.8)


def test_only_the_nearest_have_a_say() -> None:
    """Five of them, however many there are."""
    scores = {"asked": 0.5} | {f"near{n}": 1.0 for n in range(5)} | {f"far{n}": 0.0 for n in range(20)}
    vectors = {"asked": unit(1, 0, 0)} | {f"near{n}": unit(1, 0.1, 0) for n in range(5)}
    vectors |= {f"far{n}": unit(1, 1, 0) for n in range(20)}
    assert smoothed(scores, vectors, trust=1)["asked"] == pytest.approx(0.75 * 0.5 + 0.25)


def test_what_is_like_nothing_keeps_its_score() -> None:
    """Opposites say nothing about it."""
    vectors = {"x": unit(1, 0, 0), "y": unit(0, 1, 0), "z": unit(-1, 0, 0)}
    assert smoothed({"x": 1.0, "y": 0.5, "z": 0.2}, vectors, trust=1) == {"x": 1.0, "y": 0.5, "z": 0.2}


def test_what_has_no_vector_is_measured_by_the_mean() -> None:
    """As others are by their neighbours: it should not lead for having been embedded by nobody."""
    vectors = {"x": unit(1, 0, 0), "y": unit(1, 0, 0), "z": unit(1, 0, 0)}
    result = smoothed({"none": 1.0, "x": 0.4, "y": 0.4, "z": 0.2}, vectors, trust=1)
    assert result["none"] == pytest.approx(0.75 + 0.25 * 0.5)
    two = {"none": 1.0, "x": 0.4, "y": 0.2}
    assert smoothed(two, {"x": vectors["x"], "y": vectors["y"]}, trust=1) == two


def test_equal_texts_stay_equal() -> None:
    """They have each other and the same others for neighbours."""
    rng = np.random.default_rng(0)
    vectors = {f"{n:03}": unit(*rng.normal(size=384)) for n in range(90)}
    equal = [f"{n:03}" for n in rng.choice(90, 4, replace=False)]
    vectors |= dict.fromkeys(equal, vectors[equal[0]])
    scores = {key: float(rng.random()) for key in vectors} | dict.fromkeys(equal, 0.1)
    result = smoothed(scores, vectors, trust=1)
    assert len({result[key] for key in equal}) == 1
