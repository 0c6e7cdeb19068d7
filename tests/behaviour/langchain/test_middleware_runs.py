"""`ArcMemoryMiddleware` in irregular runs: reviews, sub-agents, forks, other middleware, failures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

from arc_common import BudgetExceededError, ContextEngine, TokenBudget
from arc_common.testing import CountingObserver
from langchain_arc import open_engine
from langchain_arc.agents.middleware import ArcMemoryMiddleware
from tests.behaviour.langchain.test_middleware import ask, config, shown
from tests.support.databases import unreadable, unwritable
from tests.support.langchain_agents import ScriptedToolModel, call, multiply
from tests.support.langchain_helpers import said


def asking(*, name: str = "multiply", call_id: str = "c1", **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[call(name, call_id, **(args or {"a": 2, "b": 3}))])


DECISIONS: dict[str, tuple[dict[str, Any], str]] = {
    "approved": ({"type": "approve"}, "6"),
    "edited": ({"type": "edit", "edited_action": {"name": "multiply", "args": {"a": 5, "b": 5}}}, "25"),
    "rejected": ({"type": "reject", "message": "not today"}, "not today"),
}


@pytest.mark.parametrize(
    ("decision", "first"), [("approved", "memory last"), ("edited", "memory first"), ("rejected", "memory last")]
)
async def test_a_call_that_a_person_reviews(engine: ContextEngine, decision: str, first: str) -> None:
    """The call waits in the session; the decision becomes part of it."""
    answer, result = DECISIONS[decision]
    model = ScriptedToolModel(script=[asking(), "done", "you are welcome"])
    middleware: list[Any] = [ArcMemoryMiddleware(engine), HumanInTheLoopMiddleware(interrupt_on={"multiply": True})]
    agent = create_agent(
        model,
        [multiply],
        middleware=middleware if first == "memory first" else middleware[::-1],
        checkpointer=InMemorySaver(),
    )
    await ask(agent, "2 x 3?")
    assert said(engine) == [("user", "2 x 3?"), ("assistant", "")]
    await agent.ainvoke(Command(resume={"decisions": [answer]}), config())
    await ask(agent, "thanks", "astream")
    stored = said(engine)
    assert stored[2][0] == "tool"
    assert stored[2][1].endswith(result)
    assert stored[:2] == [("user", "2 x 3?"), ("assistant", "")]
    assert stored[3:] == [("assistant", "done"), ("user", "thanks"), ("assistant", "you are welcome")]
    assert [kind for kind, _ in shown(model)] == ["human", "ai", "tool", "ai", "human"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_tool_that_interrupts(engine: ContextEngine, way: str) -> None:
    """Its node runs twice; nothing is stored twice."""

    @tool
    def confirm(what: str) -> str:
        """Ask the user."""
        return f"{what}: {interrupt(what)}"

    model = ScriptedToolModel(
        script=[
            AIMessage("", tool_calls=[call("confirm", "c1", what="sure"), call("multiply", "c2", a=2, b=2)]),
            "fine",
        ]
    )
    agent = create_agent(
        model, [confirm, multiply], middleware=[ArcMemoryMiddleware(engine)], checkpointer=InMemorySaver()
    )
    await ask(agent, "do it", way)
    resume = Command(resume="yes")
    await (agent.ainvoke(resume, config()) if way == "ainvoke" else asyncio.to_thread(agent.invoke, resume, config()))
    assert said(engine) == [
        ("user", "do it"),
        ("assistant", ""),
        ("tool", "sure: yes"),
        ("tool", "4"),
        ("assistant", "fine"),
    ]


NESTED = {
    "fitted only": (None, None),
    "a conversation of its own": (lambda runtime: f"{runtime.execution_info.thread_id}/sub", "s/sub"),
    "its parent's, because somebody asked for it": (lambda runtime: runtime.execution_info.thread_id, "s"),
}


@pytest.mark.parametrize(
    ("saver", "way"), [(InMemorySaver, "invoke"), (lambda: None, "ainvoke")], ids=["checkpointer", "no checkpointer"]
)
@pytest.mark.parametrize("kind", NESTED)
async def test_an_agent_that_is_a_tool(engine: ContextEngine, kind: str, saver: Any, way: str) -> None:
    """It has its parent's thread id and writes to the given session or to none."""
    session_id, stored = NESTED[kind]
    inner = ScriptedToolModel(script=[asking(call_id="inner"), "it is 6"])
    sub = create_agent(inner, [multiply], middleware=[ArcMemoryMiddleware(engine, session_id=session_id)])

    @tool
    async def research(question: str) -> str:
        """Ask the other agent."""
        return str((await sub.ainvoke({"messages": [HumanMessage(question)]}))["messages"][-1].text)

    @tool
    def research_blocking(question: str) -> str:
        """Ask the other agent."""
        return str(sub.invoke({"messages": [HumanMessage(question)]})["messages"][-1].text)

    name = "research" if way == "ainvoke" else "research_blocking"
    outer = ScriptedToolModel(script=[asking(name=name, question="2 x 3?"), "six"])
    agent = create_agent(
        outer, [research, research_blocking], middleware=[ArcMemoryMiddleware(engine)], checkpointer=saver()
    )
    await ask(agent, "how much is 2 x 3?", way)
    own = [("user", "how much is 2 x 3?"), ("assistant", ""), ("tool", "it is 6"), ("assistant", "six")]
    its = [("user", "2 x 3?"), ("assistant", ""), ("tool", "6"), ("assistant", "it is 6")]
    assert [kind for kind, _ in shown(inner)][-3:] == ["human", "ai", "tool"]
    if stored == "s":
        assert sorted(said(engine)) == sorted(own + its)
    else:
        assert said(engine) == own
        assert said(engine, stored) == (its if stored else [])
    assert len(engine.admin.sessions().conversations) == (2 if stored == "s/sub" else 1)


