"""LlamaIndex's indexes and retrievers as arc's sources."""

from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import QueryBundle, TextNode

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Exists
from arc_common.protocols import Retriever
from arc_common.rag import ContextBuilder, RagPipeline, RagQuery
from arc_common.tokens.counters import HeuristicTokenCounter
from llamaindex_arc import ArcRetriever, LlamaIndexRetriever, to_node
from tests.support.llamaindex_retrieval import Fixed, Words, collection, frozen, scored


def shop() -> VectorStoreIndex:
    return VectorStoreIndex(collection(), embed_model=Words())


def test_an_index_finds_documents() -> None:
    """As many as are asked for, best first, with its scores; the nodes are in them."""
    source = LlamaIndexRetriever(shop())
    assert isinstance(source, Retriever)
    found = source.retrieve("parcels to Busan", top_k=2)
    assert [item.document.id for item in found] == ["busan", "seoul"]
    assert found[0].score is not None
    assert found[1].score is not None
    assert found[0].score > found[1].score
    assert found[0].document.source == "busan.md"
    assert to_node(found[0].document).hash == collection()[2].hash
    assert source.retrieve("  ", top_k=2) == []


def test_filters_in_the_index_s_own_terms() -> None:
    """None that they leave out, and as many as match."""
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
    """To its own store `True` is 1; to arc's filters it isn't."""
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
    """Scores that are none are `None`; no more than asked for; the nodes stay as they are."""
    nodes = scored(("a", 0.5), ("b", float("nan")), ("c", None))
    before = frozen(nodes)
    found = LlamaIndexRetriever(Fixed(nodes)).retrieve("q", top_k=2)
    assert [(item.document.text, item.score) for item in found] == [("a", 0.5), ("b", None)]
    assert frozen(nodes) == before


def test_in_arc_s_pipeline() -> None:
    """Beside another source, with the query's own filters; the one that can't be filtered finds nothing."""
    both = {"shop": LlamaIndexRetriever(shop()), "notes": LlamaIndexRetriever(Fixed(scored(("A note.", 1.0))))}
    pipeline = RagPipeline(both, ContextBuilder(HeuristicTokenCounter()))
    assert "A note." in pipeline.retrieve("parcels to Busan").context
    context = pipeline.retrieve(RagQuery("parcels to Busan", filters={"place": 2}))
    assert [item.document.id for item in context.documents] == ["busan"]
    assert any("filters" in note for note in context.notes)


def test_what_is_no_source_is_refused() -> None:
    """The error names it."""
    for given in [None, "index", Words(), TextNode()]:
        with pytest.raises(InvalidInputError, match="source"):
            LlamaIndexRetriever(given)


class Odd(BaseRetriever):
    """Finds whatever it was made with."""

    def __init__(self, found: Any) -> None:
        self.found = found
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> Any:
        return self.found


@pytest.mark.parametrize("found", [[1], [TextNode(text="a")], "text"], ids=["numbers", "nodes", "text"])
def test_a_source_that_finds_something_else_costs_no_reply(found: Any) -> None:
    """LlamaIndex may raise on its own; either way the context says what happened."""
    pipeline = RagPipeline(LlamaIndexRetriever(Odd(found)), ContextBuilder(HeuristicTokenCounter()))
    context = pipeline.retrieve("q")
    assert not context.has_documents
    assert context.notes[0].startswith("retrieve failed")


@pytest.mark.parametrize("found", [None, "text", [None], {}], ids=repr)
def test_an_arc_source_that_finds_something_else_is_an_error(found: Any) -> None:
    """Rather than nothing."""

    class Source:
        def retrieve(self, query: str, *, top_k: int, filters: Any = None) -> Any:
            return found

    with pytest.raises(InvalidInputError, match="retrieved"):
        ArcRetriever(Source()).retrieve("q")


def test_what_is_asked_is_checked() -> None:
    """A negative number would leave out the last ones."""
    cases = [(None, 1, "query"), ("q", 0, "top_k"), ("q", -1, "top_k"), ("q", True, "top_k")]
    for query, top_k, field in cases:
        with pytest.raises(InvalidInputError, match=field):
            LlamaIndexRetriever(Fixed(scored(("a", 0.5)))).retrieve(query, top_k=top_k)
