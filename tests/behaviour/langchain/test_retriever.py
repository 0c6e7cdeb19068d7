"""Arc's retriever in LangChain: standard suite, filters, sources, metadata and documents."""

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document as LangChainDocument
from langchain_core.runnables import ConfigurableField
from langchain_tests.integration_tests import RetrieversIntegrationTests

from arc_common import Document, HeuristicTokenCounter, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.filters import Condition, Filter
from arc_common.rag import ContextBuilder, RagPipeline
from arc_common.rerankers import KeywordWeightedReranker
from langchain_arc import ArcRetriever, open_engine
from langchain_arc.retrieval.documents import document_from_arc, document_to_arc, scored_from_arc
from tests.support.langchain_retrieval import DOCUMENTS, WordEmbedder, an_index

QUESTION = "What turns light into current?"


class Listed:
    """An arc `Retriever` with a fixed result that records its queries and threads."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, Any]] = []
        self.threads: list[threading.Thread] = []

    def retrieve(
        self, query: str, *, top_k: int, filters: Mapping[str, Any] | Filter | None = None
    ) -> Sequence[ScoredDocument]:
        """Return all documents."""
        self.asked.append((query, top_k, filters))
        self.threads.append(threading.current_thread())
        return [ScoredDocument(document) for document in DOCUMENTS]


def pipeline() -> RagPipeline:
    """Return a pipeline with a reranker over an index."""

    class Source:
        def retrieve(
            self, query: str, *, top_k: int, filters: Mapping[str, Any] | Filter | None = None
        ) -> Sequence[ScoredDocument]:
            return an_index().search(query, top_k=top_k, filters=filters)

    return RagPipeline(Source(), ContextBuilder(HeuristicTokenCounter()), reranker=KeywordWeightedReranker())


class TestOverIndex(RetrieversIntegrationTests):
    """The unmodified standard suite over a hybrid index."""

    retriever_constructor = ArcRetriever
    retriever_query_example = QUESTION

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"source": an_index()}


def test_an_engines_documents_are_a_callers_or_a_users() -> None:
    """The scope is named as in a history, or given as documents or an index with its options."""
    with open_engine(embeddings=WordEmbedder()) as engine:
        engine.documents_of("app", user_id="ann").add(DOCUMENTS)
        assert ArcRetriever(engine=engine).invoke(QUESTION) == []
        assert ArcRetriever(engine=engine, caller_id="app").invoke(QUESTION) == []
        own = ArcRetriever(engine=engine, caller_id="app", user_id="ann", mode="lexical")
        assert own.invoke(QUESTION)
        assert own.invoke(QUESTION) == ArcRetriever(own.source, mode="lexical").invoke(QUESTION)


async def ids(retriever: ArcRetriever, way: str, question: str = QUESTION, **given: Any) -> list[str | None]:
    found = retriever.invoke(question, **given) if way == "sync" else await retriever.ainvoke(question, **given)
    return [document.id for document in found]


async def test_filters_of_the_retriever_and_of_the_call() -> None:
    """Both names work; a call's filter narrows the retriever's own."""
    for way in ["sync", "async"]:
        for name in ["filter", "filters"]:
            retriever = ArcRetriever(an_index(), **{name: {"lang": "en"}})
            assert "solar-ko" not in await ids(retriever, way)
            assert await ids(retriever, way, **{name: {"year": {"$gte": 2023}}}) == ["wind"]
            assert await ids(retriever, way, **{name: {"lang": "ko"}}) == []
            assert await ids(ArcRetriever(an_index()), way, filter=Condition("lang", "eq", "ko")) == ["solar-ko"]


def test_a_filter_reaches_every_kind_of_source() -> None:
    """A pipeline's sources and a retriever receive it."""
    assert [found.id for found in ArcRetriever(pipeline(), k=4).invoke(QUESTION, filter={"lang": "ko"})] == ["solar-ko"]
    listed = Listed()
    assert len(ArcRetriever(listed, k=2).invoke("q", filter={"lang": "ko"})) == 2
    assert listed.asked == [("q", 2, Condition("lang", "eq", "ko"))]


def test_scores_are_in_the_metadata_as_copies() -> None:
    """Changes in one run don't affect the next."""
    retriever = ArcRetriever(an_index())
    first = retriever.invoke(QUESTION)
    assert first[0].id == "solar"
    assert first[0].metadata["source"] == "energy.md"
    scores = [document.metadata["relevance_score"] for document in first]
    assert scores == sorted(scores, reverse=True)
    assert set(first[0].metadata["score_parts"]) == {"bm25", "vector"}
    first[0].metadata["score_parts"].clear()
    first[0].metadata["lang"] = "xx"
    again = retriever.invoke(QUESTION)
    assert set(again[0].metadata["score_parts"]) == {"bm25", "vector"}
    assert again[0].metadata["lang"] == "en"
    assert scored_from_arc(ScoredDocument(Document("x"))).metadata == {}


