"""`ArcMemoryMiddleware(remember=False)` shows stored content and stores nothing of the turn."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from arc_common import ContextEngine, InvalidInputError, Message, SessionNotFoundError
from langchain_arc import ArcMemoryMiddleware, memory_tools, open_engine
from tests.support.databases import sqlite_url, unreadable
from tests.support.langchain_agents import ScriptedToolModel, call
from tests.support.langchain_helpers import said

CONFIG: Any = {"configurable": {"thread_id": "s"}}


def look_up(what: str) -> str:
    """Look something up."""
    return f"{what} is in xylophia"


def is_kept(runtime: Any) -> bool:
    return not (runtime.context or {}).get("temporary")


def agent_with(engine: ContextEngine, *script: Any, saver: Any = None, **given: Any) -> tuple[Any, ScriptedToolModel]:
    """Return an agent whose runs are temporary if their context says so."""
    model = ScriptedToolModel(script=[*script])
    given = {"remember": is_kept, **given}
    tools, behind = given.pop("tools", [look_up]), given.pop("behind", [])
    memory = ArcMemoryMiddleware(engine, user_id="ann", **given)
    return create_agent(model, tools, middleware=[memory, *behind], checkpointer=saver, context_schema=dict), model


async def ask(agent: Any, value: Any, *, temporary: bool, way: str = "invoke", config: Any = CONFIG) -> Any:
    value = {"messages": [HumanMessage(value)]} if isinstance(value, str) else value
    context = {"temporary": temporary}
    if way == "ainvoke":
        return await agent.ainvoke(value, config, context=context)
    return await asyncio.to_thread(agent.invoke, value, config, context=context)


def shown(model: ScriptedToolModel, request: int = -1) -> list[str]:
    return [message.text.partition("\n\n<arc:")[0] for message in model.requests[request] if message.type != "system"]


def kept(engine: ContextEngine) -> list[str]:
    return [message.text for message in engine.session("s", user_id="ann").messages()]


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("saver", [InMemorySaver, lambda: None], ids=["checkpointer", "none"])
async def test_what_was_stored_is_shown_and_nothing_is_kept(tmp_path: Path, saver: Any, way: str) -> None:
    """Facts, summary, memories and messages are shown; no byte of the turn is in the database."""
    with open_engine(sqlite_url(tmp_path)) as engine:
        session = engine.session("s", user_id="ann")
        for n in range(20):
            session.save_turn(f"My dog number {n} is called Rex{n}. " + "Well then. " * 60, "Noted.")
        session.compact()
        engine.memories(user_id="ann").add("The red kettle stands in Oslo.")
        engine.flush()
        before, facts, memories = (
            kept(engine),
            session.facts(),
            [one.text for one in engine.memories(user_id="ann").list()],
        )
        looking = AIMessage("", tool_calls=[call("look_up", "c", what="zanzibar")])
        agent, model = agent_with(engine, looking, "It is in quuxland.", "As I said.", saver=saver(), remember=False)
        await ask(agent, "Where are the red kettle and the flumph?", temporary=True, way=way)
        system, first = model.requests[0][0].text, model.requests[0][-1].text
        assert "Rex0" in system
        assert "Oslo" in first
        assert shown(model, 0)[-3:-1] == before[-2:]
        assert shown(model, 1)[-3:] == ["Where are the red kettle and the flumph?", "", "zanzibar is in xylophia"]
        await ask(agent, "And the other?", temporary=True, way=way)
        turn = ["Where are the red kettle and the flumph?", "", "zanzibar is in xylophia", "It is in quuxland."]
        assert shown(model)[-5:-1] == (turn if saver() else before[-4:])
        engine.flush()
        assert kept(engine) == before
        assert session.facts() == facts
        assert [one.text for one in engine.memories(user_id="ann").list()] == memories
    stored = everything_in(tmp_path)
    assert b"Rex0" in stored
    assert not [word for word in (b"flumph", b"zanzibar", b"xylophia", b"quuxland") if word in stored]


def test_a_chat_that_was_always_temporary_leaves_no_session(engine: ContextEngine) -> None:
    agent: Any = create_agent(ScriptedToolModel(), middleware=[ArcMemoryMiddleware(engine, remember=False)])
    assert agent.invoke({"messages": ["Hello."]}, CONFIG)["messages"][-1].text == "answer 0"
    assert not engine.session("s").exists()


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_no_later_run_of_the_thread_keeps_it(engine: ContextEngine, tmp_path: Path, way: str) -> None:
    """The state keeps the temporary turns; the conversation continues without them and without a fork."""
    looking = AIMessage("", tool_calls=[call("look_up", "c", what="it")])
    agent, model = agent_with(engine, "One.", looking, "Two.", "Three.", "Four.", "Five.", saver=InMemorySaver())
    for n, temporary in enumerate((False, True, True, False, False)):
        await ask(agent, f"Question {n}.", temporary=temporary, way=way)
    assert kept(engine) == ["Question 0.", "One.", "Question 3.", "Four.", "Question 4.", "Five."]
    assert shown(model, 3) == ["Question 0.", "One.", "Question 1.", "", "it is in xylophia", "Two.", "Question 2."]
    assert shown(model) == ["Question 0.", "One.", "Question 3.", "Four.", "Question 4."]
    assert len(agent.get_state(CONFIG).values["messages"]) == 12
    await ask(agent, "Question 5.", temporary=True)
    assert shown(model)[-3:] == ["Question 4.", "Five.", "Question 5."]
    engine.flush()
    stored = everything_in(tmp_path)
    assert [n for n in range(6) if f"Question {n}".encode() in stored] == [0, 3, 4]


async def test_a_subclass_keeps_nothing_either(engine: ContextEngine) -> None:
    """It also keeps its own hook before each run, and its name."""
    begun: list[Any] = []

    class Own(ArcMemoryMiddleware):
        def before_agent(self, state: Any, runtime: Any) -> Any:
            begun.append(runtime.context)
            return super().before_agent(state, runtime)

        async def abefore_agent(self, state: Any, runtime: Any) -> Any:
            return await super().abefore_agent(state, runtime)

    memory = Own(engine, remember=is_kept)
    agent: Any = create_agent(
        ScriptedToolModel(), middleware=[memory], checkpointer=InMemorySaver(), context_schema=dict
    )
    for n, temporary in enumerate((True, False)):
        await ask(agent, f"Question {n}.", temporary=temporary)
    assert said(engine) == [("user", "Question 1."), ("assistant", "answer 1")]
    assert (len(begun), memory.name, isinstance(memory, Own)) == (2, "Own", True)


async def test_a_temporary_run_that_fails_is_not_kept_either(engine: ContextEngine) -> None:
    """The model or a tool may fail."""

    def broken() -> str:
        """Always fails."""
        raise OSError("the tool is down")

    script = [OSError("overloaded"), AIMessage("", tool_calls=[call("broken", "c")]), "Yes."]
    agent, _ = agent_with(engine, *script, saver=InMemorySaver(), tools=[broken])
    for text in ("The secret is 1.", "The secret is 2."):
        with pytest.raises(OSError, match=r"down|overloaded"):
            await ask(agent, text, temporary=True)
    await ask(agent, "Are you there?", temporary=False)
    assert kept(engine) == ["Are you there?", "Yes."]


async def test_a_person_decides_in_a_temporary_run(engine: ContextEngine) -> None:
    """The resumed run is temporary, too."""
    asking = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
    looking = AIMessage("", tool_calls=[call("look_up", "c", what="it")])
    agent, model = agent_with(engine, looking, "Two.", "Yes.", saver=InMemorySaver(), behind=[asking])
    await ask(agent, "Where is it?", temporary=True)
    await ask(agent, Command(resume={"decisions": [{"type": "approve"}]}), temporary=True)
    assert shown(model) == ["Where is it?", "", "it is in xylophia"]
    await ask(agent, "Are you there?", temporary=False)
    assert kept(engine) == ["Are you there?", "Yes."]


async def test_a_temporary_run_from_an_earlier_checkpoint(engine: ContextEngine) -> None:
    """It does not see later messages, and the conversation is unchanged."""
    agent, model = agent_with(engine, "One.", "Two.", "Other.", "Three.", saver=InMemorySaver())
    await ask(agent, "First.", temporary=False)
    earlier = agent.get_state(CONFIG).config
    await ask(agent, "Second.", temporary=False)
    await ask(agent, "And if not?", temporary=True, config=earlier)
    assert shown(model) == ["First.", "One.", "And if not?"]
    assert kept(engine) == ["First.", "One.", "Second.", "Two."]


async def test_a_store_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The state is shown; its messages are not stored once the store is back."""
    url = sqlite_url(tmp_path)
    with open_engine(url) as engine:
        agent, model = agent_with(engine, saver=InMemorySaver())
        await ask(agent, "First.", temporary=False)
        with unreadable(url, "arc_messages"):
            await ask(agent, "The secret is 1.", temporary=True)
        assert shown(model) == ["First.", "answer 0", "The secret is 1."]
        assert "could not be read" in caplog.text
        await ask(agent, "Last.", temporary=False)
        assert kept(engine) == ["First.", "answer 0", "Last.", "answer 2"]


