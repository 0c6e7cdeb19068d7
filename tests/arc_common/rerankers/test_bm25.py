"""BM25Reranker, against rank-bm25 over whole texts."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Plus

from arc_common.rerankers import BM25Reranker
from arc_common.rerankers.bm25 import bm25_scores
from arc_common.rerankers.terms import analysed
from arc_common.text import analyze, analyze_query
from tests.arc_common.rerankers.documents import ids, scored, texts


@given(
    st.lists(texts, min_size=1, max_size=10), st.sampled_from(["harbour", "quartz lantern", "주문번호", "东京 사과"])
)
def test_scores_are_those_of_rank_bm25(corpus, query):
    """Though it is given only the terms that are asked for."""
    if not any(map(analyze, corpus)):
        assert bm25_scores(query, corpus) == [0.0] * len(corpus)
        return
    whole = BM25Plus([analyze(text) for text in corpus], delta=0)
    expected = whole.get_scores(list(dict.fromkeys(analyze_query(query))))
    assert bm25_scores(query, corpus) == pytest.approx(list(expected))


@given(st.text(max_size=300) | st.lists(st.sampled_from(["Ab-1", "é", "좋아요", "\u0301x", "…", "ǅ"])).map(" ".join))
def test_a_text_is_analysed_as_the_analyzer_does(text):
    """Word by word or whole, the terms are the same."""
    found = analysed(text)
    assert sorted(term for term, count in found.counts.items() for _ in range(count)) == sorted(analyze(text))
    assert found.length == len(analyze(text))


def test_long_words_and_texts_are_analysed_too():
    """What is not remembered has the same terms."""
    for text in ("x" * 500 + " harbour", "harbour lantern " * 1000):
        assert found_terms(text) == sorted(analyze(text))


def found_terms(text: str) -> list[str]:
    return sorted(term for term, count in analysed(text).counts.items() for _ in range(count))


def test_words_decide_and_scores_settle_ties():
    """Rare words first; what shares none stays in the order of its scores."""
    documents = scored(("nothing", 0.1), ("harbour", 0.2), ("harbour lantern", 0.1), ("harbour", 0.3), ("nil", 0.9))
    ranked = BM25Reranker().rerank("harbour lantern", documents)
    assert ids(ranked) == ["d2", "d3", "d1", "d4", "d0"]
    assert [found.score_parts["bm25"] for found in ranked] == [found.score for found in ranked]
    assert [found.score for found in ranked][-2:] == [0.0, 0.0]


def test_a_threshold_above_zero_leaves_out_what_matches_nothing():
    """Down to nothing at all."""
    documents = scored(("harbour", 0.2), ("nothing", 0.9))
    assert ids(BM25Reranker(min_score=1e-9).rerank("harbour", documents)) == ["d0"]
    assert BM25Reranker(min_score=1e-9).rerank("lantern", documents) == []
    assert BM25Reranker(min_score=1e-9).rerank("", documents) == []


class Library:
    """A scope of 1,000 documents in which every document but ten has "harbour", and nobody knows "quartz"."""

    document_count = 1_000
    average_length = 4.0

    def document_frequencies(self, terms: Sequence[str]) -> Sequence[int]:
        return [{"harbour": 990, "lantern": 10}.get(term, 0) for term in terms]


def test_the_scope_says_what_is_rare():
    """Among the candidates "lantern" is the commoner word, in the scope it is the rarer."""
    documents = scored(("lantern", 0.0), ("lantern", 0.0), ("harbour", 0.0))
    assert ids(BM25Reranker().rerank("harbour lantern", documents))[0] == "d2"
    ranked = BM25Reranker(statistics=Library()).rerank("harbour lantern", documents)
    assert ids(ranked) == ["d0", "d1", "d2"]
    expected = math.log(1 + 990.5 / 10.5) * 2.5 / (1 + 1.5 * (0.25 + 0.75 / 4))
    assert ranked[0].score == pytest.approx(expected)


def test_statistics_may_be_out_of_date():
    """A term that they don't know, or know too often, still counts above zero."""

    class Stale(Library):
        document_count = 3

    scores = bm25_scores("harbour quartz", ["harbour", "quartz", "nil"], statistics=Stale())
    assert scores[0] > 0
    assert scores[1] > 0
    assert scores[2] == 0