async def test_two_runs_of_one_conversation_at_once(engine: ContextEngine) -> None:
    """Each request ends with its own run's message, whatever others write meanwhile."""
    model = ScriptedToolModel()
    agent = create_agent(model, [], middleware=[ArcMemoryMiddleware(engine)])
    await asyncio.gather(*(ask(agent, f"question {n}", "ainvoke") for n in range(12)))
    asked = [
        request[-1].text.partition("\n\n<arc:")[0] for request in model.requests
    ]  # others' messages may be recalled
    assert sorted(asked) == sorted(f"question {n}" for n in range(12))
    stored = said(engine)
    assert sorted(text for role, text in stored if role == "user") == sorted(f"question {n}" for n in range(12))
    assert len(stored) == 24


@pytest.mark.parametrize(("failing", "way"), [("reading", "invoke"), ("reading", "astream"), ("writing", "ainvoke")])
async def test_a_store_that_fails(tmp_path: Path, failing: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    """The agent continues with its own state, cut to the budget; the failure is logged, counted and repaired later."""
    observer, url = CountingObserver(), f"sqlite:///{tmp_path}/arc.db"
    fault = {"reading": unreadable, "writing": unwritable}[failing]
    with open_engine(url, observer=observer) as engine:
        model = ScriptedToolModel()
        memory = ArcMemoryMiddleware(engine, budget=TokenBudget(300, 100))
        agent = create_agent(model, [multiply], middleware=[memory], checkpointer=InMemorySaver())
        await ask(agent, "zero " * 20, way)
        with fault(url, "arc_messages"):
            for n in range(8):
                await ask(agent, f"turn {n} " * 10, way)
        assert all(request[-1].type == "human" for request in model.requests)
        assert len(model.requests[-1]) < 9  # of 17 messages in the state
        assert observer.counts["context.errors"] + observer.counts["save.errors"] >= 8
        assert {"reading": "no such table", "writing": "disk full"}[failing] in caplog.text
        await ask(agent, "at last", way)
        assert len(said(engine)) == 20


def test_nothing_that_fails_at_the_end_takes_the_answer_away(caplog: pytest.LogCaptureFixture) -> None:
    """Errors in `after_agent` are logged."""
    with open_engine() as engine:
        asked: list[Any] = []

        def session_id(runtime: Runtime[Any]) -> str:
            asked.append(runtime)
            if len(asked) > 1:
                raise LookupError("who is it?")
            return "s"

        agent = create_agent(ScriptedToolModel(), [], middleware=[ArcMemoryMiddleware(engine, session_id=session_id)])
        assert agent.invoke({"messages": [HumanMessage("hello")]})["messages"][-1].text == "answer 0"
        assert "who is it?" in caplog.text


async def test_a_call_that_could_not_be_read(engine: ContextEngine) -> None:
    """LangChain invents its result, first without an id and then with another; it is stored once."""
    unreadable = AIMessage("", invalid_tool_calls=[{"name": "multiply", "args": "{a:", "id": "c1", "error": "?"}])
    model = ScriptedToolModel(script=[unreadable, "what did you mean?", "all right"])
    agent = create_agent(model, [multiply], middleware=[ArcMemoryMiddleware(engine)], checkpointer=InMemorySaver())
    for text in ("2 x 3?", "again", "thanks"):  # the first run ends with that call
        await ask(agent, text)
    assert [role for role, _ in said(engine)] == ["user", "assistant", "tool", "user", "assistant", "user", "assistant"]
    assert [kind for kind, _ in shown(model)] == ["human", "ai", "tool", "human", "ai", "human"]


async def test_a_call_that_could_not_be_read_at_the_end(engine: ContextEngine) -> None:
    """The invented result is then the newest message and still stored once."""
    unreadable = AIMessage("", invalid_tool_calls=[{"name": "multiply", "args": "{a:", "id": "c1", "error": "?"}])
    agent = create_agent(ScriptedToolModel(), [multiply], middleware=[ArcMemoryMiddleware(engine)])
    agent.invoke({"messages": [HumanMessage("2 x 3?"), unreadable]}, config())
    assert [role for role, _ in said(engine)] == ["user", "assistant", "tool", "assistant"]


async def test_a_call_whose_id_is_empty(engine: ContextEngine) -> None:
    """Some models omit it; the result still belongs to the call."""
    unreadable = AIMessage("", invalid_tool_calls=[{"name": "multiply", "args": "{a:", "id": "", "error": "?"}])
    model = ScriptedToolModel(checked=False)
    agent = create_agent(model, [multiply], middleware=[ArcMemoryMiddleware(engine)])
    agent.invoke({"messages": [HumanMessage("2 x 3?"), unreadable]}, config())
    assert [kind for kind, _ in shown(model)] == ["human", "ai", "tool"]


class Answer(BaseModel):
    """A structured answer."""

    value: int


class LongAnswer(BaseModel):
    """A structured answer with a long description."""

    value: int = Field(description="word " * 500)


@pytest.mark.parametrize("session_id", [None, lambda runtime: None], ids=["stored", "fitted only"])
@pytest.mark.parametrize(
    "strategy", [ToolStrategy(LongAnswer), ProviderStrategy(LongAnswer), LongAnswer], ids=["tool", "provider", "auto"]
)
async def test_the_schema_of_a_structured_answer_is_counted(
    engine: ContextEngine, strategy: Any, session_id: Any
) -> None:
    """A schema that leaves no tokens for the question is rejected before the model call."""
    model = ScriptedToolModel(script=[OSError("called")])
    memory = ArcMemoryMiddleware(engine, session_id=session_id, budget=TokenBudget(400, 0))
    agent = create_agent(model, [], middleware=[memory], response_format=strategy)
    with pytest.raises(BudgetExceededError):
        await ask(agent, "2 x 3?")
    assert model.requests == []


@pytest.mark.parametrize(
    "strategy", [ToolStrategy(Answer), ProviderStrategy(Answer), Answer], ids=["tool", "provider", "auto"]
)
async def test_structured_answers(engine: ContextEngine, strategy: Any) -> None:
    """LangChain's reply to the answer's tool call is stored with it."""
    said_as = AIMessage('{"value": 6}') if isinstance(strategy, ProviderStrategy) else asking(name="Answer", value=6)
    model = ScriptedToolModel(script=[said_as, said_as, said_as], checked=True)
    agent = create_agent(model, [], middleware=[ArcMemoryMiddleware(engine)], response_format=strategy)
    for _ in range(2):
        result = await agent.ainvoke({"messages": [HumanMessage("2 x 3?")]}, config())
        assert result["structured_response"] == Answer(value=6)
    roles = [role for role, _ in said(engine)]
    assert (
        roles
        == (["user", "assistant"] if isinstance(strategy, ProviderStrategy) else ["user", "assistant", "tool"]) * 2
    )


async def test_a_result_that_ends_the_run(engine: ContextEngine) -> None:
    """It is stored although no model call follows."""

    @tool(return_direct=True)
    def look_up(what: str) -> str:
        """Look something up."""
        return f"{what} is 42"

    model = ScriptedToolModel(script=[asking(name="look_up", what="x"), "it is 42"])
    agent = create_agent(model, [look_up], middleware=[ArcMemoryMiddleware(engine)])
    await ask(agent, "x?")
    await ask(agent, "x?", "ainvoke")
    assert said(engine) == [
        ("user", "x?"),
        ("assistant", ""),
        ("tool", "x is 42"),
        ("user", "x?"),
        ("assistant", "it is 42"),
    ]


async def test_an_artifact_that_can_not_be_stored(engine: ContextEngine, caplog: pytest.LogCaptureFixture) -> None:
    """The turn is stored without it, which is said once; the agent's state keeps it."""

    @tool(response_format="content_and_artifact")
    def measure(a: int) -> tuple[str, object]:
        """Measure."""
        return f"{a} metres", open

    model = ScriptedToolModel(script=[asking(name="measure", a=7), "It is 7 metres.", "Yes."])
    agent = create_agent(model, [measure], middleware=[ArcMemoryMiddleware(engine)])
    state: dict[str, Any] = {"messages": []}
    for question in ("How long is it?", "Sure?"):
        state = await agent.ainvoke({"messages": [*state["messages"], HumanMessage(question)]}, config("s"))
    assert state["messages"][2].artifact is open
    texts = [message.text for message in engine.session("s").messages()]
    assert texts == ["How long is it?", "", "7 metres", "It is 7 metres.", "Sure?", "Yes."]
    assert [one.message for one in caplog.records if "artifact" in one.message] == [
        "the artifact of the result of call 'c1' is not stored: a builtin_function_or_method can't be"
    ]


async def test_answers_that_a_cache_hands_out_again(engine: ContextEngine) -> None:
    """They have the id of their first use but are new answers."""
    model = ScriptedToolModel(script=["hi", "never said"], cache=InMemoryCache())
    for _ in range(3):  # identical requests
        agent = create_agent(model, [], middleware=[ArcMemoryMiddleware(engine, budget=TokenBudget(62, 50))])
        await ask(agent, "hello")
    assert said(engine) == [("user", "hello"), ("assistant", "hi")] * 3
    assert len(model.requests) == 1


async def test_what_is_redacted_in_the_state_is_redacted_in_the_session(engine: ContextEngine) -> None:
    """A later edit under the same id becomes a revision of question or answer."""
    model = ScriptedToolModel(script=["I will write to ann@example.org"])
    redacting = PIIMiddleware("email", strategy="redact", apply_to_output=True)
    agent = create_agent(model, [], middleware=[ArcMemoryMiddleware(engine), redacting])
    await ask(agent, "write to bob@example.org")
    assert "example.org" not in str(said(engine))
    assert "example.org" not in str(shown(model))


async def test_what_other_middleware_adds_to_one_request_is_not_stored(engine: ContextEngine) -> None:
    """A note for one call is not part of the conversation."""

    class Noting(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(messages=[*request.messages, HumanMessage("(it is noon)")]))

    for middleware in ([Noting(), ArcMemoryMiddleware(engine)], [ArcMemoryMiddleware(engine), Noting()]):
        model = ScriptedToolModel()
        agent = create_agent(model, [], middleware=middleware)
        agent.invoke({"messages": [HumanMessage("hello")]}, config())
        assert ("user", "(it is noon)") not in said(engine)
    assert shown(model)[-1] == ("human", "(it is noon)")


async def test_a_model_that_is_called_again_by_other_middleware(engine: ContextEngine) -> None:
    """A retry stores nothing twice, before or after arc's middleware."""
    for place in (0, 1):
        model = ScriptedToolModel(script=[OSError("overloaded"), "hi"])
        middleware: list[Any] = [ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)]
        middleware.insert(place, ArcMemoryMiddleware(engine, session_id=f"s{place}"))
        await ask(create_agent(model, [], middleware=middleware), "hello")
        assert said(engine, f"s{place}") == [("user", "hello"), ("assistant", "hi")]


async def test_the_profile_of_a_model_sets_a_smaller_budget(engine: ContextEngine) -> None:
    """No request exceeds the model's limit."""
    model = ScriptedToolModel(profile={"max_input_tokens": 400})
    agent = create_agent(model, [], middleware=[ArcMemoryMiddleware(engine)])
    for n in range(20):
        await ask(agent, f"question {n} " * 10)
    assert max(map(len, model.requests)) < 25
    assert len(said(engine)) == 40


async def test_middleware_behind_it_edits_the_finished_request(engine: ContextEngine) -> None:
    """LangChain clears tool results in arc's request, and nothing of that is stored."""
    model = ScriptedToolModel(script=[asking(), asking(call_id="c2"), "six"])
    clearing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)])
    agent = create_agent(model, [multiply], middleware=[ArcMemoryMiddleware(engine), clearing])
    await ask(agent, "2 x 3, twice")
    assert [text for kind, text in shown(model) if kind == "tool"] == ["[cleared]", "6"]
    assert [text for role, text in said(engine) if role == "tool"] == ["6", "6"]
