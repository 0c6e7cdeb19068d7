"""An agent with arc shows its model what LangGraph's own agent would, from whichever checkpoint a run starts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from arc_common import ArcSettings
from langchain_arc import ArcMemoryMiddleware, open_engine
from tests.support.databases import sqlite_url
from tests.support.langchain_agents import ScriptedToolModel, call
from tests.support.langchain_helpers import said

CONFIG: Any = {"configurable": {"thread_id": "s"}}
SAVERS = ["memory invoke", "sqlite invoke", "memory ainvoke", "sqlite ainvoke"]


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


class Thread:
    """A thread of an agent, used through its sync or its async methods."""

    def __init__(self, agent: Any, model: ScriptedToolModel, *, is_async: bool) -> None:
        self.agent, self.model, self._is_async = agent, model, is_async

    async def _call(self, name: str, *arguments: Any) -> Any:
        if self._is_async:
            return await getattr(self.agent, f"a{name}")(*arguments)
        return await asyncio.to_thread(getattr(self.agent, name), *arguments)

    async def ask(self, value: Any, at: Any = CONFIG) -> Any:
        """Run the agent with a text, messages, a command or nothing new, and return the place that it reached."""
        if isinstance(value, str):
            value = [HumanMessage(value)]
        await self._call("invoke", {"messages": value} if isinstance(value, list) else value, at)
        return await self.place()

    async def place(self) -> Any:
        return (await self._call("get_state", CONFIG)).config

    async def messages(self) -> list[Any]:
        return list((await self._call("get_state", CONFIG)).values["messages"])

    async def update(self, messages: list[Any], at: Any = CONFIG) -> Any:
        return await self._call("update_state", at, {"messages": messages})

    async def before(self, node: str, text: str | None = None) -> Any:
        """The newest checkpoint before a node, with this newest message."""
        if self._is_async:
            states = [it async for it in self.agent.aget_state_history(CONFIG)]
        else:
            states = await asyncio.to_thread(lambda: list(self.agent.get_state_history(CONFIG)))
        return next(
            it.config for it in states
            if it.next == (node,) and (text is None or it.values["messages"][-1].text == text)
        )  # fmt: skip


async def travel(thread: Thread) -> None:
    """Back to the end of the first turn, on from there, and on again on the turn that was left."""
    first = await thread.ask("one")
    second = await thread.ask("My cat is called Mia and weighs 4 kg.")
    await thread.ask("two instead", first)
    await thread.ask("three")
    await thread.ask("and what does my cat weigh?", second)
    await thread.ask("four")


async def regenerate(thread: Thread) -> None:
    """The answers to the first and the second question again, each from before its model call."""
    await thread.ask("one")
    await thread.ask("two")
    await thread.ask(None, await thread.before("model", "two"))
    await thread.ask("three")
    await thread.ask(None, await thread.before("model", "one"))
    await thread.ask("four")


async def first_question_again(thread: Thread) -> None:
    """From the empty state that the thread began with."""
    await thread.ask("one")
    start = await thread.before("__start__")
    await thread.ask("two")
    await thread.ask("one instead", start)
    await thread.ask("three")


async def edit(thread: Thread) -> None:
    """A question is edited under its id, from before its answer; ids repeat on both branches."""
    await thread.ask([HumanMessage("one", id="q1")])
    await thread.ask([HumanMessage("two", id="q2")])
    place = await thread.update([HumanMessage("two, edited", id="q2")], await thread.before("model", "two"))
    await thread.ask(None, place)
    await thread.ask([HumanMessage("three", id="q3")])
    place = await thread.update([HumanMessage("one, edited", id="q1")], await thread.before("model", "one"))
    await thread.ask(None, place)
    await thread.ask([HumanMessage("two again", id="q2")])


async def take_back(thread: Thread) -> None:
    """The user removes the last turn, and later an answer."""
    await thread.ask("one")
    await thread.ask("My cat is called Mia and weighs 4 kg.")
    await thread.update([RemoveMessage(id=it.id) for it in (await thread.messages())[-2:]])
    await thread.ask("two instead")
    await thread.ask("three")
    answer = (await thread.messages())[-1]
    await thread.update([RemoveMessage(id=answer.id)])
    await thread.ask("four")
    await thread.ask("five")


async def tools_and_travel(thread: Thread) -> None:
    """Into the middle of a turn: its tool runs again, and its question gets another answer."""
    thread.model.script = [
        "one!", asking("c1"), "it is 6", "two!", asking("c2"), "it is still 6", "it was 6", asking("c3"), "6",
    ]  # fmt: skip
    await thread.ask("one")
    await thread.ask("2 x 3?")
    middle = await thread.before("tools")
    await thread.ask("two")
    await thread.ask(None, await thread.before("model", "2 x 3?"))
    await thread.ask(None, middle)
    await thread.ask("2 x 3 again?")


def asking(call_id: str) -> AIMessage:
    return AIMessage("", tool_calls=[call("multiply", call_id, a=2, b=3)])


async def review(thread: Thread) -> None:
    """A person approves a call, goes back and edits it, and goes back and rejects it."""
    thread.model.script = ["one!", asking("c1"), "it is 6", "it is 25", "two!", "all right", "three!"]
    await thread.ask("one")
    waiting = await thread.ask("2 x 3?")
    approve: Any = {"type": "approve"}
    changed: Any = {"type": "edit", "edited_action": {"name": "multiply", "args": {"a": 5, "b": 5}}}
    await thread.ask(Command(resume={"decisions": [approve]}))
    await thread.ask(Command(resume={"decisions": [changed]}), waiting)
    await thread.ask("two")
    await thread.ask(Command(resume={"decisions": [{"type": "reject", "message": "no"}]}), waiting)
    await thread.ask("three")


async def remove_earlier(thread: Thread) -> None:
    """What the user removes from the middle of the state is gone; what follows stays."""
    await thread.ask([HumanMessage("one", id="q1")])
    await thread.ask("two")
    await thread.ask("three")
    await thread.update([RemoveMessage(id=it.id) for it in (await thread.messages())[2:4]])
    await thread.ask("four")
    await thread.update([RemoveMessage(id=it.id) for it in (await thread.messages())[:2]])
    await thread.ask("five")
    await thread.update([RemoveMessage(id=REMOVE_ALL_MESSAGES)])
    await thread.ask("six")


EVERYWHERE: list[Callable[[Thread], Awaitable[None]]] = [
    travel, regenerate, first_question_again, edit, take_back, tools_and_travel, review,
]  # fmt: skip
WAYS = [(scenario, prune) for scenario in EVERYWHERE for prune in (False, True)] + [(remove_earlier, False)]


@pytest.fixture(params=SAVERS)
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Callable[[], Any], bool]]:
    """A function that makes savers, and whether they are for async agents."""
    kind, way = request.param.split()
    if kind == "memory":
        yield InMemorySaver, way == "ainvoke"
    elif way == "invoke":
        with (
            SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as a,
            SqliteSaver.from_conn_string(str(tmp_path / "b.db")) as b,
        ):
            yield [a, b].pop, False
    else:
        async with (
            AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.db")) as a,
            AsyncSqliteSaver.from_conn_string(str(tmp_path / "b.db")) as b,
        ):
            yield [a, b].pop, True


@pytest.mark.parametrize(("scenario", "prune"), WAYS, ids=lambda it: getattr(it, "__name__", f"prune {it}"))
async def test_the_model_sees_what_langgraph_would_show(
    tmp_path: Path, saver: tuple[Callable[[], Any], bool], scenario: Callable[[Thread], Awaitable[None]], prune: bool
) -> None:
    """Each request has the texts of the same agent's without arc, and the session follows the newest run."""
    new_saver, is_async = saver
    requests = []
    with open_engine(sqlite_url(tmp_path), settings=ArcSettings()) as engine:
        for memory in ([], [ArcMemoryMiddleware(engine, prune_state=prune)]):
            model = ScriptedToolModel()
            reviewing = [HumanInTheLoopMiddleware(interrupt_on={"multiply": True})] if scenario is review else []
            agent = create_agent(model, [multiply], middleware=[*memory, *reviewing], checkpointer=new_saver())
            thread = Thread(agent, model, is_async=is_async)
            await scenario(thread)
            requests.append([[(it.type, it.text) for it in request] for request in model.requests])
        assert requests[1] == requests[0]
        newest = await thread.messages()
        stored = said(engine)
        assert stored[-len(newest) :] == [(ROLES[it.type], it.text) for it in newest]
        if not prune:
            assert len(stored) == len(newest)


ROLES = {"human": "user", "ai": "assistant", "tool": "tool"}
