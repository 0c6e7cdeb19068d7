"""Arc's retriever in LlamaIndex's engines, and LlamaIndex's indexes and retrievers as arc's sources."""

import asyncio
import copy
import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine, TransformQueryEngine
from llama_index.core.schema import IndexNode, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.filters import Exists, Filter
from arc_common.protocols import Retriever
from arc_common.rag import ContextBuilder, RagPipeline, RagQuery
from arc_common.tokens.counters import HeuristicTokenCounter
from llamaindex_arc import ArcRetriever, LlamaIndexRetriever, node_from_arc, node_to_arc, open_engine
from tests.support.llamaindex_retrieval import (
    Fixed,
    Words,
    collection,
    events,
    frozen,
    ids_of,
    index_of,
    scored,
    sentences,
)

ASKED = "How long does a parcel to Busan take?"


class Recording:
    """An arc source that records its queries and threads."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, object]] = []
        self.threads: set[int] = set()

    def retrieve(
        self, query: str, *, top_k: int, filters: Mapping[str, Any] | Filter | None = None
    ) -> Sequence[ScoredDocument]:
        self.asked.append((query, top_k, filters))
        self.threads.add(threading.get_ident())
        return [ScoredDocument(Document(query, query), 1.0)]


def hybrid(**given: Any) -> ArcRetriever:
    return ArcRetriever(index_of(collection(), embedder=Words()), **given)


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "dense"])
async def test_it_finds_nodes_as_they_were(mode: Any) -> None:
    """Nodes keep relationships and hashes and come best first; sync and async find the same."""
    retriever = hybrid(mode=mode, similarity_top_k=2)
    found = retriever.retrieve(ASKED)
    given = {node.node_id: node for node in collection()}
    assert ids_of(found)[0] == "busan"
    assert len(found) == 2
    assert found[0].score > found[1].score > 0
    assert [(item.node.hash, item.node.relationships) for item in found] == [
        (given[name].hash, given[name].relationships) for name in ids_of(found)
    ]
    assert await retriever.aretrieve(ASKED) == found


@pytest.mark.parametrize(
    "filters",
    [
        {"place": {"$gte": 2}, "file_name": {"$ne": "busan.md"}},
        MetadataFilters(
            filters=[
                MetadataFilter(key="place", value=2, operator=">="),
                MetadataFilter(key="file_name", value="busan.md", operator="!="),
            ]
        ),
    ],
    ids=["arc's", "LlamaIndex's"],
)
def test_filters_hold(filters: Any) -> None:
    """All matching nodes are found, and no others."""
    assert set(ids_of(hybrid(filters=filters).retrieve(ASKED))) == {"seoul", "배송"}


def test_each_embedding_string_is_a_query() -> None:
    """Their results are fused, each node once; without any, the query is searched for."""
    retriever = hybrid(mode="lexical")
    both = retriever.retrieve(QueryBundle("ignored", custom_embedding_strs=["parcel Busan", "warranty", "warranty"]))
    assert set(ids_of(both)[:2]) == {"busan", "warranty"}
    assert len(ids_of(both)) == len(set(ids_of(both)))
    assert ids_of(retriever.retrieve(QueryBundle("warranty", custom_embedding_strs=[]))) == ["warranty"]
    assert ids_of(retriever.retrieve(QueryBundle("warranty", custom_embedding_strs=["receipt"]))) == ["returns"]


def test_an_embedding_is_the_vector() -> None:
    """It is used only on request, since it may come from another model with the same dimension."""
    near_returns = Words().get_text_embedding(collection()[1].text)
    bundle = QueryBundle("parcel Busan", embedding=near_returns)
    assert ids_of(hybrid(mode="dense", similarity_top_k=1, use_embedding=True).retrieve(bundle)) == ["returns"]
    assert ids_of(hybrid(mode="dense", similarity_top_k=1).retrieve(bundle)) == ["busan"]
    assert ids_of(hybrid(mode="lexical", similarity_top_k=1, use_embedding=True).retrieve(bundle)) == ["busan"]
    bundle.custom_embedding_strs = ["warranty"]
    assert ids_of(hybrid(mode="lexical").retrieve(bundle)) == ["warranty"]
    with pytest.raises(InvalidInputError, match="3"):
        hybrid(use_embedding=True).retrieve(QueryBundle("parcel", embedding=[1.0, 0.0, 0.0]))


def test_a_threshold_on_the_cosine() -> None:
    """If nothing is near, the result is empty."""
    assert hybrid(mode="dense", similarity_threshold=0.99).retrieve("zyzzyva") == []


@pytest.mark.parametrize("bundle", ["", "  ", QueryBundle("", custom_embedding_strs=[" "])], ids=repr)
def test_nothing_asked_nothing_found(bundle: Any) -> None:
    """Nothing is embedded, either."""
    assert hybrid().retrieve(bundle) == []


@given(sentences, st.lists(sentences, max_size=3), st.booleans())
def test_a_bundle_stays_as_it_is(query: str, strings: list[str], is_embedded: bool) -> None:
    """The same question finds the same nodes in the same order."""
    bundle = QueryBundle(query, custom_embedding_strs=strings, embedding=[0.5] * 512 if is_embedded else None)
    before = copy.deepcopy(bundle)
    assert FOUND.retrieve(bundle) == FOUND.retrieve(bundle)
    assert bundle == before


INDEX = index_of(collection(), embedder=Words())
FOUND = ArcRetriever(INDEX, use_embedding=True)


def test_other_sources_of_arc() -> None:
    """Any `Retriever` works; its async form runs on a thread."""
    source = Recording()
    retriever = ArcRetriever(source, similarity_top_k=3, filters={"a": 1})
    (found,) = retriever.retrieve(QueryBundle("q", embedding=[1.0]))
    assert (found.node.get_content(), found.score) == ("q", 1.0)
    source.threads.clear()
    asyncio.run(retriever.aretrieve(QueryBundle("q", custom_embedding_strs=["a", "b"])))
    assert [asked[:2] for asked in source.asked] == [("q", 3), ("a", 3), ("b", 3)]
    assert threading.get_ident() not in source.threads


async def test_an_engine_s_documents() -> None:
    """They are named by engine or by a caller's documents; the engine is used at first retrieval."""
    with open_engine(embed_model=Words()) as engine:
        retriever, another = ArcRetriever(engine=engine), ArcRetriever(engine.documents_of("another"), mode="dense")
        engine.documents.add([node_to_arc(node) for node in collection()])
        engine.documents_of("another").add([node_to_arc(node) for node in collection()[:2]])
        assert ids_of(retriever.retrieve(ASKED))[0] == "busan"
        assert await retriever.aretrieve(ASKED) == retriever.retrieve(ASKED)
        assert set(ids_of(another.retrieve(ASKED))) == {"warranty", "returns"}
        assert retriever.retrieve(ASKED)[0].node == collection()[2]


