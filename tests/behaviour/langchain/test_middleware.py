"""`ArcMemoryMiddleware` in `create_agent`: turns are stored, requests fit, and none is ever broken."""

import asyncio
import inspect
from inspect import isfunction
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from arc_common import (
    ArcSettings,
    BudgetExceededError,
    ContextEngine,
    InvalidInputError,
    Message,
    SessionNotFoundError,
    TokenBudget,
)
from langchain_arc import ArcMemoryMiddleware, open_engine
from tests.support.langchain_agents import ScriptedToolModel, call, multiply
from tests.support.langchain_helpers import said, settle

WAYS = ["invoke", "ainvoke", "stream", "astream messages"]
CHECKPOINTERS = {"checkpointer": InMemorySaver, "no checkpointer": lambda: None}


def broken() -> str:
    """Always fail."""
    raise OSError("the tool is down")


def config(thread_id: str = "s") -> Any:
    return {"configurable": {"thread_id": thread_id}}


async def ask(agent: Any, text: str, way: str = "invoke", thread_id: str = "s", **options: Any) -> None:
    """Run one turn of an agent in the given way; blocking ways run on a thread."""
    value = {"messages": [HumanMessage(text)]}
    mode = "messages" if way.endswith("messages") else "updates"
    if way == "invoke":
        await asyncio.to_thread(agent.invoke, value, config(thread_id), **options)
    elif way == "ainvoke":
        await agent.ainvoke(value, config(thread_id), **options)
    elif way.startswith("stream"):
        await asyncio.to_thread(lambda: list(agent.stream(value, config(thread_id), stream_mode=mode, **options)))
    else:
        assert [step async for step in agent.astream(value, config(thread_id), stream_mode=mode, **options)]


def shown(model: ScriptedToolModel, request: int = -1) -> list[tuple[str, str]]:
    return [(message.type, message.text) for message in model.requests[request]]


@pytest.fixture(params=CHECKPOINTERS)
def checkpointer(request: pytest.FixtureRequest) -> Any:
    return CHECKPOINTERS[request.param]()


@pytest.mark.parametrize("way", WAYS)
async def test_a_conversation_with_parallel_tools(engine: ContextEngine, checkpointer: Any, way: str) -> None:
    """Each message is stored once, in order, and the model sees the conversation so far."""
    twice = AIMessage("", tool_calls=[call("multiply", "c1", a=2, b=3), call("multiply", "c2", a=2, b=4)])
    model = ScriptedToolModel(script=[twice, "it is 6 and 8", "you asked for 2 x 3"])
    agent = create_agent(
        model,
        [multiply],
        system_prompt="Be brief.",
        middleware=[ArcMemoryMiddleware(engine)],
        checkpointer=checkpointer,
    )
    await ask(agent, "2 x 3, 2 x 4?", way)
    await ask(agent, "what did I ask?", way)
    first = [("user", "2 x 3, 2 x 4?"), ("assistant", ""), ("tool", "6"), ("tool", "8"), ("assistant", "it is 6 and 8")]
    assert said(engine) == [*first, ("user", "what did I ask?"), ("assistant", "you asked for 2 x 3")]
    assert shown(model) == [
        ("system", "Be brief."),
        ("human", "2 x 3, 2 x 4?"),
        ("ai", ""),
        ("tool", "6"),
        ("tool", "8"),
        ("ai", "it is 6 and 8"),
        ("human", "what did I ask?"),
    ]
    assert [len(request) for request in model.requests] == [2, 5, 7]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_model_that_fails(engine: ContextEngine, checkpointer: Any, way: str) -> None:
    """The user's message is stored; a retry without new input does not store it twice."""
    model = ScriptedToolModel(script=[OSError("overloaded"), OSError("overloaded"), "at last"])
    agent = create_agent(model, [multiply], middleware=[ArcMemoryMiddleware(engine)], checkpointer=checkpointer)
    with pytest.raises(OSError, match="overloaded"):
        await ask(agent, "hello?", way)
    assert said(engine) == [("user", "hello?")]
    if checkpointer is None:  # the client sends the message again
        with pytest.raises(OSError, match="overloaded"):
            await ask(agent, "hello?", way)
        await ask(agent, "hello?", way)
    else:  # LangGraph's own retry
        with pytest.raises(OSError, match="overloaded"):
            agent.invoke(None, config())
        agent.invoke(None, config())
    assert said(engine) == [("user", "hello?"), ("assistant", "at last")]


@pytest.mark.parametrize("way", ["stream", "astream messages"])
async def test_a_tool_that_fails(engine: ContextEngine, checkpointer: Any, way: str) -> None:
    """Everything said until then is stored; the unanswered call does not break the next turn."""
    model = ScriptedToolModel(script=[AIMessage("one moment", tool_calls=[call("broken", "c1")]), "sorry"])
    agent = create_agent(model, [broken], middleware=[ArcMemoryMiddleware(engine)], checkpointer=checkpointer)
    with pytest.raises(OSError, match="the tool is down"):
        await ask(agent, "use it", way)
    assert said(engine) == [("user", "use it"), ("assistant", "one moment")]
    await ask(agent, "forget it", "ainvoke")
    assert said(engine)[2:] == [("user", "forget it"), ("assistant", "sorry")]


