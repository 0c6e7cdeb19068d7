"""In deepagents' `create_deep_agent`, the middleware replaces the summaries by its name."""

from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from arc_common import ContextEngine, InvalidInputError
from langchain_arc import ArcMemoryMiddleware
from tests.support.langchain_agents import ScriptedToolModel, call
from tests.support.langchain_helpers import said


class Answer(BaseModel):
    """A structured answer."""

    value: int


CONFIG: Any = {"configurable": {"thread_id": "s"}}


def deep_agent(engine: ContextEngine, *script: Any, **given: Any) -> tuple[Any, ScriptedToolModel]:
    model = ScriptedToolModel(script=[*script], profile={"max_input_tokens": 8_000})
    memory = ArcMemoryMiddleware(engine, name="SummarizationMiddleware")
    return create_deep_agent(model, middleware=[memory], checkpointer=InMemorySaver(), **given), model


async def run(agent: Any, value: Any, way: str) -> Any:
    return agent.invoke(value, CONFIG) if way == "invoke" else await agent.ainvoke(value, CONFIG)


def asking(name: str, call_id: str = "c", **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[call(name, call_id, **args)])


async def test_arc_s_summaries_take_the_place_of_deepagents(engine: ContextEngine) -> None:
    """Each request answers the user and knows the first message, where deepagents would summarise."""
    agent, model = deep_agent(engine)
    for n in range(20):
        text = f"My order is ORD-{n}. " + "I am still waiting for it. " * 60
        await run(agent, {"messages": [HumanMessage(text)]}, "ainvoke")
        engine.flush()
    assert [request[-1].text.partition(".")[0] for request in model.requests] == [
        f"My order is ORD-{n}" for n in range(20)
    ]
    assert "ORD-0" in model.requests[-1][0].text
    assert len(model.requests[-1]) < 20
    assert len(said(engine)) == 40


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_sub_agent_s_messages_are_its_own(engine: ContextEngine, way: str) -> None:
    """It inherits the middleware and is shown its task; only its result is stored."""
    task = asking("task", description="Find it.", subagent_type="general-purpose")
    agent, model = deep_agent(engine, task, "It is here.", "Found.")
    await run(agent, {"messages": [HumanMessage("Where is it?")]}, way)
    assert [message.text for message in model.requests[1] if message.type == "human"] == ["Find it."]
    assert said(engine) == [
        ("user", "Where is it?"),
        ("assistant", ""),
        ("tool", "It is here."),
        ("assistant", "Found."),
    ]
    assert len(engine.admin.sessions().conversations) == 1


def test_the_default_name_is_the_classs(engine: ContextEngine) -> None:
    """The default is the class's name; two instances with their own names work together."""
    assert ArcMemoryMiddleware(engine).name == "ArcMemoryMiddleware"
    assert ArcMemoryMiddleware(engine, name="mine").name == "mine"
    for wrong in ("", 7):
        with pytest.raises(InvalidInputError, match="name"):
            ArcMemoryMiddleware(engine, name=wrong)  # type: ignore[arg-type]
