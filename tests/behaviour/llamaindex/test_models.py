"""LlamaIndex's models for arc's engine, arc's for LlamaIndex, and `open_engine`."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, TextBlock
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM

from arc_common.exceptions import ConfigurationError, InvalidInputError
from arc_common.messages import Message, Role
from arc_common.protocols import ChatModel, Embedder, QueryEmbedder
from llamaindex_arc import ArcLLM, LlamaIndexChatModel, LlamaIndexEmbedder, open_engine
from tests.support.counters import Ones
from tests.support.llamaindex_helpers import Numbered, system, user


class Saying:
    """A chat model that always says the same, and notes on which thread."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.threads: list[int] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """The text."""
        self.threads.append(threading.get_ident())
        return self.text


class Unembedded:
    """An embedder of arc's own kind."""

    name = "none"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """No dimension at all."""
        return [[] for _ in texts]


def test_a_llama_index_model_completes_arc_messages() -> None:
    """It is shown the messages in LlamaIndex's form, and the answer's text is its content."""
    seen: list[ChatMessage] = []

    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        seen.extend(messages)
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text="It is 42.")])

    model = LlamaIndexChatModel(MockFunctionCallingLLM(response_generator=answer, is_chat_model=True))
    assert isinstance(model, ChatModel)
    assert model.complete([Message(Role.SYSTEM, "Be kind."), Message(Role.USER, "What?")]) == "It is 42."
    assert seen == [system("Be kind."), user("What?")]


def test_an_answer_without_words_is_empty() -> None:
    """No content is `""`, not the text "None"."""
    llm = MockFunctionCallingLLM(
        response_generator=lambda *_, **__: ChatMessage(role=MessageRole.ASSISTANT, content=None), is_chat_model=True
    )
    assert LlamaIndexChatModel(llm).complete([Message(Role.USER, "hi")]) == ""


def test_a_failing_model_raises() -> None:
    """A failure is never an answer."""

    def fail(*_: Any, **__: Any) -> ChatMessage:
        raise TimeoutError("too slow")

    model = LlamaIndexChatModel(MockFunctionCallingLLM(response_generator=fail, is_chat_model=True))
    with pytest.raises(TimeoutError, match="too slow"):
        model.complete([Message(Role.USER, "hi")])


def test_a_llama_index_embedding_model_embeds_in_order() -> None:
    """One vector of plain numbers for each text; the name says which model it is."""
    embedder = LlamaIndexEmbedder(MockEmbedding(embed_dim=3))
    assert isinstance(embedder, Embedder)
    assert embedder.embed(["a", "b"]) == [[0.5, 0.5, 0.5]] * 2
    assert embedder.embed([]) == []
    assert LlamaIndexEmbedder(MockEmbedding(embed_dim=3, model_name="m")).name == "MockEmbedding/m"
    assert LlamaIndexEmbedder(MockEmbedding(embed_dim=3, model_name="m"), name="mine").name == "mine"


class Letters(BaseEmbedding):
    """A model as one writes it in a notebook: without a class name or a model's."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(len(text)), 1.0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Words(Letters):
    """Another."""


def test_models_that_do_not_say_which_they_are_are_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By their class, where LlamaIndex has one name for all of them; and the log asks for a name."""
    url = f"sqlite:///{tmp_path}/arc.db"
    with open_engine(url, embed_model=Letters()) as engine:
        engine.documents.add("a text")
    with open_engine(url, embed_model=Words()) as engine:
        assert engine.documents.search("a text")
    assert f"the stored vectors are from {__name__}.Letters, not from {__name__}.Words" in caplog.text
    assert LlamaIndexEmbedder(Letters()).name == f"{__name__}.Letters"
    assert LlamaIndexEmbedder(Letters(model_name="m")).name == f"{__name__}.Letters/m"
    assert LlamaIndexEmbedder(MockEmbedding(embed_dim=3)).name.endswith(".MockEmbedding")
    assert "name=" in caplog.text
    caplog.clear()
    LlamaIndexEmbedder(Letters(), name="mine")
    assert not caplog.text


