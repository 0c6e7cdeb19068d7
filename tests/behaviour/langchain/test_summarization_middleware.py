"""The situations of LangChain's own tests for `SummarizationMiddleware` and `ContextEditingMiddleware`, with arc.

Their middleware rewrites the state when a trigger is reached and keeps so many messages; arc's never touches the state,
summarises in the background, and shows what fits. What is asked of both is the same: nothing is shortened before it
must be, pairs stay together, what is kept is verbatim, what leaves is not lost, and a failing summary breaks nothing.
"""

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from arc_common import ArcSettings, BudgetExceededError, ContextEngine, TokenBudget
from langchain_arc import ArcMemoryMiddleware, open_engine
from tests.behaviour.langchain.test_middleware import ask, config, shown
from tests.support.langchain_agents import ScriptedToolModel, call
from tests.support.langchain_helpers import said, settle

WAYS = ["invoke", "ainvoke"]


def agent_over(engine: ContextEngine, model: ScriptedToolModel, tools: Any = (), **options: Any) -> Any:
    budget = options.pop("budget", None)
    return create_agent(model, list(tools), middleware=[ArcMemoryMiddleware(engine, budget=budget)], **options)


async def answer_to(engine: ContextEngine, state: list[AnyMessage], way: str = "invoke", **options: Any) -> Any:
    """Hand a whole state to a new agent, as their tests hand one to `before_model`; the request that its model got."""
    model = ScriptedToolModel(**options.pop("model", {}))
    agent = agent_over(engine, model, **options)
    value = {"messages": state}
    if way == "ainvoke":
        result = await agent.ainvoke(value, config())
    else:
        result = await asyncio.to_thread(agent.invoke, value, config())
    assert [message.text for message in result["messages"][:-1]] == [message.text for message in state]
    return model.requests[-1]


def texts(request: list[Any]) -> list[str]:
    """What the messages say, without what arc recalled behind a question."""
    return [message.text.partition("\n\n<arc:")[0] for message in request]


def exchange(n: int, text: str = "Message {n}") -> list[AnyMessage]:
    return [HumanMessage(text.format(n=n)), AIMessage(f"noted {n}")]


def spoken(count: int, text: str = "Message {n}") -> list[AnyMessage]:
    return [*(message for n in range(count) for message in exchange(n, text)), HumanMessage("and now?")]


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_is_shortened_while_it_fits(engine: ContextEngine, way: str) -> None:
    """Below every limit the model sees the state as it is."""
    state = spoken(4)
    assert texts(await answer_to(engine, state, way)) == texts(state)


async def test_the_trigger_is_what_the_model_takes(engine: ContextEngine) -> None:
    """A model's profile says how much: just enough for all of it, then less."""
    state = spoken(9)
    assert len(await answer_to(engine, state, model={"profile": {"max_input_tokens": 4_000}})) == 19
    engine.session("s").clear()
    fewer = await answer_to(engine, state, model={"profile": {"max_input_tokens": 120}})
    assert len(fewer) < 19
    assert texts(fewer)[-1] == "and now?"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tokens", [60, 120, 240])
async def test_so_many_tokens_are_kept_verbatim(engine: ContextEngine, tokens: int, way: str) -> None:
    """The newest turns, without gaps; more of them the more there is room for."""
    state = spoken(30)
    request = await answer_to(engine, state, way, budget=TokenBudget(tokens, 0))
    verbatim = [message for message in request if message.type != "system"]
    assert texts(verbatim) == texts(state[-len(verbatim) :])
    assert len(verbatim) % 2 == 1
    assert len(verbatim) >= tokens // 40


