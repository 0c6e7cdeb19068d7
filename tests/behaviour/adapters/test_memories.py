"""Each way to a prompt can be told which memories it may show, and makes them as the interaction was."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from llama_index.core.base.llms.types import ChatMessage, MessageRole

from arc_common import ArcSettings, ContextEngine, InvalidInputError
from arc_common.prompts.memories import InteractionMode, render_extraction_request
from arc_common.testing import ReplyingChatModel
from langchain_arc import ArcContext, ArcMemoryMiddleware
from llamaindex_arc import ArcChatMemoryBuffer, ArcLongTermBlock
from tests.support.langchain_agents import ScriptedToolModel, call
from tests.support.llamaindex_helpers import user

QUESTION = "What does Ann have?"


def by_context(engine: ContextEngine, tags: Sequence[str] | None) -> str:
    return str(ArcContext(engine, session_id="s", user_id="ann", memory_tags=tags).invoke(QUESTION))


def by_agent(engine: ContextEngine, tags: Sequence[str] | None) -> str:
    model = ScriptedToolModel(script=[AIMessage("A lot.")])
    agent: Any = create_agent(model, middleware=[ArcMemoryMiddleware(engine, user_id="ann", memory_tags=tags)])
    agent.invoke({"messages": [HumanMessage(QUESTION)]}, {"configurable": {"thread_id": "s"}})
    return str(model.requests[-1][-1].content)


def by_block(engine: ContextEngine, tags: Sequence[str] | None) -> str:
    block = ArcLongTermBlock(engine, user_id="ann", memory_tags=tags)
    return asyncio.run(block.aget([user(QUESTION)], session_id="s"))


ways = pytest.mark.parametrize("ask", [by_context, by_agent, by_block])


@ways
@pytest.mark.parametrize(("tags", "expected"), [(None, ["nut", "red"]), (["health"], ["nut"]), (["other"], [])])
def test_only_memories_with_a_tag(ask: Callable[..., str], tags: Sequence[str] | None, expected: list[str]) -> None:
    """`None` shows all."""
    with ContextEngine.open("sqlite://", settings=ArcSettings(memory={"enabled": True})) as engine:
        engine.memories(user_id="ann").add("Ann has a nut allergy.", tags=["health"])
        engine.memories(user_id="ann").add("Ann has a red bicycle.")
        text = ask(engine, tags)
        assert [word for word in ("nut", "red") if f" {word} " in text] == expected


@ways
def test_what_is_no_list_of_tags_is_refused_at_once(ask: Callable[..., str]) -> None:
    """By the argument's name."""
    with ContextEngine.open("sqlite://") as engine, pytest.raises(InvalidInputError, match="memory_tags"):
        ask(engine, "health")


MODES: tuple[InteractionMode, ...] = ("chat", "rag", "agent")


@pytest.fixture
def model() -> ReplyingChatModel:
    return ReplyingChatModel(["[]"])


@pytest.fixture
def engine(model: ReplyingChatModel) -> Iterator[ContextEngine]:
    settings = ArcSettings(summary={"enabled": False}, recall={"enabled": False})
    with ContextEngine.open(chat_model=model, settings=settings) as opened:
        yield opened


def asked_as(engine: ContextEngine, model: ReplyingChatModel) -> list[str]:
    """The modes in which the model was asked."""
    assert engine.flush(30)
    instructions = {render_extraction_request((), mode=mode)[0].text: mode for mode in MODES}
    return [instructions[request[0].text] for request in model.requests]


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


@pytest.mark.parametrize(
    ("uses_tool", "has_documents", "expected"),
    [(False, False, "chat"), (False, True, "rag"), (True, False, "agent"), (True, True, "agent")],
)
def test_langchain_agent(
    engine: ContextEngine, model: ReplyingChatModel, *, uses_tool: bool, has_documents: bool, expected: str
) -> None:
    """By the middleware: whether a tool was called, whether documents were shown."""
    if has_documents:
        engine.documents.add(["Travellers to Busan should take an umbrella."])
    answers = [AIMessage("", tool_calls=[call("weather", "c1", city="Busan")])] if uses_tool else []
    agent: Any = create_agent(
        ScriptedToolModel(script=[*answers, AIMessage("Take an umbrella.")]),
        tools=[weather],
        middleware=[ArcMemoryMiddleware(engine, user_id="mina")],
    )
    config = {"configurable": {"thread_id": "s", "session_id": "s", "user_id": "mina"}}
    agent.invoke({"messages": [HumanMessage("I travel to Busan: do I need an umbrella?")]}, config=config)
    assert set(asked_as(engine, model)) == {expected}


@pytest.mark.parametrize("uses_tool", [True, False])
def test_llamaindex_buffer(engine: ContextEngine, model: ReplyingChatModel, *, uses_tool: bool) -> None:
    """By what is put."""
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", user_id="mina", token_limit=3_000)
    memory.put(ChatMessage(role="user", content="I travel to Busan: do I need an umbrella?"))
    if uses_tool:
        asked = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        memory.put(ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [asked]}))
        memory.put(ChatMessage(role=MessageRole.TOOL, content="Rain.", additional_kwargs={"tool_call_id": "c1"}))
    memory.put(ChatMessage(role="assistant", content="Take an umbrella."))
    assert asked_as(engine, model) == ["agent" if uses_tool else "chat"]


def test_a_turn_of_a_session(engine: ContextEngine, model: ReplyingChatModel) -> None:
    """Each by the documents of its own turn."""
    session = engine.session("s", user_id="mina")
    for documents in ([], ["Travellers to Busan should take an umbrella."], []):
        session.context("Do I need an umbrella?", documents=documents)
        session.save_turn("Do I need an umbrella?", "Yes.")
        asked_as(engine, model)
    assert asked_as(engine, model) == ["chat", "rag", "chat"]
