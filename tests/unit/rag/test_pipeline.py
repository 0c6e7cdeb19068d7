"""Each stage of the pipeline does its part, and none can end the turn."""

import threading

import pytest

from arc_common import (
    ArcSettings,
    ContextEngine,
    Document,
    HeuristicTokenCounter,
    InvalidInputError,
    Message,
    ScoredDocument,
)
from arc_common.protocols.search_index import Scope
from arc_common.rag import ContextBuilder, RagContext, RagPipeline, RagQuery
from arc_common.rerankers import BM25Reranker, KeywordWeightedReranker, SimpleScoreReranker
from arc_common.retrieval import HybridIndex
from arc_common.retrieval.query_transformers import HyDEQueryTransformer, RuleBasedConversationTransformer
from arc_common.stores import SqlIndexStore
from arc_common.testing import CountingObserver, ReplyingChatModel

COUNTER = HeuristicTokenCounter()
BUILDER = ContextBuilder(COUNTER)
LIBRARY = {
    "hours": "The harbour opens at nine.",
    "fees": "A berth costs forty euros a night.",
    "boats": "Boats of up to twelve metres may moor.",
    "camera": "The Nova X2 camera costs nine hundred euros.",
}


class Shelf:
    """A source that scores by shared words and records its queries."""

    def __init__(self, texts=LIBRARY, **parts):
        self.texts = texts
        self.parts = parts
        self.asked = []

    def retrieve(self, query, *, top_k, filters=None):
        self.asked.append((query, top_k, filters))
        words = set(query.lower().split())
        found = [
            ScoredDocument(Document(text, id=name), len(words & set(text.lower().split())) / 10, self.parts)
            for name, text in self.texts.items()
        ]
        return sorted(found, key=lambda document: -document.score)[:top_k]


class Part:
    """A stage of any kind that returns the function's result."""

    def __init__(self, answer):
        self.answer = answer

    def transform(self, query, *, history=()):
        return self.answer()

    def retrieve(self, query, *, top_k, filters=None):
        return self.answer()

    def rerank(self, query, documents, *, top_k=None):
        return self.answer()

    def build(self, documents, *, max_tokens=None):
        return self.answer()


def fail(error=None):
    raise error or RuntimeError("out of order")


