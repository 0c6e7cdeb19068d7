"""On every way to a model, blank messages have no effect and new tool results are shown as far as they fit."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda

import langchain_arc
import llamaindex_arc
from arc_common import ArcSettings, ContentPart, ContextEngine, Message, Role, TokenBudget, ToolCall
from arc_common.tokens.counters import default_token_counter, message_tokens
from langchain_arc import ArcChatMessageHistory, ArcMemoryMiddleware, fit_messages, with_arc_memory
from llamaindex_arc import ArcChatMemoryBuffer
from tests.support.langchain_agents import ScriptedToolModel

Way = Callable[[Sequence[Message], int], list[Message]]
SETTINGS = ArcSettings(summary={"enabled": False})


def fitted(messages: Sequence[Message], limit: int) -> list[Message]:
    given_messages = list(map(langchain_arc.from_arc, messages))
    return list(map(langchain_arc.to_arc, fit_messages(given_messages, max_tokens=limit)))


def context(messages: Sequence[Message], limit: int) -> list[Message]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        return list(engine.session(None).context(history=messages, budget=TokenBudget(limit, 0)).messages)


def context_of_a_question(messages: Sequence[Message], limit: int) -> list[Message]:
    *history, question = messages
    with ContextEngine.open(settings=SETTINGS) as engine:
        return list(engine.session(None).context(question.text, history=history).messages)


def stored_context(messages: Sequence[Message], limit: int) -> list[Message]:
    *history, question = messages
    with ContextEngine.open(settings=SETTINGS) as engine:
        engine.session("s").append(history)
        return list(engine.session("s").context(question.text).messages)


def history(messages: Sequence[Message], limit: int, **given_limit: int) -> list[Message]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        stored = ArcChatMessageHistory("s", engine=engine, **(given_limit or {"max_tokens": limit}))
        stored.add_messages(list(map(langchain_arc.from_arc, messages)))
        return list(map(langchain_arc.to_arc, stored.messages))


def history_by_turns(messages: Sequence[Message], limit: int) -> list[Message]:
    return history(messages, limit, max_turns=2)


def chain(messages: Sequence[Message], limit: int) -> list[Message]:
    seen: list[Message] = []

    def model(shown: list[Any]) -> AIMessage:
        seen.extend(map(langchain_arc.to_arc, shown))
        return AIMessage("ok")

    *before, question = messages
    with ContextEngine.open(settings=SETTINGS) as engine:
        engine.session("s").append(before)
        with_arc_memory(RunnableLambda(model), engine, session_id="s").invoke([HumanMessage(question.text)])
    return seen


def agent(messages: Sequence[Message], limit: int, session_id: Any = "s") -> list[Message]:
    model = ScriptedToolModel(script=["ok"])
    with ContextEngine.open(settings=SETTINGS) as engine:
        middleware = ArcMemoryMiddleware(engine, session_id=session_id, budget=TokenBudget(limit, 0))
        state: Any = {"messages": list(map(langchain_arc.from_arc, messages))}
        create_agent(model, [], middleware=[middleware]).invoke(state)
    return list(map(langchain_arc.to_arc, model.requests[0]))


def agent_without_a_session(messages: Sequence[Message], limit: int) -> list[Message]:
    return agent(messages, limit, session_id=lambda runtime: None)


def memory(messages: Sequence[Message], limit: int) -> list[Message]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        buffer = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", token_limit=limit)
        buffer.put_messages(list(map(llamaindex_arc.from_arc, messages)))
        return list(map(llamaindex_arc.to_arc, buffer.get()))


def named(way: Way) -> str:
    return way.__name__


# --- blank messages -------------------------------------------------------------------------------------------------

CONVERSATION = [
    Message(Role.SYSTEM, "Be brief.", id="s"),
    Message(Role.USER, "I'm Ann", id="h0"),
    Message(Role.ASSISTANT, "hi", id="a0"),
    Message(Role.USER, "what is the weather?", id="h1"),
    Message(Role.ASSISTANT, "", tool_calls=(ToolCall("weather", {}, id="c"),), id="a1"),
    Message(Role.TOOL, "rain", tool_call_id="c", id="t1"),
    Message(Role.ASSISTANT, "it rains", id="b1"),
]
QUESTION = Message(Role.USER, "who am I?")
blanks = st.builds(
    Message,
    st.sampled_from([Role.SYSTEM, Role.SYSTEM, Role.USER, Role.ASSISTANT]),
    st.sampled_from(["", " ", "\n\t", (), (ContentPart("text", text=" "),)]),
)


@pytest.mark.parametrize(
    "way",
    [
        fitted,
        context,
        context_of_a_question,
        stored_context,
        history,
        history_by_turns,
        chain,
        agent,
        agent_without_a_session,
        memory,
    ],
    ids=named,
)
@settings(max_examples=12)
@given(
    places=st.lists(st.tuples(st.integers(0, len(CONVERSATION)), blanks), min_size=1, max_size=4),
    limit=st.integers(45, 300),
    instructed=st.booleans(),
)
def test_blank_messages_change_nothing(
    way: Way, places: list[tuple[int, Message]], limit: int, instructed: bool
) -> None:
    """They may come at the start, between any messages, between a call and its result, and before the question."""
    conversation = CONVERSATION[0 if instructed else 1 :]
    mixed = list(conversation)
    for place, blank in places:
        mixed.insert(min(place, len(mixed)), blank)

    def shown(messages: list[Message]) -> list[tuple[str, str]]:
        return [(message.role.value, message.text) for message in way([*messages, QUESTION], limit)]

    assert shown(mixed) == shown(conversation)


def test_blank_instructions_are_not_sent() -> None:
    """This covers an agent's own instructions, and stored ones that a summary replaces."""
    messages = [SystemMessage(""), HumanMessage("I'm Ann"), AIMessage("hi"), HumanMessage("who?")]
    assert fit_messages(messages, max_tokens=1_000) == messages[1:]
    model = ScriptedToolModel(script=["ok"])
    with ContextEngine.open(settings=ArcSettings(summary={"trigger_message_count": 4})) as engine:
        create_agent(model, [], system_prompt=" ", middleware=[ArcMemoryMiddleware(engine, session_id="a")]).invoke(
            {"messages": [HumanMessage("hello")]}
        )
        assert [message.text for message in model.requests[0]] == ["hello"]
        session = engine.session("s")
        session.append([Message(Role.SYSTEM, " "), *(Message(Role.USER, f"hm {n}") for n in range(30))])
        session.summarize()
        shown = [*session.context("well?", system_prompt=" ").messages, *session.window()]
    assert all(message.text.strip() for message in shown)


