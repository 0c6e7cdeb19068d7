"""ArcDocumentCompressor in LangChain's pipelines, and LangChain's compressors as arc's rerankers."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers.document_compressors import (
    CrossEncoderReranker,
    DocumentCompressorPipeline,
    LLMChainExtractor,
)
from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListChatModel

from arc_common import Document as ArcDocument
from arc_common import HeuristicTokenCounter, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import Reranker
from arc_common.rerankers import (
    BM25Reranker,
    DiversityReranker,
    KeywordWeightedReranker,
    RerankerChain,
    SimpleScoreReranker,
)
from langchain_arc import ArcDocumentCompressor, LangChainReranker
from tests.behaviour.adapters.test_rerankers import Compressor

RERANKERS: dict[str, Callable[[], Reranker]] = {
    "score": SimpleScoreReranker,
    "keyword": KeywordWeightedReranker,
    "bm25": BM25Reranker,
    "diversity": DiversityReranker,
    "chain": lambda: RerankerChain([BM25Reranker(), DiversityReranker()]),
}

COUNTER = HeuristicTokenCounter()

words = st.sampled_from(["wind", "solar", "bread", "태양광", "current", ""])
texts = st.lists(words, max_size=4).map(" ".join)
scores = st.none() | st.floats(-5, 5) | st.sampled_from(["high", float("nan"), True, [1]])
documents_given = st.lists(
    st.builds(
        lambda text, document_id, score, tags: Document(
            text, id=document_id, metadata={"tags": tags} | ({} if score is None else {"relevance_score": score})
        ),
        texts,
        st.none() | st.sampled_from(["a", "b"]),
        scores,
        st.lists(st.text(max_size=3), max_size=2),
    ),
    max_size=6,
)


def some(*told: str) -> list[Document]:
    return [Document(text, id=f"d{place}", metadata={"n": place}) for place, text in enumerate(told)]


# --- arc's rerankers in LangChain -----------------------------------------------------------------------------------


@given(
    name=st.sampled_from(sorted(RERANKERS)),
    documents=documents_given,
    top_n=st.none() | st.integers(1, 4),
    max_tokens=st.none() | st.integers(1, 12),
)
def test_copies_of_what_was_given_come_out(
    name: str, documents: list[Document], top_n: int | None, max_tokens: int | None
) -> None:
    """Text, id and metadata are an input document's, inputs are not modified, and limits hold."""
    before = copy.deepcopy(documents)
    compressor = ArcDocumentCompressor(
        RERANKERS[name](), top_n=top_n, max_tokens=max_tokens, token_counter=HeuristicTokenCounter()
    )
    compressed = compressor.compress_documents(documents, "wind current")
    assert repr(documents) == repr(before)  # compared by repr, since NaN is not equal to itself
    assert not {id(one) for one in compressed} & {id(one) for one in documents}
    left = [(one.id, one.page_content, one.metadata["tags"]) for one in documents]
    for one in compressed:
        left.remove((one.id, one.page_content, one.metadata["tags"]))
        one.metadata["tags"].append("of a later step")
    assert repr(documents) == repr(before)
    assert len(compressed) <= (top_n or 5)
    if max_tokens is not None:
        assert HeuristicTokenCounter().count("\n\n".join(one.page_content for one in compressed)) <= max_tokens


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_it_is_a_step_of_a_pipeline(way: str) -> None:
    """Several compressors rerank, diversify and pack, next to LangChain's own."""
    pipeline = DocumentCompressorPipeline(
        transformers=[
            ArcDocumentCompressor(BM25Reranker(), top_n=10),
            CrossEncoderReranker(model=LongestFirst(), top_n=10),
            ArcDocumentCompressor(DiversityReranker(), top_n=10),
            ArcDocumentCompressor(max_tokens=12, token_counter=COUNTER),
        ]
    )
    documents = some("wind turns into current", "bread", "wind turns into current again", "solar current")
    question = "wind current"
    compressed = (
        pipeline.compress_documents(documents, question)
        if way == "sync"
        else await pipeline.acompress_documents(documents, question)
    )
    assert [one.id for one in compressed] == ["d2", "d3"]
    assert COUNTER.count("\n\n".join(one.page_content for one in compressed)) <= 12
    assert ArcDocumentCompressor(max_tokens=1).compress_documents(documents, question) == []


def test_documents_come_ranked() -> None:
    """Scores of an earlier step don't undo a later order."""
    cases = [(None, None, None), (0.9, 0.5, 0.1), (0.1, 0.9, 0.5), (None, 0.9, None)]
    for told in cases:
        documents = some("a", "b", "c")
        for document, score in zip(documents, told, strict=True):
            if score is not None:
                document.metadata["relevance_score"] = score
        for reranker in (None, SimpleScoreReranker()):
            compressed = ArcDocumentCompressor(reranker, top_n=2).compress_documents(documents, "q")
            assert [one.id for one in compressed] == ["d0", "d1"]


# --- LangChain's compressors in arc ---------------------------------------------------------------------------------


