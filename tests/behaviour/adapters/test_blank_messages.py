"""Messages with nothing in them change nothing of what a model is shown, wherever they stand."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from llama_index.core.base.llms.types import ChatMessage

import langchain_arc
import llamaindex_arc
from arc_common import ArcSettings, ContentPart, ContextEngine, Message, Role, ToolCall
from arc_common.settings import SummarySettings
from langchain_arc import ArcChatMessageHistory, ArcMemoryMiddleware, fit_messages, with_arc_memory
from llamaindex_arc import ArcChatMemoryBuffer
from tests.support.langchain_agents import ScriptedToolModel

SETTINGS = ArcSettings(summary=SummarySettings(enabled=False))
SUMMARIES = ArcSettings(summary=SummarySettings(trigger_message_count=4))

CONVERSATION = [
    Message(Role.SYSTEM, "Be brief.", id="s"),
    Message(Role.USER, "I'm Ann", id="h0"),
    Message(Role.ASSISTANT, "hi", id="a0"),
    Message(Role.USER, "what is the weather?", id="h1"),
    Message(Role.ASSISTANT, "", tool_calls=(ToolCall("weather", {}, id="c"),), id="a1"),
    Message(Role.TOOL, "rain", tool_call_id="c", id="t1"),
    Message(Role.ASSISTANT, "it rains", id="b1"),
]
BLANK_CONTENTS = ["", " ", "\n\t", (), (ContentPart("text", text=" "),)]
blanks = st.builds(
    Message,
    st.sampled_from([Role.SYSTEM, Role.SYSTEM, Role.USER, Role.ASSISTANT]),
    st.sampled_from(BLANK_CONTENTS),
)
QUESTION = "who am I?"


def fitted(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    given_messages = [*map(langchain_arc.from_arc, messages), HumanMessage(QUESTION)]
    return told(map(langchain_arc.to_arc, fit_messages(given_messages, max_tokens=limit)))


def given_context(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        return told(engine.session(None).context(QUESTION, history=messages).messages)


def running_context(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        history = [*messages, Message(Role.USER, QUESTION)]
        return told(engine.session(None).context(history=history).messages)


def stored_context(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        session = engine.session("s")
        session.append(messages)
        return told(session.context(QUESTION).messages)


def history(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        stored = ArcChatMessageHistory("s", engine=engine, max_tokens=limit)
        stored.add_messages([*map(langchain_arc.from_arc, messages), HumanMessage(QUESTION)])
        return told(map(langchain_arc.to_arc, stored.messages))


def history_by_turns(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        stored = ArcChatMessageHistory("s", engine=engine, max_turns=2)
        stored.add_messages([*map(langchain_arc.from_arc, messages), HumanMessage(QUESTION)])
        return told(map(langchain_arc.to_arc, stored.messages))


def chain(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    seen: list[BaseMessage] = []

    def model(given_messages: list[BaseMessage]) -> AIMessage:
        seen.extend(given_messages)
        return AIMessage("ok")

    with ContextEngine.open(settings=SETTINGS) as engine:
        engine.session("s").append(messages)
        with_arc_memory(RunnableLambda(model), engine, session_id="s").invoke([HumanMessage(QUESTION)])
    return told(map(langchain_arc.to_arc, seen))


def agent(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    return _agent(messages, None)


def agent_without_a_session(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    return _agent(messages, lambda runtime: None)


def _agent(messages: Sequence[Message], session_id: Any) -> list[tuple[str, str]]:
    model = ScriptedToolModel(script=["ok"])
    with ContextEngine.open(settings=SETTINGS) as engine:
        middleware = ArcMemoryMiddleware(engine, session_id=session_id)
        state: Any = {"messages": [*map(langchain_arc.from_arc, messages), HumanMessage(QUESTION)]}
        create_agent(model, [], middleware=[middleware]).invoke(state, {"configurable": {"thread_id": "s"}})
    return told(map(langchain_arc.to_arc, model.requests[0]))


def memory(messages: Sequence[Message], limit: int) -> list[tuple[str, str]]:
    with ContextEngine.open(settings=SETTINGS) as engine:
        buffer = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", token_limit=limit)
        buffer.put_messages([*map(llamaindex_arc.from_arc, messages), ChatMessage(content=QUESTION)])
        return told(map(llamaindex_arc.to_arc, buffer.get()))


WAYS: list[Callable[[Sequence[Message], int], list[tuple[str, str]]]] = [
    fitted,
    given_context,
    running_context,
    stored_context,
    history,
    history_by_turns,
    chain,
    agent,
    agent_without_a_session,
    memory,
]


def told(messages: Any) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in messages]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@settings(max_examples=30)
@given(
    places=st.lists(st.tuples(st.integers(0, len(CONVERSATION)), blanks), min_size=1, max_size=4),
    limit=st.integers(45, 300),
    instructed=st.booleans(),
)
def test_blank_messages_change_nothing(
    way: Callable[[Sequence[Message], int], list[tuple[str, str]]],
    places: list[tuple[int, Message]],
    limit: int,
    instructed: bool,
) -> None:
    """At the start, in the middle, between a call and its result, and before the question."""
    conversation = CONVERSATION[0 if instructed else 1 :]
    mixed = list(conversation)
    for place, blank in places:
        mixed.insert(min(place, len(mixed)), blank)
    assert way(mixed, limit) == way(conversation, limit)


def test_the_example_of_an_audit() -> None:
    """The whole history fits."""
    messages = [SystemMessage(""), HumanMessage("I'm Ann"), AIMessage("hi"), HumanMessage("who?")]
    assert fit_messages(messages, max_tokens=1_000) == messages[1:]


def test_blank_instructions_are_not_sent() -> None:
    """Neither an agent's own, nor stored ones that a summary stands for."""
    model = ScriptedToolModel(script=["ok"])
    with ContextEngine.open(settings=SUMMARIES) as engine:
        create_agent(model, [], system_prompt=" ", middleware=[ArcMemoryMiddleware(engine)]).invoke(
            {"messages": [HumanMessage("hello")]}, {"configurable": {"thread_id": "a"}}
        )
        assert [message.text for message in model.requests[0]] == ["hello"]
        session = engine.session("s")
        session.append([Message(Role.SYSTEM, " "), *(Message(Role.USER, f"hm {n}") for n in range(30))])
        session.summarize()
        shown = [*session.context("well?", system_prompt=" ").messages, *session.window()]
    assert all(message.text.strip() for message in shown)
