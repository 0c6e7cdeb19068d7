"""A request that an LLM rejects as too long is sent once more, smaller, and later ones fit at once."""

import asyncio
import copy
import json
import pickle
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, CompletionResponse, LLMMetadata, ToolCallBlock
from llama_index.core.bridge.pydantic import BaseModel, Field, PrivateAttr
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.workflow import Context

from arc_common import ContextEngine, Message, Role
from arc_common.exceptions import BudgetExceededError, InvalidInputError
from arc_common.testing import CountingObserver
from llamaindex_arc import ArcMemory, open_engine, with_overflow_recovery
from tests.support.llamaindex_agents import WARNINGS
from tests.support.llamaindex_helpers import NO_SUMMARIES, OneNode, calling, result

pytestmark = [
    *WARNINGS,
    # LlamaIndex raises a stream's error in its own thread, too.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


class TooLongError(Exception):
    """An error like that of Anthropic's client."""

    status_code = 400


class Narrow(MockFunctionCallingLLM):
    """An LLM with a limit in characters, each a token."""

    limit: int
    says_figures: bool = True
    _asked: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, **given: Any) -> None:
        super().__init__(response_generator=self._answer, is_chat_model=True, **given)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=100_000, is_chat_model=True, is_function_calling_model=True, model_name="n")

    @property
    def asked(self) -> list[int]:
        """Return the tokens of each request by the model's count."""
        return [tokens_of(request) for request in self._asked]

    @property
    def requests(self) -> list[list[ChatMessage]]:
        return self._asked

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self._answer([ChatMessage(prompt)]).content or "")

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self.complete(prompt)

    def _answer(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
        self._asked.append([message.model_copy(deep=True) for message in messages])
        self._check(self.asked[-1])
        return ChatMessage("Fine.", role="assistant")

    def _check(self, tokens: int) -> None:
        if tokens > self.limit:
            figures = f": {tokens} tokens > {self.limit} maximum"
            raise TooLongError(f"prompt is too long{figures if self.says_figures else ''}")


class Broken(Narrow):
    """An LLM that can't be reached."""

    def _check(self, tokens: int) -> None:
        raise ConnectionError("down")


def tokens_of(request: Sequence[ChatMessage]) -> int:
    return sum(len(message.content or "") for message in request)


class Stubborn(Narrow):
    """An LLM that rejects every request."""

    def _check(self, tokens: int) -> None:
        raise TooLongError(f"prompt is too long: {tokens} tokens > {self.limit} maximum")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with open_engine("sqlite://", settings=NO_SUMMARIES) as opened:
        opened.session("s").append(
            [
                Message(role, f"The {place}th order has the number {place}. " * 6)
                for place in range(40)
                for role in (Role.USER, Role.ASSISTANT)
            ]
        )
        yield opened


Ask = Callable[[ArcMemory, Any, str], Awaitable[None]]


def asking(make: Callable[[Narrow, ArcMemory], Any], way: str) -> Ask:
    async def ask(memory: ArcMemory, llm: Any, text: str) -> None:
        engine = make(with_overflow_recovery(llm, memory), memory)
        if way == "chat":
            await asyncio.to_thread(engine.chat, text)
        elif way == "achat":
            await engine.achat(text)
        elif way == "stream_chat":
            await asyncio.to_thread(lambda: list(engine.stream_chat(text).response_gen))
        else:
            response = await engine.astream_chat(text)
            assert [word async for word in response.async_response_gen()]

    return ask


def simple(llm: Narrow, memory: ArcMemory) -> SimpleChatEngine:
    return SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt="You are brief. " * 40)


def context(llm: Narrow, memory: ArcMemory) -> ContextChatEngine:
    return ContextChatEngine.from_defaults(OneNode(), llm=llm, memory=memory, system_prompt="You are brief. " * 40)


def condense_plus_context(llm: Narrow, memory: ArcMemory) -> CondensePlusContextChatEngine:
    return CondensePlusContextChatEngine.from_defaults(OneNode(), llm=llm, memory=memory)


def condense_question(llm: Narrow, memory: ArcMemory) -> CondenseQuestionChatEngine:
    query_engine = RetrieverQueryEngine.from_args(OneNode(), llm=llm)
    return CondenseQuestionChatEngine.from_defaults(query_engine, llm=llm, memory=memory)


def agent(*, streaming: bool = True, workflow: bool = False, kind: Any = FunctionAgent) -> Ask:
    async def ask(memory: ArcMemory, llm: Any, text: str) -> None:
        made = kind(
            name="a",
            description="d",
            llm=with_overflow_recovery(llm, memory),
            tools=[],
            system_prompt="You are brief. " * 40,
            streaming=streaming,
            initial_state={} if workflow else {"mood": "good"},
        )
        workflow_of = AgentWorkflow([made], initial_state={"mood": "good"}, root_agent="a") if workflow else made
        await workflow_of.run(text, memory=memory)

    return ask


