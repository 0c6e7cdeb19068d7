"""Each retrieval setting acts in its turns; failures on the way don't end them."""

import pytest

from arc_common import ArcSettings, ContextEngine, Document
from arc_common.rag import ContextBuilder, RagPipeline
from arc_common.rerankers import SimpleScoreReranker
from arc_common.testing import CountingObserver

BERTHS = [Document(f"Berth {n} of the harbour has water and light.", id=f"b{n}") for n in range(12)]


def opened(**rag):
    return ContextEngine.open(settings=ArcSettings(rag=rag))


def shown(engine, question, session_id="s"):
    window = engine.session(session_id).context(question)
    return [item.id for section in window.sections if section.name == "documents" for item in section.items]


def text_of(engine, question):
    """Return the user message of a turn, with its documents."""
    return engine.session("s").context(question).messages[-1].text


class Recorder:
    """A source that records the requested number and returns as many as it can."""

    def __init__(self):
        self.asked = []

    def retrieve(self, query, *, top_k, filters=None):
        self.asked.append((query, top_k))
        return []


@pytest.mark.parametrize("top_k", [3, 10])
def test_top_k_is_how_many_are_retrieved(top_k):
    with opened(top_k=top_k, rerank_enabled=False) as engine:
        engine.documents.add(BERTHS)
        assert len(shown(engine, "harbour")) == top_k
        assert len(engine.documents.search("harbour")) == top_k
    source = Recorder()
    with ContextEngine.open(settings=ArcSettings(rag={"top_k": top_k}), retriever=source) as engine:
        engine.session("s").context("harbour")
    assert source.asked == [("harbour", top_k)]


@pytest.mark.parametrize(("enabled", "count"), [(True, 2), (False, 10)])
def test_reranking_may_be_off(enabled, count):
    with opened(rerank_enabled=enabled, rerank_top_k=2) as engine:
        engine.documents.add(BERTHS)
        assert len(shown(engine, "harbour")) == count


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_pipeline_of_ones_own_is_asked_by_the_settings(turns):
    """It gets the configured history, and no reranker if the settings say so."""

    class Recalling(SimpleScoreReranker):
        def __init__(self):
            super().__init__()
            self.seen = []

        def transform(self, query, *, history=()):
            self.seen.append([message.text for message in history if message.role == "user"])
            return [query]

        def rerank(self, query, documents, *, top_k=None):
            self.seen.append("rerank")
            return super().rerank(query, documents, top_k=top_k)

    part = Recalling()
    with opened() as other:
        other.documents.add(BERTHS)
        builder = ContextBuilder(other.token_counter)
        pipeline = RagPipeline(other.documents, builder, transformers=[part], reranker=part)
        settings = ArcSettings(rag={"max_history_turns": turns, "rerank_enabled": turns == 1})
        with ContextEngine.open(settings=settings, retriever=pipeline) as engine:
            session = engine.session("s")
            for said in ("one", "two", "three"):
                session.save_turn(said, "Yes.")
            assert shown(engine, "harbour")
    assert part.seen == [["one", "two", "three"][3 - turns :], *(["rerank"] if turns == 1 else [])]


def test_documents_stand_in_the_order_that_it_names():
    documents = [
        Document("harbour harbour harbour", id="first", source="A"),
        Document("harbour harbour and one more", id="second", source="B"),
        Document("harbour and a great many other words beside it", id="third", source="A"),
    ]
    for order, expected in {
        "score": ["first", "second", "third"],
        "source": ["first", "third", "second"],
        "lost-in-the-middle": ["first", "third", "second"],
    }.items():
        with opened(document_order=order) as engine:
            engine.documents.add(documents)
            assert [one.document.id for one in engine.rag().retrieve("harbour").documents] == expected
            text = text_of(engine, "harbour")
            places = [text.index(next(one.text for one in documents if one.id == name)) for name in expected]
            assert places == sorted(places)


@pytest.mark.parametrize("truncates", [True, False])
def test_a_document_is_cut_where_it_says_so(truncates):
    text = " ".join(f"Sentence {n} tells of the harbour." for n in range(40))
    with opened(truncate_documents=truncates, max_context_tokens=60) as engine:
        engine.documents.add(Document(text, id="long"))
        assert shown(engine, "harbour") == (["long"] if truncates else [])
        assert ("Sentence 0 tells" in text_of(engine, "harbour")) is truncates


@pytest.mark.parametrize(("skips", "expected"), [(True, ["short"]), (False, [])])
def test_what_does_not_fit_is_passed_over_where_it_says_so(skips, expected):
    with opened(skip_oversized=skips, max_context_tokens=40) as engine:
        engine.documents.add(Document(" ".join(["harbour"] * 80), id="long"))
        engine.documents.add(Document("A short text of a harbour, with many other words in it.", id="short"))
        assert shown(engine, "harbour") == expected


@pytest.mark.parametrize("drops", [True, False])
def test_stop_words_are_dropped_where_it_says_so(drops):
    """A document that shares only stop words is found only if they are kept."""
    with opened(drop_stop_words=drops) as engine:
        engine.documents.add([Document("What is the matter with you?", id="small"), *BERTHS])
        assert ("small" in shown(engine, "What is the fee of a berth?")) is not drops


def test_a_pipeline_that_fails_costs_a_turn_its_documents():
    class Failing(RagPipeline):
        def retrieve(self, query, *, max_tokens=None):
            raise LookupError("nothing here")

    observer = CountingObserver()
    with ContextEngine.open(settings=ArcSettings(), observer=observer) as engine:
        failing = Failing(Recorder(), ContextBuilder(engine.token_counter))
    with ContextEngine.open(settings=ArcSettings(), observer=observer, retriever=failing) as engine:
        window = engine.session("s").context("harbour")
    assert window.messages[-1].text.startswith("harbour")
    assert "no documents were retrieved: LookupError" in window.receipt.notes
    assert observer.counts["rag.errors"] == 1
