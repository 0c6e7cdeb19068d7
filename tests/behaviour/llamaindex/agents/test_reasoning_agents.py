"""Agents that reason in text, over tools or code, with `ArcChatMemoryBuffer` as memory: see `test_agents`."""

from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentInput, AgentWorkflow, CodeActAgent
from llama_index.core.base.llms.types import MessageRole

from arc_common.engine.context_engine import ContextEngine
from llamaindex_arc import ArcChatMemoryBuffer
from tests.behaviour.llamaindex.test_layers import told
from tests.support.llamaindex_agents import ANSWER, THOUGHT, WARNINGS, Script, calculator, roles
from tests.support.llamaindex_helpers import said, settle

pytestmark = WARNINGS

UNREADABLE = 'Thought: I need to add these numbers\nAction: add\n{"a": 5 "b": 3}\n'


@pytest.mark.parametrize(
    ("answers", "reported"),
    [
        pytest.param([THOUGHT, ANSWER], None, id="at once"),
        pytest.param([UNREADABLE, THOUGHT, ANSWER], "Error while parsing the output", id="unreadable first"),
        pytest.param(["", THOUGHT, ANSWER], "FAILURE: Your previous response was empty", id="empty first"),
    ],
)
@pytest.mark.parametrize("in_workflow", [False, True])
async def test_a_react_agent(
    memory: ArcChatMemoryBuffer, answers: list[str], reported: str | None, in_workflow: bool
) -> None:
    """Counts with its tool, also where its first try was of no use; a second run sees the first."""
    agent, script = calculator(*answers)
    runner = AgentWorkflow(agents=[agent]) if in_workflow else agent
    handler = runner.run(user_msg="Can you add 5 and 3?", memory=memory)
    inputs = [str(event.input[-1].content) async for event in handler.stream_events() if isinstance(event, AgentInput)]
    assert reported is None or any(reported in text for text in inputs)
    assert "8" in str(await handler)
    await agent.run(user_msg="And again?", memory=memory)
    assert [text for text in said(memory.get_all()) if text in ("Can you add 5 and 3?", "And again?")] == [
        "Can you add 5 and 3?", "And again?"
    ]  # fmt: skip
    script.check(0, -1)  # between them it shows its own empty answer, if there was one


def code_agent(script: Script, ran: list[str], **given: Any) -> CodeActAgent:
    def execute(code: str) -> str:
        ran.append(code.strip())
        return "4"

    return CodeActAgent(name="coder", description="Codes.", llm=script.llm, code_execute_fn=execute, **given)


CODE = "Let me calculate that.\n<execute>\nprint(2 + 2)\n</execute>"


async def test_a_code_act_agent(memory: ArcChatMemoryBuffer) -> None:
    """Code and its result are stored with the turn, and a second run is shown them."""
    ran: list[str] = []
    script = Script(CODE, "It is 4.", "I said 4.")
    assert str(await code_agent(script, ran).run(user_msg="What is 2 + 2?", memory=memory)) == "It is 4."
    assert ran == ["print(2 + 2)"]
    assert roles(memory) == ["user", "assistant", "user", "assistant"]
    assert "4" in str(memory.get_all()[2].content)
    assert str(await code_agent(script, ran).run(user_msg="What did you say?", memory=memory)) == "I said 4."
    assert said(script.seen[-1])[1:] == said(memory.get_all())[:-1]
    script.check()


@pytest.mark.parametrize("given", [{"system_prompt": "Be kind."}, {}], ids=["system prompt", "none"])
async def test_a_code_act_agent_and_what_is_remembered(engine: ContextEngine, given: dict[str, Any]) -> None:
    """It writes its own prompt over the first system message; with the user's words, the memory is out of its way."""
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", facts_role="user")
    memory.put_messages(told(25))
    settle(engine)
    script = Script("Noted.")
    await code_agent(script, [], **given).run(user_msg="What was my order number?", memory=memory)
    request = script.seen[0]
    assert any(str(message.content).startswith("<arc:memory>") for message in request if message.role.value == "user")
    assert [message.role for message in request].count(MessageRole.SYSTEM) == 1
    assert len(memory.get_all()) == 52
    script.check()
