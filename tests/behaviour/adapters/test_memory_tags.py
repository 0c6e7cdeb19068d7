"""Each way to a prompt can be told which long-term memories it may show."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage

from arc_common import ArcSettings, ContextEngine, InvalidInputError
from langchain_arc import ArcContext, ArcMemoryMiddleware
from llamaindex_arc import ArcLongTermBlock
from tests.support.langchain_agents import ScriptedToolModel
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
