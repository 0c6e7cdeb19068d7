"""`ArcFusionRetriever` combines several retrievers."""

import asyncio
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from arc_common.exceptions import InvalidInputError
from arc_common.retrieval.query_transformers import HyDEQueryTransformer
from arc_common.testing import CountingObserver
from llamaindex_arc import ArcFusionRetriever, ArcLLM, ArcRetriever
from tests.support.llamaindex_retrieval import (
    ONE_ATTEMPT,
    Fixed,
    Scripted,
    Words,
    collection,
    events,
    ids_of,
    index_of,
    scored,
)

ASKED = "How long does a parcel to Busan take?"
MODES: list[Any] = ["relative_score", "reciprocal_rerank"]


def fused(*rankings: list[NodeWithScore], **given: Any) -> list[NodeWithScore]:
    return ArcFusionRetriever([Fixed(nodes) for nodes in rankings], **given).retrieve("q")


def engine_parts() -> list[BaseRetriever]:
    """Return LlamaIndex's vector retriever and arc's lexical one."""
    theirs = VectorStoreIndex(collection(), embed_model=Words()).as_retriever(similarity_top_k=3)
    return [theirs, ArcRetriever(index_of(collection()), mode="lexical", similarity_top_k=3)]


@pytest.mark.parametrize("mode", [*MODES, FUSION_MODES.RECIPROCAL_RANK])
def test_weights(mode: Any) -> None:
    """A retriever of weight 0 does not affect the order."""
    rankings = scored(("a", 2.0), ("b", 1.0)), scored(("b", 2.0), ("a", 1.0))
    assert ids_of(fused(*rankings, mode=mode, retriever_weights=[1, 0])) == ["a", "b"]
    assert ids_of(fused(*rankings, mode=mode, retriever_weights=[1, 2])) == ["b", "a"]


@pytest.mark.parametrize("mode", MODES)
def test_it_does_not_depend_on_the_order(mode: Any) -> None:
    """Nodes of one text are one, with the smallest id and the best score; the retrievers' results are not modified."""
    texts = [("d", "tea", 1.0), ("a", "tea", 3.0), ("b", "wine", 3.0), ("c", "milk", 0.5), ("e", "soup", float("inf"))]
    nodes = [NodeWithScore(node=TextNode(id_=name, text=text), score=score) for name, text, score in texts]
    for place in range(len(nodes)):
        order = [*nodes[place:], *nodes[:place]]
        assert ids_of(fused(order, order[::-1], mode=mode)) == ["a", "b", "c", "e"]
    assert [item.score for item in nodes] == [score for _, _, score in texts]


async def test_each_retriever_gets_a_bundle_of_its_own() -> None:
    """Writes into it reach neither the others nor the caller; there is one query and no model call."""
    retrievers = [Fixed(scored(("a", 1.0))), Fixed(scored(("b", 1.0)))]
    bundle = QueryBundle("q", custom_embedding_strs=["x"])
    fusion = ArcFusionRetriever(retrievers)
    assert fusion.retrieve(bundle) == await fusion.aretrieve(bundle)
    assert bundle == QueryBundle("q", custom_embedding_strs=["x"])
    asked = [query for retriever in retrievers for query in retriever.asked]
    assert len({id(query) for query in asked}) == len(asked) == 4
    assert all((query.query_str, query.embedding_strs) == ("q", ["x"]) for query in asked)


async def test_the_async_form_asks_all_at_once() -> None:
    """Each waits until the others have begun."""
    begun = asyncio.Barrier(3)

    class Waiting(Fixed):
        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            await begun.wait()
            return self.nodes

    fusion = ArcFusionRetriever([Waiting(scored((name, 1.0))) for name in "abc"])
    assert ids_of(await asyncio.wait_for(fusion.aretrieve("q"), 5)) == ["a", "b", "c"]


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_further_queries_of_a_model(way: str) -> None:
    """The requested number is unique and free of numbering and fences; the query itself comes first."""
    retriever = Fixed(scored(("a", 1.0)))
    model = Scripted("```\n1. parcels to Busan\n2) q\n\n- parcels to Busan\n* delivery time\nmore\n```")
    fusion = ArcFusionRetriever([retriever], llm=ArcLLM(model), num_queries=3, settings=ONE_ATTEMPT)
    assert ids_of(await fusion.aretrieve("q") if way == "async" else fusion.retrieve("q")) == ["a"]
    assert [asked.query_str for asked in retriever.asked] == ["q", "parcels to Busan", "delivery time"]
    assert "Generate 2 search queries" in model.seen[0][0].text


