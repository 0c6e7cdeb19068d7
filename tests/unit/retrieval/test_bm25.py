"""BM25's formula, in a search and in a reranker."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Plus

from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import Candidates
from arc_common.rerankers import BM25Reranker, DiversityReranker, KeywordWeightedReranker
from arc_common.rerankers.bm25 import bm25_scores
from arc_common.retrieval.bm25 import BM25, QueryTerms
from arc_common.text import analyze, analyze_query
from tests.support.scored_documents import ids, scored, texts


def candidates(frequency: float, *, length: float = 4, holders: int = 1, count: int = 10) -> Candidates:
    """Return one candidate for one term, in texts of 4 terms each."""
    return Candidates(("a",), np.array([[frequency]]), np.array([length]), np.array([holders]), count, 4.0 * count)


def score(*args: float, k1: float = 1.5, b: float = 0.75, weight: float = 1, **fields: float) -> float:
    """Return its score."""
    return float(BM25(k1, b).scores(candidates(*args, **fields), [weight])[0])  # type: ignore[arg-type]


def test_the_score_is_the_formula_s() -> None:
    assert score(2) == pytest.approx(np.log(1 + 9.5 / 1.5) * 2 / 3.5)
    assert score(2, length=8) == pytest.approx(np.log(1 + 9.5 / 1.5) * 2 / (2 + 1.5 * 1.75))
    assert score(2, weight=0.3) == pytest.approx(0.3 * score(2))


def test_smoothing_is_added_to_the_texts_with_a_term() -> None:
    """Without smoothing, a term that no text has is as rare as one in a single text."""
    held = np.array([0, 1, 10])
    assert BM25(smoothing=0.5).idf(held, 10) == pytest.approx(np.log(11 / np.array([0.5, 1.5, 10.5])))
    assert BM25(smoothing=0).idf(held, 10) == pytest.approx(np.log(11 / np.array([1, 1, 10])))


def test_the_full_score_is_that_of_a_text_with_every_term() -> None:
    both = Candidates((), np.zeros((0, 2)), np.zeros(0), np.array([1, 0]), 10, 40.0)
    rarities = np.log(1 + 9.5 / 1.5), np.log(1 + 10.5 / 0.5)
    assert BM25(k1=1.5).full_score(both, [1.0, 0.5]) == pytest.approx((rarities[0] + 0.5 * rarities[1]) / 2.5)
    assert BM25(k1=1.5).full_score(candidates(1), [1.0]) == pytest.approx(score(1))


def test_the_parameters_do_what_they_say() -> None:
    """k1 = 0 ignores repetition, b = 0 ignores length; rare terms weigh more, and common ones still count."""
    assert score(1, k1=0) == score(9, k1=0) > 0
    assert score(0, k1=0) == 0
    assert score(1, length=1, b=0) == score(1, length=99, b=0)
    assert score(1, length=1) > score(1, length=99)
    assert score(1, holders=1) > score(1, holders=9) > score(1, holders=10) > 0


def test_parameters_out_of_range_are_refused_by_name() -> None:
    wrong = [("k1", value) for value in (-1, float("nan"), float("inf"), None, "1", [1])]
    wrong += [(field, value) for field in ("b", "smoothing") for value in (1.1, -0.1, None, "1", [1])]
    for field, value in wrong:
        with pytest.raises(InvalidInputError, match=field):
            BM25(**{field: value})  # type: ignore[arg-type]


def test_empty_texts_score_nothing() -> None:
    empty = Candidates(("a",), np.zeros((1, 1)), np.zeros(1), np.zeros(1, dtype=np.int64), 1, 0.0)
    assert BM25().scores(empty, [1.0]).tolist() == [0]


@given(
    st.lists(texts, min_size=1, max_size=10), st.sampled_from(["harbour", "quartz lantern", "주문번호", "东京 사과"])
)
def test_scores_are_those_of_rank_bm25(corpus, query):
    if not any(map(analyze, corpus)):
        assert bm25_scores(query, corpus) == [0.0] * len(corpus)
        return
    whole = BM25Plus([analyze(text) for text in corpus], k1=1.5, b=0.75, delta=0)
    held = Counter(term for text in corpus for term in set(analyze(text)))
    whole.idf = {term: math.log(1 + (len(corpus) - n + 0.5) / (n + 0.5)) for term, n in held.items()}
    expected = whole.get_scores(list(dict.fromkeys(analyze_query(query)))) / 2.5
    assert bm25_scores(query, corpus) == pytest.approx(list(expected))


@pytest.mark.parametrize("kind", [BM25Reranker, KeywordWeightedReranker, DiversityReranker])
def test_a_reranker_keeps_no_text(kind):
    """No reference to a candidate's text remains, since it may be deleted."""
    found = [ScoredDocument(Document(f"the harbour lantern of quay {number}")) for number in range(3)]
    text = found[0].document.text
    before = sys.getrefcount(text)
    reranker = kind()
    assert reranker.rerank("harbour", found)
    assert sys.getrefcount(text) == before