WAYS = ("chat", "achat", "stream_chat", "astream_chat")
MESSAGES = [
    *(pytest.param(asking(simple, way), id=f"simple {way}") for way in WAYS),
    pytest.param(asking(context, "achat"), id="context achat"),
    pytest.param(agent(), id="agent streaming"),
    pytest.param(agent(streaming=False), id="agent"),
    pytest.param(agent(workflow=True), id="workflow"),
]
TEXTS = [
    pytest.param(asking(make, way), id=f"{make.__name__} {way}")
    for make in (condense_plus_context, condense_question)
    for way in ("chat", "achat")
]


def memory_of(engine: ContextEngine, **given: Any) -> ArcMemory:
    return ArcMemory.from_defaults(engine=engine, session_id="s", token_limit=4_000, **given)


@pytest.mark.parametrize(
    ("ask", "says_figures", "limit"),
    [
        *(pytest.param(*ask.values, True, 4_000, id=f"{ask.id}, figures") for ask in MESSAGES),
        *(pytest.param(*ask.values, False, 9_000, id=f"{ask.id}, no figures") for ask in MESSAGES[2:4]),
    ],
)
async def test_a_refused_request_is_sent_once_more_smaller(
    engine: ContextEngine, ask: Ask, says_figures: bool, limit: int
) -> None:
    """It keeps instructions, question and newest turns; the receipt says so; the turn is stored once."""
    llm = Narrow(limit=limit, says_figures=says_figures)
    before = len(engine.session("s").messages())
    await ask(memory_of(engine), llm, "And mine?")
    first, second = llm.asked
    assert first > limit >= second > limit / 5
    refused, sent = llm.requests
    assert "You are brief." in (sent[0].content or "")
    assert [message.role for message in sent[-2:]] == ["assistant", "user"]
    assert sent[-1] == refused[-1]
    shown = [message.content or "" for message in sent if (message.content or "").startswith("The ")]
    there = [message.content or "" for message in refused[-1 - len(shown) : -1]]
    assert shown
    assert all(text[:20] == other[:20] for text, other in zip(shown, there, strict=True))
    receipt = engine.admin.debug("s").receipt
    assert receipt is not None
    notes = receipt.notes
    assert any(f"the model {first:,} of at most {limit:,}" in note for note in notes) == says_figures
    assert any(note.startswith("the first request was too long: arc counted") for note in notes)
    stored = engine.session("s").messages()[before:]
    assert [(message.role.value, message.text) for message in stored] == [("user", "And mine?"), ("assistant", "Fine.")]


@pytest.mark.parametrize("ask", TEXTS)
async def test_a_refused_text_is_sent_once_more_smaller(engine: ContextEngine, ask: Ask) -> None:
    """The prompt that condenses a question contains the conversation and loses its oldest messages."""
    llm = Narrow(limit=4_000)
    await ask(memory_of(engine), llm, "And mine?")
    first, second, *others = llm.asked
    assert first > llm.limit >= second > llm.limit / 5
    assert max(others) <= llm.limit
    refused, sent = (request[0].content or "" for request in llm.requests[:2])
    assert sent.count("39th order") == refused.count("39th order") > 0
    assert sent[:80] == refused[:80]
    assert sent.endswith(refused[-100:])


@pytest.mark.parametrize("ask", [MESSAGES[0], MESSAGES[-3], TEXTS[0]])
async def test_what_was_learned_holds_for_the_next_requests(engine: ContextEngine, ask: Ask) -> None:
    """The engine remembers the limit for every LLM of that name."""
    llm = Narrow(limit=4_000)
    await ask(memory_of(engine), llm, "And mine?")
    before = len(llm.asked)
    for turn in range(3):
        await ask(memory_of(engine), llm, f"And number {turn}?")
    later = llm.asked[before:]
    assert later
    assert max(later) <= llm.limit


@pytest.mark.parametrize("ask", [*MESSAGES[:4], MESSAGES[-1], TEXTS[0], TEXTS[-1]])
async def test_the_second_refusal_is_raised_with_both_figures(engine: ContextEngine, ask: Ask) -> None:
    """It is the provider's own error; there is no third request."""
    llm = Stubborn(limit=4_000)
    with pytest.raises(TooLongError) as caught:
        await ask(memory_of(engine), llm, "And mine?")
    _, second = llm.asked
    note = caught.value.__notes__[0]
    assert note.startswith("the second request was also too long: arc counted")
    assert f"the model {second:,} of at most 4,000" in note


