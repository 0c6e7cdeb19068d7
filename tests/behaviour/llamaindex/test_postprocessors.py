"""`ArcTokenBudgetPostprocessor` keeps the best nodes within its budget, also in LlamaIndex's engines."""

import logging
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from arc_common.exceptions import InvalidInputError
from arc_common.tokens.counters import HeuristicTokenCounter, TiktokenCounter
from llamaindex_arc.retrieval.reranker import ArcTokenBudgetPostprocessor
from tests.support.llamaindex_retrieval import events, scored


class WordCounter:
    """Counts words as tokens; the separator costs nothing."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]


def texts_of(nodes):
    return [node.node.text for node in nodes]


def budget(max_tokens, counter=None):
    return ArcTokenBudgetPostprocessor(max_tokens=max_tokens, token_counter=counter or WordCounter())


NODES = [("a a a", 0.1), ("b b", 0.9), ("c c c c c c c c c", 1.0), ("d", None), ("e e", 0.5)]


def test_best_nodes_first_in_the_order_they_came():
    """The best are kept in their order, a too large one is skipped, and nodes without a score come last."""
    cases = [
        (1, ["d"]),
        (2, ["b b"]),
        (4, ["b b", "e e"]),
        (7, ["a a a", "b b", "e e"]),
        (8, ["a a a", "b b", "d", "e e"]),
        (9, ["c c c c c c c c c"]),
        (100, [text for text, _ in NODES]),
    ]
    for max_tokens, kept in cases:
        assert texts_of(budget(max_tokens).postprocess_nodes(scored(*NODES), query_str="q")) == kept


def test_nodes_without_scores_are_taken_in_their_order():
    """Without scores the input order is the ranking; NaN is no score."""
    nodes = scored(("a a", None), ("b", float("nan")), ("c", None))
    assert texts_of(budget(3).postprocess_nodes(nodes)) == ["a a", "b"]
    assert texts_of(budget(1).postprocess_nodes([nodes[1], *scored(("d", 0.1))])) == ["d"]


def test_nothing_fits_is_logged(caplog):
    """The log gives the reason of an empty result."""
    with caplog.at_level(logging.WARNING):
        assert budget(1).postprocess_nodes(scored(("a b c", 1.0))) == []
    assert "None of 1 nodes fits into 1 tokens; the smallest has 3." in caplog.text


def test_metadata_meant_for_the_model_counts():
    """Metadata count unless they are excluded for the model."""
    node = TextNode(text="one two", metadata={"seen": "x", "hidden": "y"}, excluded_llm_metadata_keys=["hidden"])
    assert len(node.get_content(MetadataMode.LLM).split()) == 4
    assert budget(3).postprocess_nodes([NodeWithScore(node=node)]) == []
    assert len(budget(4).postprocess_nodes([NodeWithScore(node=node)])) == 1


@given(
    st.lists(st.tuples(st.text(max_size=40), st.none() | st.floats(allow_nan=True)), max_size=12),
    st.integers(1, 60),
)
def test_the_joined_text_is_within_the_budget(items, max_tokens):
    """The synthesizer's joined text fits, and no omitted node would fit, too."""
    counter = HeuristicTokenCounter()
    nodes = [NodeWithScore(node=TextNode(text=text, id_=str(i)), score=s) for i, (text, s) in enumerate(items)]
    kept = budget(max_tokens, counter).postprocess_nodes(nodes)
    assert counter.count("\n\n".join(texts_of(kept))) <= max_tokens
    places = [int(node.node.node_id) for node in kept]
    assert places == sorted(set(places))
    used = sum(map(counter.count, texts_of(kept))) + counter.count("\n\n") * (len(kept) - 1)
    left_out = [nodes[i].node.text for i in range(len(nodes)) if i not in places]
    if kept:
        assert all(used + counter.count("\n\n") + counter.count(text) > max_tokens for text in left_out)