def test_few_are_chosen_among_more_by_a_pipelines_reranker() -> None:
    """`k` limits a pipeline's output, not its reranker's input."""
    listed = Listed()
    ranked = RagPipeline(listed, ContextBuilder(HeuristicTokenCounter()), reranker=KeywordWeightedReranker())
    best = ArcRetriever(ranked).invoke("flour into bread")
    assert best[0].id == "bread"
    assert ArcRetriever(ranked, k=1).invoke("flour into bread") == best[:1]
    assert [top_k for _, top_k, _ in listed.asked] == [10, 10]


def test_as_many_are_found_as_are_wanted() -> None:
    """The default limit of a pipeline's reranker, five, does not apply."""
    with open_engine() as engine:
        engine.documents.add([Document(f"flour and bread, part {n}", id=f"d{n}") for n in range(12)])
        for k in (1, 5, 8, 12):
            assert len(ArcRetriever(engine.rag(), k=k).invoke("flour")) == k
        assert len(engine.rag().retrieve("flour").documents) == 5


async def test_the_loop_is_not_blocked() -> None:
    """The source runs on another thread."""
    listed = Listed()
    await ArcRetriever(listed).ainvoke("q")
    assert listed.threads != [threading.current_thread()]


def test_runs_tell_what_is_searched() -> None:
    """LangSmith and callbacks get the source's parameters."""
    told: list[dict[str, Any]] = []

    class Listening(BaseCallbackHandler):
        def on_retriever_start(self, *args: Any, metadata: dict[str, Any] | None = None, **kwargs: Any) -> None:
            told.append(metadata or {})

    ArcRetriever(an_index(), metadata={"tenant": "a"}).invoke("q", {"callbacks": [Listening()]})
    assert told[0]["ls_retriever_name"] == "arc"
    assert told[0]["ls_vector_store_provider"] == "HybridIndex"
    assert told[0]["tenant"] == "a"


def test_it_can_be_configured() -> None:
    """`configurable_fields` recreates it from its fields."""
    retriever = ArcRetriever(an_index(), filter={"lang": "en"}).configurable_fields(k=ConfigurableField(id="k"))
    assert len(retriever.with_config(configurable={"k": 1}).invoke(QUESTION)) == 1


@pytest.mark.parametrize("question", ["", "  \n"])
def test_nothing_asked_is_nothing_found(question: str) -> None:
    assert ArcRetriever(an_index()).invoke(question) == []


def test_what_is_wrong_is_named() -> None:
    """The constructor checks it."""
    cases = [
        ({}, "source"),
        ({"engine": object()}, "engine"),
        ({"source": Listed(), "mode": "dense"}, "mode"),
        ({"source": Listed(), "threshold": 0.7}, "threshold"),
        ({"source": an_index(), "threshold": 7}, "threshold"),
        ({"source": Listed(), "filter": {"a": {"$regex": "x"}}}, "filters"),
        ({"source": Listed(), "filter": {"a": 1}, "filters": {"a": 1}}, "filters"),
    ]
    for arguments, named in cases:
        with pytest.raises(InvalidInputError, match=named):
            ArcRetriever(**arguments)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
metadatas = st.dictionaries(st.text(max_size=8) | st.just("source"), values, max_size=4)


@given(st.text(), st.none() | st.text(min_size=1), metadatas)
def test_a_document_comes_back_exactly(text: str, document_id: str | None, metadata: dict[str, Any]) -> None:
    """Text, id and metadata, including any "source", come back; the input is not modified."""
    document = LangChainDocument(text, id=document_id, metadata=metadata)
    before = copy.deepcopy(document)
    assert document_from_arc(document_to_arc(document)) == before == document


def test_the_source_is_what_the_metadata_name() -> None:
    """Only text counts; it stays in the metadata, or comes into them."""
    cases = [({"source": "guide.md"}, "guide.md"), ({"source": ""}, None), ({"source": 7}, None), ({}, None)]
    for metadata, source in cases:
        found = document_to_arc(LangChainDocument("x", metadata=metadata))
        assert found.source == source
        assert dict(found.metadata) == metadata
    assert document_from_arc(Document("x", source="guide.md")).metadata == {"source": "guide.md"}


def test_another_kind_of_document_is_refused() -> None:
    """Arc's own document is rejected, for example."""
    with pytest.raises(InvalidInputError, match="LangChain Document"):
        document_to_arc(Document("x"))  # type: ignore[arg-type]