@pytest.mark.parametrize(("kind", "facts_role"), [(FunctionAgent, "user"), (ReActAgent, "system")])
async def test_facts_and_summary_are_made_anew(facts_role: Any, kind: Any) -> None:
    """The second request contains them once, and no message twice."""
    with open_engine("sqlite://") as engine:
        session = engine.session("s")
        for place in range(60):
            session.append(
                [Message(Role.USER, f"My code {place} is K-{place}. " * 8), Message(Role.ASSISTANT, "Noted. " * 40)]
            )
        engine.flush(30)
        session.summarize()
        llm = Narrow(limit=4_000 if kind is FunctionAgent else 7_000)
        memory = memory_of(engine, facts_role=facts_role)
        made = kind(llm=with_overflow_recovery(llm, memory), tools=[], system_prompt="Be brief.", streaming=False)
        try:
            await made.run("And the next?", memory=memory)
        except ValueError:  # ReAct finds no thought in the answer
            assert kind is ReActAgent
        first, second, *_ = llm.asked
        assert first > llm.limit >= second
        sent = [message.content or "" for message in llm.requests[1]]
        assert sum(text.count("<arc:memory>") for text in sent) == 1
        assert sum(text.endswith("And the next?") for text in sent) == 1
        assert sum("Be brief." in text for text in sent) == 1


def test_a_stored_system_message_is_sent_once(engine: ContextEngine) -> None:
    """Without a summary it is a message of its own, before those that the request contains."""
    llm, memory = Narrow(limit=4_000), memory_of(engine, include_summary=False)
    memory.set([ChatMessage("Talk like a pirate.", role="system"), *memory.get_all(), ChatMessage("And mine?")])
    with_overflow_recovery(llm, memory).chat(memory.get())
    refused, sent = ([str(message.content) for message in request] for request in llm.requests)
    assert sum("pirate" in text for text in refused) == sum("pirate" in text for text in sent) == 1


async def test_a_restored_workflow_recovers_too(engine: ContextEngine) -> None:
    """Its memory is another object of the same conversation."""
    llm, memory = Narrow(limit=50_000), memory_of(engine)
    agent = FunctionAgent(llm=with_overflow_recovery(llm, memory), tools=[])
    context = Context(agent)
    await agent.run("And mine?", ctx=context, memory=memory)
    llm.limit = 4_000
    restored = Context.from_dict(agent, json.loads(json.dumps(context.to_dict())))
    await agent.run("And hers?", ctx=restored)
    _, first, second = llm.asked
    assert first > llm.limit >= second


def test_older_results_of_a_running_turn_are_cut(engine: ContextEngine) -> None:
    """An agent's steps follow its memory in the request and are stored only with the answer."""
    llm = Narrow(limit=3_000)
    memory = memory_of(engine)
    memory.put(ChatMessage("And mine?"))
    steps = [step for n in range(4) for step in (calling(f"c{n}"), result(f"c{n}", f"Found item {n}. " * 120))]
    with_overflow_recovery(llm, memory).chat([*memory.get(), *steps])
    first, second = llm.asked
    assert first > llm.limit >= second
    shown = [message for message in llm.requests[1] if message.role in ("tool", "assistant")][-8:]
    assert [message.additional_kwargs.get("tool_call_id") for message in shown[1::2]] == ["c0", "c1", "c2", "c3"]
    texts = [message.content or "" for message in shown[1::2]]
    assert texts[0].startswith("[cleared: ") or texts[0].endswith("[truncated]")
    assert texts[-1] == steps[-1].content
    assert list(map(len, texts)) == sorted(map(len, texts))


def test_a_request_without_the_conversation_is_not_repeated(engine: ContextEngine) -> None:
    """Arc could only guess what to omit."""
    llm = Narrow(limit=100)
    recovering = with_overflow_recovery(llm, memory_of(engine))
    with pytest.raises(TooLongError):
        recovering.chat([ChatMessage("Is this text in English? " * 20)])
    with pytest.raises(TooLongError):
        recovering.complete("Is this text in English? " * 20)
    assert len(llm.asked) == 2


def test_what_must_be_sent_is_the_models_to_refuse(engine: ContextEngine) -> None:
    """Documents and question alone are tried, and the model's error is raised with both figures each time."""
    llm, memory = Narrow(limit=20), memory_of(engine)
    chat = ContextChatEngine.from_defaults(
        retriever=OneNode(), llm=with_overflow_recovery(llm, memory), memory=memory, system_prompt="Be brief."
    )
    for turn in (1, 2):
        with pytest.raises(TooLongError) as refused:
            chat.chat("And mine?")
        assert "of at most 20" in refused.value.__notes__[0]
        assert len(llm.asked) == turn + 1  # the second turn's first request is already minimal
        assert [message.role.value for message in llm.requests[-1]] == ["system", "user"]
        assert "24 months" in str(llm.requests[-1][0].content)
    memory.put(ChatMessage("And mine? " * 1_000))
    with pytest.raises(BudgetExceededError, match=r"instructions and user message: [2-9],"):
        memory.reduced(memory.get(), max_tokens=100)