async def test_a_pruned_state(engine: ContextEngine) -> None:
    """It keeps temporary turns, which are stored nowhere else."""
    agent, model = agent_with(engine, saver=InMemorySaver(), prune_state=True)
    for n, temporary in enumerate((False, False, True, False, False)):
        await ask(agent, f"Question {n}.", temporary=temporary)
    assert shown(model) == [text for n in (0, 1, 3) for text in (f"Question {n}.", f"answer {n}")] + ["Question 4."]
    state = [message.text for message in agent.get_state(CONFIG).values["messages"]]
    assert state == ["Question 2.", "answer 2", "Question 4.", "answer 4"]


async def test_messages_removed_beside_a_temporary_turn(engine: ContextEngine) -> None:
    """A removal forks the conversation as usual; temporary turns alone never do."""
    agent, model = agent_with(engine, saver=InMemorySaver())
    for n, temporary in enumerate((False, True, False)):
        await ask(agent, f"Question {n}.", temporary=temporary)
    messages = agent.get_state(CONFIG).values["messages"]
    agent.update_state(CONFIG, {"messages": [RemoveMessage(id=message.id) for message in messages[2:]]})
    await ask(agent, "Question 3.", temporary=False)
    assert shown(model) == ["Question 0.", "answer 0", "Question 3."]
    assert kept(engine) == ["Question 0.", "answer 0", "Question 3.", "answer 3"]