async def test_many_turns_over_a_small_budget(engine: ContextEngine, checkpointer: Any) -> None:
    """In ten turns with tools at 600 tokens, no request is invalid or over budget, and all are stored."""
    script: list[Any] = []
    for n in range(10):
        script += [
            AIMessage("", tool_calls=[call("multiply", f"c{n}", a=n, b=2), call("multiply", f"d{n}", a=n, b=3)]),
            f"turn {n}: {2 * n} and {3 * n}, as was to be expected of such numbers",
        ]
    model = ScriptedToolModel(script=script)
    memory = ArcMemoryMiddleware(engine, budget=TokenBudget(600, 100))
    agent = create_agent(model, [multiply], system_prompt="Be brief.", middleware=[memory], checkpointer=checkpointer)
    for n in range(10):
        await ask(agent, f"question {n}: {n} times two and three?", "invoke" if n % 2 else "ainvoke")
    assert len(said(engine)) == 10 * 5
    assert len(model.requests) == 20
    for n, request in enumerate(model.requests):
        assert request[0].text.startswith("Be brief.")
        asked = [message for message in request if message.type == "human"][-1]
        assert asked.text.startswith(f"question {n // 2}:")
    assert max(map(len, model.requests)) < 40


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_what_cannot_fit_raises_before_the_model_is_called(engine: ContextEngine, way: str) -> None:
    """The error has both figures, and the user's message is stored for a retry."""
    model = ScriptedToolModel()
    memory = ArcMemoryMiddleware(engine, budget=TokenBudget(100, 20))
    agent = create_agent(model, [], system_prompt="Be brief. " * 100, middleware=[memory])
    with pytest.raises(BudgetExceededError, match="70 available"):
        await ask(agent, "hello", way)
    assert model.requests == []
    assert said(engine) == [("user", "hello")]


def test_a_run_without_an_id_is_an_error(engine: ContextEngine) -> None:
    """The error says what to pass; forgetting silently would help nobody."""
    agent = create_agent(ScriptedToolModel(), [], middleware=[ArcMemoryMiddleware(engine)])
    with pytest.raises(InvalidInputError, match=r"thread_id.*session_id"):
        agent.invoke({"messages": [HumanMessage("hello")]})


async def test_an_id_of_ones_own(engine: ContextEngine) -> None:
    """The session may be fixed, computed from the run's context, or absent."""
    for given, context, session_id in (
        ("fixed", None, "fixed"),
        (lambda runtime: runtime.context["who"], {"who": "ann"}, "ann"),
        (lambda runtime: None, None, None),
    ):
        model = ScriptedToolModel()
        agent = create_agent(model, [], middleware=[ArcMemoryMiddleware(engine, session_id=given)], context_schema=dict)
        await ask(agent, "hello", "ainvoke", context=context)
        assert shown(model) == [("human", "hello")]
        assert said(engine, session_id) == ([("user", "hello"), ("assistant", "answer 0")] if session_id else [])
    assert not engine.session("s").exists()


async def test_a_conversation_of_another_user(engine: ContextEngine) -> None:
    """The run ends before the model call."""
    engine.session("s", user_id="bob").save_turn("my pin is 4711", "noted")
    model = ScriptedToolModel()
    with pytest.raises(SessionNotFoundError):
        await ask(create_agent(model, middleware=[ArcMemoryMiddleware(engine, user_id="eve")]), "what is the pin?")
    assert model.requests == []


CACHED = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}


async def test_a_system_message_of_blocks_survives(engine: ContextEngine) -> None:
    """Its blocks and their cache marks come first; arc adds a block after them."""
    engine.session("s").append(
        [message for n in range(40) for message in _turn(f"My dog number {n} is called Rex{n}.", "noted")]
    )
    engine.session("s").summarize()
    model = ScriptedToolModel()
    prompt = SystemMessage([CACHED, {"type": "text", "text": "Be kind."}], additional_kwargs={"x": 1})
    agent = create_agent(model, [], system_prompt=prompt, middleware=[ArcMemoryMiddleware(engine)])
    await ask(agent, "who is Rex1?")
    system = model.requests[0][0]
    assert system.content[:2] == prompt.content
    assert system.content[2]["text"].startswith("<arc:memory>")
    assert system.additional_kwargs == {"x": 1}
    assert prompt.content == [CACHED, {"type": "text", "text": "Be kind."}]


def _turn(user: str, assistant: str) -> list[Message]:
    return [Message("user", user), Message("assistant", assistant)]


async def test_instructions_among_the_messages(engine: ContextEngine, checkpointer: Any) -> None:
    """A system message in the input follows the agent's own and is not stored."""
    model = ScriptedToolModel()
    memory = ArcMemoryMiddleware(engine)
    agent = create_agent(model, [], system_prompt="Be brief.", middleware=[memory], checkpointer=checkpointer)
    agent.invoke({"messages": [SystemMessage("Be kind."), HumanMessage("hello")]}, config())
    assert shown(model) == [("system", "Be brief.\n\nBe kind."), ("human", "hello")]
    assert said(engine) == [("user", "hello"), ("assistant", "answer 0")]


