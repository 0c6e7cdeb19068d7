"""Embedders for which a question is not a text like others."""

from collections.abc import Sequence

import pytest

from arc_common.documents import Document, ScoredDocument
from arc_common.protocols import Embedder, QueryEmbedder
from arc_common.rerankers import DiversityReranker
from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore


class Plain:
    """Two letters, two directions."""

    name = "letters"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return [[text.count("a") + 0.01, text.count("b") + 0.01] for text in texts]


class Asymmetric(Plain):
    """A question about "b" is near to the texts with an "a"."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []
        self.answer: list[float] | Exception | None = None

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or [text.count("b") + 0.01, text.count("a") + 0.01]


DOCUMENTS = [Document("aaa", "a"), Document("bbb", "b")]


def test_the_method_makes_the_difference() -> None:
    """Any embedder will do; one with the method is asked with it."""
    assert isinstance(Plain(), Embedder)
    assert not isinstance(Plain(), QueryEmbedder)
    assert isinstance(Asymmetric(), Embedder)
    assert isinstance(Asymmetric(), QueryEmbedder)


@pytest.mark.parametrize(("embedder", "first"), [(Plain(), "b"), (Asymmetric(), "a")], ids=["plain", "asymmetric"])
def test_questions_are_embedded_as_questions(embedder: Plain, first: str) -> None:
    """And texts as texts, those that are added and those that wait."""
    index = HybridIndex(SqlIndexStore.open(), embedder=embedder)
    index.add(DOCUMENTS)
    assert [found.document.id for found in index.search("b", mode="dense", top_k=1)] == [first]
    asked = embedder.queries if isinstance(embedder, Asymmetric) else embedder.texts[2:]
    assert (embedder.texts[:2], asked) == (["aaa", "bbb"], ["b"])
    index.re_embed()
    assert embedder.texts[-2:] == ["aaa", "bbb"]
    assert asked == ["b"]


@pytest.mark.parametrize("answer", [ConnectionError("no network"), [float("nan"), 1.0], [0.0, 0.0]], ids=repr)
def test_a_question_without_a_vector_is_searched_by_words(answer: list[float] | Exception) -> None:
    """What is wrong with the vector costs the vector alone."""
    embedder = Asymmetric()
    index = HybridIndex(SqlIndexStore.open(), embedder=embedder)
    index.add(DOCUMENTS)
    embedder.answer = answer
    found = index.find("bbb")
    assert [hit.document.id for hit in found.documents] == ["b"]
    assert found.notes == ("no vector for the query: searched by words only",)


@pytest.mark.parametrize(("embedder", "first"), [(Plain(), "b"), (Asymmetric(), "a")], ids=["plain", "asymmetric"])
def test_diversity_takes_the_question_as_one(embedder: Plain, first: str) -> None:
    """Where there are no scores, relevance is the likeness to the question's own vector."""
    reranker = DiversityReranker(embedder=embedder, trade_off=1.0)
    ranked = reranker.rerank("b", [ScoredDocument(document) for document in DOCUMENTS])
    assert ranked[0].document.id == first