@pytest.mark.parametrize("way", WAYS)
async def test_older_messages_give_way_to_a_summary(way: str) -> None:
    """After the trigger facts and summary lead; the newest messages stay as they were; nothing says it is the user."""
    with open_engine(settings=ArcSettings(conversation={"max_context_tokens": 900})) as engine:
        model = ScriptedToolModel()
        agent = agent_over(engine, model, checkpointer=InMemorySaver())
        for n in range(40):
            await ask(agent, f"My dog number {n} is called Rex{n} and weighs {n + 3} kg.", way)
            settle(engine)
        request = model.requests[-1]
        assert request[0].type == "system"
        assert "Facts:" in request[0].text
        assert "Summary:" in request[0].text
        assert all("summary" not in message.text.lower() for message in request[1:])
        assert request[-1].text.startswith("My dog number 39 ")
        assert len(agent.get_state(config()).values["messages"]) == 80
        assert len(said(engine)) == 80


async def test_what_left_the_window_is_still_known(engine: ContextEngine) -> None:
    """60 facts in 120 messages at 2,000 tokens: asked for any of them, the model is shown it."""
    model = ScriptedToolModel()
    agent = agent_over(engine, model, budget=TokenBudget(2_000, 0))
    for n in range(60):
        engine.session("s").save_turn(f"The access code of building {n} is {7919 * (n + 1)}.", "Noted.")
    engine.session("s").summarize()
    for n in (0, 17, 33, 59):
        await ask(agent, f"What is the access code of building {n}?")
        assert str(7919 * (n + 1)) in str(shown(model)), n