async def test_a_client_that_sends_the_whole_conversation(engine: ContextEngine) -> None:
    """Messages without ids get new ones each time; they are recognised by their content."""
    model = ScriptedToolModel()
    agent = create_agent(model, [], middleware=[ArcMemoryMiddleware(engine)])
    conversation: list[Any] = [{"role": "system", "content": "Be kind."}]
    for text in ("yes", "no", "yes", "yes"):
        conversation.append({"role": "user", "content": text})
        answer = agent.invoke({"messages": conversation}, config())["messages"][-1]
        conversation.append({"role": "assistant", "content": answer.text})
    assert said(engine) == [
        pair
        for n, text in enumerate(("yes", "no", "yes", "yes"))
        for pair in (("user", text), ("assistant", f"answer {n}"))
    ]
    assert [len(request) for request in model.requests] == [2, 4, 6, 8]


async def test_a_thread_that_is_older_than_its_memory(engine: ContextEngine) -> None:
    """The checkpointer's messages are stored in order with the first turn."""
    saver, model = InMemorySaver(), ScriptedToolModel()
    for n in range(12):
        await ask(create_agent(model, [], checkpointer=saver), f"turn {n}")
    await ask(create_agent(model, [], checkpointer=saver, middleware=[ArcMemoryMiddleware(engine)]), "and now?")
    assert [text for role, text in said(engine) if role == "user"] == [*(f"turn {n}" for n in range(12)), "and now?"]
    assert len(said(engine)) == 26


async def test_agents_never_block_the_event_loop(engine: ContextEngine) -> None:
    """Reading and writing run on other threads."""
    model = ScriptedToolModel(script=["one", AIMessage("", tool_calls=[call("multiply", "c1", a=1, b=2)])])
    agent = create_agent(model, [multiply], middleware=[ArcMemoryMiddleware(engine)])
    await ask(agent, "one", "ainvoke")  # LangGraph reads its own files in its first run
    with blockbuster_ctx():
        await ask(agent, "two", "ainvoke")
        await ask(agent, "three", "astream messages")
    assert len(said(engine)) == 8


async def test_a_run_that_is_cancelled(engine: ContextEngine) -> None:
    """The user's message is stored."""
    asked = asyncio.Event()

    class Waiting(ScriptedToolModel):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            asked.set()
            await asyncio.sleep(60)

    agent = create_agent(Waiting(), [], middleware=[ArcMemoryMiddleware(engine)])
    task = asyncio.create_task(ask(agent, "hello", "ainvoke"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said(engine) == [("user", "hello")]


def test_each_hook_has_both_forms() -> None:
    """LangChain runs a hook with one form on the event loop, or not at all."""
    own = {name for name, member in vars(ArcMemoryMiddleware).items() if isfunction(member) and name[0] != "_"}
    assert own == {"wrap_model_call", "awrap_model_call", "after_agent", "aafter_agent"}
    for name in ("wrap_model_call", "after_agent"):
        sync, twin = getattr(ArcMemoryMiddleware, name), getattr(ArcMemoryMiddleware, f"a{name}")
        assert list(inspect.signature(sync).parameters) == list(inspect.signature(twin).parameters)
        assert twin.__doc__ == f"Async form of `{name}`."


def agent_over(engine: ContextEngine, model: ScriptedToolModel, tools: Any = (), **options: Any) -> Any:
    budget = options.pop("budget", None)
    return create_agent(model, list(tools), middleware=[ArcMemoryMiddleware(engine, budget=budget)], **options)


async def test_messages_keep_their_ids(engine: ContextEngine) -> None:
    """Later edits find the state's ids; a message without one keeps the id that it was given."""
    state: list[AnyMessage] = [HumanMessage("one", id="mine"), AIMessage("two"), HumanMessage("three")]
    agent = agent_over(engine, model := ScriptedToolModel())
    result = agent.invoke({"messages": state}, config())
    assert [message.id for message in result["messages"]] == [it.id for it in engine.session("s").messages()]
    assert [message.id for message in model.requests[0]] == [message.id for message in result["messages"][:-1]]


async def test_older_messages_give_way_to_a_summary() -> None:
    """After the trigger, facts and summary lead, not in the user's name; the newest messages are unchanged."""
    with open_engine(settings=ArcSettings(conversation={"max_context_tokens": 900})) as engine:
        model = ScriptedToolModel()
        agent = agent_over(engine, model, checkpointer=InMemorySaver())
        for n in range(24):
            await ask(agent, f"My dog number {n} is called Rex{n} and weighs {n + 3} kg.", "ainvoke")
            settle(engine)
        request = model.requests[-1]
        assert request[0].type == "system"
        assert "Facts:" in request[0].text
        assert "Summary:" in request[0].text
        assert all("summary" not in message.text.lower() for message in request[1:])
        assert request[-1].text.startswith("My dog number 23 ")
        assert len(agent.get_state(config()).values["messages"]) == 48
        assert len(said(engine)) == 48
