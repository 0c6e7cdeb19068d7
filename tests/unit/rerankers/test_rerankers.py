"""Guarantees of every reranker, and the rankings of the simple ones."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import ContextEngine
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import ConfigurationError, InvalidInputError
from arc_common.protocols import Reranker
from arc_common.rerankers import (
    BM25Reranker,
    DiversityReranker,
    KeywordWeightedReranker,
    RerankerChain,
    SimpleScoreReranker,
)
from arc_common.rerankers import SimpleScoreReranker as Simple
from arc_common.rerankers.base import min_max, query_terms
from arc_common.settings import ArcSettings
from arc_common.text import analyze
from tests.support.scored_documents import candidates, ids, scored, scores


class LetterEmbedder:
    """Embeds a text as its counts of some letters."""

    name = "letters"

    def embed(self, texts):
        return [[float(text.count(letter)) for letter in "aeht사京1"] for text in texts]


EACH = [
    pytest.param(SimpleScoreReranker, id="score"),
    pytest.param(KeywordWeightedReranker, id="keyword"),
    pytest.param(BM25Reranker, id="bm25"),
    pytest.param(DiversityReranker, id="jaccard"),
    pytest.param(lambda **settings: DiversityReranker(embedder=LetterEmbedder(), **settings), id="vectors"),
]
queries = st.sampled_from(["harbour", "the quartz lantern", "주문번호 사과", "东京", "1240 x-1", "what is the", ""])


@pytest.mark.parametrize("make", EACH)
@given(documents=candidates, query=queries, top_k=st.none() | st.integers(1, 15))
def test_the_best_come_first_and_nothing_is_invented(make, documents, query, top_k):
    before = copy.deepcopy(documents)
    ranked = make().rerank(query, documents, top_k=top_k)
    assert len(ranked) == min(top_k or 5, len(documents))
    assert documents == before
    assert ranked == make().rerank(query, documents, top_k=top_k)
    by_id = {found.document.id: found for found in documents}
    assert len(set(ids(ranked))) == len(ranked)
    values = [float("-inf") if found.score is None else found.score for found in ranked]
    assert values == sorted(values, reverse=True)
    for found in ranked:
        original = by_id[found.document.id]
        assert found.document is original.document
        assert found.score_parts.items() >= original.score_parts.items()


@pytest.mark.parametrize("make", EACH)
@given(documents=candidates, query=queries, top_k=st.integers(1, 12))
def test_fewer_are_the_first_of_more(make, documents, query, top_k):
    assert make().rerank(query, documents, top_k=top_k) == make().rerank(query, documents, top_k=12)[:top_k]


@pytest.mark.parametrize("make", EACH)
def test_each_is_a_reranker_that_keeps_the_retrieval_score(make):
    """The score stays under its own name through a chain; if nothing is relevant, the result is empty."""
    assert isinstance(make(), Reranker)
    documents = scored(("harbour", 0.2), ("lantern", 0.1))
    chain = RerankerChain([KeywordWeightedReranker(), make()])
    assert {found.score_parts["retrieval"] for found in chain.rerank("harbour", documents)} == {0.2, 0.1}
    assert make(min_score=10).rerank("harbour", [*documents, *scored(("quartz", None))]) == []
    assert make().rerank("harbour", []) == []


@pytest.mark.parametrize("make", EACH)
def test_wrong_arguments_are_refused_by_name(make):
    """An empty result would mean that nothing is relevant."""
    for top_k in (0, -1, True, 2.5):
        with pytest.raises(InvalidInputError, match="top_k"):
            make(top_k=top_k)
        with pytest.raises(InvalidInputError, match="top_k"):
            make().rerank("harbour", [], top_k=top_k)
    for min_score in (float("nan"), float("inf"), "0.5", True, 1j, [0.5]):
        with pytest.raises(InvalidInputError, match="min_score"):
            make(min_score=min_score)
    for reranker in (make(), RerankerChain([make()])):
        for query in (None, b"harbour"):
            with pytest.raises(InvalidInputError, match="query"):
                reranker.rerank(query, [])
        for documents in (None, "harbour", {}, [Document("harbour")], [None]):
            with pytest.raises(InvalidInputError, match="documents"):
                reranker.rerank("harbour", documents)


@pytest.mark.parametrize("make", EACH)
def test_documents_may_come_one_by_one(make):
    """Any iterable and any large `top_k` are accepted; ids may be missing or equal."""
    documents = [
        ScoredDocument(Document(text, document_id), 0.5)
        for text, document_id in (("harbour", None), ("harbour", None), ("quartz", "a"), ("quartz", "a"))
    ]
    ranked = make().rerank("harbour", documents, top_k=2**63)
    assert make().rerank("harbour", iter(documents), top_k=2**63) == ranked
    assert sorted(found.document.text for found in ranked) == ["harbour", "harbour", "quartz", "quartz"]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "0.5", True, None])
def test_shares_are_shares(share):
    with pytest.raises(InvalidInputError, match="weight"):
        KeywordWeightedReranker(weight=share)
    with pytest.raises(InvalidInputError, match="trade_off"):
        DiversityReranker(trade_off=share)


def test_the_best_scores_come_first():
    documents = scored(("a", None), ("b", 0.1), ("c", 0.9), ("d", 0.1), ("e", -3.0))
    assert ids(SimpleScoreReranker().rerank("q", documents)) == ["d2", "d1", "d3", "d4", "d0"]


def test_a_threshold_leaves_out_what_is_below_it_or_unknown():
    documents = scored(("a", None), ("b", 0.1), ("c", 0.9), ("d", 0.3))
    assert ids(SimpleScoreReranker(min_score=0.3).rerank("q", documents)) == ["d2", "d3"]


@given(st.lists(scores, max_size=8))
def test_normalised_scores_keep_their_order(values):
    """They are between 0 and 1, the best is 1, and none is inverted, even for the largest floats."""
    normalised = min_max(values)
    assert all(0 <= value <= 1 for value in normalised)
    known = [(score, value) for score, value in zip(values, normalised, strict=True) if score is not None]
    assert [value for _, value in sorted(known)] == sorted(value for _, value in known)
    assert not known or max(known)[1] == 1
    assert all(value == 0 for score, value in zip(values, normalised, strict=True) if score is None)


def test_equal_scores_say_nothing():
    assert min_max([0.4, None, 0.4]) == [1.0, 0.0, 1.0]
    assert min_max([None]) == [0.0]
    assert min_max([3.0, 1.0, 2.0]) == [1.0, 0.0, 0.5]


def test_score_and_keywords_are_mixed():
    documents = scored(("a harbour", 30.0), ("harbours and lanterns", 20.0), ("nothing of it", 10.0))
    ranked = KeywordWeightedReranker(weight=0.3).rerank("Where are the harbour lanterns?", documents)
    assert ids(ranked) == ["d0", "d1", "d2"]
    assert [found.score for found in ranked] == pytest.approx([0.7 + 0.15, 0.35 + 0.3, 0.0])
    assert [found.score_parts["keyword"] for found in ranked] == [0.5, 1.0, 0.0]
    assert [found.score_parts["retrieval"] for found in ranked] == [30.0, 20.0, 10.0]


@given(st.floats(0.01, 1000), st.floats(-100, 100))
def test_the_scale_of_the_scores_does_not_matter(factor, offset):
    """Reciprocal ranks around a hundredth and BM25 scores around thirty are mixed alike."""
    values = [0.9, 0.5, 0.1, 0.7]
    texts = ["harbour", "harbour lantern", "quartz", "nothing"]
    plain = KeywordWeightedReranker().rerank("harbour lantern", scored(*zip(texts, values, strict=True)))
    scaled = [value * factor + offset for value in values]
    assert ids(KeywordWeightedReranker().rerank("harbour lantern", scored(*zip(texts, scaled, strict=True)))) == ids(
        plain
    )


def test_words_count_in_every_language():
    documents = scored(("사과는 빨갛다", 1.0), ("주문번호는 7731입니다", 1.0), ("东京塔很高", 1.0))
    for query, best in [("주문번호가 뭐예요?", "d1"), ("东京塔多高？", "d2"), ("사과", "d0")]:
        assert ids(KeywordWeightedReranker(top_k=1).rerank(query, documents)) == [best]


def test_without_scores_the_keywords_decide():
    documents = scored(("quartz", None), ("harbour lantern", None), ("harbour", None))
    assert ids(KeywordWeightedReranker().rerank("harbour lantern", documents)) == ["d1", "d2", "d0"]


def test_a_query_without_words_leaves_the_order():
    assert ids(KeywordWeightedReranker().rerank("…", scored(("a", 0.1), ("b", 0.2)))) == ["d1", "d0"]


DOCUMENTS = scored(*((f"harbour number {i}", i / 10) for i in range(10)))


def test_only_the_last_one_cuts():
    chain = RerankerChain([BM25Reranker(top_k=1), DiversityReranker()])
    assert len(chain.rerank("harbour", DOCUMENTS)) == 5
    assert len(chain.rerank("harbour", DOCUMENTS, top_k=7)) == 7


def test_thresholds_hold_at_every_step():
    class Never:
        def rerank(self, query, documents, *, top_k=None):
            raise AssertionError("asked")

    assert len(RerankerChain([Simple(min_score=0.7), KeywordWeightedReranker()]).rerank("harbour", DOCUMENTS)) == 3
    assert RerankerChain([Simple(min_score=5), Never()]).rerank("harbour", DOCUMENTS) == []
    assert RerankerChain([Never()]).rerank("harbour", []) == []


@pytest.mark.parametrize("answer", [None, "", {}, ["harbour"], 7], ids=repr)
@pytest.mark.parametrize("place", [0, 1])
def test_a_step_that_answers_something_else_is_an_error(answer, place):
    class Odd:
        def rerank(self, query, documents, *, top_k=None):
            return answer

    steps = [Simple()]
    steps.insert(place, Odd())
    with pytest.raises(InvalidInputError, match="reranked"):
        RerankerChain(steps).rerank("harbour", DOCUMENTS)


def test_each_step_leaves_its_part():
    (best, *_) = RerankerChain([KeywordWeightedReranker(), BM25Reranker(), DiversityReranker()]).rerank(
        "harbour", DOCUMENTS
    )
    assert set(best.score_parts) == {"vector", "retrieval", "keyword", "bm25", "mmr"}


def test_a_chain_has_links():
    for wrong in ([], None, [Simple(), None]):
        with pytest.raises(InvalidInputError, match="rerankers"):
            RerankerChain(wrong)


def test_a_query_has_each_term_once():
    assert query_terms("where is the harbour, the harbour lantern?") == list(analyze("harbour lantern"))


def test_an_unknown_reranker_is_refused_when_the_engine_opens():
    with pytest.raises(ConfigurationError, match=r"rag\.reranker: got 'best', expected one of score, keyword, bm25"):
        ContextEngine.open(settings=ArcSettings(rag={"reranker": "best"}))
