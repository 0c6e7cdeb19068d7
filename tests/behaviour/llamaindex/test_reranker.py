"""Arc's rerankers as node postprocessors, and LlamaIndex's postprocessors as arc's rerankers."""

import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.postprocessor import LongContextReorder, MetadataReplacementPostProcessor, SimilarityPostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

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
from llamaindex_arc import ArcNodePostprocessor, ArcTokenBudgetPostprocessor, LlamaIndexReranker, node_to_arc
from tests.behaviour.adapters.test_rerankers import Postprocessor
from tests.support.llamaindex_retrieval import events, frozen, ids_of, node_lists, scored, sentences

RERANKERS: dict[str, Reranker] = {
    "score": SimpleScoreReranker(),
    "keyword": KeywordWeightedReranker(),
    "bm25": BM25Reranker(),
    "diversity": DiversityReranker(),
    "chain": RerankerChain([BM25Reranker(), DiversityReranker()]),
    "LlamaIndex's": LlamaIndexReranker(SimilarityPostprocessor(similarity_cutoff=0.2)),
}
NODES = [("the cat sat", 0.2), ("the dog ran to the cat", 0.9), ("a dog", None), ("birds", float("nan"))]


@given(st.sampled_from(sorted(RERANKERS)), node_lists, sentences, st.none() | st.integers(1, 4))
def test_nodes_given_stay_as_they_are(name: str, nodes: list[NodeWithScore], query: str, top_n: int | None) -> None:
    """New scored nodes wrap the same nodes, best first and within the limit, whatever the scores."""
    before, order = frozen(nodes), list(nodes)
    left = ArcNodePostprocessor(RERANKERS[name], top_n=top_n).postprocess_nodes(nodes, query_str=query)
    assert len(left) <= min(len(nodes), top_n or len(nodes))
    assert all(any(item.node is given.node for given in nodes) for item in left)
    assert all(item is not given for item in left for given in nodes)
    scores = [item.score for item in left if item.score is not None]
    assert scores == sorted(scores, reverse=True)
    for item in left:
        item.score = -1.0
    assert nodes == order
    assert frozen(nodes) == before


def test_what_is_embedded_is_ranked() -> None:
    """Metadata count as in LlamaIndex's embedding."""
    shown = TextNode(id_="shown", text="a", metadata={"title": "Busan"})
    hidden = TextNode(id_="hidden", text="a", metadata={"title": "Busan"}, excluded_embed_metadata_keys=["title"])
    nodes = [NodeWithScore(node=hidden, score=1.0), NodeWithScore(node=shown, score=0.5)]
    left = ArcNodePostprocessor(BM25Reranker(min_score=1e-9)).postprocess_nodes(nodes, query_str="Busan")
    assert ids_of(left) == ["shown"]


@pytest.mark.parametrize(
    ("name", "scores", "needs"),
    [
        ("score", (1.0, None), False),
        ("diversity", (1.0, None), False),
        ("diversity", (None, None), True),
        ("keyword", (1.0, 0.5), True),
        ("bm25", (1.0, 0.5), True),
        ("chain", (1.0, 0.5), True),
    ],
)
def test_a_missing_query_is_said(name: str, scores: tuple[float | None, ...], needs: bool) -> None:
    """The error comes if the reranker needs a query."""
    nodes = scored(*zip("ab", scores, strict=True))
    made = ArcNodePostprocessor(RERANKERS[name])
    if not needs:
        assert ids_of(made.postprocess_nodes(nodes)) == ["a", "b"]
        return
    with pytest.raises(InvalidInputError, match=f"query_bundle.*{type(RERANKERS[name]).__name__}"):
        made.postprocess_nodes(nodes)


def test_events_are_reported() -> None:
    """Both of LlamaIndex's event systems get input and output; the manager may be assigned later."""
    debug = LlamaDebugHandler(print_trace_on_end=False)
    made = ArcNodePostprocessor(BM25Reranker(), top_n=2)
    made.callback_manager = CallbackManager([debug])
    with events() as heard:
        left = made.postprocess_nodes(scored(*NODES), QueryBundle("cat"))
    start, end = heard
    assert (start.class_name(), len(start.nodes), start.top_n) == ("ReRankStartEvent", 4, 2)
    assert (start.model_name, start.query.query_str) == ("BM25Reranker", "cat")
    assert (end.class_name(), end.nodes) == ("ReRankEndEvent", left)
    ((before, after),) = debug.get_event_pairs(CBEventType.RERANKING)
    assert (before.payload[EventPayload.QUERY_STR], before.payload[EventPayload.TOP_K]) == ("cat", 2)
    assert after.payload[EventPayload.NODES] == left


