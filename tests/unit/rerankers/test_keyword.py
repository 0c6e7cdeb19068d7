"""KeywordWeightedReranker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.rerankers import KeywordWeightedReranker
from tests.support.scored_documents import ids, scored


def test_score_and_keywords_are_mixed():
    """By `score × (1 − w) + keywords × w`, of scores between 0 and 1."""
    documents = scored(("a harbour", 30.0), ("harbours and lanterns", 20.0), ("nothing of it", 10.0))
    ranked = KeywordWeightedReranker(weight=0.3).rerank("Where are the harbour lanterns?", documents)
    assert ids(ranked) == ["d0", "d1", "d2"]
    assert [found.score for found in ranked] == pytest.approx([0.7 + 0.15, 0.35 + 0.3, 0.0])
    assert [found.score_parts["keyword"] for found in ranked] == [0.5, 1.0, 0.0]
    assert [found.score_parts["retrieval"] for found in ranked] == [30.0, 20.0, 10.0]


@given(st.floats(0.01, 1000), st.floats(-100, 100))
def test_the_scale_of_the_scores_does_not_matter(factor, offset):
    """Reciprocal ranks of a hundredth and BM25 sums of thirty are mixed alike."""
    values = [0.9, 0.5, 0.1, 0.7]
    texts = ["harbour", "harbour lantern", "quartz", "nothing"]
    plain = KeywordWeightedReranker().rerank("harbour lantern", scored(*zip(texts, values, strict=True)))
    scaled = [value * factor + offset for value in values]
    assert ids(KeywordWeightedReranker().rerank("harbour lantern", scored(*zip(texts, scaled, strict=True)))) == ids(
        plain
    )


def test_words_count_in_every_language():
    """By the one analyzer: particles, inflections and scripts without spaces."""
    documents = scored(("사과는 빨갛다", 1.0), ("주문번호는 7731입니다", 1.0), ("东京塔很高", 1.0))
    for query, best in [("주문번호가 뭐예요?", "d1"), ("东京塔多高？", "d2"), ("사과", "d0")]:
        assert ids(KeywordWeightedReranker(top_k=1).rerank(query, documents)) == [best]


def test_without_scores_the_keywords_decide():
    """`None` is as good as the worst, for all alike."""
    documents = scored(("quartz", None), ("harbour lantern", None), ("harbour", None))
    assert ids(KeywordWeightedReranker().rerank("harbour lantern", documents)) == ["d1", "d2", "d0"]


def test_a_query_without_words_leaves_the_order():
    """And the scores decide alone."""
    assert ids(KeywordWeightedReranker().rerank("…", scored(("a", 0.1), ("b", 0.2)))) == ["d1", "d0"]