# --- results that have just arrived ---------------------------------------------------------------------------------

LIMIT = 500
WORDS = " ".join(f"row {n} is {n * n}" for n in range(400))
NEVER_CUT: list[Way] = [fitted, agent_without_a_session]
"""Ways that never shorten the text next to a model's calls."""
CUT: list[Way] = [context, history, agent, memory]


def step(number: int, results: int, said: str = "") -> list[Message]:
    calls = tuple(ToolCall("query", {"n": n}, id=f"c{number}-{n}") for n in range(results))
    return [
        Message(Role.ASSISTANT, said, tool_calls=calls, id=f"a{number}"),
        *(Message(Role.TOOL, f"{n}: {WORDS}", tool_call_id=call.id, id=f"{call.id}") for n, call in enumerate(calls)),
    ]


@pytest.mark.parametrize("way", [*NEVER_CUT, *CUT], ids=named)
def test_results_that_have_just_arrived_are_cut_and_never_cleared(way: Way) -> None:
    """Each is shown and the budget is used; older ones may be cleared."""
    counter = default_token_counter()
    for said in ("", f"I look at {WORDS}") if way in CUT else ("",):
        for results, earlier in ((1, 0), (2, 3), (5, 0), (5, 3)):
            shown = way(
                [
                    Message(Role.USER, "what is in the table?", id="u"),
                    *(message for number in range(earlier) for message in step(number, 1)),
                    *step(9, results, said),
                ],
                LIMIT,
            )
            arrived = shown[-results:]
            assert [message.tool_call_id for message in arrived] == [f"c9-{n}" for n in range(results)]
            for n, message in enumerate(arrived):
                assert message.text.startswith(f"{n}: row 0 is 0 row 1")
                assert message.text.endswith("... [truncated]")
            assert 0.8 * LIMIT < sum(message_tokens(counter, message) for message in shown) <= LIMIT
            assert shown[0].text.startswith("what is in the table?")
