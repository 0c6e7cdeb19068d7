"""What every reranker keeps to, whatever it ranks by."""

import copy
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import Reranker
from arc_common.rerankers import (
    BM25Reranker,
    DiversityReranker,
    KeywordWeightedReranker,
    RerankerChain,
    SimpleScoreReranker,
)
from arc_common.rerankers.registry import RERANKERS
from arc_common.settings.groups import RagSettings
from tests.support.scored_documents import candidates, ids, scored


class LetterEmbedder:
    """Embeds a text as how often it has each of some letters."""

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
    """As many as asked for, each once, in falling order of score, the same ones each time; parts only grow."""
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
    """A smaller `top_k` gives the beginning of the longer list."""
    assert make().rerank(query, documents, top_k=top_k) == make().rerank(query, documents, top_k=12)[:top_k]


@pytest.mark.parametrize("make", EACH)
def test_nothing_in_nothing_out(make):
    """No candidates, no result."""
    assert make().rerank("harbour", []) == []


@pytest.mark.parametrize("make", EACH)
def test_nothing_may_be_relevant(make):
    """A threshold above every score leaves nothing."""
    documents = scored(("harbour", 0.2), ("lantern", 0.1), ("quartz", None))
    assert make(min_score=10).rerank("harbour", documents) == []


@pytest.mark.parametrize("make", EACH)
def test_the_retrieval_score_is_kept(make):
    """Under its own name, also behind a second reranker."""
    documents = scored(("harbour", 0.2), ("lantern", 0.1))
    chain = RerankerChain([KeywordWeightedReranker(), make()])
    assert {found.score_parts["retrieval"] for found in chain.rerank("harbour", documents)} == {0.2, 0.1}


@pytest.mark.parametrize("make", EACH)
def test_each_is_a_reranker(make):
    """By the protocol that users implement."""
    assert isinstance(make(), Reranker)


@pytest.mark.parametrize("make", EACH)
@pytest.mark.parametrize("top_k", [0, -1, True, 2.5])
def test_a_useless_number_is_refused(make, top_k):
    """By name, at both places where it is given."""
    with pytest.raises(InvalidInputError, match="top_k"):
        make(top_k=top_k)
    with pytest.raises(InvalidInputError, match="top_k"):
        make().rerank("harbour", [], top_k=top_k)


@pytest.mark.parametrize("make", EACH)
@pytest.mark.parametrize(
    ("query", "documents", "field"),
    [
        pytest.param(None, [], "query", id="no query"),
        pytest.param(b"harbour", [], "query", id="bytes"),
        pytest.param("harbour", None, "documents", id="no documents"),
        pytest.param("harbour", "harbour", "documents", id="text"),
        pytest.param("harbour", {}, "documents", id="a mapping"),
        pytest.param("harbour", [Document("harbour")], "documents", id="documents without scores"),
        pytest.param("harbour", [None], "documents", id="None among them"),
    ],
)
def test_what_is_no_question_and_no_documents_is_refused(make, query, documents, field):
    """By name: an empty answer would say that nothing is relevant."""
    for reranker in (make(), RerankerChain([make()])):
        with pytest.raises(InvalidInputError, match=field):
            reranker.rerank(query, documents)


@pytest.mark.parametrize("make", EACH)
def test_documents_may_come_one_by_one(make):
    """Whatever can be iterated over is taken, however large the number asked for; ids may be missing or the same."""
    documents = [
        ScoredDocument(Document(text, document_id), 0.5)
        for text, document_id in (("harbour", None), ("harbour", None), ("quartz", "a"), ("quartz", "a"))
    ]
    ranked = make().rerank("harbour", documents, top_k=2**63)
    assert make().rerank("harbour", iter(documents), top_k=2**63) == ranked
    assert sorted(found.document.text for found in ranked) == ["harbour", "harbour", "quartz", "quartz"]


@pytest.mark.parametrize("make", EACH)
@pytest.mark.parametrize("min_score", [float("nan"), float("inf"), "0.5", True, 1j, [0.5]])
def test_a_threshold_is_a_number(make, min_score):
    """Not a number would let everything or nothing through."""
    with pytest.raises(InvalidInputError, match="min_score"):
        make(min_score=min_score)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "0.5", True, None])
def test_shares_are_shares(share):
    """Weight and λ lie between 0 and 1."""
    with pytest.raises(InvalidInputError, match="weight"):
        KeywordWeightedReranker(weight=share)
    with pytest.raises(InvalidInputError, match="trade_off"):
        DiversityReranker(trade_off=share)


def test_each_reranker_of_the_settings_can_be_made():
    """The table has what the settings name, and nothing else."""
    names = get_args(RagSettings.model_fields["reranker"].annotation)
    assert set(names) == set(RERANKERS)
    for name in names:
        assert isinstance(RERANKERS[name](RagSettings(reranker=name, rerank_top_k=3), None), Reranker)
