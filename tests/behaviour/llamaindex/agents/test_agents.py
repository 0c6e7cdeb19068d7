"""The cases of LlamaIndex's own tests for agents, alone and in a workflow, with `ArcMemory`.

In addition, every request is valid for all providers, and the stored messages are those that were said, once and in
order.
"""

from pathlib import Path
from typing import Any

import pytest
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.core.workflow.errors import WorkflowRuntimeError

from arc_common.engine.context_engine import ContextEngine
from llamaindex_arc import ArcMemory, open_engine
from tests.support.databases import sqlite_url
from tests.support.llamaindex_agents import (
    ADD,
    WARNINGS,
    MakeAgent,
    Script,
    add,
    agent_of,
    agents,
    calls,
    roles,
    workflow_of,
)
from tests.support.llamaindex_helpers import assistant, said, settle, system, user

pytestmark = WARNINGS

# --- one agent --------------------------------------------------------------------------------------------------------


@agents
async def test_a_run_with_a_history(make: MakeAgent, memory: ArcMemory) -> None:
    """It replaces the stored messages; without a question, its last message is the question."""
    history = [user("Earlier?"), assistant("Earlier!")]
    await make(Script("one")).run(user_msg="first", memory=memory)
    script = Script("two", "three")
    await make(script).run(user_msg="second", chat_history=history, memory=memory)
    assert memory.get_all() == [*history, user("second"), assistant("two")]
    await make(script).run(chat_history=[*history, user("Really?")], memory=memory)
    assert memory.get_all() == [*history, user("Really?"), assistant("three")]
    script.check()


@agents
@pytest.mark.parametrize("streamed", [False, True], ids=["awaited", "streamed"])
async def test_tool_calls_are_remembered_across_a_restart(make: MakeAgent, tmp_path: Path, streamed: bool) -> None:
    """Question, call, result and answer are stored once and in order."""
    answers = [answer for n in range(3) for answer in (calls(ADD, first=n + 1), f"answer {n}")]
    script = Script(*answers)
    for n in range(3):
        with open_engine(sqlite_url(tmp_path)) as engine:
            memory = ArcMemory.from_defaults(engine=engine, session_id="s")
            handler = make(script, FunctionTool.from_defaults(add)).run(user_msg=f"question {n}", memory=memory)
            if streamed:
                assert [event async for event in handler.stream_events()]
            assert str(await handler) == f"answer {n}"
            assert roles(memory) == ["user", "assistant", "tool", "assistant"] * (n + 1)
    assert said(script.seen[-1])[1] == "question 0"
    script.check()


# --- too many steps ---------------------------------------------------------------------------------------------------


@agents
async def test_too_many_steps(make: MakeAgent, memory: ArcMemory) -> None:
    """The run fails; the question is stored without partial steps, and the next run works."""
    script = Script(calls(ADD))
    with pytest.raises(WorkflowRuntimeError, match="Either something went wrong"):
        await make(script, FunctionTool.from_defaults(add)).run(user_msg="test", memory=memory, max_iterations=3)
    assert said(memory.get_all()) == ["test"]
    again = Script("fine")
    assert str(await make(again).run(user_msg="and now?", memory=memory)) == "fine"
    again.check()


@agents
async def test_a_reused_context_goes_on_after_too_many_steps(make: MakeAgent, memory: ArcMemory) -> None:
    """The next run puts the failed run's steps after its question; every call still has its result."""
    script = Script(calls(ADD), calls(ADD, first=2), "fine")
    agent = make(script, FunctionTool.from_defaults(add))
    ctx = Context(agent)
    with pytest.raises(WorkflowRuntimeError):
        await agent.run(user_msg="first", memory=memory, ctx=ctx, max_iterations=2)
    await agent.run(user_msg="second", ctx=ctx, max_iterations=10)
    await agent.run(user_msg="third", ctx=ctx, max_iterations=10)
    last = Script("fine")
    await make(last).run(user_msg="fourth", memory=await ctx.store.get("memory"))
    last.check()
    assert [text for text in said(last.seen[-1]) if text in ("first", "second", "third", "fourth")] == [
        "first",
        "second",
        "third",
        "fourth",
    ]


# --- long conversations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "placement"), [(agent_of, "system"), (workflow_of, "user")])
async def test_a_long_conversation_with_tools(make: MakeAgent, engine: ContextEngine, placement: Any) -> None:
    """Summarised at a small limit over many runs, every request is valid and every message is stored."""
    memory = ArcMemory.from_defaults(
        engine=engine, session_id="s", token_limit=400, facts_role=placement, chat_history=[system("Be brief.")]
    )
    scripts = []
    for n in range(12):
        script = Script(calls(ADD, ADD, first=10 * n), f"Order A-{1000 + n} goes to Lisbon.")
        scripts.append(script)
        question = f"My order number is A-{1000 + n}, and it must not be sent to Berlin."
        await make(script, FunctionTool.from_defaults(add)).run(user_msg=question, memory=memory)
        settle(engine)
    for script in scripts:
        script.check()
    assert len(memory.get_all()) == 1 + 12 * 5
    last = scripts[-1].seen[-1]
    assert any("<arc:memory>" in str(message.content) for message in last if message.role.value == placement)
    assert len(last) < 40
