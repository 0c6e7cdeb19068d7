"""Storing into a HybridIndex, and failures of its embedder."""

import logging
from collections.abc import Sequence
from itertools import product

import pytest

from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import IndexEntry
from arc_common.rerankers import DiversityReranker
from arc_common.retrieval import HybridIndex
from arc_common.stores import SqlIndexStore
from arc_common.testing import CountingObserver
from tests.support.animals import DOCUMENTS, WordEmbedder, ids


def test_adding_again_replaces(index: HybridIndex) -> None:
    first = index.add([Document("same text"), Document("same text", source="s"), Document("same text")])
    assert first.ids[0] == first.ids[2] != first.ids[1]
    assert index.add([Document("same text")]).ids == first.ids[:1]
    assert index.count() == len(DOCUMENTS) + 2
    index.add([Document("The bird sings.", "cat")])
    assert index.search("sleeps") == []
    assert ids(index.search("bird")) == ["cat"]
    assert index.delete(["cat", "cat", "unknown"]) == 1
    assert index.get(["cat", "dog"]) == [DOCUMENTS[2]]


def test_an_entry_may_bring_its_own_terms_and_vector(index: HybridIndex, embedder: WordEmbedder) -> None:
    """Neighbours' terms keep their given weight, and the embedder is not called for a given vector."""
    embedder.asked.clear()
    index.add([IndexEntry("m", "Yes.", {"neighbour": 0.35}, vector=[1, 0, 0], embedder="words")])  # type: ignore[arg-type]
    assert embedder.asked == []
    assert ids(index.search("neighbour", mode="lexical")) == ["m"]
    assert list(index.vectors(["m", "nothing"])) == ["m"]


def test_the_embedder_is_asked_in_batches(embedder: WordEmbedder, index: HybridIndex) -> None:
    assert [len(texts) for texts in embedder.asked] == [4, 2]
    embedder.asked.clear()
    index.add([Document(" \n", "blank")])
    assert embedder.asked == []


def test_a_text_that_gets_no_usable_vector_is_found_by_its_words(
    index: HybridIndex, observer: CountingObserver
) -> None:
    assert observer.counts == {"index.unusable_vectors": 1}
    assert ids(index.search("kind", mode="lexical")) == ["nothing"]
    assert "nothing" not in ids(index.search("cat", mode="dense"))
    found = index.find("kind")
    assert ids(found.documents) == ["nothing"]
    assert found.notes == ("no vector for the query: searched by words only",)


