"""An engine's documents: stored, found, and shown in turns about them."""

import asyncio
import random
import tracemalloc

import pytest

from arc_common import ArcSettings, ContextEngine, Document, InvalidInputError, ScoredDocument, TokenBudget
from arc_common.rag import RagContext, RagQuery
from tests.support.databases import sqlite_url

TEXTS = [
    Document("The warranty of laptops lasts three years.", id="warranty", metadata={"lang": "en"}),
    Document("Returns are accepted within fourteen days.", id="returns", metadata={"lang": "en"}),
    Document("배송은 이틀이 걸립니다.", id="shipping", source="안내", metadata={"lang": "ko"}),
]


@pytest.fixture
def engine():
    with ContextEngine.open(settings=ArcSettings()) as opened:
        yield opened


def shown(window):
    return [item.id for section in window.sections if section.name == "documents" for item in section.items]


def test_documents_are_added_found_and_deleted(engine):
    assert engine.documents.add(TEXTS) == ["warranty", "returns", "shipping"]
    assert engine.documents.count() == 3
    found = engine.documents.search("How long is the warranty?", top_k=1)
    assert [(one.document.id, set(one.score_parts)) for one in found] == [("warranty", {"bm25"})]
    assert engine.documents.search("warranty", filters={"lang": "ko"}) == []
    assert [document.text for document in engine.documents.get(["shipping", "none"])] == [TEXTS[2].text]
    assert engine.documents.add("plain text") == engine.documents.add(["plain text"])
    assert engine.documents.delete(["warranty", "none"]) == 1
    assert engine.documents.search("warranty") == []


def test_long_documents_are_cut_into_chunks(engine):
    text = " ".join(f"Sentence number {n} tells of item {n}." for n in range(300))
    ids = engine.documents.add(Document(text, id="long", source="book"), chunk=True)
    assert ids[0] == "long#0"
    assert len(ids) > 5
    (first,) = engine.documents.get(["long#0"])
    assert engine.token_counter.count(first.text) <= engine.settings.rag.chunk_size
    assert first.source == "book"


LONG = " ".join(f"Sentence number {n} tells of item {n} and its warranty." for n in range(200))


def entries(engine):
    """Return the ids of all stored documents."""
    index = engine.documents.index
    return {found.document.id for found in index.search("sentence warranty whole other", top_k=1_000)}


@pytest.mark.parametrize("chunk", [True, False], ids=["in chunks", "whole"])
def test_a_chunked_document_is_replaced_by_its_id(engine, chunk):
    alike = ["term", "terms#0#0", "terms#x", "terms$", "termsa"]
    engine.documents.add([Document("another whole warranty", id=name) for name in alike])
    engine.documents.add([Document(LONG, id="terms"), Document(LONG, id="other")], chunk=True)
    ids = engine.documents.add(Document("There is no warranty at all.", id="terms"), chunk=chunk)
    others = {f"other#{n}" for n in range(len(entries(engine)) - len(alike) - 1)}
    assert ids == ["terms#0" if chunk else "terms"]
    assert entries(engine) == {*ids, *alike, *others}
    engine.documents.add(Document(LONG, id="terms"), chunk=True)
    assert ("terms" in entries(engine)) is False


def test_a_chunked_document_is_deleted_by_its_id(engine):
    """Each chunk counts, even if the first is gone or there are more than a page of them."""
    ids = engine.documents.add([Document(LONG * 8, id="terms"), Document("whole", id="other")], chunk=True)
    assert len(ids) > 80
    assert engine.documents.delete(["terms#0"]) == 1
    assert engine.documents.delete(["terms"]) == len(ids) - 2
    assert entries(engine) == {"other#0"}


def test_of_two_documents_with_one_id_the_later_is_stored(engine):
    given = [Document(LONG, id="terms"), Document("the other warranty", id="terms")]
    assert engine.documents.add(given, chunk=True) == ["terms#0"]
    assert engine.documents.add(given) == ["terms", "terms"]
    assert entries(engine) == {"terms"}


