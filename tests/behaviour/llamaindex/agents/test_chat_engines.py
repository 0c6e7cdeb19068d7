"""The cases of LlamaIndex's own tests for its chat engines, with `ArcChatMemoryBuffer`.

The model repeats its prompt, so that an answer shows the request. Each test runs in all four ways to ask an engine.
"""

import asyncio
import gc
import re
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import CompletionResponse, MessageRole
from llama_index.core.base.response.schema import RESPONSE_TYPE, AsyncStreamingResponse, Response, StreamingResponse
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.llms.mock import MockLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import Document, QueryBundle

from arc_common.messages import Message
from llamaindex_arc import ArcChatMemoryBuffer, ArcLLM, ArcMemory, open_engine
from tests.support.databases import sqlite_url
from tests.support.llamaindex_helpers import Numbered, OneNode, assistant, break_writes, said, system, user


def _words(text: str) -> Generator[str, None, None]:
    yield from re.findall(r"\s*\S+", text)


async def _awords(text: str) -> AsyncGenerator[str, None]:
    for word in _words(text):
        yield word


class QuestionBack(BaseQueryEngine):
    """A model that answers with the question."""

    def __init__(self, *, stream: bool) -> None:
        super().__init__(callback_manager=CallbackManager([]))
        self._stream = stream

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        question = query_bundle.query_str
        return StreamingResponse(response_gen=_words(question)) if self._stream else Response(response=question)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        question = query_bundle.query_str
        return AsyncStreamingResponse(response_gen=_awords(question)) if self._stream else Response(response=question)


def condensing(memory: ArcMemory, *, stream: bool) -> CondenseQuestionChatEngine:
    return CondenseQuestionChatEngine.from_defaults(
        query_engine=QuestionBack(stream=stream),
        llm=MockLLM(),
        memory=memory,
        condense_question_prompt=PromptTemplate("{chat_history}"),
    )


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
ways = pytest.mark.parametrize("ask", [chat, stream_chat, achat, astream_chat])


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


@engines
@ways
def test_context_engines_see_prompt_history_and_question(make: MakeEngine, ask: Ask) -> None:
    """They return the retrieved nodes; a question may be a query bundle; a reset forgets."""
    engine = make(ArcChatMemoryBuffer.from_defaults(token_limit=20_000))
    response = ask(engine, "Hello World!")
    assert SYSTEM_PROMPT in str(response)
    assert "Hello World!" in str(response)
    assert len(response.source_nodes) == 1
    assert len(engine.chat_history) == 2
    response = ask(engine, "What is the capital of the moon?")
    for shown in (SYSTEM_PROMPT, "Hello World!", "What is the capital of the moon?"):
        assert shown in str(response)
    assert len(engine.chat_history) == 4
    engine.reset()
    if make is context:
        bundle = QueryBundle("Hello World through QueryBundle")
        assert str(bundle) in str(ask(engine, bundle))
        assert str(bundle) in str(engine.chat_history[0])
    else:
        ask(engine, "anew")
    assert len(engine.chat_history) == 2


@engines
@ways
def test_a_history_given_replaces_the_one_before(make: MakeEngine, ask: Ask) -> None:
    """The request contains the new history only."""
    engine = make(ArcChatMemoryBuffer.from_defaults(token_limit=20_000))
    ask(engine, "forgotten question")
    response = ask(engine, "New question", chat_history=[user("Earlier question"), assistant("Earlier answer")])
    assert "Earlier question" in str(response)
    assert "forgotten question" not in str(response)
    assert len(engine.chat_history) == 4


@ways
def test_condense_question_engine_condenses_what_was_said(ask: Ask, memory: ArcMemory) -> None:
    """The first question is asked unchanged, the next with the history, and after a reset unchanged again."""
    engine = condensing(memory, stream=ask in (stream_chat, astream_chat))
    ask(engine, "first")
    assert said(engine.chat_history) == ["first", "first"]
    ask(engine, "second")
    assert "user: first\nassistant: first" in str(engine.chat_history[-1].content)
    engine.reset()
    ask(engine, "third")
    assert said(engine.chat_history) == ["third", "third"]
