"""Scores lifted by what is near each text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arc_common.retrieval.fusion import lifted

numbers = st.floats(-1, 1, allow_subnormal=False)
Texts = dict[str, tuple[float, tuple[float, float, float] | None]]
texts_with_scores = st.dictionaries(
    st.text(max_size=3), st.tuples(st.floats(0, 1), st.none() | st.tuples(numbers, numbers, numbers)), max_size=12
)


def unit(*numbers: float) -> NDArray[np.float32]:
    vector = np.array(numbers, dtype=np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length > 1e-3 else np.array([1, 0, 0], dtype=np.float32)


@given(texts_with_scores, st.floats(0, 1))
def test_no_score_falls_and_none_passes_the_best(texts: Texts, trust: float) -> None:
    """One for each text, whatever order they come in; without trust or a vector, as they are."""
    scores = {key: score for key, (score, _) in texts.items()}
    vectors = {key: unit(*vector) for key, (_, vector) in texts.items() if vector is not None}
    before = dict(scores)
    result = lifted(scores, vectors, trust=trust)
    assert result.keys() == scores.keys()
    assert scores == before
    for key, score in result.items():
        assert before[key] <= score <= max(before.values()) + 1e-12
        assert key in vectors or score == before[key]
    assert lifted(dict(reversed(scores.items())), dict(reversed(vectors.items())), trust=trust) == result
    assert lifted(scores, vectors, trust=0) == scores


def test_a_text_is_lifted_towards_what_is_near_and_answers_better() -> None:
    """Each neighbour counts a quarter of its cosine; those that answer less don't count."""
    scores = {"best": 0.8, "beside": 0.4, "behind": 0.2, "far": 0.2, "opposite": 0.2}
    vectors = {"best": unit(1, 0, 0), "beside": unit(1, 0, 0), "behind": unit(0.6, 0.8, 0), "far": unit(0, 0, 1)}
    result = lifted(scores, vectors | {"opposite": unit(-1, 0, 0)}, trust=1)
    assert result["best"] == 0.8
    assert result["beside"] == pytest.approx((0.4 + 0.25 * 0.8) / 1.25)
    assert result["behind"] == pytest.approx((0.2 + 0.15 * 0.8 + 0.15 * 0.4) / 1.3)
    assert result["far"] == result["opposite"] == 0.2
    half = lifted(scores, vectors, trust=0.5)
    assert half["beside"] == pytest.approx((0.4 + 0.125 * 0.8) / 1.125)


def test_only_the_nearest_have_a_say() -> None:
    """Five of them, however many there are."""
    scores = {"asked": 0.5} | {f"near{n}": 0.6 for n in range(5)} | {f"far{n}": 1.0 for n in range(20)}
    vectors = {"asked": unit(1, 0, 0)} | {f"near{n}": unit(1, 0, 0) for n in range(5)}
    vectors |= {f"far{n}": unit(1, 1, 0) for n in range(20)}
    assert lifted(scores, vectors, trust=1)["asked"] == pytest.approx((0.5 + 1.25 * 0.6) / 2.25)


def test_equal_texts_stay_equal() -> None:
    """They have each other and the same others for neighbours."""
    rng = np.random.default_rng(0)
    vectors = {f"{n:03}": unit(*rng.normal(size=384)) for n in range(90)}
    equal = [f"{n:03}" for n in rng.choice(90, 4, replace=False)]
    vectors |= dict.fromkeys(equal, vectors[equal[0]])
    scores = {key: float(rng.random()) for key in vectors} | dict.fromkeys(equal, 0.1)
    result = lifted(scores, vectors, trust=1)
    assert len({result[key] for key in equal}) == 1
