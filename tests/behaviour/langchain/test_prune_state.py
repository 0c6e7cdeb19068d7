"""`prune_state` reduces an agent's state to its last turn once arc has stored the rest."""

import pickle
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from arc_common import InvalidInputError
from langchain_arc import ArcMemoryMiddleware, open_engine
from tests.support.langchain_agents import ScriptedToolModel, call, multiply

CONFIG: Any = {"configurable": {"thread_id": "s"}}


def script(turns: int) -> list[AIMessage]:
    """Return a call and an answer for each turn."""
    said = [
        (AIMessage("", tool_calls=[call("multiply", f"c{n}", a=n, b=2)]), AIMessage(f"{2 * n}.")) for n in range(turns)
    ]
    return [message for turn in said for message in turn]


def types(messages: list[Any]) -> list[str]:
    return [message.type for message in messages]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_the_state_holds_the_last_turn_and_the_model_sees_all(way: str) -> None:
    """The turn is whole, with results for its calls, and requests are the same as without pruning."""
    requests = []
    for prune in (False, True):
        model = ScriptedToolModel(script=script(4))
        with open_engine("sqlite://") as engine:
            middleware = ArcMemoryMiddleware(engine, prune_state=prune)
            agent: Any = create_agent(model, [multiply], middleware=[middleware], checkpointer=InMemorySaver())
            for turn in range(4):
                value = {"messages": [HumanMessage(f"Twice {turn}?")]}
                answer = agent.invoke(value, CONFIG) if way == "invoke" else await agent.ainvoke(value, CONFIG)
                assert answer["messages"][-1].text == f"{2 * turn}."
            kept = agent.get_state(CONFIG).values["messages"]
            assert types(kept) == ["human", "ai", "tool", "ai"] * (1 if prune else 4)
            assert len(engine.session("s").messages()) == 16
        requests.append([[(message.type, message.text) for message in request] for request in model.requests])
    assert requests[0] == requests[1]
    assert len(requests[1][-1]) == 15


def test_checkpoints_stop_growing() -> None:
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for prune, measured in sizes.items():
        saver = InMemorySaver()
        with open_engine("sqlite://") as engine:
            middleware = ArcMemoryMiddleware(engine, prune_state=prune)
            agent: Any = create_agent(ScriptedToolModel(), middleware=[middleware], checkpointer=saver)
            for turn in range(12):
                agent.invoke({"messages": [("user", f"Message {turn:02d}.")]}, CONFIG)
                measured.append(len(pickle.dumps(agent.get_state(CONFIG).values)))
    assert max(sizes[True]) < 1.2 * sizes[True][2]
    assert sizes[False][-1] > 3 * sizes[True][-1]


def test_it_is_true_or_false() -> None:
    with open_engine("sqlite://") as engine, pytest.raises(InvalidInputError, match="prune_state"):
        ArcMemoryMiddleware(engine, prune_state="yes")  # type: ignore[arg-type]
