"""A framework's models serve arc's engine, and arc's models serve the framework."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms.mock import MockFunctionCallingLLM

import langchain_arc
import llamaindex_arc
from arc_common import ConfigurationError, ContextEngine, HeuristicTokenCounter, InvalidInputError, Message, Role
from arc_common.protocols import ChatModel, Embedder, QueryEmbedder
from arc_common.testing import CountingObserver
from langchain_arc import ArcChatModel, LangChainChatModel, LangChainEmbedder
from llamaindex_arc import ArcLLM, LlamaIndexChatModel, LlamaIndexEmbedder


class Says:
    """An arc chat model with a fixed answer that counts its calls."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = 0

    def complete(self, messages: Sequence[Message]) -> str:
        self.asked += 1
        return self.text


class AskedInLangChain(DeterministicFakeEmbedding):
    """A model that embeds questions differently from texts."""

    size: int = 3

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0, 0.0]


class AskedInLlamaIndex(MockEmbedding):
    """A model that embeds questions differently from texts, and each text differently."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(ord(text[:1] or "a")), 1.0, 0.0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return [1.0, 0.0, 0.0]


def _langchain_llm(answer: Callable[[], str]) -> Any:
    return RunnableLambda(lambda _: AIMessage(answer()))


def _llamaindex_llm(answer: Callable[[], str]) -> Any:
    return MockFunctionCallingLLM(
        response_generator=lambda *_, **__: ChatMessage(role=MessageRole.ASSISTANT, content=answer()),
        is_chat_model=True,
    )


class CallsTools(GenericFakeChatModel):
    """A model that calls its tool, for `with_structured_output`; without a tool it answers with its text."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(**kwargs)


def _langchain_structured(fields: dict[str, Any] | None, text: str) -> Any:
    calls = [] if fields is None else [{"name": "MemoriesAnswer", "args": fields, "id": "c1", "type": "tool_call"}]
    return CallsTools(messages=cycle([AIMessage("", tool_calls=calls), AIMessage(text)])).with_config(tags=["mine"])


def _llamaindex_structured(fields: dict[str, Any] | None, text: str) -> Any:
    def answer(_: Any, tools: Any = (), **__: Any) -> ChatMessage:
        if not tools or fields is None:
            return ChatMessage(role=MessageRole.ASSISTANT, content=text)
        called = ToolCallBlock(tool_call_id="c1", tool_name=tools[0].metadata.name, tool_kwargs=fields)
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[called])

    return MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework's models, and arc's wrappers of them."""

    open_engine: Callable[..., ContextEngine]
    llm: Callable[[Callable[[], str]], Any]
    embeddings: Callable[[], Any]
    chat_model: Callable[..., Any]
    embedder: Callable[..., Any]
    embeddings_argument: str
    structured: Callable[[dict[str, Any] | None, str], Any]
    streamed: Callable[[Says], Iterator[str]]
    arc_model: Callable[..., Any]


FRAMEWORKS = {
    "LangChain": Framework(
        langchain_arc.open_engine,
        _langchain_llm,
        AskedInLangChain,
        LangChainChatModel,
        LangChainEmbedder,
        "embeddings",
        _langchain_structured,
        lambda model: (str(chunk.text) for chunk in ArcChatModel(chat_model=model).stream("x?")),
        lambda model: ArcChatModel(chat_model=model),
    ),
    "LlamaIndex": Framework(
        llamaindex_arc.open_engine,
        _llamaindex_llm,
        lambda: AskedInLlamaIndex(embed_dim=3),
        LlamaIndexChatModel,
        LlamaIndexEmbedder,
        "embed_model",
        _llamaindex_structured,
        lambda model: (piece.delta or "" for piece in ArcLLM(model).stream_complete("x?")),
        ArcLLM,
    ),
}
frameworks = pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)


@frameworks
def test_a_model_answers_or_raises(framework: Framework) -> None:
    """A failure never becomes an answer."""

    def fail() -> str:
        raise TimeoutError("no answer in time")

    asked = [Message(Role.SYSTEM, "Be kind."), Message(Role.USER, "What?")]
    model = framework.chat_model(framework.llm(lambda: "It is 42."))
    assert isinstance(model, ChatModel)
    assert model.complete(asked) == "It is 42."
    with pytest.raises(TimeoutError, match="no answer in time"):
        framework.chat_model(framework.llm(fail)).complete(asked)


@frameworks
def test_texts_are_embedded_in_order_and_questions_in_their_own_way(framework: Framework) -> None:
    """Each text has one vector of plain numbers; the embedder can be named."""
    embedder = framework.embedder(framework.embeddings(), name="mine")
    assert isinstance(embedder, Embedder)
    assert isinstance(embedder, QueryEmbedder)
    vectors = embedder.embed(("a", "b"))
    assert [len(vector) for vector in vectors] == [3, 3]
    assert {type(number) for vector in vectors for number in vector} == {float}
    assert vectors == [embedder.embed([text])[0] for text in "ab"]
    assert vectors[0] != vectors[1]
    assert embedder.embed([]) == []
    assert embedder.embed_query("a") == [1.0, 0.0, 0.0]
    assert embedder.name == "mine"


@frameworks
@settings(max_examples=10)
@given(text=st.text(max_size=40))
def test_a_stream_adds_up_to_the_answer(framework: Framework, text: str) -> None:
    """Arc's model streams word by word and keeps all white space."""
    assert "".join(framework.streamed(Says(text))) == text
    words = [word for word in framework.streamed(Says("a few  words")) if word]
    assert [word.strip() for word in words] == ["a", "few", "words"]


