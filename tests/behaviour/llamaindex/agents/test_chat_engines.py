"""LlamaIndex's chat engines with arc's memory; the model repeats its prompt, so that an answer shows the request."""

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.llms.types import CompletionResponse, MessageRole
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.llms.mock import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import Document, QueryBundle

from arc_common.messages import Message
from llamaindex_arc import ArcChatMemoryBuffer, ArcLLM, ArcMemory, open_engine
from tests.support.databases import sqlite_url
from tests.support.llamaindex_helpers import Numbered, OneNode, assistant, break_writes, said, system, user

SYSTEM_PROMPT = "Talk like a pirate."


# --- asking -----------------------------------------------------------------------------------------------------------


def chat(engine: BaseChatEngine, message: Any, **given: Any) -> Any:
    return engine.chat(message, **given)


def stream_chat(engine: BaseChatEngine, message: Any, **given: Any) -> Any:
    response = engine.stream_chat(message, **given)
    assert list(response.response_gen)
    if response.write_response_to_history_thread is not None:
        response.write_response_to_history_thread.join(10)
    return response


def achat(engine: BaseChatEngine, message: Any, **given: Any) -> Any:
    return asyncio.run(engine.achat(message, **given))


def astream_chat(engine: BaseChatEngine, message: Any, **given: Any) -> Any:
    async def ask() -> Any:
        response = await engine.astream_chat(message, **given)
        assert [piece async for piece in response.async_response_gen()]
        if response.awrite_response_to_history_task is not None:
            await response.awrite_response_to_history_task
        return response

    return asyncio.run(ask())


Ask = Callable[..., Any]


pytestmark = pytest.mark.usefixtures("blocking_loop")


@pytest.fixture(params=[ArcMemory, ArcChatMemoryBuffer])
def memory(request: pytest.FixtureRequest) -> ArcMemory:
    made: ArcMemory = request.param.from_defaults()
    return made


# --- SimpleChatEngine -------------------------------------------------------------------------------------------------


async def test_a_stream_is_written_to_history_though_nobody_reads_it(memory: ArcMemory) -> None:
    """The task that puts the answer does not wait for a reader."""
    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
    response = await engine.astream_chat("Hello World!")
    assert response.awrite_response_to_history_task is not None
    await response.awrite_response_to_history_task
    assert "Hello World!" in response.response
    assert said(engine.chat_history) == ["Hello World!", response.response]


class BrokenOff(MockLLM):
    """A model whose stream ends in an error."""

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield CompletionResponse(text="begun", delta="begun")
        raise ConnectionError("the model is gone")


def test_an_error_in_a_stream_reaches_the_reader_and_nobody_else(memory: ArcMemory) -> None:
    """The question stays, no task keeps an unretrieved error, and the next turn works."""
    unfetched: list[Any] = []

    async def ask() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unfetched.append(context))
        response = await SimpleChatEngine.from_defaults(llm=BrokenOff(), memory=memory).astream_chat("Hello World!")
        with pytest.raises(ConnectionError):
            _ = [piece async for piece in response.async_response_gen()]

    asyncio.run(ask())
    gc.collect()
    assert unfetched == []
    assert said(memory.get_all()) == ["Hello World!"]
    answer = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory).chat("Again")
    assert str(answer) == "user: Hello World!\nuser: Again\nassistant: "


# --- engines with a context -------------------------------------------------------------------------------------------


def context(memory: ArcMemory) -> BaseChatEngine:
    return ContextChatEngine.from_defaults(_retriever(), llm=MockLLM(), memory=memory, system_prompt=SYSTEM_PROMPT)


def condense_plus_context(memory: ArcMemory) -> BaseChatEngine:
    return CondensePlusContextChatEngine.from_defaults(
        _retriever(), llm=MockLLM(), memory=memory, system_prompt=SYSTEM_PROMPT
    )


def _retriever() -> BaseRetriever:
    index = VectorStoreIndex.from_documents([Document.example()], embed_model=MockEmbedding(embed_dim=3))
    return index.as_retriever()


engines = pytest.mark.parametrize("make", [context, condense_plus_context])
MakeEngine = Callable[[ArcMemory], BaseChatEngine]


