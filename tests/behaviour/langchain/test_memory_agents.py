"""`create_agent` with a history: it hands the whole conversation back each turn, and it must not grow by that."""

from collections.abc import Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from arc_common import ContextEngine, Message
from langchain_arc import ArcChatMessageHistory
from tests.support.langchain_helpers import WAYS, ToolModel, run, said, with_history


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def _script() -> Iterator[AIMessage]:
    for n in range(1, 100):
        yield AIMessage("", tool_calls=[{"name": "multiply", "args": {"a": n, "b": 2}, "id": f"c{n}"}])
        yield AIMessage(f"it is {2 * n}")


def agent(**options: Any) -> Any:
    return create_agent(ToolModel(messages=_script()), [multiply], **options)


def turns(*texts: str) -> list[tuple[str, str]]:
    return [
        pair
        for n, text in enumerate(texts, 1)
        for pair in (("user", text), ("assistant", ""), ("tool", f"{2 * n}"), ("assistant", f"it is {2 * n}"))
    ]


def _through_a_function() -> Runnable[Any, Any]:
    """An agent that makes its input message itself: the one that the wrapper saves never gets an id."""
    inner = agent()

    def call(value: Any) -> Any:
        return inner.invoke({"messages": [*value["history"], HumanMessage(value["question"])]})

    async def acall(value: Any) -> Any:
        return await inner.ainvoke({"messages": [*value["history"], HumanMessage(value["question"])]})

    return RunnableLambda(call, acall)


SHAPES: dict[str, tuple[Any, dict[str, str], Any]] = {
    "text": (agent, {"input_messages_key": "messages"}, lambda text: {"messages": text}),
    "messages": (
        agent,
        {"input_messages_key": "messages", "output_messages_key": "messages"},
        lambda text: {"messages": [HumanMessage(text)]},
    ),
    "history key": (
        _through_a_function,
        {"input_messages_key": "question", "history_messages_key": "history", "output_messages_key": "messages"},
        lambda text: {"question": text},
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
async def test_each_turn_of_an_agent_is_stored_once(engine: ContextEngine, shape: str, way: str) -> None:
    """Four turns with a tool, two of them with the same question: sixteen messages, in their order."""
    chain, keys, value = SHAPES[shape]
    if way in ("stream", "astream"):  # what streams adds up to has a key for each node, unless this names one
        keys = {**keys, "output_messages_key": "messages"}
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine), **keys)
    texts = ("one", "two", "two", "one")
    for text in texts:
        await run(way, wrapped, value(text))
    assert said(engine) == turns(*texts)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_an_agent_that_sees_a_window(engine: ContextEngine, shape: str, way: str) -> None:
    """Of a long conversation the agent hands back what it was shown, and all of it stays stored."""
    chain, keys, value = SHAPES[shape]
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine, max_turns=1), **keys)
    texts = ("one", "two", "two", "one")
    for text in texts:
        await run(way, wrapped, value(text))
    assert said(engine) == turns(*texts)


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_agent_beside_another_writer(engine: ContextEngine, shape: str) -> None:
    """What others write during an agent's run stands where it was written, before the agent's turn."""
    chain, keys, value = SHAPES[shape]

    def interrupted(state: Any) -> Any:
        engine.session("s").append([Message("user", "from elsewhere"), Message("assistant", "answered elsewhere")])
        return state

    wrapped = with_history(chain() | RunnableLambda(interrupted), ArcChatMessageHistory.factory(engine), **keys)
    await run("invoke", wrapped, value("one"))
    await run("ainvoke", wrapped, value("two"))
    elsewhere = [("user", "from elsewhere"), ("assistant", "answered elsewhere")]
    assert said(engine) == [*elsewhere, *turns("one", "two")[:4], *elsewhere, *turns("one", "two")[4:]]


async def test_an_agent_whose_history_was_cleared_meanwhile(engine: ContextEngine) -> None:
    """The agent still hands the old conversation back; it stays cleared."""
    chain, keys, value = SHAPES["messages"]

    def clearing(state: Any) -> Any:
        engine.session("s").clear()
        return state

    inner = chain()
    factory = ArcChatMessageHistory.factory(engine)
    await run("invoke", with_history(inner, factory, **keys), value("one"))
    await run("invoke", with_history(inner | RunnableLambda(clearing), factory, **keys), value("two"))
    assert said(engine) == turns("one", "two")[4:]


async def test_an_agent_that_remembers_by_itself(engine: ContextEngine) -> None:
    """With a checkpointer the agent hands back more than it was shown; that is stored already."""
    _, keys, value = SHAPES["messages"]
    wrapped = with_history(
        agent(checkpointer=InMemorySaver()), ArcChatMessageHistory.factory(engine, max_turns=1), **keys
    )
    for text in ("one", "two", "three"):
        await run("ainvoke", wrapped, value(text), thread_id="t")
    assert said(engine) == turns("one", "two", "three")


async def test_several_messages_as_input(engine: ContextEngine) -> None:
    """Messages that a caller sends together are stored together, once, also on the first turn."""
    chain, keys, _ = SHAPES["messages"]
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine), **keys)
    await run("invoke", wrapped, {"messages": [HumanMessage("hello"), AIMessage("hi"), HumanMessage("one")]})
    await run("invoke", wrapped, {"messages": [HumanMessage("two"), HumanMessage("and this")]})
    first, second = turns("one", "two")[:4], turns("one", "two")[4:]
    assert said(engine) == [
        ("user", "hello"),
        ("assistant", "hi"),
        *first,
        ("user", "two"),
        ("user", "and this"),
        *second[1:],
    ]


async def test_agents_never_block_the_event_loop(engine: ContextEngine) -> None:
    """The history of an async agent does no I/O on the loop's thread."""
    chain, keys, value = SHAPES["messages"]
    wrapped = with_history(chain(), ArcChatMessageHistory.factory(engine), **keys)
    await run("ainvoke", wrapped, value("one"))  # LangGraph reads files of its own at its first run
    with blockbuster_ctx():
        await run("ainvoke", wrapped, value("two"))
    assert said(engine) == turns("one", "two")
