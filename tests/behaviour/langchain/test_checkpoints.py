"""An agent with arc shows its model the same as without arc, from any checkpoint."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command

from arc_common import ArcSettings, ContextEngine, InvalidInputError, SessionNotFoundError
from langchain_arc import ArcMemoryMiddleware, adelete_thread, delete_thread, open_engine
from tests.support.databases import sqlite_url
from tests.support.langchain_agents import ScriptedToolModel, call, multiply
from tests.support.langchain_helpers import said
from tests.support.llamaindex_helpers import break_writes, mend_writes

CONFIG: Any = {"configurable": {"thread_id": "s"}}


class Thread:
    """An agent's thread, used by sync or async methods."""

    def __init__(self, agent: Any, model: ScriptedToolModel, *, is_async: bool) -> None:
        self.agent, self.model, self._is_async = agent, model, is_async

    async def _call(self, name: str, *arguments: Any) -> Any:
        if self._is_async:
            return await getattr(self.agent, f"a{name}")(*arguments)
        return await asyncio.to_thread(getattr(self.agent, name), *arguments)

    async def ask(self, value: Any, at: Any = CONFIG) -> Any:
        """Run the agent with a text, messages, a command or nothing new; return the resulting checkpoint."""
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
        """Return the newest checkpoint before a node that has this newest message."""
        if self._is_async:
            states = [it async for it in self.agent.aget_state_history(CONFIG)]
        else:
            states = await asyncio.to_thread(lambda: list(self.agent.get_state_history(CONFIG)))
        return next(
            it.config for it in states
            if it.next == (node,) and (text is None or it.values["messages"][-1].text == text)
        )  # fmt: skip


async def travel(thread: Thread) -> None:
    """Return to the end of the first turn, continue there, and then continue the turn that was left."""
    first = await thread.ask("one")
    second = await thread.ask("My cat is called Mia and weighs 4 kg.")
    await thread.ask("two instead", first)
    await thread.ask("three")
    await thread.ask("and what does my cat weigh?", second)
    await thread.ask("four")


async def regenerate(thread: Thread) -> None:
    """Answer the first and the second question again, each from before its model call."""
    await thread.ask("one")
    await thread.ask("two")
    await thread.ask(None, await thread.before("model", "two"))
    await thread.ask("three")
    await thread.ask(None, await thread.before("model", "one"))
    await thread.ask("four")


async def first_question_again(thread: Thread) -> None:
    """Start again from the thread's first, empty state."""
    await thread.ask("one")
    start = await thread.before("__start__")
    await thread.ask("two")
    await thread.ask("one instead", start)
    await thread.ask("three")


async def edit(thread: Thread) -> None:
    """Edit a question under its id, from before its answer; ids repeat on both branches."""
    await thread.ask([HumanMessage("one", id="q1")])
    await thread.ask([HumanMessage("two", id="q2")])
    place = await thread.update([HumanMessage("two, edited", id="q2")], await thread.before("model", "two"))
    await thread.ask(None, place)
    await thread.ask([HumanMessage("three", id="q3")])
    place = await thread.update([HumanMessage("one, edited", id="q1")], await thread.before("model", "one"))
    await thread.ask(None, place)
    await thread.ask([HumanMessage("two again", id="q2")])


async def take_back(thread: Thread) -> None:
    """Remove the last turn, and later an answer."""
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
    """Return into the middle of a turn: its tool runs again, and its question gets another answer."""
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
    """Approve a call, return and edit it, then return and reject it."""
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
    """Remove messages from the middle of the state; the later ones stay."""
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


@pytest.mark.parametrize("is_async", [False, True], ids=["whole, invoke", "pruned, ainvoke"])
@pytest.mark.parametrize("scenario", [*EVERYWHERE, remove_earlier], ids=lambda it: it.__name__)
async def test_the_model_sees_what_langgraph_would_show(
    tmp_path: Path, scenario: Callable[[Thread], Awaitable[None]], is_async: bool
) -> None:
    """Each request has the same texts as without arc, and the session follows the newest run."""
    prune = is_async and scenario is not remove_earlier  # a pruned state has no earlier messages
    requests = []
    with open_engine(sqlite_url(tmp_path), settings=ArcSettings()) as engine:
        for memory in ([], [ArcMemoryMiddleware(engine, prune_state=prune)]):
            model = ScriptedToolModel()
            reviewing = [HumanInTheLoopMiddleware(interrupt_on={"multiply": True})] if scenario is review else []
            agent = create_agent(model, [multiply], middleware=[*memory, *reviewing], checkpointer=InMemorySaver())
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


