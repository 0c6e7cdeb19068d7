"""LlamaIndex's models for arc's engine, arc's models for LlamaIndex, and `open_engine`."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, TextBlock
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms.mock import MockFunctionCallingLLM

from arc_common.messages import Message, Role
from llamaindex_arc import ArcLLM, LlamaIndexChatModel, LlamaIndexEmbedder, open_engine
from tests.support.llamaindex_helpers import Numbered, system, user


class Saying:
    """A chat model with a fixed answer that records its threads."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.threads: list[int] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the text."""
        self.threads.append(threading.get_ident())
        return self.text


def test_a_llama_index_model_completes_arc_messages() -> None:
    """It gets the messages in LlamaIndex's form and returns the answer's content."""
    seen: list[ChatMessage] = []

    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        seen.extend(messages)
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text="It is 42.")])

    model = LlamaIndexChatModel(MockFunctionCallingLLM(response_generator=answer, is_chat_model=True))
    assert model.complete([Message(Role.SYSTEM, "Be kind."), Message(Role.USER, "What?")]) == "It is 42."
    assert seen == [system("Be kind."), user("What?")]


def test_an_answer_without_words_is_empty() -> None:
    """No content gives an empty string, not "None"."""
    llm = MockFunctionCallingLLM(
        response_generator=lambda *_, **__: ChatMessage(role=MessageRole.ASSISTANT, content=None), is_chat_model=True
    )
    assert LlamaIndexChatModel(llm).complete([Message(Role.USER, "hi")]) == ""


class Letters(BaseEmbedding):
    """A model as in a notebook, without a class name or model name."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(len(text)), 1.0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Words(Letters):
    """Another such model."""


def test_models_that_do_not_say_which_they_are_are_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If LlamaIndex names them alike, their class distinguishes them, and the log asks for a name."""
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


async def _gathered(stream: Any) -> list[Any]:
    return [item async for item in stream]


@given(text=st.text(max_size=40))
async def test_an_arc_model_answers_in_every_way(text: str) -> None:
    """Chat and completion, blocking and async, whole and streamed give the same text."""
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
    """Chat messages are unchanged; a prompt becomes a user message."""
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