def tool_turn(n: int, calls: int = 1, size: int = 40) -> list[AnyMessage]:
    return [
        HumanMessage(f"question {n}"),
        AIMessage("", tool_calls=[call("look", f"c{n}.{i}", q=i) for i in range(calls)]),
        *(ToolMessage(f"result {n}.{i}" + " and more" * (size // 10), tool_call_id=f"c{n}.{i}") for i in range(calls)),
        AIMessage(f"answer {n}"),
    ]


@pytest.mark.parametrize("way", WAYS)
async def test_pairs_stay_together_wherever_the_cut_falls(engine: ContextEngine, way: str) -> None:
    """The scripted model refuses any request with a result without its call, or a call without its results."""
    state = [*(message for n in range(12) for message in tool_turn(n, calls=1 + n % 3)), HumanMessage("and now?")]
    for tokens in range(60, 400, 37):
        engine.session("s").clear()
        request = await answer_to(engine, state, way, budget=TokenBudget(tokens, 0))
        assert texts(request)[-1] == "and now?", tokens


@pytest.mark.parametrize("calls", [2, 10, 25])
async def test_many_parallel_calls(engine: ContextEngine, calls: int) -> None:
    """One message with ten calls is kept with all ten results, or not at all."""
    state = [*tool_turn(0), *tool_turn(1, calls=calls), HumanMessage("and now?")]
    for tokens in (100, 400, 4_000):
        engine.session("s").clear()
        request = await answer_to(engine, state, budget=TokenBudget(tokens, 0))
        results = [message for message in request if isinstance(message, ToolMessage)]
        assert len(results) in (0, 1, calls, calls + 1)
    assert len(results) == calls + 1


async def test_results_between_other_messages(engine: ContextEngine) -> None:
    """Interleaved by another writer, a result stands behind its call again."""
    state: list[AnyMessage] = [
        HumanMessage("look"),
        AIMessage("", tool_calls=[call("look", "c1", q=1), call("look", "c2", q=2)]),
        ToolMessage("one", tool_call_id="c1"),
        HumanMessage("hurry"),
        ToolMessage("two", tool_call_id="c2"),
        AIMessage("done"),
        HumanMessage("and now?"),
    ]
    request = await answer_to(engine, state)
    assert texts(request) == ["look", "", "one", "two", "hurry", "done", "and now?"]


async def test_a_result_whose_call_is_gone(engine: ContextEngine) -> None:
    """Left out, and so is a call that never got its result."""
    state: list[AnyMessage] = [
        HumanMessage("look"),
        ToolMessage("nobody asked", tool_call_id="gone"),
        AIMessage("", tool_calls=[call("look", "lost", q=1)]),
        HumanMessage("and now?"),
    ]
    assert texts(await answer_to(engine, state)) == ["look", "and now?"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_alone_is_never_cut(engine: ContextEngine, way: str) -> None:
    """There is nothing older to give up: it is shown whole, or the error says how large it is."""
    question = [HumanMessage("Current request " * 10)]
    assert texts(await answer_to(engine, list(question), way, budget=TokenBudget(200, 0))) == texts(question)
    with pytest.raises(BudgetExceededError, match="17 available"):
        await answer_to(engine, [HumanMessage("Another request " * 10)], way, budget=TokenBudget(20, 0))


@pytest.mark.parametrize("way", WAYS)
async def test_a_summary_that_fails(way: str) -> None:
    """The reply does not wait for it, and its error is never taken for a summary."""

    class Failing(FakeListChatModel):
        def _call(self, *args: Any, **kwargs: Any) -> str:
            raise OSError("summaries are down")

    settings = ArcSettings(conversation={"max_context_tokens": 900})
    with open_engine(summary_llm=Failing(responses=["x"]), settings=settings) as engine:
        model = ScriptedToolModel()
        agent = agent_over(engine, model)
        for n in range(30):
            await ask(agent, f"My dog number {n} is called Rex{n}.", way)
        settle(engine)
        await ask(agent, "who is Rex1?", way)
        assert "summaries are down" not in str(model.requests)
        assert "Error" not in str(shown(model))
        assert len(said(engine)) == 62


async def test_a_summary_does_not_show_in_the_stream() -> None:
    """A user who watches the tokens sees the answer's only."""
    summaries = FakeListChatModel(responses=['{"facts": [], "narrative": "SECRET SUMMARY"}'])
    settings = ArcSettings(conversation={"max_context_tokens": 900})
    with open_engine(summary_llm=summaries, settings=settings) as engine:
        agent = agent_over(engine, ScriptedToolModel())
        for n in range(30):
            value = {"messages": [HumanMessage(f"My dog number {n} is called Rex{n}.")]}
            seen = [chunk.text async for chunk, _ in agent.astream(value, config(), stream_mode="messages")]
            assert "SECRET" not in "".join(seen)
        settle(engine)


async def test_messages_keep_their_ids(engine: ContextEngine) -> None:
    """Those of the state, so that a later edit finds them; one that had none is known by the one it was given."""
    state: list[AnyMessage] = [HumanMessage("one", id="mine"), AIMessage("two"), HumanMessage("three")]
    agent = agent_over(engine, model := ScriptedToolModel())
    result = agent.invoke({"messages": state}, config())
    assert [message.id for message in result["messages"]] == [it.id for it in engine.session("s").messages()]
    assert [message.id for message in model.requests[0]] == [message.id for message in result["messages"][:-1]]


@pytest.mark.parametrize("way", WAYS)
async def test_tool_results_are_not_cleared_below_the_limit(engine: ContextEngine, way: str) -> None:
    """Context editing that is not needed does not happen."""
    state = [*tool_turn(0)[:-1]]
    assert texts(await answer_to(engine, state, way)) == texts(state)


@pytest.mark.parametrize("way", WAYS)
async def test_older_tool_results_are_cleared_first(engine: ContextEngine, way: str) -> None:
    """In a running turn too large, the newest result is shown, and older ones are cut or cleared beside their calls."""
    state: list[AnyMessage] = [HumanMessage("look at all of it")]
    for n in range(6):
        state += tool_turn(n, size=400)[1:-1]
    request = await answer_to(engine, state, way, budget=TokenBudget(500, 0))
    results = [message.text for message in request if isinstance(message, ToolMessage)]
    assert results[-1] == state[-1].text
    assert any(len(text) < len(results[-1]) for text in results[:-1])
    assert request[0].text == "look at all of it"
    assert [message.text for message in state if isinstance(message, ToolMessage)] == [
        stored.text for stored in engine.session("s").messages() if stored.role == "tool"
    ]