def test_it_is_a_component_of_llamaindex() -> None:
    """It has a name, and can be copied, pickled, and restored with its reranker."""
    names = [cls.__name__ for cls in ArcNodePostprocessor.__mro__]
    assert "BaseNodePostprocessor" in names
    made = ArcNodePostprocessor(BM25Reranker(), top_n=1)
    assert made.class_name() == made.to_dict()["class_name"] == "ArcNodePostprocessor"
    read = ArcNodePostprocessor.from_dict(made.to_dict(), reranker=BM25Reranker())
    for again in (read, pickle.loads(pickle.dumps(made)), made.model_copy(deep=True)):  # noqa: S301 - its own bytes
        assert ids_of(again.postprocess_nodes(scored(*NODES), query_str="cat")) == ["the cat sat"]


# --- LlamaIndex's postprocessors as arc rerankers -------------------------------------------------------------------


def documents(*texts_and_scores: tuple[str, float | None]) -> list[ScoredDocument]:
    return [ScoredDocument(Document(text, text), score) for text, score in texts_and_scores]


def texts_of(found: Sequence[ScoredDocument]) -> list[str]:
    return [item.document.text for item in found]


def test_a_postprocessors_scores_may_have_to_reach_something() -> None:
    """Lower or missing scores are omitted: "nothing relevant" is a possible result."""
    passing = ArcTokenBudgetPostprocessor(1_000)
    given_ = documents(("a", 0.9), ("b", 0.1), ("c", None), ("d", 0.5))
    assert texts_of(LlamaIndexReranker(passing, min_score=0.5).rerank("q", given_)) == ["a", "d"]
    assert LlamaIndexReranker(passing, min_score=2).rerank("q", given_) == []


def test_an_order_without_scores_becomes_scores() -> None:
    """New scores follow the order if any is missing or contradicts it."""
    passing = LlamaIndexReranker(ArcTokenBudgetPostprocessor(1_000))
    assert [item.score for item in passing.rerank("q", documents(("a", None), ("b", 0.5)))] == [1.0, 0.5]
    falling = documents(*zip("abcde", (5.0, 4.0, 3.0, 2.0, 1.0), strict=True))
    reordered = LlamaIndexReranker(LongContextReorder()).rerank("q", falling)
    assert sorted(texts_of(reordered)) == list("abcde") != texts_of(reordered)
    assert [item.score for item in reordered] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])


def test_the_very_node_is_shown_to_it() -> None:
    """A document made from a node becomes that node with its metadata; rewritten text comes back."""
    node = TextNode(id_="n", text="sentence", metadata={"window": "a sentence in its window"})
    node.excluded_embed_metadata_keys = ["window"]
    given_ = [ScoredDocument(node_to_arc(node), 0.7)]
    reranker = LlamaIndexReranker(MetadataReplacementPostProcessor(target_metadata_key="window"))
    (left,) = reranker.rerank("q", given_)
    assert (left.document.text, left.document.id, left.score) == ("a sentence in its window", "n", 0.7)
    assert given_ == [ScoredDocument(node_to_arc(node), 0.7)]


@pytest.mark.parametrize(
    "score", ["high", [0.5], True, float("nan"), 10**400], ids=["text", "list", "bool", "nan", "huge"]
)
def test_a_score_that_is_none_counts_as_missing(score: Any) -> None:
    """LlamaIndex validates scores only at construction."""

    def scoring(nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        nodes[0].score = score
        return nodes

    left = LlamaIndexReranker(Postprocessor(answer=scoring)).rerank("q", documents(("a", 0.2), ("b", 0.1)))
    assert [(item.document.text, item.score) for item in left] == [("a", 1.0), ("b", 0.5)]
