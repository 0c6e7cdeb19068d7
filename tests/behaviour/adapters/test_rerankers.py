"""Arc's rerankers as a framework's components, and a framework's components as arc's rerankers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as LangChainDocument
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from arc_common import Document, HeuristicTokenCounter, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.protocols import Reranker
from arc_common.rag import ContextBuilder, RagPipeline
from arc_common.rerankers import BM25Reranker, SimpleScoreReranker
from arc_common.testing import CountingObserver
from langchain_arc import ArcDocumentCompressor, LangChainReranker
from llamaindex_arc import ArcNodePostprocessor, LlamaIndexReranker


class Compressor(BaseDocumentCompressor):
    """A compressor that applies a function to the documents."""

    answer: Callable[[Sequence[LangChainDocument]], Any]

    def compress_documents(
        self, documents: Sequence[LangChainDocument], query: str, callbacks: Callbacks | None = None
    ) -> Any:
        return self.answer(documents)


class Postprocessor(BaseNodePostprocessor):
    """A postprocessor that applies a function to the nodes."""

    answer: Callable[[list[NodeWithScore]], Any]

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> Any:
        return self.answer(nodes)


@dataclass(frozen=True, slots=True)
class Side:
    """A framework's documents, and the wrappers of rerankers in both directions."""

    document: Callable[[str, float | None], Any]
    text: Callable[[Any], str]
    rewritten: Callable[[Any, str], Any]
    ranked: Callable[..., list[Any]]
    component: Callable[..., Any]
    component_of: Callable[[Reranker], Any]
    reranker: Callable[..., Reranker]
    given: str
    left: str

    def documents(self, *scored: tuple[str, float | None]) -> list[Any]:
        return [self.document(text, score) for text, score in scored]

    def reranker_that(self, answer: Callable[[Any], Any], **given: Any) -> Reranker:
        return self.reranker(self.component(answer=answer), **given)


def _langchain(text: str, score: float | None) -> LangChainDocument:
    return LangChainDocument(text, id=text, metadata={} if score is None else {"relevance_score": score})


SIDES = {
    "LangChain": Side(
        _langchain,
        lambda document: str(document.page_content),
        lambda document, text: document.model_copy(update={"page_content": text}),
        lambda reranker, documents, query="cat", **given: list(
            ArcDocumentCompressor(reranker, **given).compress_documents(documents, query)
        ),
        Compressor,
        ArcDocumentCompressor,
        LangChainReranker,
        "documents",
        "compressed: got .*, expected LangChain documents",
    ),
    "LlamaIndex": Side(
        lambda text, score: NodeWithScore(node=TextNode(id_=text, text=text), score=score),
        lambda item: str(item.node.get_content()),
        lambda item, text: NodeWithScore(node=TextNode(id_=item.node.node_id, text=text)),
        lambda reranker, nodes, query="cat", **given: ArcNodePostprocessor(reranker, **given).postprocess_nodes(
            nodes, query_str=query
        ),
        Postprocessor,
        ArcNodePostprocessor,
        LlamaIndexReranker,
        "nodes",
        "postprocessed: got .*, expected scored nodes",
    ),
}
sides = pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)


@dataclass(frozen=True, slots=True)
class Answering:
    """An arc reranker that applies a function to the documents."""

    answer: Callable[[Sequence[ScoredDocument]], Any]

    def rerank(self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None) -> Any:
        return self.answer(documents)


def candidates(*scored: tuple[str, float | None]) -> list[ScoredDocument]:
    return [ScoredDocument(Document(text, text), score) for text, score in scored]


def texts(ranked: Sequence[ScoredDocument]) -> list[str]:
    return [found.document.text for found in ranked]


# --- arc's rerankers in the frameworks ------------------------------------------------------------------------------


@sides
def test_documents_are_ranked_as_the_reranker_ranks_them(side: Side) -> None:
    """The query's words decide here; no input gives no output."""
    given = side.documents(("the cat sat", 0.2), ("the dog ran to the cat", 0.9), ("a dog", None), ("birds", None))
    expected = ["the cat sat", "the dog ran to the cat", "a dog", "birds"]
    assert list(map(side.text, side.ranked(BM25Reranker(), given))) == expected
    assert side.ranked(BM25Reranker(), []) == []


@sides
def test_a_text_that_a_reranker_rewrites_is_a_copy(side: Side) -> None:
    """The input keeps its text, and invented documents are omitted."""

    def crop(found: Sequence[ScoredDocument]) -> list[ScoredDocument]:
        cropped = [ScoredDocument(replace(one.document, text=one.document.text.split()[0]), 1.0) for one in found]
        return [ScoredDocument(Document("summary", "new"), 2.0), *cropped]

    given = side.documents(("long text", 0.5))
    (left,) = side.ranked(Answering(crop), given)
    assert side.text(left) == "long"
    assert side.text(given[0]) == "long text"


