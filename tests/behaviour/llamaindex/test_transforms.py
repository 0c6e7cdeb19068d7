"""HyDE and follow-up questions as LlamaIndex query transforms."""

import copy
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine, TransformQueryEngine
from llama_index.core.schema import QueryBundle

from arc_common.testing import CountingObserver
from llamaindex_arc import (
    ArcChatMemoryBuffer,
    ArcConversationTransform,
    ArcHyDETransform,
    ArcLLM,
    ArcRetriever,
    open_engine,
)
from tests.support.llamaindex_helpers import assistant, user
from tests.support.llamaindex_retrieval import ONE_ATTEMPT, Scripted, Words, collection, ids_of, index_of, sentences

HISTORY = [user("How long does a parcel to Busan take?"), assistant("Two days.")]
STANDALONE = "How long does a parcel to Seoul take?"


def hyde(*answers: str | Exception) -> ArcHyDETransform:
    return ArcHyDETransform(Scripted(*answers), settings=ONE_ATTEMPT)


def rewriting(*answers: str | Exception, **given: Any) -> ArcConversationTransform:
    return ArcConversationTransform(Scripted(*answers), settings=ONE_ATTEMPT, **given)


async def run(transform: Any, way: str, query: Any, metadata: dict[str, Any] | None = None) -> QueryBundle:
    if way == "sync":
        bundle: QueryBundle = transform.run(query, metadata)
    else:
        bundle = await transform.arun(query, metadata)
    return bundle


both_ways = pytest.mark.parametrize("way", ["sync", "async"])


@both_ways
async def test_a_hypothetical_answer_is_searched_for_too(way: str) -> None:
    """It comes after the query and earlier embedding strings; the query stays."""
    bundle = await run(hyde("Parcels take two days."), way, "How long?")
    assert (bundle.query_str, bundle.embedding_strs) == ("How long?", ["How long?", "Parcels take two days."])
    given_ = QueryBundle("How long?", custom_embedding_strs=["a", "b"], embedding=[1.0])
    bundle = await run(hyde("An answer."), way, given_)
    assert (bundle.query_str, bundle.embedding_strs, bundle.embedding) == ("How long?", ["a", "b", "An answer."], None)


@both_ways
async def test_without_an_answer_the_bundle_is_as_it_was(way: str) -> None:
    """A failing, silent or refusing model only costs the answer or the rewriting."""
    for answer in (TimeoutError("too slow"), "", "I cannot help with that.", "x" * 5_000):
        given_ = QueryBundle("And to Seoul?", embedding=[1.0])
        assert await run(hyde(answer if answer != "x" * 5_000 else ""), way, given_) is given_
        assert await run(rewriting(answer), way, given_, {"chat_history": HISTORY}) is given_


@both_ways
async def test_a_follow_up_stands_alone(way: str) -> None:
    """The rewritten question is the query and replaces the old one among the embedding strings."""
    metadata = {"chat_history": HISTORY}
    bundle = await run(rewriting(STANDALONE), way, "And to Seoul?", metadata)
    assert (bundle.query_str, bundle.embedding_strs) == (STANDALONE, [STANDALONE])
    given_ = QueryBundle("And to Seoul?", custom_embedding_strs=["And to Seoul?", "One day."], embedding=[1.0])
    bundle = await run(rewriting(STANDALONE), way, given_, metadata)
    assert (bundle.query_str, bundle.embedding_strs) == (STANDALONE, [STANDALONE, "One day."])
    assert bundle.embedding is None


@both_ways
async def test_rules_need_no_model(way: str) -> None:
    """They add the topic words that the question omits."""
    bundle = await run(ArcConversationTransform(), way, "And to Seoul?", {"chat_history": HISTORY})
    assert bundle.query_str.startswith("And to Seoul?")
    assert "parcel" in bundle.query_str
    assert "Busan" not in bundle.query_str


