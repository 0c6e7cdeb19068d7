"""Agents that hand over, and workflows with state, saving and human input, over `ArcMemory`; see `test_agents`."""

from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentInput, AgentWorkflow, CodeActAgent
from llama_index.core.base.llms.types import MessageRole
from llama_index.core.workflow import Context
from workflows.context import JsonSerializer, PickleSerializer
from workflows.events import HumanResponseEvent, InputRequiredEvent

from arc_common.engine.context_engine import ContextEngine
from llamaindex_arc import ArcMemory, open_engine
from tests.behaviour.llamaindex.test_summaries import told
from tests.support.databases import sqlite_url
from tests.support.llamaindex_agents import (
    ANSWER,
    THOUGHT,
    WARNINGS,
    MakeAgent,
    Script,
    agents,
    calculator,
    calls,
    roles,
    workflow_of,
)
from tests.support.llamaindex_helpers import said, settle, user

CODE = "Let me calculate that.\n<execute>\nprint(2 + 2)\n</execute>"

pytestmark = WARNINGS

# --- several agents ---------------------------------------------------------------------------------------------------


# --- state, saving and people -----------------------------------------------------------------------------------------


async def test_a_workflow_with_state(memory: ArcMemory) -> None:
    """The state is in the question's first request, once; the stored message is the question.

    A memory that returns its own objects, as `ChatMemoryBuffer` does and `Memory` doesn't, keeps the first step's state
    in the conversation.
    """

    async def modify_state(random_arg: str, ctx_val: Context) -> str:
        """Count."""
        state = await ctx_val.store.get("state")
        state["counter"] += 1
        await ctx_val.store.set("state", state)
        return f"State updated to {state}"

    script = Script(calls(("modify_state", {"random_arg": "hello"})), "Current state processed")
    workflow = workflow_of(
        script, modify_state, initial_state={"counter": 0}, state_prompt="Current state: {state}. User message: {msg}"
    )
    handler = workflow.run(user_msg="test", memory=memory)
    inputs = [event.input async for event in handler.stream_events() if isinstance(event, AgentInput)]
    shown = [[str(m.content).count("Current state:") for m in one if m.role is MessageRole.USER] for one in inputs]
    assert shown[0] == [1]
    assert max(map(max, shown)) == 1
    await handler
    assert (await handler.ctx.store.get("state"))["counter"] == 1  # type: ignore[union-attr]  # it has run
    assert roles(memory) == ["user", "assistant", "tool", "assistant"]
    assert memory.get_all()[0] == user("test")
    script.check()


async def hitl(ctx: Context) -> str:
    """Ask a person."""
    event = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="What is your name?"))
    return f"Your name is {event.response}"


@agents
@pytest.mark.parametrize("serializer", [JsonSerializer, PickleSerializer])
@pytest.mark.parametrize("shared", [False, True], ids=["carried along", "in a database"])
async def test_a_person_in_the_middle(make: MakeAgent, serializer: Any, shared: bool, tmp_path: Any) -> None:
    """A run saved while it waits is restored and ends; the question is stored once, the call with its result.

    Over a database, a saved run finds the engine again while it is open.
    """
    url = sqlite_url(tmp_path, "c.db") if shared else None
    with open_engine(url) if url else open_engine() as engine:
        memory = ArcMemory.from_defaults(engine=engine, session_id="s")
        script = Script(calls(("hitl", {})), "HITL successful")
        agent = make(script, hitl)
        handler = agent.run(user_msg="test", memory=memory)
        saved: dict[str, Any] = {}
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                saved = handler.ctx.to_dict(serializer=serializer())  # type: ignore[union-attr]  # it is running
                await handler.cancel_run()
                break
        restored = Context.from_dict(agent, saved, serializer=serializer())
        handler = agent.run(ctx=restored)
        handler.ctx.send_event(HumanResponseEvent(response="John Doe"))  # type: ignore[union-attr]  # as above
        assert "HITL successful" in str(await handler)
        kept = memory if shared else await restored.store.get("memory")
        assert isinstance(kept, ArcMemory)
        assert roles(kept) == ["user", "assistant", "tool", "assistant"]
        assert "John Doe" in str(kept.get_all()[2].content)
        script.check()


UNREADABLE = 'Thought: I need to add these numbers\nAction: add\n{"a": 5 "b": 3}\n'


@pytest.mark.parametrize(
    ("answers", "reported", "in_workflow"),
    [
        pytest.param([UNREADABLE, THOUGHT, ANSWER], "Error while parsing the output", False, id="unreadable first"),
        pytest.param(["", THOUGHT, ANSWER], "FAILURE: Your previous response was empty", True, id="empty first"),
    ],
)
async def test_a_react_agent(memory: ArcMemory, answers: list[str], reported: str, in_workflow: bool) -> None:
    """It counts with its tool, even if its first attempt is useless; a second run sees the first."""
    agent, script = calculator(*answers)
    runner = AgentWorkflow(agents=[agent]) if in_workflow else agent
    handler = runner.run(user_msg="Can you add 5 and 3?", memory=memory)
    inputs = [str(event.input[-1].content) async for event in handler.stream_events() if isinstance(event, AgentInput)]
    assert any(reported in text for text in inputs)
    assert "8" in str(await handler)
    await agent.run(user_msg="And again?", memory=memory)
    assert [text for text in said(memory.get_all()) if text in ("Can you add 5 and 3?", "And again?")] == [
        "Can you add 5 and 3?", "And again?"
    ]  # fmt: skip
    script.check(0, -1)  # the request in between has its own empty answer, if any


def code_agent(script: Script, ran: list[str], **given: Any) -> CodeActAgent:
    def execute(code: str) -> str:
        ran.append(code.strip())
        return "4"

    return CodeActAgent(name="coder", description="Codes.", llm=script.llm, code_execute_fn=execute, **given)


@pytest.mark.parametrize("given", [{"system_prompt": "Be kind."}, {}], ids=["system prompt", "none"])
async def test_a_code_act_agent_and_what_is_remembered(engine: ContextEngine, given: dict[str, Any]) -> None:
    """It overwrites the first system message with its prompt; memory in the user's message is unaffected."""
    memory = ArcMemory.from_defaults(engine=engine, session_id="s", facts_role="user")
    memory.put_messages(told(25))
    settle(engine)
    script = Script("Noted.")
    await code_agent(script, [], **given).run(user_msg="What was my order number?", memory=memory)
    request = script.seen[0]
    assert any(str(message.content).startswith("<arc:memory>") for message in request if message.role.value == "user")
    assert [message.role for message in request].count(MessageRole.SYSTEM) == 1
    assert len(memory.get_all()) == 52
    script.check()