class Remembering(KeywordWeightedReranker):
    """A reranker that records its requests."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def rerank(self, query, documents, *, top_k=None):
        self.asked.append(query)
        return super().rerank(query, documents, top_k=top_k)


def ids(context):
    return [shown.document.id for shown in context.documents]


BAD_FILTER = InvalidInputError("filters", "$x", "$eq")


def test_a_question_becomes_a_context():
    pipeline = RagPipeline(Shelf(), BUILDER, reranker=BM25Reranker(min_score=1e-9))
    context = pipeline.retrieve("When does the harbour open?")
    assert context.context == "The harbour opens at nine."
    assert context.total_tokens == COUNTER.count(context.context)
    assert context.documents[0].score_parts["bm25"] > 0
    assert context.notes == ()
    assert pipeline.retrieve(RagQuery("When does the harbour open?")) == context


def test_filters_and_numbers_are_the_sources_to_keep():
    shelf, filters = Shelf(), {"lang": {"$in": ["en"]}}
    RagPipeline(shelf, BUILDER).retrieve(RagQuery("harbour", filters=filters, top_k=3))
    ((query, top_k, given_filters),) = shelf.asked
    assert (query, top_k) == ("harbour", 3)
    assert given_filters is filters


def test_every_query_is_asked_and_the_best_score_kept():
    shelf = Shelf()
    hyde = HyDEQueryTransformer(ReplyingChatModel(["a berth costs forty euros"]))
    context = RagPipeline(shelf, BUILDER, transformers=[hyde]).retrieve(RagQuery("berth price", top_k=2))
    assert [query for query, _, _ in shelf.asked] == ["berth price", "a berth costs forty euros"]
    assert ids(context)[0] == "fees"
    assert context.documents[0].score == 0.5
    assert len(context.documents) == 2


def test_a_follow_up_is_searched_and_ranked_with_its_topic():
    history = [Message("user", "Tell me about the Nova X2 camera"), Message("assistant", "It is small.")]
    shelf, reranker = Shelf(), Remembering()
    pipeline = RagPipeline(shelf, BUILDER, transformers=[RuleBasedConversationTransformer()], reranker=reranker)
    context = pipeline.retrieve(RagQuery("How much does it cost?", history=history))
    assert ids(context)[0] == "camera"
    assert reranker.asked == [query for query, _, _ in shelf.asked] == ["How much does it cost? Nova X2 camera"]


def test_several_sources_are_fused():
    sources = {"words": Shelf(), "pictures": Shelf({"photo": "A harbour at night."})}
    context = RagPipeline(sources, BUILDER).retrieve("harbour at night")
    assert "photo" in ids(context)
    assert {part for shown in context.documents for part in shown.score_parts} == {"words", "pictures"}
    one_of_each = RagPipeline(sources, BUILDER, fusion=lambda rankings: [found[0] for found in rankings.values()])
    assert sorted(ids(one_of_each.retrieve("harbour at night"))) == ["hours", "photo"]


def test_only_what_is_similar_is_shown():
    class Source:
        def retrieve(self, query, *, top_k, filters=None):
            return [
                ScoredDocument(Document("near", id="near"), 0.2, {"vector": 0.9}),
                ScoredDocument(Document("far", id="far"), 0.9, {"vector": 0.1, "bm25": 3.0}),
                ScoredDocument(Document("word", id="word"), 0.3, {"bm25": 3.0}),
                ScoredDocument(Document("bare", id="bare"), 0.8),
                ScoredDocument(Document("low", id="low"), 0.1),
                ScoredDocument(Document("none", id="none")),
            ]

    context = RagPipeline(Source(), BUILDER, similarity_threshold=0.7).retrieve("q")
    assert ids(context) == ["bare", "word", "near", "none"]


def test_a_question_may_say_how_many_are_left_or_leave_out_reranking():
    pipeline = RagPipeline(Shelf(), BUILDER, reranker=SimpleScoreReranker(), rerank_top_k=2)
    for options, count in [({}, 2), ({"rerank": False}, 4), ({"rerank_top_k": 3}, 3), ({"rerank_top_k": 1}, 1)]:
        assert len(pipeline.retrieve(RagQuery("the harbour", **options)).documents) == count


def test_nothing_relevant_is_nothing():
    pipeline = RagPipeline(Shelf(), BUILDER, reranker=BM25Reranker(min_score=1e-9))
    assert pipeline.retrieve("quantum chromodynamics") == RagContext.EMPTY
    assert RagPipeline(Shelf({}), BUILDER).retrieve("harbour") is RagContext.EMPTY
    assert RagPipeline(Part(fail), BUILDER).retrieve("  ") is RagContext.EMPTY


@pytest.mark.parametrize(
    ("stage", "parts", "shown"),
    [
        pytest.param("transform", {"transformers": [Part(fail)]}, 4, id="transform"),
        pytest.param("retrieve", {"sources": Part(fail)}, 0, id="retrieve"),
        pytest.param("retrieve", {"sources": {"a": Part(fail), "b": Shelf()}}, 4, id="one source"),
        pytest.param("rerank", {"reranker": Part(fail), "rerank_top_k": 2}, 2, id="rerank"),
        pytest.param("build", {"builder": Part(fail)}, 0, id="build"),
        pytest.param("fuse", {"sources": {"a": Shelf(), "b": Shelf()}, "fusion": lambda _: 1 / 0}, 4, id="fuse"),
        pytest.param("retrieve", {"sources": Part(lambda: fail(BAD_FILTER))}, 0, id="bad filter"),
    ],
)
def test_no_stage_ends_the_turn(stage, parts, shown, caplog):
    """The other stages continue; notes, counters and the log report the failure."""
    observer = CountingObserver()
    parts = {"sources": Shelf(), "builder": BUILDER, **parts}
    context = RagPipeline(parts.pop("sources"), parts.pop("builder"), observer=observer, **parts).retrieve("harbour")
    assert len(context.documents) == shown
    assert shown or context == RagContext.EMPTY
    assert observer.counts == {f"rag.{stage}.errors": 1}
    (note,) = context.notes
    assert note.startswith(f"{stage} failed: ")
    assert "without its stage" in caplog.text


def test_what_other_stages_did_stays():
    """A failing transformer or query does not affect the results of others."""

    class Moody(Shelf):
        def retrieve(self, query, *, top_k, filters=None):
            if query == "harbour":
                raise OSError("no")
            return super().retrieve(query, top_k=top_k, filters=filters)

    adds = Part(lambda: ["harbour", "harbour opens", " "])
    context = RagPipeline(Moody(), BUILDER, transformers=[adds, Part(fail)]).retrieve("harbour")
    assert ids(context)[0] == "hours"
    assert len(context.notes) == 2


def breaking_off():
    """Yield two documents, then fail."""
    yield ScoredDocument(Document("one", id="one"), 0.9)
    yield ScoredDocument(Document("two", id="two"), 0.8)
    raise ConnectionError("the line went dead")


def test_what_a_source_found_stays_where_a_part_of_its_answer_is_bad():
    """An answer with a `None`, or that breaks off, is noted and counted, and the rest is shown."""
    one, two = ScoredDocument(Document("a", id="one"), 0.9), ScoredDocument(Document("b", id="two"), 0.5)
    for answer, problem in [
        (lambda: [one, None, two], "1 of 3 answers were left out"),
        (breaking_off, "stopped after 2 answers: ConnectionError"),
    ]:
        observer = CountingObserver()
        context = RagPipeline(Part(answer), BUILDER, observer=observer).retrieve("harbour")
        assert ids(context) == ["one", "two"]
        assert problem in context.notes[0]
        assert observer.counts["rag.retrieve.errors"] == 1


def test_a_score_that_is_no_number_leaves_the_others_theirs():
    """NaN, which a model returns for a text without known words, counts as no score."""
    found = [ScoredDocument(Document(f"text {n}", id=f"d{n}"), float("nan") if n == 2 else n / 10) for n in range(6)]
    context = RagPipeline(Part(lambda: found), BUILDER).retrieve("harbour")
    assert ids(context) == ["d5", "d4", "d3", "d1", "d0", "d2"]


@pytest.mark.parametrize("real", [0, 1])
def test_documents_that_a_reranker_invents_are_not_shown(real):
    """Only given documents are shown, in its order if it returns any, otherwise in the retrieved order."""
    invented = [ScoredDocument(Document(f"invented {n}", id=f"x{n}"), 1.0) for n in range(100)]
    given = [ScoredDocument(Document(LIBRARY["fees"], id="fees"), 0.1)] * real
    observer = CountingObserver()
    pipeline = RagPipeline(Shelf(), BUILDER, reranker=Part(lambda: [*invented, *given]), observer=observer)
    context = pipeline.retrieve("The harbour opens")
    assert (ids(context) == ["fees"]) if real else (ids(context)[0] == "hours")
    assert not any("invented" in document.document.text for document in context.documents)
    assert len(context.notes) == observer.counts["rag.rerank.errors"] == 1


def test_a_source_that_hangs_is_not_waited_for():
    """The others' documents are shown, and a note names the abandoned source."""
    ends, began = threading.Event(), threading.Event()

    def hang():
        began.set()
        ends.wait(20)
        return [ScoredDocument(Document("too late", id="late"))]

    settings = ArcSettings(model_calls={"timeout_seconds": 0.2})
    with ContextEngine.open(settings=settings) as engine:
        context = engine.rag({"hangs": Part(hang), "works": Shelf()}).retrieve("The harbour opens")
    ends.set()
    assert began.is_set()
    assert ids(context)[0] == "hours"
    assert "late" not in ids(context)
    assert any("TimeoutError" in note for note in context.notes)