def test_what_is_added_while_the_embedder_fails_is_embedded_later(
    index: HybridIndex, embedder: WordEmbedder, observer: CountingObserver, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost, a failing service is called once instead of for each batch, and vectors follow later."""
    embedder.fails = True
    embedder.asked.clear()
    more = [Document(f"cat number {n}", f"new{n}") for n in range(10)]
    with caplog.at_level(logging.WARNING):
        added = index.add([*more, Document(" ", "blank")])
    assert added.unembedded == 11
    assert len(embedder.asked) == 1
    assert observer.counts["index.embedder_errors"] == 1
    assert "ConnectionError" in caplog.text
    assert ids(index.search("number 7", mode="lexical"))[0] == "new7"
    assert index.embed_pending() == 0
    embedder.fails = False
    assert index.embed_pending() == 10
    assert index.embed_pending() == 0
    assert "new7" in ids(index.search("cat", mode="dense", top_k=20))


def test_an_embedder_that_answers_too_little_has_failed(embedder: WordEmbedder) -> None:
    embedder.embed = lambda texts: [[1.0, 0.0]]  # type: ignore[method-assign]
    index = HybridIndex(SqlIndexStore.open(), embedder=embedder)
    assert index.add([Document("a", "a"), Document("b", "b")]).unembedded == 2


def test_two_embedders_are_never_mixed() -> None:
    """Entries of another embedder are found by words, and new ones get no vector until `re_embed`."""
    store = SqlIndexStore.open()
    HybridIndex(store, embedder=WordEmbedder("old")).add(DOCUMENTS)
    new = WordEmbedder("new")
    index = HybridIndex(store, embedder=new)
    for ask in (lambda: index.search("cat", vector=[1.0, 0.0, 0.0]), index.embed_pending):
        with pytest.raises(InvalidInputError, match=r"embedder: got 'new', expected 'old'.*re_embed"):
            ask()
    assert index.add([Document("a dog", "late")]).unembedded == 1
    for mode in ("hybrid", "dense"):
        found = index.find("dog", mode=mode)  # type: ignore[arg-type]
        assert {tuple(one.score_parts) for one in found.documents} == {("bm25",)}
        assert ["another embedder" in note for note in found.notes] == [True]
    assert index.find("dog", mode="dense", threshold=0.5).documents == ()
    assert new.asked == []
    assert index.re_embed() == 6
    assert ids(index.search("kitten", mode="dense", top_k=1)) == ["cat"]


def test_nothing_is_written_if_one_can_t_be(index: HybridIndex) -> None:
    for wrong in (Document("a\x00b"), Document("a", "x" * 256), Document("a", metadata={"a": object()}), "text"):
        with pytest.raises(InvalidInputError):
            index.add([Document("a bird", "bird"), wrong])  # type: ignore[list-item]
    assert index.search("bird") == []
    assert index.count() == len(DOCUMENTS)


def test_nothing_is_written_if_a_vector_can_t_be() -> None:
    """A wrong dimension or embedder is rejected before anything is stored, however many valid items precede it."""
    short, other = (
        IndexEntry("w", "w", vector=[1, 0], embedder="words"),  # type: ignore[arg-type]
        IndexEntry("w", "w", vector=[1, 0, 0], embedder="other"),  # type: ignore[arg-type]
    )
    right = [IndexEntry(f"r{n}", "a dog", vector=[0, 1, 0], embedder="words") for n in range(4)]  # type: ignore[arg-type]
    cat = IndexEntry("held", "a cat", vector=[1, 0, 0], embedder="words")  # type: ignore[arg-type]
    for wrong, held, embeds in product((short, other), ([], [cat]), (True, False)):
        store, embedder = SqlIndexStore.open(), WordEmbedder()
        HybridIndex(store).add(held)
        index = HybridIndex(store, embedder=embedder if embeds else None, batch_size=2)
        with pytest.raises(InvalidInputError):
            index.add([*right, Document("a bird"), wrong])
        assert index.count() == len(held)
        assert embedder.asked == []


def test_vectors_of_another_dimension_are_left_out() -> None:
    """If an embedder's dimension changes, texts are stored without vectors and found by words."""

    class Growing:
        name = "growing"
        dimension = 1

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            self.dimension += 1
            return [[1.0] * self.dimension for _ in texts]

    index = HybridIndex(SqlIndexStore.open(), embedder=Growing(), batch_size=2)
    assert index.add([Document(f"text {n}") for n in range(5)]).unembedded == 3
    assert len(index.search("text", mode="lexical")) == index.count() == 5


class Plain:
    """Embeds two letters as two directions."""

    name = "letters"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return [[text.count("a") + 0.01, text.count("b") + 0.01] for text in texts]


class Asymmetric(Plain):
    """Embeds questions about "b" near texts with an "a"."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []
        self.answer: list[float] | Exception | None = None

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or [text.count("b") + 0.01, text.count("a") + 0.01]


LETTERS = [Document("aaa", "a"), Document("bbb", "b")]


@pytest.mark.parametrize(("embedder", "first"), [(Plain(), "b"), (Asymmetric(), "a")], ids=["plain", "asymmetric"])
def test_questions_are_embedded_as_questions(embedder: Plain, first: str) -> None:
    index = HybridIndex(SqlIndexStore.open(), embedder=embedder)
    index.add(LETTERS)
    assert [found.document.id for found in index.search("b", mode="dense", top_k=1)] == [first]
    asked = embedder.queries if isinstance(embedder, Asymmetric) else embedder.texts[2:]
    assert (embedder.texts[:2], asked) == (["aaa", "bbb"], ["b"])
    index.re_embed()
    assert embedder.texts[-2:] == ["aaa", "bbb"]
    assert asked == ["b"]


@pytest.mark.parametrize("answer", [ConnectionError("no network"), [float("nan"), 1.0], [0.0, 0.0]], ids=repr)
def test_a_question_without_a_vector_is_searched_by_words(answer: list[float] | Exception) -> None:
    embedder = Asymmetric()
    index = HybridIndex(SqlIndexStore.open(), embedder=embedder)
    index.add(LETTERS)
    embedder.answer = answer
    found = index.find("bbb")
    assert [hit.document.id for hit in found.documents] == ["b"]
    assert found.notes == ("no vector for the query: searched by words only",)


@pytest.mark.parametrize(("embedder", "first"), [(Plain(), "b"), (Asymmetric(), "a")], ids=["plain", "asymmetric"])
def test_diversity_takes_the_question_as_one(embedder: Plain, first: str) -> None:
    reranker = DiversityReranker(embedder=embedder, trade_off=1.0)
    ranked = reranker.rerank("b", [ScoredDocument(document) for document in LETTERS])
    assert ranked[0].document.id == first