@pytest.mark.parametrize("saver", [InMemorySaver, lambda: None], ids=["checkpointer", "none"])
async def test_memory_tools_save_nothing_in_it(engine: ContextEngine, saver: Any) -> None:
    """They still search and forget."""
    engine.memories(user_id="ann").add("Ann has a dog.")
    calls = [call("save_memory", "c1", content="Has a cat."), call("search_memory", "c2", query="dog")]
    script = [AIMessage("", tool_calls=calls), "Fine.", AIMessage("", tool_calls=[calls[0]]), "Fine."]
    agent, _ = agent_with(engine, *script, saver=saver(), tools=memory_tools(engine, user_id="ann"))
    answer = await ask(agent, "I have a cat.", temporary=True)
    refused, found = answer["messages"][-3:-1]
    assert (refused.status, refused.text) == ("error", "Not saved: this conversation is temporary.")
    assert "Ann has a dog." in found.text
    await ask(agent, "I have a cat.", temporary=False)
    engine.flush()
    assert "Has a cat." in [memory.text for memory in engine.memories(user_id="ann").list()]


async def test_another_user_s_conversation_is_not_shown(engine: ContextEngine) -> None:
    engine.session("s", user_id="bob").append(Message("user", "The code is 7."))
    agent, model = agent_with(engine)
    with pytest.raises(SessionNotFoundError):
        await ask(agent, "What is the code?", temporary=True)
    assert model.requests == []


async def test_wrong_values(engine: ContextEngine) -> None:
    """They are rejected by the constructor or before the model call; an undecidable value is not stored."""
    with pytest.raises(InvalidInputError, match="remember"):
        ArcMemoryMiddleware(engine, remember="no")  # type: ignore[arg-type]
    agent, model = agent_with(engine, remember=lambda runtime: None)
    with pytest.raises(InvalidInputError, match="remember"):
        await ask(agent, "Hello.", temporary=True)
    assert model.requests == []
    assert ArcMemoryMiddleware(engine, remember=False).name == "ArcMemoryMiddleware"
    assert said(engine) == []
