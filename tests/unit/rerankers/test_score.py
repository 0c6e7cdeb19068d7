"""SimpleScoreReranker, and what all share with it."""

from hypothesis import given
from hypothesis import strategies as st

from arc_common.rerankers import SimpleScoreReranker
from arc_common.rerankers.base import min_max
from tests.support.scored_documents import ids, scored, scores


def test_the_best_scores_come_first():
    """Equal ones as they came, those without a score last."""
    documents = scored(("a", None), ("b", 0.1), ("c", 0.9), ("d", 0.1), ("e", -3.0))
    assert ids(SimpleScoreReranker().rerank("q", documents)) == ["d2", "d1", "d3", "d4", "d0"]


def test_a_threshold_leaves_out_what_is_below_it_or_unknown():
    """The threshold itself is let through."""
    documents = scored(("a", None), ("b", 0.1), ("c", 0.9), ("d", 0.3))
    assert ids(SimpleScoreReranker(min_score=0.3).rerank("q", documents)) == ["d2", "d3"]


@given(st.lists(scores, max_size=8))
def test_normalised_scores_keep_their_order(values):
    """Between 0 and 1, the best 1, and no better one gets less; also for the largest floats there are."""
    normalised = min_max(values)
    assert all(0 <= value <= 1 for value in normalised)
    known = [(score, value) for score, value in zip(values, normalised, strict=True) if score is not None]
    assert [value for _, value in sorted(known)] == sorted(value for _, value in known)
    assert not known or max(known)[1] == 1
    assert all(value == 0 for score, value in zip(values, normalised, strict=True) if score is None)


def test_equal_scores_say_nothing():
    """All are as good as the best."""
    assert min_max([0.4, None, 0.4]) == [1.0, 0.0, 1.0]
    assert min_max([None]) == [0.0]
    assert min_max([3.0, 1.0, 2.0]) == [1.0, 0.0, 0.5]