def test_chunks_are_nodes_of_their_own() -> None:
    """A chunk has its own text and id, and the node as its source."""
    node = TextNode(id_="long", text="A parcel to Busan takes two days. " * 100, metadata={"file_name": "a.md"})
    with open_engine() as engine:
        ids = engine.documents.add(node_to_arc(node), chunk=True)
        found = ArcRetriever(engine=engine).retrieve("parcel")
    assert len(ids) > 2
    assert set(ids_of(found)) <= set(ids)
    assert len(found) > 2
    assert all(len(item.node.get_content()) < len(node.text) for item in found)
    assert {item.node.ref_doc_id for item in found} == {"long"}


def test_events_are_reported() -> None:
    """Both of LlamaIndex's event systems get the query and the result."""
    debug = LlamaDebugHandler(print_trace_on_end=False)
    retriever = hybrid(callback_manager=CallbackManager([debug]))
    with events() as heard:
        found = retriever.retrieve(ASKED)
    assert [event.class_name().removesuffix("Event") for event in heard] == [
        "RetrievalStart",
        "EmbeddingStart",
        "EmbeddingEnd",
        "RetrievalEnd",
    ]
    ((before, after),) = debug.get_event_pairs(CBEventType.RETRIEVE)
    assert (before.payload[EventPayload.QUERY_STR], after.payload[EventPayload.NODES]) == (ASKED, found)


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_index_nodes_are_entered(way: str) -> None:
    """The node's object is retrieved in its place, as in LlamaIndex's recursive retrieval."""
    link = IndexNode(id_="link", text="All about parcels", index_id="parcels", obj=hybrid(mode="lexical"))
    retriever = ArcRetriever(index_of([link]), objects=[link], mode="lexical")
    found = retriever.retrieve("parcels to Busan") if way == "sync" else await retriever.aretrieve("parcels to Busan")
    assert ids_of(found)[0] == "busan"


def test_wrong_arguments_are_refused() -> None:
    """The constructor rejects them by name."""
    cases = [
        ("index", {}),
        ("index", {"index": INDEX, "engine": SimpleNamespace()}),
        ("filters", {"index": INDEX, "filters": {"a": {"$like": "x"}}}),
        ("mode", {"index": Recording(), "mode": "dense"}),
        ("similarity_threshold", {"index": Recording(), "similarity_threshold": 0.5}),
        ("similarity_threshold", {"index": INDEX, "similarity_threshold": 7}),
        ("similarity_threshold", {"index": INDEX, "similarity_threshold": "0.7"}),
        ("engine", {"engine": SimpleNamespace()}),
        ("objects", {"index": INDEX, "objects": 5}),
        ("objects", {"index": INDEX, "objects": [5]}),
    ]
    for field, arguments in cases:
        with pytest.raises(InvalidInputError, match=field):
            ArcRetriever(**arguments)