def test_questions_are_embedded_by_their_own_way() -> None:
    """As LlamaIndex's retrievers do."""

    class Asymmetric(MockEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return [1.0, 0.0, 0.0]

    embedder = LlamaIndexEmbedder(Asymmetric(embed_dim=3))
    assert isinstance(embedder, QueryEmbedder)
    assert embedder.embed_query("a") == [1.0, 0.0, 0.0]
    assert embedder.embed(["a"]) == [[0.5, 0.5, 0.5]]


async def _gathered(stream: Any) -> list[Any]:
    return [item async for item in stream]


@given(text=st.text(max_size=40))
async def test_an_arc_model_answers_in_every_way(text: str) -> None:
    """Chat and completion, blocking and async, whole and streamed, say the same; the pieces make up the whole."""
    llm = ArcLLM(Saying(text))
    question = [user("hi")]
    chats: list[ChatResponse] = [llm.chat(question), await llm.achat(question)]
    assert [chat.message for chat in chats] == [ChatMessage(role=MessageRole.ASSISTANT, content=text)] * 2
    assert [llm.complete("hi").text, (await llm.acomplete("hi")).text] == [text] * 2
    for pieces in (list(llm.stream_chat(question)), await _gathered(await llm.astream_chat(question))):
        assert "".join(piece.delta for piece in pieces) == text
        assert pieces[-1].message.content == text
    for pieces in (list(llm.stream_complete("hi")), await _gathered(await llm.astream_complete("hi"))):
        assert "".join(piece.delta for piece in pieces) == text
        assert pieces[-1].text == text


def test_it_streams_word_by_word() -> None:
    """Each piece is a word with the space before it."""
    assert [piece.delta for piece in ArcLLM(Saying("a few  words")).stream_chat([user("hi")])] == [
        "a",
        " few",
        "  words",
    ]


async def test_an_arc_model_does_not_hold_up_the_event_loop() -> None:
    """Its async forms run the model on another thread."""
    model = Saying("hello")
    llm = ArcLLM(model)
    await llm.achat([user("hi")])
    await llm.acomplete("hi")
    await _gathered(await llm.astream_chat([user("hi")]))
    await _gathered(await llm.astream_complete("hi"))
    assert len(model.threads) == 4
    assert threading.get_ident() not in model.threads


def test_an_arc_model_sees_arc_messages() -> None:
    """Chat messages are shown as they are; a prompt is a user's message."""
    model = Numbered()
    llm = ArcLLM(model, context_window=1_000, num_output=100, model_name="numbered")
    llm.chat([system("Be kind."), user("hi")])
    llm.complete("prompt")
    assert [[(message.role, message.text) for message in request] for request in model.seen] == [
        [(Role.SYSTEM, "Be kind."), (Role.USER, "hi")],
        [(Role.USER, "prompt")],
    ]
    assert (llm.metadata.context_window, llm.metadata.num_output, llm.metadata.model_name) == (1_000, 100, "numbered")
    assert llm.metadata.is_chat_model


def test_is_named_as_llama_index_names_models() -> None:
    """Its class name and base classes are what LlamaIndex looks at."""
    assert LLM.__name__ in [cls.__name__ for cls in ArcLLM.__mro__]
    assert ArcLLM.class_name() == "ArcLLM"


@pytest.mark.parametrize("models", ["llama_index", "arc", "none"])
def test_open_engine_takes_both_kinds_of_models(models: str) -> None:
    """LlamaIndex's models are wrapped, arc's are taken as they are, and none is needed."""
    chat_model, answered = Numbered(), []

    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        answered.append(messages)
        return ChatMessage("[]", role=MessageRole.ASSISTANT)

    llm = MockFunctionCallingLLM(response_generator=answer)
    kinds: dict[str, dict[str, Any]] = {
        "llama_index": {"llm": llm, "embed_model": MockEmbedding(embed_dim=3)},
        "arc": {"llm": chat_model, "embed_model": LlamaIndexEmbedder(Letters())},
        "none": {},
    }
    counter = Ones()
    with open_engine(token_counter=counter, **kinds[models]) as engine:
        assert engine.token_counter is counter
        engine.documents.add(["The harbour opens at nine."])
        (found,) = engine.documents.search("harbour")
        assert ("vector" in found.score_parts) is (models != "none")
        engine.memories(user_id="ann").extract("I live in Busan.")
    assert bool(chat_model.seen) is (models == "arc")
    assert len(answered) == (1 if models == "llama_index" else 0)


@pytest.mark.parametrize(
    ("field", "call"),
    [
        pytest.param("llm", lambda: open_engine(llm="gpt"), id="engine's llm"),  # type: ignore[arg-type]  # the point
        pytest.param("embed_model", lambda: open_engine(embed_model="m"), id="engine's embed_model"),  # type: ignore[arg-type]  # the point
        pytest.param("llm", lambda: LlamaIndexChatModel(Numbered()), id="llm"),  # type: ignore[arg-type]  # the point
        pytest.param("embed_model", lambda: LlamaIndexEmbedder(3), id="embed_model"),  # type: ignore[arg-type]  # the point
        pytest.param("chat_model", lambda: ArcLLM(MockLLM()), id="LlamaIndex's own"),
        pytest.param("chat_model", lambda: ArcLLM(None), id="nothing"),  # type: ignore[arg-type]  # the point
    ],
)
def test_refuses_what_is_no_model(field: str, call: Callable[[], object]) -> None:
    """The error names the argument."""
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert caught.value.field == field


def test_a_wrong_address_is_said_at_once() -> None:
    """The engine is not opened with an address that no store has."""
    with pytest.raises(ConfigurationError):
        open_engine("mongodb://localhost")
