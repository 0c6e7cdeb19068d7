"""LangChain's models for arc's engine, arc's models for LangChain, and the engine opened with them."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryByteStore
from langgraph.graph import START, MessagesState, StateGraph

from arc_common import Message, ToolCall
from arc_common.protocols import ChatModel
from langchain_arc import ArcChatModel, LangChainChatModel, LangChainEmbedder
from tests.support.langchain_helpers import Echo


class Says:
    """An arc chat model with a fixed answer."""

    def __init__(self, text: str) -> None:
        self.text = text

    def complete(self, messages: Sequence[Message]) -> str:
        return self.text


def test_a_langchain_model_answers_arc_messages() -> None:
    """It gets LangChain's messages with tool calls, and its text blocks are joined."""
    seen: list[Any] = []

    def model(messages: Any) -> AIMessage:
        seen.extend(messages)
        return AIMessage([{"type": "text", "text": "It is "}, {"type": "reasoning", "reasoning": "…"}, "42."])

    asked = [
        Message("system", "Be brief."),
        Message("user", "what is x?"),
        Message("assistant", None, tool_calls=(ToolCall("look_up", {"q": "x"}, "c1"),)),
        Message("tool", "42", tool_call_id="c1"),
    ]
    wrapped = LangChainChatModel(RunnableLambda(model))
    assert isinstance(wrapped, ChatModel)
    assert wrapped.complete(asked) == "It is 42."
    assert [message.type for message in seen] == ["system", "human", "ai", "tool"]
    assert seen[2].tool_calls == [{"name": "look_up", "args": {"q": "x"}, "id": "c1", "type": "tool_call"}]


@pytest.mark.parametrize(
    "llm",
    [
        GenericFakeChatModel(messages=iter(["hi"])),
        GenericFakeChatModel(messages=iter(["hi"])).with_retry(),
        FakeListLLM(responses=["hi"]),
    ],
    ids=["chat model", "with retry", "text model"],
)
def test_models_of_every_kind(llm: Any) -> None:
    """Chat models, bound models and text completion models work."""
    answer = LangChainChatModel(llm).complete([Message("user", "hello")])
    assert (answer, type(answer)) == ("hi", str)


def test_what_arc_asks_stays_out_of_the_users_stream() -> None:
    """Arc's own model calls inside a graph don't appear in its streamed messages."""
    inner = LangChainChatModel(GenericFakeChatModel(messages=iter(["a summary for arc"])))
    outer = GenericFakeChatModel(messages=iter(["an answer"]))

    def node(state: MessagesState) -> dict[str, Any]:
        inner.complete([Message("user", "summarise")])
        return {"messages": [outer.invoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()
    streamed = graph.stream({"messages": [HumanMessage("hello")]}, stream_mode="messages")
    assert "".join(chunk.text for chunk, _ in streamed) == "an answer"


@pytest.mark.parametrize("field", ["model", "model_name", "model_id"])
def test_an_embedders_name_is_the_models(field: str) -> None:
    """The name separates two models of one class, whose vectors must not be compared."""

    class Named(DeterministicFakeEmbedding):
        model: str | None = None
        model_name: str | None = None
        model_id: str | None = None

    assert LangChainEmbedder(Named(size=4, **{field: "small"})).name == "Named/small"


def test_a_cache_has_the_name_of_what_it_caches() -> None:
    """Vectors are identified by the model, also through nested caches."""
    one, other = (SpacyLike(size=4, model=name) for name in ("one", "other"))
    cached = [CacheBackedEmbeddings(model, InMemoryByteStore()) for model in (one, other)]
    assert [LangChainEmbedder(cache).name for cache in cached] == ["SpacyLike/one", "SpacyLike/other"]
    assert LangChainEmbedder(CacheBackedEmbeddings(cached[0], InMemoryByteStore())).name == LangChainEmbedder(one).name


class SpacyLike(DeterministicFakeEmbedding):
    """Embeddings that name their model."""

    model: str


def test_an_arc_model_in_langchain() -> None:
    """It answers LangChain's messages and calls its callbacks."""
    echo = Echo()
    model = ArcChatModel(chat_model=echo)
    answer = model.invoke([SystemMessage("Be brief."), HumanMessage("hello")])
    assert isinstance(answer, AIMessage)
    assert (answer.text, answer.usage_metadata) == ("echo of hello", None)
    assert echo.shown == [["Be brief.", "hello"]]


async def test_an_arc_model_streams_word_by_word() -> None:
    """Sync and async streams report each word to the callbacks."""
    told: list[str] = []

    class Listener(BaseCallbackHandler):
        def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            told.append(token)

    model = ArcChatModel(chat_model=Says("It is\n42, dear."))
    words = [chunk.text for chunk in model.stream("x?", {"callbacks": [Listener()]})]
    assert [word for word in words if word] == ["It ", "is\n", "42, ", "dear."]
    assert [word for word in told if word] == ["It ", "is\n", "42, ", "dear."]
    assert [chunk.text async for chunk in model.astream("x?")] == words
    assert (await model.ainvoke("x?")).text == "It is\n42, dear."


def test_stop_words() -> None:
    """The answer ends before the first of them; they are text, not patterns."""
    model = ArcChatModel(chat_model=Says("one. two| three"))
    answer = model.invoke("x?", stop=["|", "three"]).text
    streamed = "".join(chunk.text for chunk in model.stream("x?", stop=["|", "three"]))
    assert (answer, streamed) == ("one. two", "one. two")
