"""Facts and summary in LangChain's history: one system message in front, fixed during a run, never stored."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda

from arc_common import ContextEngine
from langchain_arc import ArcChatMessageHistory, to_arc
from tests.support.langchain_helpers import run, said, settle, with_history


def told(number: int, *, start: int = 0) -> list[BaseMessage]:
    """Return turns, each with its own order number."""
    return [
        message
        for n in range(start, start + number)
        for message in (
            HumanMessage(f"My order number is A-{1000 + n}, and it must not be sent to Berlin."),
            AIMessage(f"Order A-{1000 + n} goes to Lisbon, on day {n}."),
        )
    ]


def fill(engine: ContextEngine, number: int = 25) -> None:
    """Store a conversation and summarise what is due."""
    ArcChatMessageHistory("s", engine=engine).add_messages(told(number))
    settle(engine)


def adopt(engine: ContextEngine, *, start: int) -> None:
    """Let another run write so much that its view adopts a new summary."""
    other = ArcChatMessageHistory("s", engine=engine)
    before = other.messages[0].text
    other.add_messages(told(20, start=start))
    settle(engine)
    assert other.messages[0].text != before


def view(engine: ContextEngine, **given: Any) -> list[BaseMessage]:
    return ArcChatMessageHistory("s", engine=engine, **given).messages


with_key = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])

SHAPES: dict[str, tuple[Callable[[Any], Any], dict[str, str], Callable[[str], Any]]] = {
    "history key": (
        lambda model: with_key | model,
        {"input_messages_key": "question", "history_messages_key": "history"},
        lambda text: {"question": text},
    ),
    "no history key": (lambda model: model, {}, lambda text: [HumanMessage(text)]),
}


@pytest.mark.parametrize("way", ["invoke", "astream"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_summary_that_lands_within_a_run_changes_nothing_for_it(
    engine: ContextEngine, shape: str, way: str
) -> None:
    """Another run writes and a summary is adopted while the model answers: nothing is lost or stored twice."""
    await asyncio.to_thread(fill, engine, 26)
    before = len(view(engine))

    def think(shown: Any) -> AIMessage:
        assert len([message for message in _messages(shown) if isinstance(message, SystemMessage)]) == 1
        adopt(engine, start=100)
        assert len(view(engine)) > before  # the second read has a new summary
        return AIMessage("thought about it")

    async def athink(shown: Any) -> AIMessage:
        return await asyncio.to_thread(think, shown)

    chain, keys, value = SHAPES[shape]
    wrapped = with_history(chain(RunnableLambda(think, afunc=athink)), ArcChatMessageHistory.factory(engine), **keys)
    await run(way, wrapped, value("and now?"))
    expected = [*told(26), *told(20, start=100), HumanMessage("and now?"), AIMessage("thought about it")]
    assert said(engine) == [(to_arc(message).role.value, message.text) for message in expected]


def _messages(shown: Any) -> list[BaseMessage]:
    return list(shown.to_messages() if hasattr(shown, "to_messages") else shown)


@pytest.mark.parametrize("way", ["invoke", "astream"])
async def test_an_agent_that_replays_everything_stores_its_turn_once(engine: ContextEngine, way: str) -> None:
    """Its state begins with arc's system message, which has got an id."""
    await asyncio.to_thread(fill, engine)
    agent = create_agent(GenericFakeChatModel(messages=iter([AIMessage("one"), AIMessage("two")])))
    wrapped = with_history(
        agent,
        ArcChatMessageHistory.factory(engine),
        input_messages_key="messages",
        output_messages_key="messages",
    )
    for question in ("first", "second"):
        await run(way, wrapped, {"messages": [HumanMessage(question)]})
    assert said(engine)[50:] == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
    ]
