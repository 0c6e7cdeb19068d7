"""`ArcMemoryMiddleware(compact_tool=True)` lets an agent compact its conversation in the middle of a turn."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from arc_common import ContextEngine, InvalidInputError, Message
from langchain_arc import ArcMemoryMiddleware, open_engine
from tests.support.databases import sqlite_url, unreadable
from tests.support.langchain_agents import ScriptedToolModel, call
from tests.support.langchain_helpers import said

CONFIG: Any = {"configurable": {"thread_id": "s"}}
ASK = AIMessage("", tool_calls=[call("compact_conversation", "c")])
TALK = [
    message
    for n in range(20)
    for message in (Message("user", f"My order is ORD-{n}. " + "Well then. " * 150), Message("assistant", "Noted."))
]


def compacting(engine: ContextEngine, *script: Any, **given: Any) -> tuple[Any, ScriptedToolModel]:
    model = ScriptedToolModel(script=[*script])
    memory = ArcMemoryMiddleware(engine, compact_tool=True)
    middleware = [memory, *given.pop("behind", [])]
    return create_agent(model, middleware=middleware, checkpointer=InMemorySaver(), **given), model


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_the_next_request_of_the_run_is_small(engine: ContextEngine, way: str) -> None:
    """It begins with the facts and ends with the running turn; the tool's result states what was done."""
    engine.session("s").append(TALK)
    agent, model = compacting(engine, ASK, "Done.")
    value = {"messages": [HumanMessage("Make room, please.")]}
    if way == "ainvoke":
        state = await agent.ainvoke(value, CONFIG)
    else:
        state = await asyncio.to_thread(agent.invoke, value, CONFIG)
    before, after = model.requests
    assert len(after) < len(before) * 2 / 3
    assert "ORD-0" in after[0].text
    assert [message.type for message in after[-3:]] == ["human", "ai", "tool"]
    (told,) = [message.text for message in state["messages"] if isinstance(message, ToolMessage)]
    assert told.startswith("Compacted: a summary stands for ")
    assert said(engine)[-4:] == [
        ("user", "Make room, please."),
        ("assistant", ""),
        ("tool", told),
        ("assistant", "Done."),
    ]


def test_a_person_may_refuse(engine: ContextEngine) -> None:
    """A rejected call compacts nothing, as with any tool."""
    engine.session("s").append(TALK)
    engine.flush()  # a summary that is ready between the two requests would be shown in the second
    asking = HumanInTheLoopMiddleware(interrupt_on={"compact_conversation": True})
    agent, model = compacting(engine, ASK, "As you wish.", behind=[asking])
    assert "__interrupt__" in agent.invoke({"messages": [HumanMessage("Make room.")]}, CONFIG)
    decision = {"decisions": [{"type": "reject", "message": "Not now."}]}
    assert agent.invoke(Command(resume=decision), CONFIG)["messages"][-1].text == "As you wish."
    assert len(model.requests[1]) == len(model.requests[0]) + 2
    assert [role for role, _ in said(engine)[-4:]] == ["user", "assistant", "tool", "assistant"]


def test_what_can_t_be_compacted_is_said(tmp_path: Path) -> None:
    """The run continues after a short conversation or a failing store."""
    url = sqlite_url(tmp_path)
    with open_engine(url) as engine:
        agent, _ = compacting(engine, ASK, "All right.", ASK, "All right.")
        first = agent.invoke({"messages": [HumanMessage("Make room.")]}, CONFIG)["messages"]
        assert first[-2].text == "There is nothing to compact: the conversation is short, or was compacted just now."
        engine.session("s").append(TALK)
        engine.flush()
        with unreadable(url, "arc_messages"):
            second = agent.invoke({"messages": [HumanMessage("Make room.")]}, CONFIG)["messages"]
        assert (second[-2].status, second[-1].text) == ("error", "All right.")


def test_the_tool_is_only_there_if_asked_for(engine: ContextEngine) -> None:
    assert ArcMemoryMiddleware(engine).tools == []
    (tool,) = ArcMemoryMiddleware(engine, compact_tool=True).tools
    function = convert_to_openai_tool(tool)["function"]
    assert (function["name"], function["parameters"]["properties"]) == ("compact_conversation", {})
    with pytest.raises(InvalidInputError, match="compact_tool"):
        ArcMemoryMiddleware(engine, compact_tool="yes")  # type: ignore[arg-type]