WRONG_ANSWERS = [None, 3, ["x"], [None], "text", {"x": 1}, [Document("x")]]


@pytest.mark.parametrize("stage", ["transform", "retrieve", "fuse", "rerank", "build"])
def test_any_answer_of_a_part_is_survived(stage):
    """An answer that violates its protocol fails only its own stage."""
    for wrong in WRONG_ANSWERS:
        answer = [b"x"] if (stage, wrong) == ("transform", ["x"]) else wrong  # a transformer may return texts
        part = Part(lambda answer=answer: answer)
        parts = {
            "transform": {"transformers": [part]},
            "retrieve": {"sources": {"wrong": part, "right": Shelf()}},
            "fuse": {"sources": {"a": Shelf(), "b": Shelf()}, "fusion": lambda _, wrong=wrong: wrong},
            "rerank": {"reranker": part},
            "build": {"builder": part},
        }[stage]
        observer = CountingObserver()
        sources, builder = parts.pop("sources", Shelf()), parts.pop("builder", BUILDER)
        context = RagPipeline(sources, builder, observer=observer, **parts).retrieve("the harbour")
        assert ids(context)[:1] == ([] if stage == "build" else ["hours"])
        (note,) = context.notes
        assert note.startswith(f"{stage} failed: InvalidInputError")
        assert observer.counts == {f"rag.{stage}.errors": 1}