@pytest.mark.parametrize(
    "texts",
    [["()a", "=1\n\n  \n\n", "=b   "], ["b ```", " ```\né", "=x."], ["``````", " aé", "b \t()``````"]],
    ids=["as they are", "stripped", "fences"],
)
def test_tokens_that_a_border_adds_are_counted(texts):
    """With a real vocabulary, joined texts may have one more token, stripped or not."""
    counter = TiktokenCounter("o200k_base")
    apart = sum(counter.count_batch(texts)) + counter.count("\n\n") * (len(texts) - 1)
    together = [counter.count("\n\n".join(form)) for form in (texts, [text.strip() for text in texts])]
    assert max(together) > apart
    nodes = scored(*((text, 1.0) for text in texts))
    assert len(budget(apart, counter).postprocess_nodes(nodes)) == 2
    assert len(budget(max(together), counter).postprocess_nodes(nodes)) == 3


def test_nodes_given_stay_as_they_are():
    """New scored nodes wrap the same nodes; metadata, scores, hashes and the list are not modified."""
    nodes = scored(*NODES)
    before = [(node.model_dump_json(), node.node.hash) for node in nodes]
    kept = budget(100).postprocess_nodes(nodes)
    kept[0].score = 7.0
    assert [(node.model_dump_json(), node.node.hash) for node in nodes] == before
    assert all(new.node is old.node for new, old in zip(kept, nodes, strict=True))


def test_a_counter_that_cannot_count_is_refused():
    """The constructor raises the error."""
    with pytest.raises(InvalidInputError, match="token_counter"):
        ArcTokenBudgetPostprocessor(max_tokens=1, token_counter=len)


def test_what_are_no_nodes_is_refused():
    """The error names the argument before any event."""
    for nodes in [5, None, "hi", [5]]:
        with pytest.raises(InvalidInputError, match="nodes: got"):
            budget(7).postprocess_nodes(nodes)


def test_it_is_a_component_like_theirs():
    """It has a name, survives dictionaries and pickles, and has a default counter."""
    made = ArcTokenBudgetPostprocessor(max_tokens=5)
    assert "BaseNodePostprocessor" in [cls.__name__ for cls in type(made).__mro__]
    assert made.class_name() == made.to_dict()["class_name"] == "ArcTokenBudgetPostprocessor"
    for again in (ArcTokenBudgetPostprocessor.from_dict(made.to_dict()), pickle.loads(pickle.dumps(made))):  # noqa: S301 - its own bytes
        assert again.max_tokens == 5
        assert texts_of(again.postprocess_nodes(scored(("word", 1.0), ("long " * 50, 2.0)))) == ["word"]


def test_events_are_reported():
    """Both of LlamaIndex's event systems get the input and the kept nodes."""
    debug = LlamaDebugHandler(print_trace_on_end=False)
    made = ArcTokenBudgetPostprocessor(2, token_counter=WordCounter(), callback_manager=CallbackManager([debug]))
    with events() as heard:
        kept = made.postprocess_nodes(scored(*NODES), QueryBundle("q"))
    start, end = heard
    assert (start.class_name(), len(start.nodes), start.model_name) == ("ReRankStartEvent", len(NODES), "words")
    assert (end.class_name(), end.nodes) == ("ReRankEndEvent", kept)
    ((before, after),) = debug.get_event_pairs(CBEventType.RERANKING)
    assert before.payload[EventPayload.QUERY_STR] == "q"
    assert after.payload[EventPayload.NODES] == kept


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_in_a_query_engine(way):
    """The model gets only the nodes within the budget, and the response lists those sources."""
    texts = [f"passage{i} " + "word " * 20 for i in range(8)]
    index = VectorStoreIndex.from_documents([Document(text=text) for text in texts], embed_model=MockEmbedding(8))
    engine = RetrieverQueryEngine.from_args(
        index.as_retriever(similarity_top_k=8), llm=MockLLM(), node_postprocessors=[budget(65)]
    )
    response = engine.query("which?") if way == "sync" else await engine.aquery("which?")
    assert len(response.source_nodes) == 3
    assert str(response).count("passage") == 3  # MockLLM repeats its prompt
