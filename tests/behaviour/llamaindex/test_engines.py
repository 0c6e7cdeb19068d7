"""LlamaIndex's own chat engines over arc's memory, each in another way that it can be called."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer

from arc_common.messages import Message
from llamaindex_arc import ArcChatMemoryBuffer, ArcLLM, open_engine
from tests.support.databases import sqlite_url
from tests.support.llamaindex_helpers import Numbered, OneNode, break_writes, said, user

Ask = Callable[[BaseChatEngine, str], Awaitable[str]]


def simple(llm: ArcLLM, memory: ArcChatMemoryBuffer) -> BaseChatEngine:
    return SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt="Be kind.")


def context(llm: ArcLLM, memory: ArcChatMemoryBuffer) -> BaseChatEngine:
    return ContextChatEngine.from_defaults(retriever=OneNode(), llm=llm, memory=memory)


def condense_plus_context(llm: ArcLLM, memory: ArcChatMemoryBuffer) -> BaseChatEngine:
    return CondensePlusContextChatEngine.from_defaults(retriever=OneNode(), llm=llm, memory=memory)


def condense_question(llm: ArcLLM, memory: ArcChatMemoryBuffer) -> BaseChatEngine:
    query_engine = RetrieverQueryEngine(
        retriever=OneNode(), response_synthesizer=get_response_synthesizer(llm=llm, use_async=False)
    )
    return CondenseQuestionChatEngine.from_defaults(query_engine=query_engine, llm=llm, memory=memory)


async def chat(engine: BaseChatEngine, question: str) -> str:
    return str(await asyncio.to_thread(engine.chat, question))


async def stream_chat(engine: BaseChatEngine, question: str) -> str:
    """Read the stream as an app does, on a thread; the answer is put by another thread."""

    def read() -> str:
        response = engine.stream_chat(question)
        return "".join(response.response_gen)

    return await asyncio.to_thread(read)


async def achat(engine: BaseChatEngine, question: str) -> str:
    return str(await engine.achat(question))


async def astream_chat(engine: BaseChatEngine, question: str) -> str:
    """Read the stream; the answer is put by a background task."""
    response = await engine.astream_chat(question)
    text = "".join([piece async for piece in response.async_response_gen()])
    if response.awrite_response_to_history_task is not None:
        await response.awrite_response_to_history_task
    return text


engines = pytest.mark.parametrize(
    ("make", "ask"),
    [(simple, chat), (context, stream_chat), (condense_plus_context, astream_chat), (condense_question, achat)],
)


@engines
async def test_a_conversation_survives_a_restart_and_goes_on(
    tmp_path: Path, make: Callable[[ArcLLM, ArcChatMemoryBuffer], BaseChatEngine], ask: Ask
) -> None:
    """Each turn is stored once and in order, and after a restart the model sees what was said before it."""
    expected: list[str] = []
    model = Numbered()
    for start in (0, 2):
        with open_engine(sqlite_url(tmp_path, "c.db")) as engine:
            memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", token_limit=2_000)
            chat_engine = make(ArcLLM(model), memory)
            for n in (start, start + 1):
                answer = await ask(chat_engine, f"question {n}")
                expected += [f"question {n}", answer]
                assert said(memory.get_all()) == expected
    shown = "\n".join(message.text for message in model.seen[-1] + model.seen[-2])
    assert "question 0" in shown
    assert expected[1] in shown


@engines
async def test_a_store_that_refuses_to_save_costs_nobody_the_answer(
    tmp_path: Path, make: Callable[[ArcLLM, ArcChatMemoryBuffer], BaseChatEngine], ask: Ask
) -> None:
    """With a full disk the engine answers, the model sees the question, and the failures are reported."""
    reported: list[Sequence[Message]] = []
    database = tmp_path / "c.db"
    model = Numbered()
    with open_engine(f"sqlite:///{database}", on_save_error=lambda _, messages: reported.append(messages)) as engine:
        memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s")
        memory.put(user("before"))
        break_writes(database)
        answer = await ask(make(ArcLLM(model), memory), "what now?")
        assert answer.startswith("answer number ")
        assert "what now?" in "\n".join(message.text for message in model.seen[0])
        assert said(memory.get_all()) == ["before", "what now?", answer]
    assert len(reported) == 2


def test_serves_as_the_memory_class_of_an_engine() -> None:
    """An engine that makes its own memory can be told to make this one."""
    engine = SimpleChatEngine.from_defaults(llm=ArcLLM(Numbered()), memory_cls=ArcChatMemoryBuffer)
    engine.chat("first")
    assert said(engine.chat_history) == ["first", "answer number 1"]