@both_ways
async def test_the_conversation_is_the_memory_s(way: str) -> None:
    """Arc's or LlamaIndex's memory is read in each run, without the question itself."""
    with open_engine() as engine:
        for memory in (
            ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s"),
            ChatMemoryBuffer.from_defaults(token_limit=1_000),
        ):
            transform = ArcConversationTransform(memory=memory)
            assert (await run(transform, way, "And to Seoul?")).query_str == "And to Seoul?"
            await memory.aput_messages([*HISTORY, user("And to Seoul?")])
            assert "parcel" in (await run(transform, way, "And to Seoul?")).query_str
            assert (await run(transform, way, "And to Seoul?", {"chat_history": []})).query_str == "And to Seoul?"
            assert len(await memory.aget_all()) == 3


class Giving(ChatMemoryBuffer):
    """A memory that raises, or returns something other than messages."""

    given: Any = None

    def get(self, input: str | None = None, initial_token_count: int = 0, **kwargs: Any) -> Any:  # noqa: A002
        if isinstance(self.given, Exception):
            raise self.given
        return self.given

    async def aget(self, input: str | None = None, **kwargs: Any) -> Any:  # noqa: A002
        return self.get()


def giving(given: Any) -> Giving:
    memory = Giving(token_limit=100)
    memory.given = given
    return memory


@pytest.mark.parametrize(("way", "transform"), [("sync", "rules"), ("async", "model")])
@pytest.mark.parametrize("given", [ConnectionError("the server is gone"), "hi", 7, ["hi"], {}], ids=repr)
async def test_a_conversation_that_cannot_be_read_costs_no_reply(
    way: str, transform: str, given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The question is searched for unchanged, the failure is counted and logged, and no model is called."""
    observer = CountingObserver()
    known: dict[str, Any] = {"memory": giving(given), "observer": observer}
    made = rewriting(**known) if transform == "model" else ArcConversationTransform(**known)
    asked = QueryBundle("And to Seoul?", embedding=[1.0])
    assert await run(made, way, asked) is asked
    assert observer.counts == {"standalone.unread_conversations": 1}
    assert "no conversation could be read" in caplog.text
    assert await run(made, way, asked, {"chat_history": [given]}) is asked
    assert observer.counts == {"standalone.unread_conversations": 2}


@both_ways
async def test_a_memory_without_messages_is_no_error(way: str) -> None:
    """Any form of an empty memory is accepted."""
    for nothing in (None, [], ()):
        observer = CountingObserver()
        bundle = await run(ArcConversationTransform(memory=giving(nothing), observer=observer), way, "And to Seoul?")
        assert bundle.query_str == "And to Seoul?"
        assert not observer.counts


async def test_models_of_both_kinds_off_the_loop() -> None:
    """A LlamaIndex LLM works, too; the async form never runs a model on the loop's thread."""
    threads = []

    class Noting(Scripted):
        def complete(self, messages: Any) -> str:
            threads.append(threading.get_ident())
            return super().complete(messages)

    bundle = await ArcHyDETransform(ArcLLM(Noting("An answer."))).arun("q?")
    assert bundle.embedding_strs == ["q?", "An answer."]
    assert threading.get_ident() not in threads


@given(sentences, st.lists(sentences, max_size=2), sentences)
def test_bundles_stay_as_they_are(query: str, strings: list[str], answer: str) -> None:
    """The conversation is not modified, either."""
    given_, history = QueryBundle(query, custom_embedding_strs=strings), copy.deepcopy(HISTORY)
    before = copy.deepcopy(given_)
    hyde(answer).run(given_)
    rewriting(answer).run(given_, {"chat_history": history})
    assert given_ == before
    assert history == HISTORY


@pytest.mark.parametrize("way", ["query", "aquery", "stream"])
async def test_in_a_query_engine(way: str) -> None:
    """With both in sequence, a follow-up question finds its passage."""
    engine = RetrieverQueryEngine.from_args(
        ArcRetriever(index_of(collection(), embedder=Words()), similarity_top_k=1),
        llm=MockLLM(),
        streaming=way == "stream",
    )
    inner = TransformQueryEngine(engine, hyde("Parcels to Seoul take one day."))
    outer = TransformQueryEngine(inner, rewriting(STANDALONE), transform_metadata={"chat_history": HISTORY})
    response = await outer.aquery("And to Seoul?") if way == "aquery" else outer.query("And to Seoul?")
    text = "".join(response.response_gen) if way == "stream" else str(response)
    assert ids_of(response.source_nodes) == ["seoul"]
    assert STANDALONE in text