@frameworks
@pytest.mark.parametrize("kind", ["the framework's", "arc's", "none"])
def test_open_engine_takes_models_of_both_kinds(framework: Framework, kind: str) -> None:
    """The framework's models are wrapped, arc's are used directly, and all are optional."""
    model = Says('[{"content": "User lives in Busan.", "importance": 0.9}]')
    embeddings = framework.embeddings_argument
    models: dict[str, Any] = {
        "the framework's": {
            "llm": framework.llm(lambda: model.complete([])),
            embeddings: framework.embeddings(),
        },
        "arc's": {"llm": model, embeddings: framework.embedder(framework.embeddings(), name="mine")},
        "none": {},
    }
    counter = HeuristicTokenCounter()
    with framework.open_engine(token_counter=counter, **models[kind]) as engine:
        assert engine.token_counter is counter
        engine.documents.add(["The harbour opens at nine."])
        (found,) = engine.documents.search("harbour")
        assert ("vector" in found.score_parts) is (kind != "none")
        engine.memories(user_id="ann").extract("I live in Busan: the User lives in Busan.")
    assert bool(model.asked) is (kind != "none")


@frameworks
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_structured_answers_pass_the_checks_of_text(framework: Framework, *, is_async: bool) -> None:
    """Unsupported statements are rejected; a model without structured answers is asked for text."""
    said = {"type": "fact", "content": "The user lives in Busan {now}.", "importance": 0.9}
    invented = {"type": "fact", "content": "The user owns 7 cats in Paris.", "importance": 0.9}
    for fields, text in (
        ({"memories": [said, invented]}, "no text is asked for"),
        (None, json.dumps([said, invented])),
        ({"memories": "nonsense"}, json.dumps([said, invented])),
    ):
        observer = CountingObserver()
        with framework.open_engine(llm=framework.structured(fields, text), observer=observer) as engine:
            memories = engine.memories(user_id="ann")
            if is_async:
                asyncio.run(memories.aextract("I live in Busan {now}, {context_str}."))
            else:
                memories.extract("I live in Busan {now}, {context_str}.")
            assert [memory.text for memory in memories.list()] == [said["content"]]
        assert observer.counts["memory.extraction.ungrounded"] == 1
        assert observer.counts["memory.model.unstructured"] == (text[0] == "[")


@frameworks
def test_what_is_no_model_is_refused(framework: Framework) -> None:
    """The error names the argument; a URL of an unknown store is rejected, too."""
    with pytest.raises(InvalidInputError, match="llm"):
        framework.open_engine(llm="gpt-5")
    with pytest.raises(InvalidInputError, match=framework.embeddings_argument):
        framework.open_engine(**{framework.embeddings_argument: [0.5]})
    with pytest.raises(ValueError, match="chat_model"):
        framework.arc_model("gpt-5")
    with pytest.raises(ConfigurationError):
        framework.open_engine("mongodb://localhost")