def test_a_transformer_makes_the_queries() -> None:
    """Any transformer of arc's works; the original query keeps its fields."""
    retriever = Fixed(scored(("a", 1.0)))
    hyde = HyDEQueryTransformer(Scripted("An answer."), settings=ONE_ATTEMPT)
    ArcFusionRetriever([retriever], transformer=hyde).retrieve(QueryBundle("q", custom_embedding_strs=["x"]))
    assert [(asked.query_str, asked.embedding_strs) for asked in retriever.asked] == [
        ("q", ["x"]),
        ("An answer.", ["An answer."]),
    ]


@pytest.mark.parametrize("made", [RuntimeError("broken"), None, "text", [None]], ids=repr)
def test_a_transformer_that_makes_no_queries_costs_no_reply(made: Any) -> None:
    """The original query is searched for, and the failure is counted."""

    class Odd:
        def transform(self, query: str, *, history: Any = ()) -> Any:
            if isinstance(made, Exception):
                raise made
            return made

    retriever, observer = Fixed(scored(("a", 1.0))), CountingObserver()
    fusion = ArcFusionRetriever([retriever], transformer=Odd(), observer=observer)
    assert ids_of(fusion.retrieve("q")) == ["a"]
    assert [asked.query_str for asked in retriever.asked] == ["q"]
    assert observer.counts == {"queries.fallbacks": 1}


def test_events_are_reported() -> None:
    """Its own retrieval and the inner ones are reported."""
    debug = LlamaDebugHandler(print_trace_on_end=False)
    fusion = ArcFusionRetriever([Fixed([]), Fixed([])], callback_manager=CallbackManager([debug]))
    with events() as heard:
        fusion.retrieve("q")
    assert [event.class_name() for event in heard].count("RetrievalStartEvent") == 3
    assert len(debug.get_event_pairs(CBEventType.RETRIEVE)) == 1


def test_a_retriever_that_fails_leaves_what_the_others_find(caplog: pytest.LogCaptureFixture) -> None:
    """The failure is logged and counted; if all fail, the error is raised."""

    class Broken(Fixed):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            raise ConnectionError("no index")

    observer = CountingObserver()
    node = NodeWithScore(node=TextNode(text="found"), score=1.0)
    both = ArcFusionRetriever([Broken([]), Fixed([node])], observer=observer)
    for left in (both.retrieve("q"), asyncio.run(both.aretrieve("q"))):
        assert [item.node.get_content() for item in left] == ["found"]
    assert observer.counts["rag.retrieve.errors"] == 2
    assert "no index" in caplog.text
    fusion = ArcFusionRetriever([Broken([])])
    with pytest.raises(ConnectionError):
        fusion.retrieve("q")
    with pytest.raises(ConnectionError):
        asyncio.run(fusion.aretrieve("q"))


def test_wrong_arguments_are_refused() -> None:
    """The constructor rejects them by name."""
    cases = [
        ("retrievers", {"retrievers": []}),
        ("retrievers", {"retrievers": [len]}),
        ("retrievers", {"retrievers": Fixed([])}),
        ("retriever_weights", {"retriever_weights": [1.0, 2.0]}),
        ("retriever_weights", {"retriever_weights": [0.0]}),
        ("retriever_weights", {"retriever_weights": [float("nan")]}),
        ("retriever_weights", {"retriever_weights": [10**400]}),
        ("retriever_weights", {"retriever_weights": ["1"]}),
        ("num_queries", {"num_queries": 2}),
        ("transformer", {"transformer": len}),
        ("transformer", {"transformer": HyDEQueryTransformer(Scripted()), "llm": Scripted()}),
        ("objects", {"objects": 5}),
        ("objects", {"objects": [5]}),
    ]
    for field, arguments in cases:
        with pytest.raises(InvalidInputError, match=field):
            ArcFusionRetriever(**{"retrievers": [Fixed([])], **arguments})


# --- in LlamaIndex's engines ----------------------------------------------------------------------------------------


async def test_in_a_query_engine() -> None:
    """LlamaIndex's vectors and arc's words are fused."""
    for way in ["query", "aquery", "stream"]:
        for mode in MODES:
            engine = RetrieverQueryEngine.from_args(
                ArcFusionRetriever(engine_parts(), mode=mode, similarity_top_k=1),
                llm=MockLLM(),
                streaming=way == "stream",
            )
            response = await engine.aquery(ASKED) if way == "aquery" else engine.query(ASKED)
            text = "".join(response.response_gen) if way == "stream" else str(response)
            assert ids_of(response.source_nodes) == ["busan"]
            assert "Parcels to Busan take two days." in text
