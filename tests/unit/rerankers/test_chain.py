"""RerankerChain."""

import pytest

from arc_common.exceptions import InvalidInputError
from arc_common.rerankers import BM25Reranker, DiversityReranker, KeywordWeightedReranker, RerankerChain
from arc_common.rerankers import SimpleScoreReranker as Simple
from tests.support.scored_documents import ids, scored

DOCUMENTS = scored(*((f"harbour number {i}", i / 10) for i in range(10)))


def test_only_the_last_one_cuts():
    """Five documents would leave nothing to diversify."""
    chain = RerankerChain([BM25Reranker(top_k=1), DiversityReranker()])
    assert len(chain.rerank("harbour", DOCUMENTS)) == 5
    assert len(chain.rerank("harbour", DOCUMENTS, top_k=7)) == 7


def test_depths_narrow_the_steps_before():
    """Each step but the last leaves so many."""
    chain = RerankerChain([Simple(), Simple(), Simple()], depths=[4, 3])
    assert ids(chain.rerank("harbour", DOCUMENTS)) == ["d9", "d8", "d7"]


def test_thresholds_hold_at_every_step():
    """Where nothing is left, nobody is asked."""

    class Never:
        def rerank(self, query, documents, *, top_k=None):
            raise AssertionError("asked")

    assert len(RerankerChain([Simple(min_score=0.7), KeywordWeightedReranker()]).rerank("harbour", DOCUMENTS)) == 3
    assert RerankerChain([Simple(min_score=5), Never()]).rerank("harbour", DOCUMENTS) == []
    assert RerankerChain([Never()]).rerank("harbour", []) == []


@pytest.mark.parametrize("answer", [None, "", {}, ["harbour"], 7], ids=repr)
@pytest.mark.parametrize("place", [0, 1])
def test_a_step_that_answers_something_else_is_an_error(answer, place):
    """None of it means that nothing is relevant."""

    class Odd:
        def rerank(self, query, documents, *, top_k=None):
            return answer

    steps = [Simple()]
    steps.insert(place, Odd())
    with pytest.raises(InvalidInputError, match="reranked"):
        RerankerChain(steps).rerank("harbour", DOCUMENTS)


def test_each_step_leaves_its_part():
    """What every score was made from can be read in the end."""
    (best, *_) = RerankerChain([KeywordWeightedReranker(), BM25Reranker(), DiversityReranker()]).rerank(
        "harbour", DOCUMENTS
    )
    assert set(best.score_parts) == {"vector", "retrieval", "keyword", "bm25", "mmr"}


def test_a_chain_has_links():
    """And as many depths as steps before the last."""
    for wrong in ([], None, [Simple(), None]):
        with pytest.raises(InvalidInputError, match="rerankers"):
            RerankerChain(wrong)
    for depths in ([3, 3], 3, ["3"]):
        with pytest.raises(InvalidInputError, match="depths"):
            RerankerChain([Simple(), Simple()], depths=depths)
    with pytest.raises(InvalidInputError, match="top_k"):
        RerankerChain([Simple(), Simple()], depths=[0])
