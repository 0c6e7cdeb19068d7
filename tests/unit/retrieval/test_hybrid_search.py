"""Results of HybridIndex, also when the embedder fails."""

import random
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.documents import Document
from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import EntryKind, Scope
from arc_common.retrieval import HybridIndex, SearchResult
from arc_common.retrieval.index import SearchMode
from arc_common.stores import SqlIndexStore
from arc_common.testing import CountingObserver
from arc_common.text import analyze
from tests.support.animals import DOCUMENTS, WordEmbedder, ids

WORDS = ["cat", "dog", "car", "고양이"]


def test_words_vectors_or_both_are_asked(index: HybridIndex) -> None:
    lexical = index.search("cats", mode="lexical")
    assert ids(lexical) == ["cat"]
    assert dict(lexical[0].score_parts) == {"bm25": lexical[0].score}
    dense = index.search("a cat", mode="dense", top_k=3)
    assert ids(dense) == ["cat", "kitten", "ko"]
    assert dense[0].score == pytest.approx(1)
    assert dict(dense[0].score_parts) == {"vector": dense[0].score}
    hybrid = index.search("a cat", top_k=3)
    assert ids(hybrid) == ["cat", "kitten", "ko"]
    assert set(hybrid[0].score_parts) == {"bm25", "vector"}
    assert set(hybrid[1].score_parts) == {"vector"}
    assert hybrid[0].score == pytest.approx(1)
    assert hybrid[0].document == DOCUMENTS[0]


def test_filters_and_top_k_restrict(index: HybridIndex) -> None:
    for mode in ("hybrid", "dense"):
        assert ids(index.search("cat", filters={"year": {"$gte": 2024}}, mode=mode, top_k=1)) == ["kitten"]  # type: ignore[arg-type]
    assert index.search("cat", filters={"year": {"$gte": 2024}}, mode="lexical") == []
    assert ids(index.search("cat", filters={"tags": "pet"})) == ["cat"]
    for mode in ("hybrid", "dense", "lexical"):
        every = index.search("cat", top_k=1_000, filters={}, mode=mode)  # type: ignore[arg-type]
        assert every
        assert all(index.search("cat", top_k=n, filters={}, mode=mode) == every for n in (2**62, 2**63, 10**30))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"\$near"):
        index.search("cat", filters={"year": {"$near": 1}})


def test_each_document_found_may_have_its_cosine(index: HybridIndex) -> None:
    index.add([Document(f"cat {n}", f"n{n}") for n in range(150)] + [Document("zebra dog", "far")])
    found = index.find("cat zebra nothing", cosines=True).documents
    parts = {one.document.id: one.score_parts for one in found}
    assert set(parts["far"]) == {"bm25", "vector"}
    assert parts["far"]["vector"] < 0.3
    assert set(parts["nothing"]) == {"bm25"}
    plain = index.find("cat zebra nothing").documents
    assert [(one.document.id, one.score) for one in plain] == [(one.document.id, one.score) for one in found]
    assert set({one.document.id: one.score_parts for one in plain}["far"]) == {"bm25"}


def test_words_meet_no_threshold_for_vectors(index: HybridIndex, embedder: WordEmbedder) -> None:
    embedder.fails = True
    found = index.find("cat", mode="dense", threshold=0.7)
    assert found == SearchResult(notes=("no vector for the query: nothing can meet the threshold",))
    assert ids(index.search("cat", mode="dense")) == ["cat"]
    assert ids(index.search("cat", threshold=0.7)) == ["cat"]


@pytest.mark.parametrize(("query", "expected"), [("茶", ["tea", "pot"]), ("龙", ["tea"]), ("茶叶", ["tea", "pot"])])
def test_documents_are_found_by_one_han_character(query: str, expected: list[str]) -> None:
    """Neighbouring characters don't matter; the document with more occurrences comes first."""
    index = HybridIndex(SqlIndexStore.open())
    index.add(
        [Document("西湖的龙井茶是绿茶。", "tea"), Document("他买了茶壶", "pot"), Document("咖啡很好喝", "coffee")]
    )
    assert ids(index.search(query)) == expected


def test_a_threshold_is_off_until_it_is_given(index: HybridIndex) -> None:
    assert len(index.search("cat", mode="dense")) == 5
    assert ids(index.search("cat", mode="dense", threshold=0.9)) == ["cat", "kitten", "ko"]
    assert index.search("cat dog car", mode="dense", threshold=1.0) == []
    assert ids(index.search("dog sleeps", threshold=0.99)) == ["dog", "cat"]


