"""Each way to a prompt can select memories by tag, and extracts memories in the mode of the interaction."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM

from arc_common import ArcSettings, ContextEngine
from arc_common.prompts.memories import InteractionMode, render_extraction_request
from arc_common.testing import ReplyingChatModel
from langchain_arc import ArcContext, ArcMemoryMiddleware, memory_tools
from llamaindex_arc import ArcChatMemoryBuffer, ArcLongTermBlock, ArcMemory
from tests.support.langchain_agents import ScriptedToolModel, call
from tests.support.llamaindex_helpers import user

QUESTION = "What does Ann have?"
ALLERGY = "To what am I allergic?"


def by_context(engine: ContextEngine, tags: Sequence[str] | None, question: str = QUESTION) -> str:
    return str(ArcContext(engine, session_id="s", user_id="ann", memory_tags=tags).invoke(question))


def by_agent(engine: ContextEngine, tags: Sequence[str] | None, question: str = QUESTION) -> str:
    model = ScriptedToolModel(script=[AIMessage("A lot.")])
    agent: Any = create_agent(model, middleware=[ArcMemoryMiddleware(engine, user_id="ann", memory_tags=tags)])
    agent.invoke({"messages": [HumanMessage(question)]}, {"configurable": {"thread_id": "s"}})
    return str(model.requests[-1][-1].content)


def by_block(engine: ContextEngine, tags: Sequence[str] | None, question: str = QUESTION) -> str:
    block = ArcLongTermBlock(engine, user_id="ann", memory_tags=tags)
    return asyncio.run(block.aget([user(question)], session_id="s"))


ways = pytest.mark.parametrize("ask", [by_context, by_agent, by_block])


@ways
@pytest.mark.parametrize(("tags", "expected"), [(None, ["nut", "red"]), (["health"], ["nut"]), (["other"], [])])
def test_only_memories_with_a_tag(ask: Callable[..., str], tags: Sequence[str] | None, expected: list[str]) -> None:
    """`None` selects all."""
    with ContextEngine.open("sqlite://", settings=ArcSettings(memory={"enabled": True})) as engine:
        engine.memories(user_id="ann").add("Ann has a nut allergy.", tags=["health"])
        engine.memories(user_id="ann").add("Ann has a red bicycle.")
        text = ask(engine, tags)
        assert [word for word in ("nut", "red") if f" {word} " in text] == expected


def said_to_an_agent(engine: ContextEngine, text: str) -> None:
    agent: Any = create_agent(
        ScriptedToolModel(script=[AIMessage("Noted.")]), middleware=[ArcMemoryMiddleware(engine, user_id="ann")]
    )
    agent.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": "told"}})


def saved_by_an_agent(engine: ContextEngine, text: str) -> None:
    model = ScriptedToolModel(
        script=[AIMessage("", tool_calls=[call("save_memory", "c1", content=text)]), AIMessage("Saved.")]
    )
    agent: Any = create_agent(model, memory_tools(engine, user_id="ann"))
    agent.invoke({"messages": [HumanMessage("Remember it.")]})


def said_to_a_chat_engine(engine: ContextEngine, text: str) -> None:
    memory = ArcMemory.from_defaults(engine=engine, session_id="told", user_id="ann")
    SimpleChatEngine.from_defaults(llm=MockLLM(max_tokens=1), memory=memory).chat(text)


@pytest.mark.parametrize("say", [said_to_an_agent, saved_by_an_agent, said_to_a_chat_engine])
def test_what_waits_for_a_review_is_shown_in_no_prompt(say: Callable[[ContextEngine, str], None]) -> None:
    """Neither framework shows it until it is approved; then both do."""
    settings = ArcSettings(memory={"enabled": True, "require_review": True})
    with ContextEngine.open("sqlite://", settings=settings) as engine:
        say(engine, "I am allergic to peanuts.")
        assert engine.flush(60)
        (waiting,) = engine.ingestion.candidates().candidates
        assert (waiting.kind, waiting.user_id) == ("memory", "ann")
        prompts = by_context, by_agent, by_block
        assert not any("peanuts" in ask(engine, None, ALLERGY) for ask in prompts)
        engine.ingestion.approve(waiting.id, reviewer="lee")
        assert all("peanuts" in ask(engine, None, ALLERGY) for ask in prompts)


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
    """Return the extraction modes in which the model was called."""
    assert engine.flush(30)
    instructions = {render_extraction_request((), mode=mode)[0].text: mode for mode in MODES}
    return [instructions[request[0].text] for request in model.requests]


@tool
def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"Rain in {city}."


@pytest.mark.parametrize(
    ("uses_tool", "has_documents", "expected"),
    [(False, False, "chat"), (False, True, "rag"), (True, False, "agent"), (True, True, "agent")],
)
def test_langchain_agent(
    engine: ContextEngine, model: ReplyingChatModel, *, uses_tool: bool, has_documents: bool, expected: str
) -> None:
    """The middleware notes tool calls and shown documents."""
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
    """The messages that are put decide."""
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", user_id="mina", token_limit=3_000)
    memory.put(ChatMessage(role="user", content="I travel to Busan: do I need an umbrella?"))
    if uses_tool:
        asked = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        memory.put(ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [asked]}))
        memory.put(ChatMessage(role=MessageRole.TOOL, content="Rain.", additional_kwargs={"tool_call_id": "c1"}))
    memory.put(ChatMessage(role="assistant", content="Take an umbrella."))
    assert asked_as(engine, model) == ["agent" if uses_tool else "chat"]


def test_a_turn_of_a_session(engine: ContextEngine, model: ReplyingChatModel) -> None:
    """Each turn's own documents decide."""
    session = engine.session("s", user_id="mina")
    for documents in ([], ["Travellers to Busan should take an umbrella."], []):
        session.context("Do I need an umbrella?", documents=documents)
        session.save_turn("Do I need an umbrella?", "Yes.")
        asked_as(engine, model)
    assert asked_as(engine, model) == ["chat", "rag", "chat"]
