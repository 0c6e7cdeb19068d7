"""A reranker of one framework works in the other and in arc; a cross-encoder is loaded from disk."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from flashrank import Config
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.postprocessor.flashrank_rerank import FlashRankRerank

import langchain_arc
import llamaindex_arc
from arc_common import Document, ScoredDocument
from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore
from langchain_arc import ArcDocumentCompressor, LangChainReranker
from llamaindex_arc import ArcNodePostprocessor, LlamaIndexReranker
from tests.support.cross_encoders import OnnxCrossEncoder, save_cross_encoder

QUESTION = "How long does the parcel to Busan take?"

TEXTS = {
    "fees": "A parcel is weighed at the counter, and the fee for the parcel depends on it.",
    "busan": "A parcel to Busan does take two days.",
    "seoul": "A parcel to Seoul does take one day.",
    "jeju": "제주도로 가는 소포는 사흘이 걸립니다.",
}
RANKED = ["busan", "seoul", "fees", "jeju"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a cross-encoder to disk."""
    words = re.findall(r"\w+|[^\w\s]", " ".join([QUESTION, *TEXTS.values()]).lower())
    model = tmp_path_factory.mktemp("models") / "tiny"
    save_cross_encoder(model, words)
    return model


@pytest.fixture
def flashrank(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FlashRankRerank:
    """Load it with LlamaIndex's postprocessor for FlashRank, which finds a model's file by name."""
    monkeypatch.setitem(Config.model_file_map, str(folder), "model.onnx")
    return FlashRankRerank(model=str(folder), top_n=4)


def candidates() -> list[ScoredDocument]:
    """Return the texts as retrieved, in an order that no reranker should keep."""
    return [
        ScoredDocument(Document(text, name), 1 - place / 10)
        for place, (name, text) in enumerate(TEXTS.items(), start=1)
    ]


def an_index() -> HybridIndex:
    index = HybridIndex(SqlIndexStore.open())
    index.add([Document(f"{text} (parcel)", name) for name, text in TEXTS.items()])
    return index


def ids_of(ranked: Sequence[ScoredDocument]) -> list[str | None]:
    return [found.document.id for found in ranked]


# --- the cross-encoder ----------------------------------------------------------------------------------------------


def test_both_frameworks_load_the_same_model(folder: Path, flashrank: FlashRankRerank) -> None:
    """Both loaders give the same order and scores."""
    by_langchain = LangChainReranker(OnnxCrossEncoder(folder)).rerank(QUESTION, candidates())
    by_llamaindex = LlamaIndexReranker(flashrank).rerank(QUESTION, candidates())
    assert ids_of(by_llamaindex) == ids_of(by_langchain) == RANKED
    assert [found.score for found in by_llamaindex] == pytest.approx([found.score for found in by_langchain], abs=1e-6)


# --- LangChain's in LlamaIndex --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_langchains_reranker_in_a_llamaindex_query_engine(folder: Path, way: str) -> None:
    """The model reads the documents that it keeps, in its order."""
    compressor = CrossEncoderReranker(model=OnnxCrossEncoder(folder), top_n=2)
    engine = RetrieverQueryEngine.from_args(
        llamaindex_arc.ArcRetriever(an_index()),
        llm=MockLLM(),
        node_postprocessors=[ArcNodePostprocessor(LangChainReranker(compressor))],
    )
    response = await engine.aquery(QUESTION) if way == "async" else engine.query(QUESTION)
    ids = [item.node.node_id for item in response.source_nodes]
    assert ids == RANKED[:2]
    places = [str(response).index(TEXTS[one]) for one in ids]  # MockLLM repeats its prompt
    assert places == sorted(places)


# --- LlamaIndex's in LangChain --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_llamaindexs_reranker_in_a_langchain_retriever(flashrank: FlashRankRerank, way: str) -> None:
    """It compresses a retriever's results; documents keep their ids and get scores."""
    retriever = ContextualCompressionRetriever(
        base_retriever=langchain_arc.ArcRetriever(an_index()),
        base_compressor=ArcDocumentCompressor(LlamaIndexReranker(flashrank), top_n=3),
    )
    found = await retriever.ainvoke(QUESTION) if way == "async" else retriever.invoke(QUESTION)
    ids = [document.id for document in found]
    assert ids == RANKED[:3]
    scores = [document.metadata["relevance_score"] for document in found]
    assert scores == sorted(scores, reverse=True)