def test_a_search_while_the_embedder_fails_is_one_by_words(
    index: HybridIndex, embedder: WordEmbedder, observer: CountingObserver
) -> None:
    embedder.fails = True
    for mode in ("hybrid", "dense"):
        found = index.find("cat", mode=mode)  # type: ignore[arg-type]
        assert ids(found.documents) == ["cat"]
        assert found.notes == ("no vector for the query: searched by words only",)
    assert observer.counts["index.embedder_errors"] == 2
    assert index.find("cat", mode="lexical").notes == ()


def test_a_vector_can_be_asked_with(index: HybridIndex, embedder: WordEmbedder) -> None:
    """The embedder is not called; an invalid vector or another dimension is rejected."""
    embedder.asked.clear()
    assert ids(index.search("", vector=[0, 1, 0], top_k=1, mode="dense")) == ["dog"]
    assert ids(index.search("truck", vector=[0, 1, 0], top_k=2)) == ["truck", "dog"]
    assert embedder.asked == []
    for wrong in ([float("nan"), 1, 1], [0, 0, 0], [1, 2], []):
        with pytest.raises(InvalidInputError, match="vector"):
            index.search("cat", vector=wrong)


def test_any_query_is_answered(index: HybridIndex) -> None:
    """An empty query finds nothing; of a pasted page, the beginning is searched."""
    for query in ("", "   ", "\n\t", "!?", "…", "NEAR(", '"', "*", "\x00", "\ud800", "🎉", "a" * 100_000):
        assert index.search(query, mode="lexical") == []
        assert HybridIndex(SqlIndexStore.open()).search(query) == []
    page = "cat " + " ".join(f"word{n}" for n in range(20_000))
    assert ids(index.search(page, mode="lexical")) == ["cat"]


def test_bad_options_are_refused(index: HybridIndex) -> None:
    cases: list[tuple[str, list[Any]]] = [
        ("top_k", [0, 1.5]), ("threshold", [2, float("nan")]), ("mode", ["fuzzy", ["dense"]]), ("filters", ["y = 1"]),
    ]  # fmt: skip
    for name, wrong in cases:
        for value in wrong:
            with pytest.raises(InvalidInputError, match=name):
                index.search("cat", **{name: value})


def test_bad_arguments_are_refused() -> None:
    """Creation, storing and searching reject invalid arguments."""
    store = SqlIndexStore.open()
    for options in (
        {"kind": "thing"},
        {"batch_size": 0},
        {"batch_size": "x"},
        {"embedder": "minilm"},
    ):
        with pytest.raises(InvalidInputError):
            HybridIndex(store, **options)
    index = HybridIndex(store)
    for call, name in ((index.add, "items"), (index.delete, "ids"), (index.get, "ids"), (index.vectors, "ids")):
        for wrong in (None, 5, "a", {"a": 1}, [{}]):
            with pytest.raises(InvalidInputError, match=name):
                call(wrong)
    with pytest.raises(InvalidInputError, match="embedder"):
        HybridIndex(store).search("cat", mode="dense")
    with pytest.raises(InvalidInputError, match="query"):
        HybridIndex(store).search(None)  # type: ignore[arg-type]


def test_an_index_tells_how_common_terms_are(index: HybridIndex) -> None:
    texts = [one.text for one in DOCUMENTS]
    length = pytest.approx(sum(len(analyze(text)) for text in texts) / len(texts))
    assert index.term_statistics(["cat", "day", "zebra", "cat"]) == (len(DOCUMENTS), length, [1, 1, 0, 1])
    empty = HybridIndex(SqlIndexStore.open())
    assert empty.term_statistics(["cat"]) == (0, 0.0, [0])
    assert empty.term_statistics([]) == (0, 0.0, [])


class GuessingEmbedder:
    """Returns vectors unrelated to the text, like a model that can't read its script."""

    name = "guessing"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        chances = [random.Random(text) for text in texts]
        return [[chance.gauss(0, 1) for _ in range(8)] for chance in chances]


@pytest.mark.parametrize("more", ["", " unheard unseen unknown"], ids=["answered", "answered in part"])
def test_an_embedder_that_can_t_read_changes_little(more: str) -> None:
    """In nine of ten cases, a text with most of a query's words stays before those with some of them."""
    index = HybridIndex(SqlIndexStore.open(), embedder=GuessingEmbedder())
    index.add([Document(f"topic{n % 60} subject{7 * n % 45} filler{n}", f"{n:03}") for n in range(600)])
    kept = 0
    for n in range(0, 600, 20):
        query = f"topic{n % 60} subject{7 * n % 45}{more}"
        by_words = index.search(query, top_k=1, mode="lexical")[0].score
        kept += index.search(query, top_k=1)[0].score_parts.get("bm25") == pytest.approx(by_words)
    assert kept >= 27


