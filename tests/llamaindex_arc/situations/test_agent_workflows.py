"""The situations of LlamaIndex's own tests for agents and their workflows, with `ArcChatMemoryBuffer` as memory.

Beside what their tests ask for: every request that a model got is one that providers take, and what is stored is what
was said, once and in order.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import (
    AgentInput,
    AgentOutput,
    AgentStreamStructuredOutput,
    AgentWorkflow,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
    ToolCallResult,
)
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.core.workflow.errors import WorkflowRuntimeError
from workflows.context import JsonSerializer, PickleSerializer
from workflows.events import HumanResponseEvent, InputRequiredEvent

from arc_common.engine import ContextEngine
from arc_common.testing.providers import anthropic, gemini, openai
from llamaindex_arc import ArcChatMemoryBuffer, open_engine, to_arc
from tests.llamaindex_arc.helpers import assistant, said, settle, system, user
from tests.llamaindex_arc.test_layers import told

pytestmark = [
    # An agent looks through all of its own attributes for workflow steps, pydantic's deprecated ones among them.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    # By the agents themselves.
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),
]


class Script:
    """A model that says one thing after the other, and keeps what it was asked."""

    def __init__(self, *answers: ChatMessage | str) -> None:
        self._answers = [assistant(one) if isinstance(one, str) else one for one in answers]
        self.seen: list[list[ChatMessage]] = []

    def __call__(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
        self.seen.append([message.model_copy(deep=True) for message in messages])
        return self._answers[min(len(self.seen), len(self._answers)) - 1].model_copy(deep=True)

    @property
    def llm(self) -> MockFunctionCallingLLM:
        return MockFunctionCallingLLM(response_generator=self, is_chat_model=True)

    def check(self, *places: int) -> None:
        """Every request, or the ones at these places, is one that each provider takes."""
        assert self.seen
        for request in [self.seen[place] for place in places] if places else self.seen:
            messages = list(map(to_arc, request))
            for provider in (openai, anthropic, gemini):
                found = [one for one in provider.violations(provider.render(messages)) if one.rule != "last"]
                assert found == [], (provider.__name__, messages)


def calls(*requests: tuple[str, dict[str, Any]], first: int = 1) -> ChatMessage:
    """A message with these calls, numbered."""
    blocks = [
        ToolCallBlock(tool_call_id=f"call_{number}", tool_name=name, tool_kwargs=arguments)
        for number, (name, arguments) in enumerate(requests, first)
    ]
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text="let me see"), *blocks])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


def agent_of(script: Script, *tools: Any, **given: Any) -> FunctionAgent:
    given = {"name": "agent", "description": "test", "system_prompt": "Be kind.", **given}
    return FunctionAgent(llm=script.llm, tools=list(tools), **given)


def workflow_of(script: Script, *tools: Any, **given: Any) -> AgentWorkflow:
    return AgentWorkflow(agents=[agent_of(script, *tools)], root_agent="agent", **given)


def roles(memory: ArcChatMemoryBuffer) -> list[str]:
    return [message.role.value for message in memory.get_all()]


@pytest.fixture
def memory() -> ArcChatMemoryBuffer:
    return ArcChatMemoryBuffer.from_defaults(token_limit=20_000)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with open_engine() as opened:
        yield opened


MakeAgent = Callable[..., FunctionAgent | AgentWorkflow]
agents = pytest.mark.parametrize("make", [agent_of, workflow_of], ids=["FunctionAgent", "AgentWorkflow"])
ADD = ("add", {"a": 5, "b": 3})


# --- one agent --------------------------------------------------------------------------------------------------------


@agents
async def test_an_answer_without_tools(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """Question and answer."""
    script = Script("Success with the FunctionAgent")
    handler = make(script).run(user_msg="test", memory=memory)
    assert [event async for event in handler.stream_events()]
    assert str(await handler) == "Success with the FunctionAgent"
    assert said(memory.get_all()) == ["test", "Success with the FunctionAgent"]
    script.check()


@agents
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_tool_without_arguments(make: MakeAgent, memory: ArcChatMemoryBuffer, streaming: bool) -> None:
    """Is called once, whether the answer comes in a stream or not."""
    called: list[None] = []

    def empty_tool() -> str:
        """Do nothing."""
        called.append(None)
        return "empty tool result"

    script = Script(calls(("empty_tool", {})), "finished")
    agent = make(script, empty_tool)
    for one in agent.agents.values() if isinstance(agent, AgentWorkflow) else [agent]:
        one.streaming = streaming
    assert str(await agent.run(user_msg="Run the empty tool", memory=memory)) == "finished"
    assert called == [None]
    assert roles(memory) == ["user", "assistant", "tool", "assistant"]
    script.check()


@agents
async def test_several_tools_in_one_step(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """Each call has its result, in whatever order they come, and the next turn sees all of them."""
    script = Script(calls(ADD, ADD, ("add", {"a": 1, "b": 1})), "done", "still done")
    await make(script, FunctionTool.from_defaults(add)).run(user_msg="Add a lot", memory=memory)
    await make(script, FunctionTool.from_defaults(add)).run(user_msg="And now?", memory=memory)
    results = [message for message in memory.get_all() if message.role is MessageRole.TOOL]
    assert sorted(message.additional_kwargs["tool_call_id"] for message in results) == ["call_1", "call_2", "call_3"]
    assert len([message for message in script.seen[-1] if message.role is MessageRole.TOOL]) == 3
    script.check()


@agents
async def test_a_tool_that_fails(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """The error is the call's result: the model sees it, and so does the next turn."""
    script = Script(calls(("fail", {"reason": "no such thing"})), "I could not.")
    handler = make(script, FunctionTool.from_defaults(fail)).run(user_msg="Try", memory=memory)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    assert [result.tool_output.is_error for result in results] == [True]
    assert str(await handler) == "I could not."
    assert "no such thing" in str(memory.get_all()[2].content)
    script.check()