@sides
@pytest.mark.parametrize("top_n", [None, 2])
@pytest.mark.parametrize("wrong", [ConnectionError("no model"), None, "a", [None]], ids=repr)
def test_a_reranker_that_fails_leaves_the_order(
    side: Side, wrong: Any, top_n: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """It may raise or return no documents; the result is still cut to the limit, and the log gives the reason."""

    def answer(_: Any) -> Any:
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    given = side.documents(("c", 0.1), ("a", 0.9), ("b", 0.5))
    left = side.ranked(Answering(answer), given, top_n=top_n)
    assert list(map(side.text, left)) == ["c", "a", "b"][:top_n]
    assert caplog.text
    assert not isinstance(wrong, Exception) or "no model" in caplog.text


@sides
@pytest.mark.parametrize("wrong", [None, "a", [None], Document("a")], ids=repr)
def test_what_are_no_documents_is_refused(side: Side, wrong: Any) -> None:
    """The error names the argument."""
    with pytest.raises(InvalidInputError, match=side.given):
        side.ranked(BM25Reranker(), wrong)


# --- the frameworks' components in arc ------------------------------------------------------------------------------


@sides
def test_a_component_is_a_reranker(side: Side) -> None:
    """Results are new values with the previous score among the parts; empty input does not call it."""
    asked: list[int] = []

    def last_first(given: Any) -> Any:
        asked.append(len(given))
        return list(reversed(given))

    reranker = side.reranker_that(last_first)
    assert isinstance(reranker, Reranker)
    given = candidates(("a", 0.9), ("b", 0.1), ("c", 0.6))
    left = reranker.rerank("q", given)
    assert texts(left) == ["c", "b", "a"]
    assert [found.score_parts["retrieval"] for found in left] == [0.6, 0.1, 0.9]
    assert [found.score for found in left] == sorted((found.score or 0 for found in left), reverse=True)
    assert given == candidates(("a", 0.9), ("b", 0.1), ("c", 0.6))
    assert reranker.rerank("q", []) == []
    assert asked == [3]


@sides
def test_five_are_left_by_default(side: Side) -> None:
    """Each of arc's rerankers keeps five; a call's limit overrides the reranker's."""
    given = candidates(*((letter, 1.0) for letter in "abcdefgh"))
    assert len(side.reranker_that(list).rerank("q", given)) == 5
    assert len(side.reranker_that(list, top_k=7).rerank("q", given)) == 7
    assert len(side.reranker_that(list, top_k=7).rerank("q", given, top_k=2**63)) == 8


@sides
def test_what_comes_twice_is_left_once(side: Side) -> None:
    """Results may be lazy and copied; several rewritings of one document are several documents."""

    def parts(given: Any) -> Any:
        yield from given
        yield from [one.model_copy(deep=True) for one in given]
        yield side.rewritten(given[0], "part")

    left = side.reranker_that(parts).rerank("q", candidates(("a", 0.2), ("b", 0.1), ("b", 0.1)))
    assert texts(left) == ["a", "b", "b", "part"]


@sides
@pytest.mark.parametrize("wrong", [None, "a", "", {}, [1.0]], ids=repr)
def test_a_component_that_gives_something_else_is_an_error(side: Side, wrong: Any) -> None:
    """A pipeline continues with the retrieved documents and reports it."""
    broken = side.reranker_that(lambda _: wrong)
    with pytest.raises(InvalidInputError, match=f"(?s){side.left}"):
        broken.rerank("q", candidates(("a", 0.5)))

    class Source:
        def retrieve(self, query: str, *, top_k: int, filters: Any = None) -> list[ScoredDocument]:
            return candidates(("first", 0.9), ("second", 0.2))

    observer = CountingObserver()
    pipeline = RagPipeline(Source(), ContextBuilder(HeuristicTokenCounter()), reranker=broken, observer=observer)
    shown = pipeline.retrieve("q")
    assert texts(shown.documents) == ["first", "second"]
    (note,) = shown.notes
    assert note.startswith("rerank failed: InvalidInputError: ")
    assert observer.counts["rag.rerank.errors"] == 1


@sides
def test_a_reranker_wrapped_and_wrapped_back_is_itself(side: Side) -> None:
    """An arc reranker wrapped for a framework and wrapped back is itself."""
    inner = BM25Reranker()
    given = candidates(("wind", 0.5), ("wind and current", 0.4), ("bread", 0.3))
    left = side.reranker(side.component_of(inner)).rerank("wind current", given)
    expected = inner.rerank("wind current", given)
    assert [(found.document.text, found.score) for found in left] == [
        (found.document.text, found.score) for found in expected
    ]


@sides
def test_wrong_arguments_are_named(side: Side) -> None:
    """A reranker of arc's is none of the framework's; a call checks its limit."""
    with pytest.raises(InvalidInputError, match=r"model|postprocessor"):
        side.reranker(SimpleScoreReranker())
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(InvalidInputError, match="top_k"):
            side.reranker_that(list).rerank("q", candidates(("a", 1.0)), top_k=wrong)