class Told:
    """Returns given vectors."""

    name = "told"

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self.vectors = vectors

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]


NEIGHBOURS = {
    "apple recipe": [0.8, 0.6, 0.0],
    "apple tart and sweet recipe": [0.8, 0.55, 0.2],
    "apple phone and sweet recipe": [0.8, -0.55, 0.2],
    "river boat": [0.0, -1.0, 0.0],
    "river bank": [0.1, -1.0, 0.0],
}
ASKED = [1.0, 0.0, 0.0]


def _among_neighbours(*, kind: EntryKind = "document") -> HybridIndex:
    index = HybridIndex(SqlIndexStore.open(), embedder=Told(NEIGHBOURS), kind=kind)
    index.add([Document(text, text) for text in NEIGHBOURS])
    return index


def _gap(index: HybridIndex) -> float:
    """Return the score by which a text near the best one exceeds one with equal words and vector."""
    found = index.search("apple recipe", vector=ASKED)
    assert found[0].document.id == "apple recipe"
    scores = {one.document.id: one.score or 0.0 for one in found}
    return scores["apple tart and sweet recipe"] - scores["apple phone and sweet recipe"]


@pytest.mark.parametrize(("kind", "is_lifted"), [("document", True), ("message", False), ("memory", False)])
def test_documents_near_a_better_one_are_lifted(kind: EntryKind, *, is_lifted: bool) -> None:
    assert (_gap(_among_neighbours(kind=kind)) > 0.01) == is_lifted


@pytest.mark.parametrize(("mode", "part"), [("lexical", "bm25"), ("dense", "vector")])
def test_what_only_one_part_found_is_not_lifted(mode: SearchMode, part: str) -> None:
    found = _among_neighbours().search("apple recipe", vector=ASKED, mode=mode)
    assert found
    assert [one.score for one in found] == [one.score_parts[part] for one in found]


def test_what_is_first_by_words_and_by_vectors_is_first_by_both() -> None:
    def at(places: dict[int, float]) -> list[float]:
        return [places.get(place, 0.0) for place in range(10)]

    right, rival = "return policy laptop", "return policy laptop phone"
    vectors = {right: at({0: 1, 1: 0.25}), rival: at({0: 0.91, 1: -0.2, 2: 0.37})}
    vectors |= {f"keyboard cleaning step {n}": at({0: 0.05, 1: 0.25, 4 + n: 0.3}) for n in range(5)}
    index = HybridIndex(SqlIndexStore.open(), embedder=Told(vectors))
    index.add([Document(text, text) for text in vectors])
    assert ids(index.search(right, vector=at({0: 1})))[:2] == [right, rival]


def test_all_documents_can_be_requested() -> None:
    rng = random.Random(1)
    texts = {f"alpha w{n}": [rng.gauss(0, 1) for _ in range(4)] for n in range(1_500)}
    index = HybridIndex(SqlIndexStore.open(), embedder=Told(texts))
    index.add([Document(text, text) for text in texts])
    tracemalloc.start()
    assert len(index.search("alpha", vector=[1, 0, 0, 0], top_k=10_000)) == 1_500
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_words_that_answer_less_than_half_count_in_proportion() -> None:
    """The best lexical match, with two of five words, is not a perfect match: a semantic match comes first."""
    texts = {
        "whiskered tabby": [0.0, 1.0, 0.0],
        "a kitten purrs": [1.0, 0.0, 0.0],
        "lorries on the road": [0.1, 0.0, 1.0],
        "a boat at sea": [0.0, 0.1, 1.0],
    }
    index = HybridIndex(SqlIndexStore.open(), embedder=Told(texts))
    index.add([Document(text, text) for text in texts])
    found = index.search("whiskered tabby feline slumbering peacefully", vector=[1, 0, 0])
    assert ids(found)[:2] == ["a kitten purrs", "whiskered tabby"]


def test_one_word_in_common_does_not_outweigh_a_vector(embedder: WordEmbedder) -> None:
    """The only lexical match is not a perfect match if it has next to none of the words."""
    index = HybridIndex(SqlIndexStore.open(), embedder=embedder)
    others = [Document(f"A truck in lane {n}.", f"truck{n}") for n in range(20)]
    index.add([Document("A kitten purrs softly.", "kitten"), Document("The dog barks at dawn.", "dawn"), *others])
    found = index.search("whiskered feline cat companion slumbering peacefully until dawn")
    assert ids(found)[0] == "kitten"
    assert found[1].document.id == "dawn"