def test_words_decide_and_scores_settle_ties():
    """Rare words come first; documents without matches keep the order of their scores."""
    documents = scored(("nothing", 0.1), ("harbour", 0.2), ("harbour lantern", 0.1), ("harbour", 0.3), ("nil", 0.9))
    ranked = BM25Reranker().rerank("harbour lantern", documents)
    assert ids(ranked) == ["d2", "d3", "d1", "d4", "d0"]
    assert [found.score_parts["bm25"] for found in ranked] == [found.score for found in ranked]
    assert [found.score for found in ranked][-2:] == [0.0, 0.0]


def test_a_threshold_above_zero_leaves_out_what_matches_nothing():
    documents = scored(("harbour", 0.2), ("nothing", 0.9))
    assert ids(BM25Reranker(min_score=1e-9).rerank("harbour", documents)) == ["d0"]
    assert BM25Reranker(min_score=1e-9).rerank("lantern", documents) == []
    assert BM25Reranker(min_score=1e-9).rerank("", documents) == []


class Library:
    """A scope of 1,000 documents: all but ten contain "harbour", none "quartz"."""

    size = 1_000

    def term_statistics(self, terms: Sequence[str]) -> tuple[int, float, Sequence[int]]:
        return self.size, 4.0, [{"harbour": 990, "lantern": 10}.get(term, 0) for term in terms]


def test_the_scope_says_what_is_rare():
    """The word "lantern" is more common among the candidates but rarer in the scope."""
    documents = scored(("lantern", 0.0), ("lantern", 0.0), ("harbour", 0.0))
    assert ids(BM25Reranker().rerank("harbour lantern", documents))[0] == "d2"
    ranked = BM25Reranker(statistics=Library()).rerank("harbour lantern", documents)
    assert ids(ranked) == ["d0", "d1", "d2"]
    expected = math.log(1 + 990.5 / 10.5) / (1 + 1.5 * (0.25 + 0.75 / 4))
    assert ranked[0].score == pytest.approx(expected)


def test_statistics_may_be_out_of_date():
    """A term with a missing or excessive count still scores above zero."""

    class Stale(Library):
        size = 3

    scores = bm25_scores("harbour quartz", ["harbour", "quartz", "nil"], statistics=Stale())
    assert scores[0] > 0
    assert scores[1] > 0
    assert scores[2] == 0


def test_statistics_that_are_no_counts_are_an_error():
    """A wrong number of counts would shift them to other terms, and invalid ones would lose documents."""

    def told(count=3, length=1.0, frequencies=(1, 1)):
        return SimpleNamespace(term_statistics=lambda terms: (count, length, frequencies))

    assert bm25_scores("harbour quartz", ["harbour", "quartz"], statistics=told())
    for frequencies in ([1], None, 2):
        with pytest.raises(InvalidInputError, match="document frequencies"):
            bm25_scores("harbour quartz", ["harbour", "quartz"], statistics=told(frequencies=frequencies))
    for wrong in (float("nan"), float("inf"), -1, None, "3"):
        for statistics, field in (
            (told(count=wrong, frequencies=[1]), "document count"),
            (told(length=wrong, frequencies=[1]), "average length"),
            (told(frequencies=[wrong]), "document frequencies"),
        ):
            with pytest.raises(InvalidInputError, match=field):
                BM25Reranker(statistics=statistics).rerank("harbour", scored(("harbour", 0.0)))
    for wrong in (object(), "text", 1_000, {"term_statistics": 1}):
        with pytest.raises(InvalidInputError, match="statistics"):
            BM25Reranker(statistics=wrong)


def test_statistics_are_not_asked_before_they_are_needed():
    """Creating a reranker does no I/O."""

    class Unreachable(Library):
        def term_statistics(self, terms):
            raise OSError

    reranker = BM25Reranker(statistics=Unreachable())
    with pytest.raises(OSError):  # noqa: PT011 - any OSError
        reranker.rerank("harbour", scored(("harbour", 0.0)))


@pytest.mark.parametrize(("words", "alternatives"), [(1, 38), (5, 30), (19, 2), (20, 0), (30, 0), (50, 0)])
def test_a_long_question_searches_for_fewer_alternatives(words, alternatives):
    """Of 40 terms, a question's own come first, and each of them leaves one alternative out."""
    asked = QueryTerms.of(
        " ".join(
            ["job", "family", "car", "doctor", *[f"zor{chr(97 + n % 26)}{chr(97 + n // 26)}k" for n in range(words)]][
                :words
            ]
        )
    )
    sought = asked.sought(40)
    own = min(words, 40)
    assert list(sought.items())[:own] == [(term, 1.0) for term in asked.terms[:own]]
    assert len(sought) - own == alternatives
