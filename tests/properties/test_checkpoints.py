"""Random histories of an agent's thread: each request with arc equals that of a LangGraph agent without it."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver

from arc_common import ArcSettings
from langchain_arc import ArcMemoryMiddleware, open_engine
from tests.support.langchain_agents import ScriptedToolModel, call

CONFIG: Any = {"configurable": {"thread_id": "s"}}
STEPS = ("ask",) * 5 + (
    "travel",
    "travel",
    "again",
    "tools again",
    "edit",
    "take back",
    "fail",
    "retry",
    "repeat an id",
)


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


class FailingModel(ScriptedToolModel):
    """Numbers its answers, calls tools for questions that ask for it, and fails once when told to."""

    fails: bool = False
    checked: bool = False

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        place = len(self.requests)
        self.requests.append(list(messages))
        if self.fails:
            self.fails = False
            raise OSError("overloaded")
        if messages[-1].type == "human" and "tools" in messages[-1].text:
            return AIMessage("", tool_calls=[call("multiply", f"{side}{place}", a=place, b=3) for side in "cd"])
        return AIMessage(f"answer {place}")


class History:
    """The same random steps for each agent with the same seed."""

    def __init__(self, seed: int, middleware: list[Any], *, takes_back: str) -> None:
        self._random = random.Random(seed)
        self._model = FailingModel()
        self._agent: Any = create_agent(self._model, [multiply], middleware=middleware, checkpointer=InMemorySaver())
        self._places: list[Any] = []
        self._takes_back = takes_back
        self.steps: list[str] = []

    def requests(self) -> list[list[tuple[str, str]]]:
        for number in range(self._random.randint(3, 14)):
            step = self._random.choice(STEPS) if self._places else "ask"
            self._take(step, number, self._random.random())
        return [[(message.type, message.text) for message in request] for request in self._model.requests]

    def _take(self, step: str, number: int, chance: float) -> None:
        before, text = self.steps[-1:], f"question {number}" + (" tools" if chance * 10 % 1 < 0.3 else "")
        self.steps.append(step)
        question = HumanMessage(text, id=f"q{number}")
        anywhere = self._places[int(chance * len(self._places))] if self._places else CONFIG
        if step in ("ask", "fail"):
            self._model.fails = step == "fail"
            self._run([question])
        elif step == "travel":
            self._run([question], anywhere)
        elif step == "repeat an id":
            self._run([HumanMessage(text, id=f"again {int(chance * 4)}")], anywhere)
        elif step in ("again", "tools again"):
            states = self._states("model" if step == "again" else "tools")
            if states:
                self._run(None, states[int(chance * len(states))].config)
        elif step == "edit":
            states = [it for it in self._states("model") if it.values["messages"][-1].type == "human"]
            if states:
                state = states[int(chance * len(states))]
                edited = HumanMessage(f"{text}, edited", id=state.values["messages"][-1].id)
                self._run(None, self._agent.update_state(state.config, {"messages": [edited]}))
        elif step == "retry" and self._agent.get_state(CONFIG).next:
            self._run(None)
        elif step == "take back" and (self._takes_back == "any turn" or before == ["ask"]):
            self._remove_turn(chance)

    def _run(self, messages: list[Any] | None, at: Any = CONFIG) -> None:
        try:
            self._agent.invoke(None if messages is None else {"messages": messages}, at)
        except OSError:
            self.steps.append("failed")
        self._places.append(self._agent.get_state(CONFIG).config)

    def _states(self, node: str) -> list[Any]:
        return [state for state in self._agent.get_state_history(CONFIG) if state.next == (node,)]

    def _remove_turn(self, chance: float) -> None:
        messages = self._agent.get_state(CONFIG).values["messages"]
        starts = [place for place, message in enumerate(messages) if message.type == "human"]
        if not starts:
            return
        first = starts[-1] if self._takes_back == "the last turn" else starts[int(chance * len(starts))]
        last = next((place for place in starts if place > first), len(messages))
        removed = [RemoveMessage(id=message.id) for message in messages[first:last]]
        self._agent.update_state(CONFIG, {"messages": removed})
        self._places.append(self._agent.get_state(CONFIG).config)


def compare(url: str, seeds: range, *, prune: bool) -> None:
    """Compare the agents with summaries off and no limit of turns, since both shorten requests."""
    settings = ArcSettings(summary={"enabled": False}, conversation={"window": "tokens"})
    takes_back = "the last turn" if prune else "any turn"  # a pruned state has only this one
    with open_engine(url, settings=settings) as engine:
        for seed in seeds:
            memory = ArcMemoryMiddleware(engine, caller_id=f"seed {seed}", prune_state=prune)
            plain, ours = (History(seed, middleware, takes_back=takes_back) for middleware in ([], [memory]))
            expected = plain.requests()
            assert ours.requests() == expected, f"seed {seed}: {plain.steps}"
            assert ours.steps == plain.steps


@pytest.mark.parametrize("histories", [6, pytest.param(1_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("prune", [False, True], ids=["whole", "pruned"])
def test_requests_are_those_of_langgraph(prune: bool, histories: int) -> None:
    """Earlier questions may have been repeated, edited, removed or failed."""
    compare("sqlite://", range(histories), prune=prune)


@pytest.mark.parametrize("histories", [3, pytest.param(200, marks=pytest.mark.torture)])
@pytest.mark.parametrize("prune", [False, True], ids=["whole", "pruned"])
def test_requests_are_those_of_langgraph_on_postgres(
    postgres_database: Callable[[], str], prune: bool, histories: int
) -> None:
    """The same holds on PostgreSQL."""
    compare(postgres_database(), range(histories), prune=prune)