@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=8), query=st.sampled_from(WORDS)
)
def test_the_same_documents_in_another_order_give_the_same(texts: list[str], query: str) -> None:
    documents = [Document(text, f"d{n}") for n, text in enumerate(texts)]
    found = []
    for order in (documents, documents[::-1]):
        index = HybridIndex(SqlIndexStore.open(), embedder=WordEmbedder())
        index.add(order)
        found.append(index.search(query))
    assert found[0] == found[1]


class Counting:
    """Embeds texts by their first letters and counts queries."""

    name = "counting"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return [[1.0 + ord(text[0]) % 7, 1.0 + len(text) % 5, 1.0 + len(text.split())] for text in texts]


@given(
    st.lists(st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.integers(0, 2)), max_size=12),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    st.booleans(),
)
def test_scopes_beside_each_other_are_searched_as_one(
    texts: list[tuple[list[str], int]], query: str, has_embedder: bool
) -> None:
    """Scores, parts and documents equal those of one scope with all entries."""
    embedder = Counting() if has_embedder else None
    whole = HybridIndex(SqlIndexStore.open(), embedder=embedder)
    store = SqlIndexStore.open()
    scopes = [Scope(f"c{n}") for n in range(3)]
    parts = [HybridIndex(store, scope=scope, embedder=embedder) for scope in scopes]
    for number, (words, place) in enumerate(texts):
        document = Document(" ".join(words), f"{place} {number:02}", "a source", {"n": number})
        whole.add([document])
        parts[place].add([document])
    joint = HybridIndex(store, scope=scopes[0], others=scopes[1:], embedder=embedder)
    found = joint.find(query, top_k=5, filters={"n": {"$gte": 1}}, cosines=True).documents
    expected = whole.find(query, top_k=5, filters={"n": {"$gte": 1}}, cosines=True).documents
    assert [one.document for one in found] == [one.document for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score)
        assert one.score_parts == pytest.approx(other.score_parts)


def test_scopes_beside_each_other_ask_the_embedder_once() -> None:
    store, embedder = SqlIndexStore.open(), Counting()
    one, two, three = map(Scope, ("one", "two", "three"))
    for scope in (one, two):
        HybridIndex(store, scope=scope, embedder=embedder).add([Document("cat", "1"), Document("dog", "2")])
    embedder.texts.clear()
    found = HybridIndex(store, scope=one, others=[two], embedder=embedder).find("cat")
    assert embedder.texts == ["cat"]
    assert ids(found.documents) == ["1", "1", "2", "2"]
    assert not found.notes
    HybridIndex(store, scope=three, embedder=WordEmbedder()).add([Document("cat in three", "3")])
    for joint, vectors in (
        (HybridIndex(store, scope=one, others=[three], embedder=embedder), {"1": True, "3": False}),
        (HybridIndex(store, scope=three, others=[one], embedder=WordEmbedder()), {"1": False, "3": True}),
    ):
        found = joint.find("cat")
        assert {one.document.id: "vector" in one.score_parts for one in found.documents if one.document.id != "2"} == (
            vectors
        )
        assert "another embedder" in found.notes[0]


@pytest.mark.parametrize("first", [0, 1])
def test_the_candidates_of_a_scope_are_chosen_by_what_is_rare_in_all(first: int) -> None:
    """Most of a user's notes are about the fee and nobody else's are, so the word is informative."""
    store = SqlIndexStore.open()
    scopes = [Scope(name) for name in ("all", "own")]
    parts = [HybridIndex(store, scope=scope) for scope in scopes]
    parts[0].add([Document(f"the berth number {n}", f"berth {n}") for n in range(1_000)])
    parts[1].add([Document("berth berth berth", f"note {n}") for n in range(200)])
    parts[1].add([Document(f"the fee of month {n} was paid by card", f"fee {n}") for n in range(300)])
    found = HybridIndex(store, scope=scopes[first], others=[scopes[1 - first]]).search("berth fee", top_k=5)
    assert [one.document.id[:3] for one in found] == ["fee"] * 5  # type: ignore[index]


def test_joined_scopes_may_have_ids_of_the_greatest_length() -> None:
    store, long = SqlIndexStore.open(), "x" * 255
    scopes = [Scope(name) for name in ("one", "two")]
    for scope in scopes:
        HybridIndex(store, scope=scope).add([Document("cat", long)])
    assert ids(HybridIndex(store, scope=scopes[0], others=scopes[1:]).search("cat")) == [long, long]
