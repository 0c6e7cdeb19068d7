"""A chain with memory stays within the engine's budget."""

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda

from arc_common import ArcSettings, BudgetExceededError, ContextEngine, HeuristicTokenCounter
from langchain_arc import with_arc_memory
from langchain_arc.token_limit import arc_tokens

WINDOW = 1_000
CONFIG: Any = {"configurable": {"session_id": "s"}}


def chain(engine: ContextEngine, seen: list[list[BaseMessage]], **limits: Any) -> Runnable[Any, Any]:
    """Return a chain whose model records its requests."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Noted, as you say. " * 8)] * 100))

    def noting(messages: list[BaseMessage]) -> list[BaseMessage]:
        seen.append(messages)
        return messages

    return with_arc_memory(RunnableLambda(noting) | model, engine, **limits)


@pytest.fixture
def engine() -> Any:
    """Open an engine with a small window and no output reserve."""
    settings = ArcSettings(budget={"context_window": WINDOW, "output_reserve": 0})
    with ContextEngine.open(token_counter=HeuristicTokenCounter(), settings=settings) as opened:
        yield opened


@pytest.mark.parametrize("limits", [{}, {"max_tokens": 200}, {"max_turns": 3}], ids=str)
@pytest.mark.parametrize("extra", [[], [SystemMessage("Be kind. " * 2_000)]], ids=["question", "instructions"])
def test_an_input_too_large_for_the_window_is_refused_before_the_model(
    engine: ContextEngine, limits: dict[str, int], extra: list[BaseMessage]
) -> None:
    """The error has both figures; nothing is stored."""
    seen: list[list[BaseMessage]] = []
    memory = chain(engine, seen, **limits)
    question = HumanMessage("Why?" if extra else "word " * 5_000)
    for run in (
        lambda: memory.invoke([*extra, question], CONFIG),
        lambda: asyncio.run(memory.ainvoke([*extra, question], CONFIG)),
        lambda: list(memory.stream([*extra, question], CONFIG)),
    ):
        with pytest.raises(BudgetExceededError, match=f"(?s)[1-9],?[0-9]{{3}} .*{WINDOW:,}") as raised:
            run()
        assert raised.value.needed > raised.value.available == WINDOW
    assert not seen
    assert not engine.session("s").messages()


@pytest.mark.parametrize("limits", [{}, {"max_tokens": 900}, {"max_turns": 50}, {"max_messages": 99}], ids=str)
def test_history_and_input_share_the_window(engine: ContextEngine, limits: dict[str, int]) -> None:
    """As much history as fits is shown, for any length of conversation and question."""
    seen: list[list[BaseMessage]] = []
    memory = chain(engine, seen, **limits)
    for number in range(16):
        long = "and further " * (120 if number % 7 == 6 else 5)
        memory.invoke([SystemMessage("Be kind."), HumanMessage(f"Question {number} {long}")], CONFIG)
    costs = [arc_tokens(engine.token_counter, messages) for messages in seen]
    assert max(costs) <= WINDOW
    assert costs[-1] > WINDOW // 2


@pytest.mark.parametrize("limit", ["max_tokens", "max_turns", "max_messages"])
def test_a_limit_of_0_shows_no_history(engine: ContextEngine, limit: str) -> None:
    """It differs from no limit."""
    seen: list[list[BaseMessage]] = []
    memory = chain(engine, seen, **{limit: 0})
    for question in ("Why?", "And now?"):
        memory.invoke([HumanMessage(question)], CONFIG)
    assert [[message.text for message in messages] for messages in seen] == [["Why?"], ["And now?"]]
