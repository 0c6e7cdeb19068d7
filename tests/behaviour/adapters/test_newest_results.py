"""Results that have just arrived are shown as far as they fit, on every way to a model."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage

import langchain_arc
import llamaindex_arc
from arc_common import ArcSettings, ContextEngine, Message, Role, TokenBudget, ToolCall
from arc_common.settings import SummarySettings
from arc_common.tokens.counters import default_token_counter, message_tokens
from langchain_arc import ArcChatMessageHistory, ArcMemoryMiddleware, fit_messages
from llamaindex_arc import ArcChatMemoryBuffer
from tests.support.langchain_agents import ScriptedToolModel

SETTINGS = ArcSettings(summary=SummarySettings(enabled=False))
LIMIT = 500
WORDS = " ".join(f"row {n} is {n * n}" for n in range(400))


def fitted(messages: Sequence[Message]) -> list[Message]:
    given = list(map(langchain_arc.from_arc, messages))
    return list(map(langchain_arc.to_arc, fit_messages(given, max_tokens=LIMIT)))


def context(messages: Sequence[Message]) -> list[Message]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        return list(engine.session(None).context(history=messages, budget=TokenBudget(LIMIT, 0)).messages)


def history(messages: Sequence[Message]) -> list[Message]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        stored = ArcChatMessageHistory("s", engine=engine, max_tokens=LIMIT)
        stored.add_messages(list(map(langchain_arc.from_arc, messages)))
        return list(map(langchain_arc.to_arc, stored.messages))


def agent(messages: Sequence[Message]) -> list[Message]:
    return _agent(messages, "s")


def agent_without_a_session(messages: Sequence[Message]) -> list[Message]:
    return _agent(messages, lambda runtime: None)


def _agent(messages: Sequence[Message], session_id: Any) -> list[Message]:
    model = ScriptedToolModel(script=[AIMessage("ok")])
    with ContextEngine.open(settings=SETTINGS) as engine:
        middleware = ArcMemoryMiddleware(engine, session_id=session_id, budget=TokenBudget(LIMIT, 0))
        create_agent(model, [], middleware=[middleware]).invoke(
            {"messages": list(map(langchain_arc.from_arc, messages))}
        )
    return list(map(langchain_arc.to_arc, model.requests[0]))


def memory(messages: Sequence[Message]) -> list[Message]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        buffer = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", token_limit=LIMIT)
        buffer.put_messages(list(map(llamaindex_arc.from_arc, messages)))
        return list(map(llamaindex_arc.to_arc, buffer.get()))


def step(number: int, results: int, said: str = "") -> list[Message]:
    calls = tuple(ToolCall("query", {"n": n}, id=f"c{number}-{n}") for n in range(results))
    return [
        Message(Role.ASSISTANT, said, tool_calls=calls, id=f"a{number}"),
        *(Message(Role.TOOL, f"{n}: {WORDS}", tool_call_id=call.id, id=f"{call.id}") for n, call in enumerate(calls)),
    ]


NEVER_CUT = [fitted, agent_without_a_session]
"""What a model says beside its calls is sent whole here."""
CUT = [context, history, agent, memory]


@pytest.mark.parametrize("results", [1, 2, 5])
@pytest.mark.parametrize("earlier", [0, 3], ids=["the first step", "a later step"])
@pytest.mark.parametrize(
    ("way", "said"),
    [
        *(pytest.param(way, "", id=way.__name__) for way in (*NEVER_CUT, *CUT)),
        *(pytest.param(way, f"I look at {WORDS}", id=f"{way.__name__}, much said beside the calls") for way in CUT),
    ],
)
def test_results_that_have_just_arrived_are_cut_and_never_cleared(
    way: Callable[[Sequence[Message]], list[Message]], said: str, results: int, earlier: int
) -> None:
    """Each of them, and so that what there is room for is used; older ones may be cleared."""
    messages = [
        Message(Role.USER, "what is in the table?", id="u"),
        *(message for number in range(earlier) for message in step(number, 1)),
        *step(9, results, said),
    ]
    shown = way(messages)
    arrived = shown[-results:]
    assert [message.tool_call_id for message in arrived] == [f"c9-{n}" for n in range(results)]
    for n, message in enumerate(arrived):
        assert message.text.startswith(f"{n}: row 0 is 0 row 1")
        assert message.text.endswith("... [truncated]")
    counter = default_token_counter()
    assert 0.8 * LIMIT < sum(message_tokens(counter, message) for message in shown) <= LIMIT
    assert shown[0].text.startswith("what is in the table?")