@pytest.mark.parametrize("stage", ["fuse", "rerank"])
def test_a_part_that_fails_takes_nothing_along(stage):
    class Emptying:
        def rerank(self, query, documents, *, top_k=None):
            documents.clear()
            raise OSError("no")

    def emptying(rankings):
        for documents in rankings.values():
            documents.clear()
        raise OSError("no")

    parts = {"fuse": {"fusion": emptying}, "rerank": {"reranker": Emptying()}}[stage]
    context = RagPipeline({"a": Shelf(), "b": Shelf()}, BUILDER, **parts).retrieve("the harbour")
    assert ids(context)[0] == "hours"
    assert context.notes == (f"{stage} failed: OSError: no",)


def test_an_answer_may_be_made_while_it_is_read():
    """Any stage may return an iterator; an error while iterating fails that stage."""

    class Lazy(Shelf):
        def retrieve(self, query, *, top_k, filters=None):
            yield from super().retrieve(query, top_k=top_k, filters=filters)

        def rerank(self, query, documents, *, top_k=None):
            yield from documents[:2]
            if query == "bad":
                raise OSError("no")

    pipeline = RagPipeline({"a": Lazy(), "b": Lazy()}, BUILDER, reranker=Lazy(), fusion=lambda r: iter(r["a"]))
    assert ids(pipeline.retrieve("the harbour")) == ["hours", "camera"]
    assert pipeline.retrieve("bad").notes == ("rerank failed: OSError: no",)


@pytest.mark.parametrize("keep", [1, 4])
def test_the_order_of_a_reranker_is_shown(keep):
    class Backwards:
        def rerank(self, query, documents, *, top_k=None):
            return list(reversed(documents))

    plain = RagPipeline(Shelf(), BUILDER).retrieve("the harbour opens")
    context = RagPipeline(Shelf(), BUILDER, reranker=Backwards(), rerank_top_k=keep).retrieve("the harbour opens")
    assert ids(context) == ids(plain)[::-1][:keep]
    scores = [found.score for found in context.documents]
    assert scores == sorted(scores, reverse=True)
    assert [found.score_parts["retrieval"] for found in context.documents] == [
        found.score for found in plain.documents[::-1][:keep]
    ]