def test_a_turn_shows_the_documents_that_it_is_about(engine):
    """They follow the user's text; unrelated documents are not shown."""
    session = engine.session("s")
    assert not shown(session.context("How long is the warranty?"))
    engine.documents.add(TEXTS)
    window = session.context("How long is the warranty?")
    assert shown(window) == ["warranty"]
    assert "[Retrieved Context]\nThe warranty" in window.messages[-1].text
    assert not shown(session.context("zebra"))
    assert window.receipt.sections


def test_a_turn_sees_what_others_have_added(tmp_path):
    """Documents added by another engine or the index are seen at once, even after a turn without any."""
    url = sqlite_url(tmp_path, "d.db")
    with ContextEngine.open(url, settings=ArcSettings()) as engine, ContextEngine.open(url) as other:
        session, users = engine.session("s"), engine.session("u", user_id="ann")
        assert shown(session.context("warranty")) == shown(users.context("warranty")) == []
        other.documents.index.add(TEXTS)
        assert shown(session.context("warranty")) == ["warranty"]
        other.documents_of("default", user_id="ann").add(Document("Ann's warranty", id="hers"))
        assert set(shown(users.context("warranty"))) == {"hers", "warranty"}
        engine.documents.delete(["warranty"])
        assert shown(session.context("warranty")) == []


def test_a_follow_up_is_completed_by_what_was_said_before(engine):
    engine.documents.add(TEXTS)
    session = engine.session("s")
    session.save_turn("Tell me about the warranty of laptops.", "It lasts three years.")
    assert "warranty" in shown(session.context("How long is it?"))
    session.append(session.context("How long is it?").messages[-1].__class__("user", "How long is it?"))
    assert "warranty" in shown(session.context())


def test_documents_given_take_the_place_of_those_found(engine):
    engine.documents.add(TEXTS)
    session = engine.session("s")
    assert shown(session.context("warranty?", documents=[Document("mine", id="mine")])) == ["mine"]
    assert shown(session.context("warranty?", documents=[])) == []


def test_what_answers_leads_also_in_the_larger_scope(engine):
    """A user's note with two words of the question is the best of few and must not win for that."""
    text = "The laptop warranty covers battery replacement for three years."
    engine.documents.add([Document(text, id="z-right")])
    engine.documents.add([f"Other topic number {n} about gardens." for n in range(10)])
    notes = engine.documents_of("default", user_id="ann")
    notes.add([Document("My laptop battery is dead again.", id="a-note"), "Milk and eggs.", "Call mum."])
    window = engine.session("s", user_id="ann").context("laptop warranty battery replacement?")
    assert shown(window) == ["z-right", "a-note"]
    notes.add(Document("The laptop warranty covers battery replacement, said the shop, for two years.", id="b-best"))
    assert set(shown(engine.session("t", user_id="ann").context("What did the shop say on laptop warranty?"))[:1]) == {
        "b-best"
    }


def test_settings_switch_retrieval_off_and_bound_it():
    with ContextEngine.open(settings=ArcSettings(rag={"enabled": False})) as engine:
        engine.documents.add(TEXTS)
        assert not shown(engine.session("s").context("warranty"))
    with ContextEngine.open(settings=ArcSettings(rag={"max_context_tokens": 5})) as engine:
        engine.documents.add(TEXTS)
        window = engine.session("s").context("warranty", budget=TokenBudget(1_000))
        assert not shown(window)
        assert any(miss.kind == "document" and miss.id == "warranty" for miss in window.receipt.nearest)


class Broken:
    def retrieve(self, query, *, top_k, filters=None):
        raise ConnectionError("down")


class Fixed:
    def retrieve(self, query, *, top_k, filters=None):
        return [ScoredDocument(Document(f"about {query}", id="fixed"), 1.0)]


def test_a_retriever_of_ones_own_takes_the_place_of_the_documents():
    """If it fails, the turn continues without documents and the receipt says so."""
    with ContextEngine.open(settings=ArcSettings(), retriever=Fixed()) as engine:
        assert shown(engine.session("s").context("warranty")) == ["fixed"]
    with ContextEngine.open(settings=ArcSettings(), retriever=Broken()) as engine:
        window = engine.session("s").context("warranty")
        assert not shown(window)
        assert any("ConnectionError" in note for note in window.receipt.notes)
    with pytest.raises(InvalidInputError, match="retriever"):
        ContextEngine.open(retriever="documents")  # type: ignore[arg-type]