def test_the_refusal_is_raised_when_the_conversation_can_not_be_read(tmp_path: Path) -> None:
    counts = CountingObserver()
    with open_engine(f"sqlite:///{tmp_path / 'chat.db'}", observer=counts) as engine:
        memory = memory_of(engine)
        memory.put(ChatMessage("Hello. " * 20))
        request = memory.get()
        with closing(sqlite3.connect(tmp_path / "chat.db")) as database:
            database.execute("DROP TABLE arc_messages")
        with pytest.raises(TooLongError):
            with_overflow_recovery(Narrow(limit=10), memory).chat(request)
    assert counts.counts["context.errors"] == 1


class Plain(CustomLLM):
    """A user's model that takes a prompt, into which LlamaIndex writes the messages."""

    limit: int
    asked: list[int] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=100_000, model_name="plain")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.asked.append(len(prompt))
        if len(prompt) > self.limit:
            raise TooLongError(f"prompt is too long: {len(prompt)} tokens > {self.limit} maximum")
        return CompletionResponse(text="Fine.")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[CompletionResponse]:  # type: ignore[override]
        yield self.complete(prompt)


@pytest.mark.parametrize(("way", "limit"), [*((way, 4_000) for way in WAYS), ("astream_chat", 1)])
async def test_a_model_that_answers_through_another_of_its_methods(engine: ContextEngine, way: str, limit: int) -> None:
    """It is called twice, not twice per method."""
    llm = Plain(limit=limit)
    with nullcontext() if limit > 1 else pytest.raises(TooLongError):
        await asking(simple, way)(memory_of(engine), llm, "And mine?")
    assert len(llm.asked) == 2


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_raises_one_error_object_each_time(engine: ContextEngine, way: str) -> None:
    """Notes on it, of the client's or from an earlier refusal, don't keep a later request from being sent again."""
    error = TooLongError("prompt is too long")
    error.add_note("the client's own")

    class Same(Plain):
        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            self.asked.append(len(prompt))
            if len(prompt) > self.limit:
                raise error
            return CompletionResponse(text="Fine.")

    refused, llm = Same(limit=1), Same(limit=4_000)
    with pytest.raises(TooLongError):
        await asking(simple, way)(memory_of(engine), refused, "And mine?")
    assert len(refused.asked) == 2
    with suppress(TooLongError):
        await asking(simple, way)(memory_of(engine), llm, "And mine?")
    assert len(llm.asked) == 2


class Order(BaseModel):
    number: int


def test_a_structured_answer_recovers_too(engine: ContextEngine) -> None:
    class Structured(Narrow):
        def _answer(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
            super()._answer(messages)
            block = ToolCallBlock(tool_call_id="1", tool_name="Order", tool_kwargs={"number": 7})
            return ChatMessage(role="assistant", blocks=[block])

    llm, memory = Structured(limit=4_000), memory_of(engine)
    memory.put(ChatMessage("And mine?"))
    structured = with_overflow_recovery(llm, memory).as_structured_llm(Order)
    assert structured.chat(memory.get()).raw == Order(number=7)
    assert len(llm.asked) == 2


def test_the_copy_is_an_llm_like_the_one_given(engine: ContextEngine) -> None:
    llm, memory = Narrow(limit=9), memory_of(engine)
    made = with_overflow_recovery(llm, memory)
    assert isinstance(made, Narrow)
    assert type(llm) is Narrow
    assert made.class_name() == llm.class_name()
    assert (made.limit, made.metadata) == (9, llm.metadata)
    assert made.to_dict() == llm.to_dict()
    with pytest.raises(TooLongError):
        copy.deepcopy(made).chat([ChatMessage("Hello, you there.")])
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(made)


def test_refuses_an_llm_that_recovers(engine: ContextEngine) -> None:
    with pytest.raises(InvalidInputError, match="no overflow recovery yet"):
        with_overflow_recovery(with_overflow_recovery(Narrow(limit=9), memory_of(engine)), memory_of(engine))


@pytest.mark.parametrize("ask", MESSAGES[:2])
async def test_another_error_is_raised_at_once(engine: ContextEngine, ask: Ask) -> None:
    llm = Broken(limit=1)
    with pytest.raises(ConnectionError, match="down"):
        await ask(memory_of(engine), llm, "And mine?")
    assert len(llm.asked) == 1