class LongestFirst(BaseCrossEncoder):
    """A cross-encoder that prefers long texts; real ones load weights."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return [float(len(text)) for _, text in text_pairs]


class Scoring(BaseCrossEncoder):
    """A cross-encoder with given scores."""

    def __init__(self, scores: Any) -> None:
        self.scores = scores

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return self.scores  # type: ignore[no-any-return]


class Told(BaseDocumentCompressor):
    """A compressor that sorts by text in reverse and gives the given scores."""

    scores: Sequence[Any] = ()

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        ranked = sorted(documents, key=lambda document: document.page_content, reverse=True)
        for document, score in zip(ranked, self.scores, strict=False):
            document.metadata["relevance_score"] = score
        return ranked


def candidates(*told: str) -> list[ScoredDocument]:
    return [
        ScoredDocument(ArcDocument(text, f"d{place}", "s.md", {"n": place, "relevance_score": 7}), 0.5, {"bm25": 2.0})
        for place, text in enumerate(told)
    ]


def test_a_cross_encoder_gives_order_and_scores() -> None:
    """The previous score stays among the parts."""
    best = LangChainReranker(LongestFirst(), top_k=2).rerank("q", candidates("a", "ccc", "bb"))
    assert [(one.document.id, one.score) for one in best] == [("d1", 3), ("d2", 2)]
    assert best[0].score_parts == {"bm25": 2.0, "retrieval": 0.5, "cross_encoder": 3}
    assert [
        one.document.id for one in LangChainReranker(LongestFirst(), min_score=3).rerank("q", candidates("a", "ccc"))
    ] == ["d1"]


NO_SCORES = {
    "None": None,
    "none": [],
    "too few": [1.0],
    "too many": [1.0, 2.0, 3.0],
    "NaN": [1.0, float("nan")],
    "None for one": [1.0, None],
    "text": "12",
    "texts": ["1", "2"],
    "bytes": b"12",
    "a mapping": {1.0: "a", 2.0: "b"},
    "a set": {1.0, 2.0},
    "a column": np.array([[1.0], [2.0]]),
    "two columns": [[0.1, 0.9], [0.2, 0.8]],
    "one number": 1.0,
}


@pytest.mark.parametrize("wrong", NO_SCORES.values(), ids=list(NO_SCORES))
def test_a_cross_encoder_that_gives_something_else_is_an_error(wrong: Any) -> None:
    """The alternative would be a wrong order."""
    with pytest.raises(InvalidInputError, match=r"(?s)scores: got .*, expected 2 finite numbers"):
        LangChainReranker(Scoring(wrong)).rerank("q", candidates("a", "b"))


@pytest.mark.parametrize(
    "scores", [(1, 2), np.array([1.0, 2.0], np.float32), iter([1.0, 2.0])], ids=["tuple", "array", "iterator"]
)
def test_a_cross_encoders_scores_may_come_in_any_sequence(scores: Any) -> None:
    """Models return various sequences."""
    assert [one.score for one in LangChainReranker(Scoring(scores)).rerank("q", candidates("a", "b"))] == [2, 1]


def test_a_document_merged_from_several_has_no_mark() -> None:
    """A document merged from two is new, without arc's mark."""
    merged = Document("a b", metadata={"arc_place": [0, 1], "n": 1})
    (only,) = LangChainReranker(Compressor(answer=lambda _: [merged])).rerank("q", candidates("a", "b"))
    assert (only.document.text, only.document.metadata) == ("a b", {"n": 1})


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((), [1, 2 / 3, 1 / 3]),
        ((0.9,), [1, 2 / 3, 1 / 3]),
        ((0.9, None, 0.1), [1, 2 / 3, 1 / 3]),
        ((0.9, 0.5, 0.1), [0.9, 0.5, 0.1]),
        ((0.9, 0.1, 0.5), [0.9, 0.1, 0.1]),
    ],
    ids=["none", "some", "a gap", "all", "not in order"],
)
def test_a_compressors_order_survives_sorting_by_score(told: tuple[float, ...], expected: list[float]) -> None:
    """Its scores are used if all documents have one, otherwise its order; old scores in the metadata are ignored."""
    given_documents = candidates("a", "b", "c")
    best = LangChainReranker(Told(scores=told)).rerank("q", given_documents)
    assert [one.document.id for one in best] == ["d2", "d1", "d0"]
    assert [one.score for one in best] == pytest.approx(expected)
    assert [one.document for one in best] == [one.document for one in reversed(given_documents)]
    assert given_documents == candidates("a", "b", "c")


def test_a_threshold_is_the_models() -> None:
    """A document without a score is below it."""
    reranker = LangChainReranker(Told(scores=(0.9, 0.4)), min_score=0.5)
    assert [one.document.id for one in reranker.rerank("q", candidates("a", "b", "c"))] == ["d2"]


def test_a_shortened_document_keeps_who_it_is() -> None:
    """The extracted text replaces the document's."""
    extractor = LLMChainExtractor.from_llm(FakeListChatModel(responses=["only this", "NO_OUTPUT"]))
    best = LangChainReranker(extractor).rerank("q", candidates("a long text", "another"))
    assert [(one.document.text, one.document.id, one.document.source) for one in best] == [("only this", "d0", "s.md")]
    assert best[0].document.metadata == {"n": 0, "relevance_score": 7}


def test_a_compressor_that_would_do_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="reranker"):
        ArcDocumentCompressor()