@engines
def test_a_stored_history_begins_with_a_system_message(make: MakeEngine) -> None:
    """It is shown after the engine's own, once."""
    memory = ArcChatMemoryBuffer.from_defaults(
        chat_history=[system("Be kind."), user("hi"), assistant("hello")], token_limit=20_000
    )
    response = str(chat(make(memory), "And now?"))
    assert response.count("Be kind.") == 1
    assert response.index(SYSTEM_PROMPT) < response.index("Be kind.") < response.index("And now?")


@engines
def test_an_answer_half_read_is_stored(make: MakeEngine) -> None:
    """The question is stored at once, the answer when it is complete, even without a reader."""
    engine = make(ArcChatMemoryBuffer.from_defaults(token_limit=20_000))
    response = engine.stream_chat("Hello World!")
    assert isinstance(response, StreamingAgentChatResponse)
    assert engine.chat_history[0] == user("Hello World!")
    next(iter(response.response_gen))
    deadline = time.monotonic() + 10
    while len(engine.chat_history) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [message.role for message in engine.chat_history] == [MessageRole.USER, MessageRole.ASSISTANT]


# --- CondenseQuestionChatEngine ---------------------------------------------------------------------------------------


# --- over a database --------------------------------------------------------------------------------------------------


def _condensing_arc(llm: ArcLLM, memory: ArcChatMemoryBuffer) -> BaseChatEngine:
    synthesizer = get_response_synthesizer(llm=llm, use_async=False)
    query_engine = RetrieverQueryEngine(retriever=OneNode(), response_synthesizer=synthesizer)
    return CondenseQuestionChatEngine.from_defaults(query_engine=query_engine, llm=llm, memory=memory)


stored_ways = pytest.mark.parametrize(
    ("make", "ask"),
    [
        (lambda llm, memory: SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt="Be kind."), chat),
        (lambda llm, memory: ContextChatEngine.from_defaults(retriever=OneNode(), llm=llm, memory=memory), stream_chat),
        (
            lambda llm, memory: CondensePlusContextChatEngine.from_defaults(
                retriever=OneNode(), llm=llm, memory=memory
            ),
            astream_chat,
        ),
        (_condensing_arc, achat),
    ],
    ids=["simple", "context", "condense_plus_context", "condense_question"],
)


@stored_ways
def test_a_conversation_survives_a_restart_and_goes_on(tmp_path: Path, make: Callable[..., Any], ask: Ask) -> None:
    """Each turn is stored once and in order, and after a restart the model sees the earlier ones."""
    expected: list[str] = []
    model = Numbered()
    for start in (0, 2):
        with open_engine(sqlite_url(tmp_path, "c.db")) as engine:
            memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", token_limit=2_000)
            chat_engine = make(ArcLLM(model), memory)
            for n in (start, start + 1):
                expected += [f"question {n}", str(ask(chat_engine, f"question {n}"))]
                assert said(memory.get_all()) == expected
    shown = "\n".join(message.text for message in model.seen[-1] + model.seen[-2])
    assert "question 0" in shown
    assert expected[1] in shown


@stored_ways
def test_a_store_that_refuses_to_save_costs_nobody_the_answer(
    tmp_path: Path, make: Callable[..., Any], ask: Ask
) -> None:
    """With a full disk the engine answers, the model sees the question, and failures are reported."""
    reported: list[Sequence[Message]] = []
    database = tmp_path / "c.db"
    model = Numbered()
    with open_engine(f"sqlite:///{database}", on_save_error=lambda _, messages: reported.append(messages)) as engine:
        memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s")
        memory.put(user("before"))
        break_writes(database)
        answer = str(ask(make(ArcLLM(model), memory), "what now?"))
        assert answer.startswith("answer number ")
        assert "what now?" in "\n".join(message.text for message in model.seen[0])
        assert said(memory.get_all()) == ["before", "what now?", answer]
    assert len(reported) == 2


def test_serves_as_the_memory_class_of_an_engine() -> None:
    """It can be the `memory_cls` of an engine that creates its own memory."""
    engine = SimpleChatEngine.from_defaults(llm=ArcLLM(Numbered()), memory_cls=ArcChatMemoryBuffer)
    engine.chat("first")
    assert said(engine.chat_history) == ["first", "answer number 1"]


def test_a_question_may_be_a_query_bundle() -> None:
    """It is stored and shown as its text."""
    engine = context(ArcChatMemoryBuffer.from_defaults(token_limit=20_000))
    bundle: Any = QueryBundle("Hello World through QueryBundle")
    assert str(bundle) in str(chat(engine, bundle))
    assert str(bundle) in str(engine.chat_history[0])