def test_the_order_of_a_fusion_is_shown():
    sources = {"a": Shelf(), "b": Shelf({"photo": "A harbour at night."})}
    pipeline = RagPipeline(sources, BUILDER, fusion=lambda rankings: [*rankings["b"], *rankings["a"]])
    assert ids(pipeline.retrieve("the harbour opens"))[:2] == ["photo", "hours"]


def test_each_stage_is_timed():
    observer = CountingObserver()
    RagPipeline(
        {"a": Shelf(), "b": Shelf()},
        BUILDER,
        transformers=[RuleBasedConversationTransformer()],
        reranker=SimpleScoreReranker(),
        observer=observer,
    ).retrieve("harbour")
    stages = ["transform", "retrieve", "retrieve", "fuse", "rerank", "build"]
    assert observer.timings == [f"rag.{stage}" for stage in stages]


async def test_the_async_form_says_the_same():
    threads = []

    class Noting(Shelf):
        def retrieve(self, query, *, top_k, filters=None):
            threads.append(threading.current_thread())
            return super().retrieve(query, top_k=top_k, filters=filters)

    pipeline = RagPipeline(Noting(), BUILDER)
    assert await pipeline.aretrieve("harbour", max_tokens=10) == pipeline.retrieve("harbour", max_tokens=10)
    assert threads[0] is not threading.main_thread()


def test_the_limit_may_be_given_with_the_question():
    assert RagPipeline(Shelf(), BUILDER).retrieve("harbour", max_tokens=8).total_tokens <= 8


def test_useless_values_are_refused():
    cases = [
        (lambda: RagQuery(None), "query"),
        (lambda: RagQuery("q", top_k=0), "top_k"),
        (lambda: RagQuery("q", rerank_top_k=0), "rerank_top_k"),
        *((lambda wrong=wrong: RagPipeline(wrong, BUILDER), "sources") for wrong in ({}, None, "x", {"a": None})),
        (lambda: RagPipeline(Shelf(), None), "builder"),
        *(
            (lambda name=name, wrong=wrong: RagPipeline(Shelf(), BUILDER, **{name: wrong}), name)
            for name, several in {
                "transformers": (None, "x", [None], [len]),
                "reranker": ("x", len),
                "rerank_top_k": (0, None, "5", True, 2.5),
                "fusion": (None, "scores"),
                "similarity_threshold": (2, "0.7", float("nan"), [0.5]),
            }.items()
            for wrong in several
        ),
        (lambda: RagPipeline(Shelf(), BUILDER).retrieve("q", max_tokens=-1), "max_tokens"),
        (lambda: RagPipeline(Shelf(), BUILDER).retrieve("q", max_tokens="9"), "max_tokens"),
        (lambda: RagPipeline(Shelf(), BUILDER).retrieve(None), "query"),
    ]
    for make, field in cases:
        with pytest.raises(InvalidInputError, match=field):
            make()


TEXTS = ["a cat sat on the mat", "cats and dogs", "the warranty", "a long text about the warranty of a cat flap"]


def test_scopes_count_together():
    store = SqlIndexStore.open()
    scopes = Scope("one"), Scope("one", "ann")
    parts = [HybridIndex(store, scope=scope) for scope in scopes]
    whole = HybridIndex(store, scope=Scope("two"))
    for place, text in enumerate(TEXTS):
        parts[place > 0].add([Document(text)])
        whole.add([Document(text)])
    joint, terms = HybridIndex(store, scope=scopes[0], others=scopes[1:]), ["cat", "warranti", "zebra"]
    assert joint.term_statistics(terms) == whole.term_statistics(terms)
    assert joint.term_statistics(["cat"])[::2] == (4, [3])


def test_no_documents_have_no_length():
    joint = HybridIndex(SqlIndexStore.open(), others=[Scope("two")])
    assert joint.term_statistics(["cat"]) == (0, 0.0, [0])