class CountingLetters:
    """Embeds texts by two letters' counts; can be down."""

    name = "letters"

    def __init__(self):
        self.is_down = False

    def embed(self, texts):
        if self.is_down:
            raise ConnectionError("down")
        return [[text.count("w") + 0.01, text.count("z") + 0.01] for text in texts]


def test_a_turn_says_that_it_had_to_search_by_words_only():
    embedder = CountingLetters()
    with ContextEngine.open(settings=ArcSettings(), embedder=embedder) as engine:
        engine.documents.add(TEXTS)
        engine.documents_of("default", user_id="ann").add(Document("Ann's warranty", id="hers"))
        session = engine.session("s", user_id="ann")
        assert not session.context("warranty").receipt.notes
        embedder.is_down = True
        window = session.context("warranty")
        assert set(shown(window)) == {"warranty", "hers"}
        searched, failing = window.receipt.notes
        assert "searched by words only" in searched
        assert failing == "the embedder fails: ConnectionError"


def test_the_similarity_threshold_does_not_depend_on_how_many_documents_there_are():
    settings = ArcSettings(rag={"similarity_threshold": 0.7}, recall={"enabled": False})
    with ContextEngine.open(settings=settings, embedder=CountingLetters()) as engine:
        engine.documents.add([Document("warranty: zz zz zz zz", id="far"), Document("warranty www", id="near")])
        engine.documents.add([Document(f"wwww {number}", id=f"n{number}") for number in range(300)])
        found = engine.session("s").context("warranty")
        assert "near" in shown(found)
        assert "far" not in shown(found)
        assert "far" in [one.document.id for one in engine.documents.search("warranty")]


def test_a_pipeline_is_one_call(engine):
    engine.documents.add(TEXTS)
    context = engine.rag(citations=True).retrieve("warranty")
    assert context.context.startswith("[1]")
    assert context.total_tokens > 0
    assert engine.rag().retrieve("zebra") == RagContext.EMPTY
    assert asyncio.run(engine.rag().aretrieve("warranty")).has_documents


def test_the_settings_name_the_reranker():
    for name in ["score", "keyword", "bm25", "diversity"]:
        with ContextEngine.open(settings=ArcSettings(rag={"reranker": name, "fusion": "rrf"})) as engine:
            engine.documents.add(TEXTS)
            assert shown(engine.session("s").context("warranty of laptops"))[0] == "warranty"


def test_the_bm25_reranker_judges_by_all_documents():
    """A word common among the candidates may be rare in the index, and the reverse."""
    with ContextEngine.open(settings=ArcSettings(rag={"reranker": "bm25", "top_k": 3})) as engine:
        engine.documents.add([Document(f"Harbour, harbour {n}", id=f"h{n}") for n in range(40)])
        engine.documents.add(Document("A zephyr in the harbour", id="z1"))
        engine.documents.add(Document("A zephyr blows over the bay from the south on most days of June.", id="z2"))
        shown_best = engine.rag().retrieve(RagQuery("zephyr harbour", top_k=3)).documents
        first, second, third = (one.document.id for one in shown_best)
        assert (first, second) == ("z1", "z2")
        assert third.startswith("h")


def test_a_large_document_takes_few_times_its_size(tmp_path):
    """Cutting and storing process chunks lazily or packed, to save memory."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(500)]
    text = "".join(f"{' '.join(chance.choices(words, k=12))}.\n" for _ in range(500))
    with ContextEngine.open(sqlite_url(tmp_path, "c.db"), settings=ArcSettings()) as engine:
        known = " ".join(
            [*words, *(f"{word}." for word in words)]
        )  # the analyzer caches these words in a growing table
        engine.documents.add(Document(text[:9_000] + known, id="warm"), chunk=True)
        tracemalloc.start()
        try:
            engine.documents.add(Document(text, id="large"), chunk=True)
            kept, peak = tracemalloc.get_traced_memory()  # the counter caches up to 8,192 lines
        finally:
            tracemalloc.stop()
    assert peak - kept < 8 * len(text), (peak - kept) / len(text)


def test_a_document_with_a_score_is_refused(engine):
    with pytest.raises(InvalidInputError, match="documents without scores"):
        engine.documents.add([ScoredDocument(Document("x"))])
    assert engine.documents.count() == 0