@agents
async def test_a_tool_that_is_not_there(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """Its call is answered, too."""
    script = Script(calls(("unknown_tool", {})), "I see.")
    await make(script, FunctionTool.from_defaults(add)).run(user_msg="Try", memory=memory)
    assert roles(memory) == ["user", "assistant", "tool", "assistant"]
    script.check()


@agents
async def test_a_result_that_is_the_answer(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """`return_direct` ends the run, except with an error; the turn is stored whole, and another one can follow."""
    direct = FunctionTool.from_defaults(add, return_direct=True)
    failing = FunctionTool.from_defaults(fail, return_direct=True)
    script = Script(calls(("fail", {"reason": "busy"})), calls(ADD, first=2), "next answer")
    assert str(await make(script, direct, failing).run(user_msg="Add", memory=memory)) == "8"
    assert roles(memory)[:2] == ["user", "assistant"]
    assert memory.get_all()[-1].content == "8"
    assert str(await make(script, direct).run(user_msg="And?", memory=memory)) == "next answer"
    script.check()


@agents
async def test_the_question_as_a_message_of_blocks(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """All of its blocks are stored and shown."""
    question = ChatMessage(role="user", blocks=[TextBlock(text="Can you help?"), TextBlock(text="It's one plus one.")])
    script = Script("yes")
    await make(script).run(user_msg=question, memory=memory)
    assert memory.get_all()[0] == question == script.seen[0][-1]


@agents
async def test_a_run_with_a_history(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """It takes the place of what was stored; without a question, its last message is the question."""
    history = [user("Earlier?"), assistant("Earlier!")]
    await make(Script("one")).run(user_msg="first", memory=memory)
    script = Script("two", "three")
    await make(script).run(user_msg="second", chat_history=history, memory=memory)
    assert memory.get_all() == [*history, user("second"), assistant("two")]
    await make(script).run(chat_history=[*history, user("Really?")], memory=memory)
    assert memory.get_all() == [*history, user("Really?"), assistant("three")]
    script.check()


@agents
async def test_one_memory_serves_many_runs(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """Each run is shown the runs before it, once."""
    script = Script(*(f"answer {n}" for n in range(4)))
    for n in range(4):
        await make(script).run(user_msg=f"question {n}", memory=memory)
    assert [message.content for message in script.seen[-1]][1:] == said(memory.get_all())[:-1]
    assert said(memory.get_all())[-1] == "answer 3"


@agents
async def test_an_answer_in_thoughts_only(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """Some models leave the text empty: what came is stored, and the next request is sound."""
    thought = ChatMessage(role="assistant", blocks=[ThinkingBlock(content="The capital is Paris.")])
    script = Script(thought, "Paris.")
    await make(script).run(user_msg="What is the capital?", memory=memory)
    assert str(await make(script).run(user_msg="Say it.", memory=memory)) == "Paris."
    assert said(memory.get_all())[::2] == ["What is the capital?", "Say it."]
    assert "What is the capital?" in said(script.seen[-1])


# --- too many steps ---------------------------------------------------------------------------------------------------


@agents
async def test_too_many_steps(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """The run fails; the question is stored, nothing half done is, and the next run goes on."""
    script = Script(calls(ADD))
    with pytest.raises(WorkflowRuntimeError, match="Either something went wrong"):
        await make(script, FunctionTool.from_defaults(add)).run(user_msg="test", memory=memory, max_iterations=3)
    assert said(memory.get_all()) == ["test"]
    again = Script("fine")
    assert str(await make(again).run(user_msg="and now?", memory=memory)) == "fine"
    again.check()


@agents
@pytest.mark.parametrize("where", ["in the agent", "in the run"])
async def test_early_stopping(make: MakeAgent, memory: ArcChatMemoryBuffer, where: str) -> None:
    """With "generate", the last answer is made from what is stored, and is stored itself."""
    script = Script(*[calls(ADD)] * 5, "Here is my final summary.")
    given = {"early_stopping_method": "generate"}
    tool = FunctionTool.from_defaults(add)
    agent = make(script, tool, **given) if where == "in the agent" else make(script, tool)
    run = agent.run(user_msg="test", memory=memory, max_iterations=5, **(given if where == "in the run" else {}))
    assert str(await run) == "Here is my final summary."
    assert memory.get_all()[0] == user("test")
    assert memory.get_all()[-1].content == "Here is my final summary."
    assert "test" in said(script.seen[-1])
    later = Script("fine")
    assert str(await make(later).run(user_msg="and now?", memory=memory)) == "fine"
    later.check()


@agents
async def test_a_reused_context_goes_on_after_too_many_steps(make: MakeAgent, memory: ArcChatMemoryBuffer) -> None:
    """What the failed run left over is put by the next one, behind its question: still no call without its result."""
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


# --- several agents ---------------------------------------------------------------------------------------------------

HAND_OFF = ("handoff", {"to_agent": "calculator", "reason": "This requires arithmetic."})


def calculator(*answers: str) -> tuple[ReActAgent, Script]:
    script = Script(*answers)
    tools = [FunctionTool.from_defaults(add)]
    prompt = "You are a calculator assistant."
    agent = ReActAgent(name="calculator", description="Counts.", system_prompt=prompt, tools=tools, llm=script.llm)
    return agent, script


THOUGHT = 'Thought: I need to add these numbers\nAction: add\nAction Input: {"a": 5, "b": 3}\n'
UNREADABLE = 'Thought: I need to add these numbers\nAction: add\n{"a": 5 "b": 3}\n'
ANSWER = "Thought: The result is 8\nAnswer: The sum is 8"


async def test_a_hand_off(memory: ArcChatMemoryBuffer) -> None:
    """The second agent is shown the question and answers; the conversation holds who did what."""
    count, counting = calculator(THOUGHT, ANSWER)
    script = Script(calls(HAND_OFF))
    workflow = AgentWorkflow(agents=[count, agent_of(script, name="retriever")], root_agent="retriever")
    handler = workflow.run(user_msg="Can you add 5 and 3?", memory=memory)
    names = {getattr(event, "current_agent_name", None) async for event in handler.stream_events()}
    assert {"retriever", "calculator"} <= names
    assert "8" in str(await handler)
    assert memory.get_all()[0] == user("Can you add 5 and 3?")
    assert "The sum is 8" in str(memory.get_all()[-1].content)
    assert any("Can you add 5 and 3?" in str(message.content) for message in counting.seen[-1])
    script.check()
    counting.check()


async def test_hand_offs_there_and_back_over_several_runs(memory: ArcChatMemoryBuffer) -> None:
    """Two function agents that pass a conversation to each other; every request of either is sound."""
    one = Script(calls(("handoff", {"to_agent": "two", "reason": "yours"})), "one is done")
    two = Script(
        calls(ADD, first=10), calls(("handoff", {"to_agent": "one", "reason": "mine"}), first=20), "two is done"
    )
    tool = FunctionTool.from_defaults(add)
    workflow = AgentWorkflow(agents=[agent_of(one, name="one"), agent_of(two, tool, name="two")], root_agent="one")
    assert str(await workflow.run(user_msg="first", memory=memory)) == "one is done"
    assert str(await workflow.run(user_msg="second", memory=memory)) == "one is done"
    one.check()
    two.check()
    last = Script("fine")
    await agent_of(last).run(user_msg="third", memory=memory)
    last.check()
    assert [text for text in said(memory.get_all()) if text in ("first", "second", "third")] == [
        "first", "second", "third"
    ]  # fmt: skip


async def test_a_hand_off_to_nobody(memory: ArcChatMemoryBuffer) -> None:
    """Is answered with an error, and the agent goes on."""
    script = Script(calls(("handoff", {"to_agent": "invalid_agent", "reason": "Because"})), "guess im stuck here")
    workflow = AgentWorkflow(agents=[agent_of(script, name="one"), agent_of(Script(""), name="two")], root_agent="one")
    handler = workflow.run(user_msg="test", memory=memory)
    events = [event async for event in handler.stream_events()]
    assert "Agent invalid_agent not found" in str(events)
    assert str(await handler) == "guess im stuck here"
    script.check()


async def test_an_empty_answer_ends_a_run(memory: ArcChatMemoryBuffer) -> None:
    """It is stored, and shown to nobody: providers refuse a message of nothing."""
    response = await workflow_of(Script(ChatMessage(role="assistant", content=None))).run(user_msg="hi", memory=memory)
    assert isinstance(response, AgentOutput)
    assert response.response.content is None
    assert roles(memory) == ["user", "assistant"]
    later = Script("fine")
    await agent_of(later).run(user_msg="and now?", memory=memory)
    later.check()
    assert said(later.seen[0])[1:] == ["hi", "and now?"]


# --- agents that reason in text ---------------------------------------------------------------------------------------


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
    memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", facts_placement="user")
    memory.put_messages(told(25))
    settle(engine)
    script = Script("Noted.")
    await code_agent(script, [], **given).run(user_msg="What was my order number?", memory=memory)
    request = script.seen[0]
    assert any(str(message.content).startswith("<arc:memory>") for message in request if message.role.value == "user")
    assert [message.role for message in request].count(MessageRole.SYSTEM) == 1
    assert len(memory.get_all()) == 52
    script.check()


# --- state, saving and people -----------------------------------------------------------------------------------------


async def test_a_workflow_with_state(memory: ArcChatMemoryBuffer) -> None:
    """The state stands in what the model is first shown of the question, once; what is stored is the question.

    A memory that hands out its own objects, as `ChatMemoryBuffer` does and `Memory` doesn't, keeps the state of the
    first step in the conversation for good.
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
    """The run is saved while it waits, restored, and ends; the question is there once, the call with its result.

    In the database, too: what is saved leads back to the engine while that is open.
    """
    url = f"sqlite:///{tmp_path / 'c.db'}" if shared else None
    with open_engine(url) if url else open_engine() as engine:
        memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s")
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
        assert isinstance(kept, ArcChatMemoryBuffer)
        assert roles(kept) == ["user", "assistant", "tool", "assistant"]
        assert "John Doe" in str(kept.get_all()[2].content)
        script.check()


class Structure(BaseModel):
    hello: str
    world: int


@agents
@pytest.mark.parametrize("through_async", [False, True], ids=["sync", "async"])
async def test_structured_output_by_a_function(
    make: MakeAgent, memory: ArcChatMemoryBuffer, through_async: bool
) -> None:
    """It is given the conversation as it is shown, with the answer."""
    given: list[list[ChatMessage]] = []

    def structure(messages: list[ChatMessage]) -> dict[str, Any]:
        given.append(messages)
        return Structure(hello="bonjour", world=2).model_dump()

    async def astructure(messages: list[ChatMessage]) -> dict[str, Any]:
        return structure(messages)

    agent = make(Script("Success"), structured_output_fn=astructure if through_async else structure)
    handler = agent.run(user_msg="test", memory=memory)
    assert [event async for event in handler.stream_events() if isinstance(event, AgentStreamStructuredOutput)]
    response = await handler
    assert response.get_pydantic_model(Structure) == Structure(hello="bonjour", world=2)
    assert said(given[0]) == ["test", "Success"]


# --- long conversations -----------------------------------------------------------------------------------------------


@agents
@pytest.mark.parametrize("placement", ["system", "user"])
async def test_a_long_conversation_with_tools(make: MakeAgent, engine: ContextEngine, placement: Any) -> None:
    """Summarised, at a small limit, over many runs: every request is sound, and what was said is all there."""
    memory = ArcChatMemoryBuffer.from_defaults(
        engine=engine, session_id="s", token_limit=400, facts_placement=placement, chat_history=[system("Be brief.")]
    )
    scripts = []
    for n in range(16):
        script = Script(calls(ADD, ADD, first=10 * n), f"Order A-{1000 + n} goes to Lisbon.")
        scripts.append(script)
        question = f"My order number is A-{1000 + n}, and it must not be sent to Berlin."
        await make(script, FunctionTool.from_defaults(add)).run(user_msg=question, memory=memory)
        settle(engine)
    for script in scripts:
        script.check()
    assert len(memory.get_all()) == 1 + 16 * 5
    last = scripts[-1].seen[-1]
    assert any("<arc:memory>" in str(message.content) for message in last if message.role.value == placement)
    assert len(last) < 40


async def test_a_scratchpad_put_twice(memory: ArcChatMemoryBuffer) -> None:
    """By a step that is run again: it is there twice, as in a list, and the next request is sound nevertheless."""
    scratchpad = [calls(ADD), ChatMessage(role="tool", content="8", additional_kwargs={"tool_call_id": "call_1"})]
    await memory.aput(user("Add"))
    await memory.aput_messages(scratchpad)
    await memory.aput_messages([*scratchpad, assistant("8")])
    script = Script("fine")
    await agent_of(script).run(user_msg="And now?", memory=memory)
    script.check()
    assert len(memory.get_all()) == 8


async def test_an_agent_that_edits_what_it_got(memory: ArcChatMemoryBuffer) -> None:
    """As workflows with a state do; the conversation stays as it was."""
    memory.put_messages([user("q"), assistant("a")])
    for _ in range(2):
        got = await memory.aget()
        got[-1].blocks = [TextBlock(text="edited")]
        got[0].additional_kwargs["edited"] = True
        got.clear()
    assert memory.get() == [user("q"), assistant("a")]