def agent_over(
    engine: ContextEngine, saver: Any, *, prune: bool = False, **options: Any
) -> tuple[Any, ScriptedToolModel]:
    model = ScriptedToolModel()
    memory = ArcMemoryMiddleware(engine, prune_state=prune)
    return create_agent(model, [multiply], middleware=[memory], checkpointer=saver, **options), model


def texts(request: list[Any]) -> list[str]:
    return [message.text for message in request]


@pytest.mark.parametrize(("way", "prune"), [("invoke", True), ("ainvoke", False)], ids=["pruned", "whole"])
async def test_parallel_runs_of_one_thread(engine: ContextEngine, way: str, prune: bool) -> None:
    """Each run sees only its own state's messages; the next run continues the state that LangGraph kept."""
    states: dict[str, list[str]] = {}

    class Noting(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            states[state["messages"][-1].text] = texts(state["messages"])

    model = ScriptedToolModel()
    middleware: list[Any] = [Noting(), ArcMemoryMiddleware(engine, prune_state=prune)]
    agent = create_agent(model, middleware=middleware, checkpointer=InMemorySaver())
    thread = Thread(agent, model, is_async=way == "ainvoke")
    await thread.ask("one")
    await asyncio.gather(*(thread.ask(f"question {n}") for n in range(6)))
    for request in model.requests:
        assert texts(request) == states[request[-1].text]
    assert len(states) == 7
    if way == "ainvoke":  # threads may run sequentially
        assert len(engine.session("s").branches()) > 1
    kept = texts(await thread.messages())
    await thread.ask("two")
    assert texts(model.requests[-1])[-len(kept) - 1 :] == [*kept, "two"]
    assert texts(engine.session("s").messages())[:-1] == texts(model.requests[-1])


async def test_a_run_that_is_tried_again_makes_one_fork(engine: ContextEngine) -> None:
    """There is none if nothing follows the checkpoint that it starts from."""
    agent, model = agent_over(engine, InMemorySaver())
    thread = Thread(agent, model, is_async=True)
    model.script = ["answer 0", OSError("overloaded"), "answer 1", OSError("overloaded"), OSError("overloaded")]
    first = await thread.ask("one")
    with pytest.raises(OSError, match="overloaded"):
        await thread.ask("two")
    await thread.ask(None)
    assert len(engine.session("s").branches()) == 1
    with pytest.raises(OSError, match="overloaded"):
        await thread.ask("two instead", first)
    with pytest.raises(OSError, match="overloaded"):
        await thread.ask(None)
    await thread.ask(None)
    assert texts(model.requests[-1]) == ["one", "answer 0", "two instead"]
    assert len(engine.session("s").branches()) == 2
    await thread.ask(None, await thread.before("model", "two instead"))
    assert len(engine.session("s").branches()) == 3


async def test_what_others_write_between_two_runs(engine: ContextEngine) -> None:
    """It is shown on the branch on which it was written, and not on an earlier one."""
    agent, model = agent_over(engine, InMemorySaver())
    thread = Thread(agent, model, is_async=True)
    first = await thread.ask("one")
    engine.session("s").save_turn("from the web", "noted")
    await thread.ask("two")
    assert texts(model.requests[-1]) == ["one", "answer 0", "from the web", "noted", "two"]
    await thread.ask("two instead", first)
    assert texts(model.requests[-1]) == ["one", "answer 0", "two instead"]
    other, their_model = agent_over(engine, InMemorySaver())
    session = ArcMemoryMiddleware(engine, session_id="s")
    other = create_agent(their_model, [], middleware=[session], checkpointer=InMemorySaver())
    await other.ainvoke({"messages": ["from another thread"]}, {"configurable": {"thread_id": "t"}})
    await thread.ask("three")
    assert texts(model.requests[-1])[2:] == ["two instead", "answer 2", "from another thread", "answer 0", "three"]
    assert len(engine.session("s").branches()) == 2


async def test_the_checkpoint_counts_not_the_sessions_branch(engine: ContextEngine) -> None:
    """After `session.rewind`, a run continues its own state, and the session follows it again."""
    agent, model = agent_over(engine, InMemorySaver())
    thread = Thread(agent, model, is_async=True)
    await thread.ask("one")
    await thread.ask("two")
    session = engine.session("s")
    session.rewind(to=session.messages()[1].id or "")
    session.save_turn("from the web", "noted")
    await thread.ask("three")
    assert texts(model.requests[-1]) == ["one", "answer 0", "two", "answer 1", "three"]
    assert texts(session.messages()) == [*texts(model.requests[-1]), "answer 2"]


async def test_two_sessions_of_one_agent(engine: ContextEngine) -> None:
    """Each has its own position."""
    model = ScriptedToolModel()
    both: list[Any] = [ArcMemoryMiddleware(engine, name=name, session_id=name) for name in ("s", "t")]
    thread = Thread(create_agent(model, middleware=both, checkpointer=InMemorySaver()), model, is_async=True)
    engine.session("t").save_turn("from the web", "noted")
    first = await thread.ask("one")
    await thread.ask("two")
    await thread.ask("two instead", first)
    expected = ["one", "answer 0", "two instead", "answer 2"]
    assert texts(engine.session("s").messages()) == expected
    assert texts(engine.session("t").messages()) == ["from the web", "noted", *expected]


async def test_checkpoints_that_are_lost(engine: ContextEngine) -> None:
    """A new process with a saver in memory continues the stored conversation."""
    for text in ("one", "two"):
        agent, model = agent_over(engine, InMemorySaver())
        await Thread(agent, model, is_async=True).ask(text)
    assert texts(model.requests[-1]) == ["one", "answer 0", "two"]
    assert len(engine.session("s").branches()) == 1


@pytest.mark.parametrize("fault", ["branch deleted", "session deleted", "message removed", "nonsense"])
async def test_a_point_that_is_no_longer_there(engine: ContextEngine, fault: str) -> None:
    """The newest stored message of the state replaces it; without one, the state is stored again."""
    agent, model = agent_over(engine, InMemorySaver())
    thread = Thread(agent, model, is_async=True)
    first = await thread.ask("one")
    await thread.ask("two")
    await thread.ask("two instead", first)
    session = engine.session("s")
    if fault == "branch deleted":
        session.switch(0)
        session.delete_branch(1)
    elif fault == "session deleted":
        session.delete()
    elif fault == "message removed":
        session.remove([session.messages()[-1].id or ""])
    else:
        value = {"s": {"branch": "x", "seq": -1, "id": 7, "held": 0, "more": 1}}
        await agent.aupdate_state(CONFIG, {"arc_point": value})
    await thread.ask("three")
    before = ["one", "answer 0", "two instead", "answer 2"]
    if fault == "branch deleted":
        before = ["one", "answer 0"]  # the state's messages are not stored twice
    elif fault == "message removed":
        before.pop()
    assert texts(model.requests[-1])[: len(before)] == before
    assert texts(model.requests[-1])[-1] == "three"
    await thread.ask("four")
    assert texts(model.requests[-1])[-3:] == ["three", "answer 3", "four"]


@pytest.mark.parametrize("place", ["newest", "earlier"])
async def test_a_checkpoint_without_a_point(engine: ContextEngine, place: str) -> None:
    """The run continues after its state's newest stored message, and sees edits made there."""
    agent, model = agent_over(engine, InMemorySaver())
    thread = Thread(agent, model, is_async=True)
    first = await thread.ask([HumanMessage("one", id="q1")])
    await thread.ask("two")
    changed = {"arc_point": None, "messages": [HumanMessage("one, edited", id="q1")]}
    await agent.aupdate_state(CONFIG if place == "newest" else first, changed)
    await thread.ask("three")
    before = ["two", "answer 1"] if place == "newest" else []
    expected = ["one, edited", "answer 0", *before, "three"]
    assert texts(model.requests[-1]) == expected
    await thread.ask("four")
    assert texts(model.requests[-1]) == [*expected, "answer 2", "four"]


async def test_a_session_that_was_deleted_and_begun_again(engine: ContextEngine) -> None:
    """Positions in the deleted session don't apply to the new one."""
    agent, model = agent_over(engine, InMemorySaver())
    thread = Thread(agent, model, is_async=True)
    engine.session("s").save_turn("from the web", "noted")
    first = await thread.ask("one")
    engine.session("s").delete()
    await thread.ask("two")
    await thread.ask("two instead", first)
    assert texts(model.requests[-1]) == ["one", "answer 0", "two instead"]


async def test_the_point_is_private(engine: ContextEngine) -> None:
    """Only checkpoints contain it, not input or output."""
    agent, _ = agent_over(engine, InMemorySaver())
    result = await agent.ainvoke({"messages": ["one"], "arc_point": {"s": {"branch": 9}}}, CONFIG)
    assert set(result) == {"messages"}
    assert "arc_point" not in str(agent.get_input_jsonschema()) + str(agent.get_output_jsonschema())
    point = (await agent.aget_state(CONFIG)).values["arc_point"]["s"]
    assert (point["branch"], point["held"], point["pruned_to"]) == (0, 2, 0)


async def test_an_answer_that_is_given_again_knows_nothing_of_later_turns(tmp_path: Path) -> None:
    """Its request stores nothing new and is still built on the fork."""
    with open_engine(sqlite_url(tmp_path), settings=ArcSettings(memory={"enabled": True})) as engine:
        model = ScriptedToolModel()
        memory = ArcMemoryMiddleware(engine, user_id="ann")
        agent = create_agent(model, middleware=[memory], checkpointer=InMemorySaver())
        thread = Thread(agent, model, is_async=True)
        await thread.ask("Where am I a nurse?")
        await thread.ask("I am a nurse at the hospital of Bergen.")
        assert engine.flush()
        await thread.ask(None, await thread.before("model", "Where am I a nurse?"))
    assert texts(model.requests[-1]) == ["Where am I a nurse?"]


@pytest.mark.parametrize("way", ["travel", "removal"])
async def test_a_memory_of_a_turn_that_was_left_is_shown_nowhere(tmp_path: Path, way: str) -> None:
    """Neither the thread nor the user's other threads show it; memories of kept turns stay."""
    with open_engine(sqlite_url(tmp_path), settings=ArcSettings(memory={"enabled": True})) as engine:
        model = ScriptedToolModel()
        memory = ArcMemoryMiddleware(engine, user_id="ann")
        agent = create_agent(model, middleware=[memory], checkpointer=InMemorySaver())
        thread = Thread(agent, model, is_async=True)
        first = await thread.ask("I live in Oslo with my sister Kari.")
        await thread.ask("I am a nurse at the hospital of Bergen.")
        assert engine.flush()
        if way == "travel":
            await thread.ask("I am allergic to peanuts.", first)
        else:
            await thread.update([RemoveMessage(id=it.id) for it in (await thread.messages())[2:]])
            await thread.ask("I am allergic to peanuts.")
        assert engine.flush()
        await thread.ask("Where do I live, where am I a nurse, and am I allergic?")
        await agent.ainvoke(
            {"messages": ["Where do I live, where am I a nurse, and am I allergic?"]},
            {"configurable": {"thread_id": "t"}},
        )
    for request in model.requests[-2:]:
        assert "Bergen" not in str(request)
        assert "Oslo" in str(request)
        assert "peanuts" in str(request)


def reduced(state: list[Any], writes: list[Any]) -> list[Any]:
    for write in writes:
        state = add_messages(state, write)
    return state


class DeltaState(AgentState[Any]):
    """A state whose checkpoints store only changes of its messages."""

    messages: Annotated[list[Any], DeltaChannel(reduced, snapshot_frequency=3)]


@pytest.mark.parametrize("prune", [False, True], ids=["whole", "pruned"])
async def test_a_delta_channel_stays_intact(engine: ContextEngine, tmp_path: Path, prune: bool) -> None:
    """The state is rebuilt from its changes after each run, also from the past."""
    with SqliteSaver.from_conn_string(str(tmp_path / "c.db")) as saver:
        agent, model = agent_over(engine, saver, prune=prune, state_schema=DeltaState)
        thread = Thread(agent, model, is_async=False)
        places = [await thread.ask(f"question {n}") for n in range(8)]
        asked = [text for n in range(8) for text in (f"question {n}", f"answer {n}")]
        assert texts(await thread.messages()) == (asked[-2:] if prune else asked)
        await thread.ask("instead", places[4])
        assert texts(model.requests[-1]) == [*asked[:10], "instead"]
        assert texts(await thread.messages()) == [*([] if prune else asked[:10]), "instead", "answer 8"]


async def test_summaries_of_langchain_are_no_removals(engine: ContextEngine) -> None:
    """SummarizationMiddleware rewrites the state; the model still gets the originals, on one branch."""
    summarizing = SummarizationMiddleware(
        ScriptedToolModel(script=["a summary"] * 9), trigger=("messages", 4), keep=("messages", 1)
    )
    model = ScriptedToolModel()
    middleware: list[Any] = [ArcMemoryMiddleware(engine), summarizing]
    thread = Thread(create_agent(model, middleware=middleware, checkpointer=InMemorySaver()), model, is_async=True)
    places = [await thread.ask(f"question {n}") for n in range(6)]
    assert len(model.requests[-1]) == 11
    assert said(engine) == [
        pair for n in range(6) for pair in (("user", f"question {n}"), ("assistant", f"answer {n}"))
    ]
    assert len(engine.session("s").branches()) == 1
    await thread.ask("instead", places[3])
    assert texts(model.requests[-1])[-3:] == ["question 3", "answer 3", "instead"]
    assert len(model.requests[-1]) == 9


async def test_a_store_that_fails_while_a_run_goes_back(tmp_path: Path) -> None:
    """The agent continues with its own state, nothing is pruned, and the next run stores the missing messages."""
    with open_engine(sqlite_url(tmp_path)) as engine:
        agent, model = agent_over(engine, InMemorySaver(), prune=True)
        thread = Thread(agent, model, is_async=True)
        first = await thread.ask("one")
        await thread.ask("two")
        break_writes(tmp_path / "arc.db")
        await thread.ask("two instead", first)
        assert texts(model.requests[-1]) == ["one", "answer 0", "two instead"]
        assert texts(await thread.messages()) == ["one", "answer 0", "two instead", "answer 2"]
        mend_writes(tmp_path / "arc.db")
        await thread.ask("three")
        assert texts(model.requests[-1]) == ["one", "answer 0", "two instead", "answer 2", "three"]
        assert texts(await thread.messages()) == ["three", "answer 3"]
        assert texts(engine.session("s").messages())[:4] == ["one", "answer 0", "two instead", "answer 2"]
        assert texts(engine.session("s", branch=0).messages()) == ["one", "answer 0", "two", "answer 1"]


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_deleting_a_thread_deletes_its_session(tmp_path: Path, way: str) -> None:
    """Only its user's session is deleted; a second call finds nothing."""
    with open_engine(sqlite_url(tmp_path)) as engine:
        saver, model = InMemorySaver(), ScriptedToolModel()
        memory = ArcMemoryMiddleware(engine, user_id="ann")
        thread = Thread(create_agent(model, middleware=[memory], checkpointer=saver), model, is_async=way == "async")
        await thread.ask("one")

        async def delete(**scope: Any) -> bool:
            if way == "sync":
                return delete_thread(engine, saver, "s", **scope)
            return await adelete_thread(engine, saver, "s", **scope)

        with pytest.raises(SessionNotFoundError):
            await delete(user_id="bob")
        assert saver.get(CONFIG) is not None
        assert await delete(user_id="ann")
        assert saver.get(CONFIG) is None
        assert not engine.session("s", user_id="ann").exists()
        assert not await delete(user_id="ann")
        with pytest.raises(InvalidInputError, match="checkpointer"):
            delete_thread(engine, None, "s")  # type: ignore[arg-type]
