"""Recalled text reaches the model through each adapter, and only for a question."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import SimpleChatEngine
from pydantic import Field

from arc_common import ArcSettings, ContextEngine, HeuristicTokenCounter, Message
from langchain_arc import ArcChatMessageHistory, ArcContext, ArcMemoryMiddleware, with_arc_memory
from llamaindex_arc import ArcChatMemoryBuffer
from tests.support.llamaindex_agents import ADD, WARNINGS, Script, add, agent_of, calls, workflow_of

QUESTION = "What is my boat called?"
BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    """Return an engine with a session that named a boat long ago, a memory and a tool's snippet.

    The boat's name no longer fits the pinned facts: only recall brings it back, with messages about it.
    """
    settings = ArcSettings(
        summary={"high_water_tokens": 0, "max_tokens": 40},
        budget={"facts": 60},
        conversation={"resume_note_days": None},
        memory={"min_importance": 1.0},  # the background must not add memories between two views
    )
    with ContextEngine.open(token_counter=HeuristicTokenCounter(), settings=settings) as opened:
        session = opened.session("s", user_id="mina")
        for number in range(30):
            text = f"We spoke about subject{number} for a while."
            said = "The boat that I rented is called Marabou." if number == 2 else text
            at = BEGIN + timedelta(days=number)
            session.append([
                Message("user", said, id=f"q{number}", created_at=at),
                Message("assistant", f"Reply {number}.", id=f"a{number}", created_at=at),
            ])  # fmt: skip
        opened.memories(user_id="mina").add("Mina's boat lies in Jeju.", importance=0.9)
        session.add_artifact("The boat Marabou is called at noon today.", source="port")
        session.summarize()
        session.recall("anything")
        yield opened


def blocks(text: str) -> list[str]:
    """Return the names of the fenced blocks in a text."""
    return [name for name in ("memories", "artifacts", "recalled") if f"<arc:{name}>\n" in text]


def test_llamaindex_buffer(engine: ContextEngine) -> None:
    """`get(input)` adds it after facts and summary, within the limit; `get()` after an answer adds none."""
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", user_id="mina", token_limit=3_000)
    text = memory.get(input=f"{QUESTION} now")[0].content or ""
    assert blocks(text) == ["memories", "artifacts", "recalled"]
    assert "Marabou" in text
    assert "Jeju" in text
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines))
    assert blocks(memory.get()[0].content or "") == []


def test_llamaindex_buffer_with_facts_beside_the_user(engine: ContextEngine) -> None:
    """A returned message is recognised as arc's, with all recalled text."""
    memory = ArcChatMemoryBuffer.from_defaults(
        engine=engine, session_id="s", user_id="mina", token_limit=3_000, facts_role="user"
    )
    before = [message.content for message in memory.get_all()]
    view = memory.get(input=QUESTION)
    assert "recalled" in blocks(next(m for m in view if m.role.value == "user").content or "")
    memory.set(view)
    assert [message.content for message in memory.get_all()] == before


def asked_by_agent(make: Callable[..., Any]) -> Callable[[ArcChatMemoryBuffer], list[list[ChatMessage]]]:
    def ask(memory: ArcChatMemoryBuffer) -> list[list[ChatMessage]]:
        async def run(script: Script) -> None:
            await make(script, add).run(user_msg=QUESTION, memory=memory)

        script = Script(calls(ADD), "Marabou.")
        asyncio.run(run(script))
        return script.seen

    return ask


def asked_by_chat_engine(memory: ArcChatMemoryBuffer) -> list[list[ChatMessage]]:
    script = Script("Marabou.")
    SimpleChatEngine.from_defaults(llm=script.llm, memory=memory, system_prompt="Be kind.").chat(QUESTION)
    return script.seen


ASKED = {
    "FunctionAgent": asked_by_agent(agent_of),
    "AgentWorkflow": asked_by_agent(workflow_of),
    "SimpleChatEngine": asked_by_chat_engine,
}


@pytest.mark.filterwarnings(*(mark.args[0] for mark in WARNINGS))
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_llamaindex_engines_and_agents(
    engine: ContextEngine, ask: Callable[[ArcChatMemoryBuffer], list[list[ChatMessage]]]
) -> None:
    """They store the question and call `get()` without it: each request has its recalled text, without repetition."""
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", user_id="mina", token_limit=3_000)
    for request in ask(memory):
        texts = [message.content or "" for message in request]
        leading = "\n".join(texts[:2])
        assert blocks(leading) == ["memories", "artifacts", "recalled"]
        recalled = leading.partition("<arc:recalled>\n")[2]
        assert "[2026-03-03]\n- user: The boat that I rented is called Marabou\n" in recalled
        assert "\nuser: We spoke about" in recalled
        assert leading.count("The boat that I rented is called Marabou") == 1
        asked = [message.content or "" for message in request if message.role is MessageRole.USER]
        assert not any(text in leading for text in asked)
        assert asked.count(QUESTION) == 1


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        ([Message("user", QUESTION)], True),
        ([Message("user", QUESTION), Message("assistant", "I do not know.")], False),
    ],
    ids=["question", "answered"],
)
def test_langchain_history(engine: ContextEngine, newest: Sequence[Message], expected: bool) -> None:
    """It recalls for a question that is not yet answered."""
    engine.session("s", user_id="mina").append(newest)
    view = ArcChatMessageHistory("s", engine=engine, user_id="mina").messages
    assert ("recalled" in blocks(str(view[0].content))) is expected


def test_langchain_chain(engine: ContextEngine) -> None:
    """`with_arc_memory` uses the chain's input as the question."""
    seen: list[Any] = []

    def model(messages: list[BaseMessage]) -> AIMessage:
        seen.append(messages)
        return AIMessage("Marabou.")

    chain = with_arc_memory(RunnableLambda(model), engine, user_id="mina")
    config = {"configurable": {"session_id": "s", "user_id": "mina"}}
    chain.invoke([HumanMessage(QUESTION)], config=config)
    assert "recalled" in blocks(str(seen[0][0].content))
    assert "Marabou" in str(seen[0][0].content)


def test_langchain_prompt_variable(engine: ContextEngine) -> None:
    """`ArcContext` returns as a variable the same blocks as the window."""
    question = f"{QUESTION} now"
    runnable = ArcContext(engine=engine, user_id="mina")
    value = runnable.invoke({"input": question}, config={"configurable": {"session_id": "s", "user_id": "mina"}})
    assert blocks(value) == ["memories", "artifacts", "recalled"]
    shown = engine.session("s", user_id="mina").context(question).messages
    assert shown[-1].text.endswith(value[value.index("<arc:memories>") :])
    assert shown[0].text.endswith(value[: value.index("<arc:memories>")].strip())


class Listening(BaseChatModel):
    """A model that records its requests."""

    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "listening"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.seen.append(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Marabou."))])


def test_langchain_agent(engine: ContextEngine) -> None:
    """The middleware adds it after the user's text, and keeps it out of the state."""
    model = Listening()
    agent = create_agent(model, middleware=[ArcMemoryMiddleware(engine, user_id="mina")])
    config = {"configurable": {"thread_id": "s", "session_id": "s", "user_id": "mina"}}
    state = agent.invoke({"messages": [HumanMessage(QUESTION)]}, config=config)
    shown = "\n".join(str(message.content) for message in model.seen[0])
    assert "Marabou" in shown
    assert "recalled" in blocks(shown)
    assert not any(blocks(str(message.content)) for message in state["messages"])