# --- in LlamaIndex's engines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["query", "aquery", "stream"])
async def test_in_a_query_engine(way: str) -> None:
    """The embedding strings of LlamaIndex's HyDE are searched for."""
    engine = TransformQueryEngine(
        RetrieverQueryEngine.from_args(hybrid(similarity_top_k=1), llm=MockLLM(), streaming=way == "stream"),
        HyDEQueryTransform(llm=MockLLM()),
    )
    response = await engine.aquery(ASKED) if way == "aquery" else engine.query(ASKED)
    text = "".join(response.response_gen) if way == "stream" else str(response)
    assert ids_of(response.source_nodes) == ["busan"]
    assert "Parcels to Busan take two days." in text


def shop() -> VectorStoreIndex:
    return VectorStoreIndex(collection(), embed_model=Words())


def test_an_index_finds_documents() -> None:
    """The requested number comes back best first, with scores and nodes."""
    source = LlamaIndexRetriever(shop())
    assert isinstance(source, Retriever)
    found = source.retrieve("parcels to Busan", top_k=2)
    assert [item.document.id for item in found] == ["busan", "seoul"]
    assert found[0].score is not None
    assert found[1].score is not None
    assert found[0].score > found[1].score
    assert found[0].document.source == "busan.md"
    assert node_from_arc(found[0].document).hash == collection()[2].hash
    assert source.retrieve("  ", top_k=2) == []


def test_filters_in_the_index_s_own_terms() -> None:
    """All matching documents are found, and no others."""
    cases = [
        ({"place": 2}, {"busan"}),
        ({"place": {"$gte": 2, "$lt": 4}}, {"busan", "seoul"}),
        ({"$or": [{"place": 0}, {"file_name": {"$in": ["seoul.md"]}}]}, {"warranty", "seoul"}),
        ({"$not": {"place": {"$lt": 4}}}, {"배송"}),
        ({"nowhere": 1}, set()),
        ({}, {"warranty", "returns", "busan", "seoul", "배송"}),
    ]
    for filters, expected in cases:
        found = LlamaIndexRetriever(shop()).retrieve("parcels", top_k=10, filters=filters)
        assert {item.document.id for item in found} == expected


def test_what_a_store_takes_for_equal_is_checked() -> None:
    """LlamaIndex's store treats `True` as 1; arc's filters don't."""
    nodes = [TextNode(id_=name, text="parcel", metadata={"open": value}) for name, value in (("a", True), ("b", 1))]
    source = LlamaIndexRetriever(VectorStoreIndex(nodes, embed_model=Words()))
    assert [item.document.id for item in source.retrieve("parcel", top_k=5, filters={"open": 1})] == ["b"]


def test_what_it_cannot_be_asked_is_said() -> None:
    """Filters are never dropped."""
    with pytest.raises(InvalidInputError, match="filters"):
        LlamaIndexRetriever(shop()).retrieve("parcels", top_k=10, filters=Exists("place"))
    with pytest.raises(InvalidInputError, match="only an index"):
        LlamaIndexRetriever(Fixed([])).retrieve("parcels", top_k=10, filters={"place": 2})


def test_any_retriever_finds_documents() -> None:
    """Invalid scores become `None`, the limit holds, and nodes are not modified."""
    nodes = scored(("a", 0.5), ("b", float("nan")), ("c", None))
    before = frozen(nodes)
    found = LlamaIndexRetriever(Fixed(nodes)).retrieve("q", top_k=2)
    assert [(item.document.text, item.score) for item in found] == [("a", 0.5), ("b", None)]
    assert frozen(nodes) == before


def test_in_arc_s_pipeline() -> None:
    """Another source works next to it with the query's filters; a source without filters finds nothing."""
    both = {"shop": LlamaIndexRetriever(shop()), "notes": LlamaIndexRetriever(Fixed(scored(("A note.", 1.0))))}
    pipeline = RagPipeline(both, ContextBuilder(HeuristicTokenCounter()))
    assert "A note." in pipeline.retrieve("parcels to Busan").context
    context = pipeline.retrieve(RagQuery("parcels to Busan", filters={"place": 2}))
    assert [item.document.id for item in context.documents] == ["busan"]
    assert any("filters" in note for note in context.notes)


def test_what_is_no_source_is_refused() -> None:
    """The error names the argument."""
    for wrong in [Words(), TextNode()]:
        with pytest.raises(InvalidInputError, match="source"):
            LlamaIndexRetriever(wrong)


@pytest.mark.parametrize("found", [None, "text", [None], {}], ids=repr)
def test_an_arc_source_that_finds_something_else_is_an_error(found: Any) -> None:
    """The alternative would be an empty result."""

    class Source:
        def retrieve(self, query: str, *, top_k: int, filters: Any = None) -> Any:
            return found

    with pytest.raises(InvalidInputError, match="retrieved"):
        ArcRetriever(Source()).retrieve("q")


def test_what_is_asked_is_checked() -> None:
    """A negative number would drop the last results."""
    cases = [(None, 1, "query"), ("q", 0, "top_k"), ("q", -1, "top_k"), ("q", True, "top_k")]
    for query, top_k, field in cases:
        with pytest.raises(InvalidInputError, match=field):
            LlamaIndexRetriever(Fixed(scored(("a", 0.5)))).retrieve(query, top_k=top_k)
