"""The cases of langchain-core's own tests of `RunnableWithMessageHistory`, with `with_arc_memory` in its place.

The chains repeat their input ("you said: …"), so that each answer shows what was remembered.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableLambda

from arc_common import ContextEngine, InvalidInputError
from langchain_arc import with_arc_memory
from tests.support.langchain_helpers import run, said

BOTH_KEYS = {"input_messages_key": "input", "history_messages_key": "history"}


def you_said(messages: Sequence[BaseMessage], now: str = "") -> str:
    """Repeat the user's texts that the model got."""
    return "you said: " + "\n".join(
        [*(it.text for it in messages if isinstance(it, HumanMessage)), *filter(None, [now])]
    )


def shown(value: Any) -> str:
    """Answer a list of messages, or a dictionary with input and history."""
    if isinstance(value, dict) and "history" in value:
        return you_said(value["history"], value["input"] if isinstance(value["input"], str) else value["input"][0].text)
    return you_said(value["messages"] if isinstance(value, dict) else value)


class Saying(BaseChatModel):
    """A chat model that repeats its input."""

    @property
    def _llm_type(self) -> str:
        return "saying"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(you_said(messages)))])


def config(session_id: str = "s", **configurable: str) -> Any:
    return {"configurable": {"session_id": session_id, **configurable}}


INPUTS: dict[str, tuple[dict[str, str], Callable[[str], Any]]] = {
    "a text": ({}, str),
    "a message": ({}, HumanMessage),
    "a list of messages": ({}, lambda text: [HumanMessage(text)]),
    "a list of pairs": ({}, lambda text: [("human", text)]),
    "a dictionary with messages": ({"input_messages_key": "messages"}, lambda text: {"messages": [HumanMessage(text)]}),
    "a dictionary with a message": ({"input_messages_key": "messages"}, lambda text: {"messages": HumanMessage(text)}),
    "a dictionary with a text": ({"input_messages_key": "messages"}, lambda text: {"messages": text}),
    "a dictionary whose key nobody named": ({}, lambda text: {"messages": [HumanMessage(text)]}),
    "input and history": (BOTH_KEYS, lambda text: {"input": text}),
    "input as messages, and history": (BOTH_KEYS, lambda text: {"input": [HumanMessage(text)]}),
    "input and history, and more": (BOTH_KEYS, lambda text: {"input": text, "ability": "math"}),
}

OUTPUTS: dict[str, tuple[dict[str, str], Callable[[str], Any]]] = {
    "a text": ({}, str),
    "a message": ({}, AIMessage),
    "a list of messages": ({}, lambda text: [AIMessage(text)]),
    "a dictionary with messages": ({"output_messages_key": "answer"}, lambda text: {"answer": [AIMessage(text)]}),
    "a dictionary with a text, and more": (
        {"output_messages_key": "answer"},
        lambda text: {"answer": text, "sources": ["a"]},
    ),
    "a dictionary whose key nobody named": ({}, lambda text: {"answer": AIMessage(text)}),
    "a dictionary with the usual key": ({}, lambda text: {"output": text, "sources": ["a"]}),
}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("given", INPUTS)
async def test_every_form_of_input_and_output(engine: ContextEngine, given: str, way: str) -> None:
    """The second turn sees the first, the output is the chain's, and both turns are stored once."""
    keys, value = INPUTS[given]
    for output, (more, answer) in OUTPUTS.items() if given == "a text" else [("a text", OUTPUTS["a text"])]:
        echo = RunnableLambda(lambda value, answer=answer: answer(shown(value)))
        chain = with_arc_memory(echo, engine, **keys, **more)

        async def ask(text: str, chain: Any = chain, session_id: str = output) -> Any:
            if way == "ainvoke":
                return await chain.ainvoke(value(text), config(session_id))
            return await asyncio.to_thread(chain.invoke, value(text), config(session_id))

        assert await ask("hello") == answer("you said: hello"), output
        assert await ask("good bye") == answer("you said: hello\ngood bye"), output
        assert said(engine, output) == [
            ("user", "hello"),
            ("assistant", "you said: hello"),
            ("user", "good bye"),
            ("assistant", "you said: hello\ngood bye"),
        ], output


def spec(name: str) -> ConfigurableFieldSpec:
    return ConfigurableFieldSpec(id=name, annotation=str, name=name, description="", default="", is_shared=True)


def test_keys_of_the_configuration_that_somebody_else_chose(engine: ContextEngine) -> None:
    """User and conversation ids may have other names."""
    chain = with_arc_memory(
        Saying(),
        engine,
        history_factory_config=[spec("who"), spec("conversation_id")],
        get_session=lambda who, conversation_id: engine.session(f"{who}/{conversation_id}", user_id=who),
    )

    def ask(text: str, who: str) -> str:
        return str(chain.invoke(text, {"configurable": {"who": who, "conversation_id": "1"}}).text)

    assert ask("hello", "user1") == "you said: hello"
    assert ask("goodbye", "user1") == "you said: hello\ngoodbye"
    assert ask("meow", "user2") == "you said: meow"
    assert [text for _, text in said_by(engine, "user1")] == [
        "hello",
        "you said: hello",
        "goodbye",
        "you said: hello\ngoodbye",
    ]


def said_by(engine: ContextEngine, who: str) -> list[tuple[str, str]]:
    messages = engine.session(f"{who}/1", user_id=who).messages()
    return [(message.role.value, message.text) for message in messages]


def test_session_and_user_in_the_configuration(engine: ContextEngine) -> None:
    """Both of arc's names work without a function; another user finds nothing."""
    chain = with_arc_memory(Saying(), engine, history_factory_config=[spec("session_id"), spec("user_id")])
    chain.invoke("hello", config(user_id="ann"))
    assert chain.invoke("bye", config(user_id="ann")).text == "you said: hello\nbye"
    with pytest.raises(LookupError):
        chain.invoke("what was said?", config(user_id="eve"))


@pytest.mark.parametrize(
    ("given", "missing"),
    [(None, "session_id"), ({"configurable": {}}, "session_id"), ({"configurable": {"user_id": "ann"}}, "session_id")],
    ids=["no configuration", "an empty one", "another key"],
)
def test_a_configuration_without_the_key(engine: ContextEngine, given: Any, missing: str) -> None:
    """The error names the missing key before anything is run or stored."""
    ran: list[Any] = []
    chain = with_arc_memory(RunnableLambda(ran.append), engine)
    with pytest.raises(ValueError, match=missing):
        chain.invoke("hello", given)
    with pytest.raises(ValueError, match=missing):
        next(chain.stream("hello", given))
    assert ran == []


def test_a_key_that_nothing_takes(engine: ContextEngine) -> None:
    """The error is raised when the chain is created."""
    with pytest.raises(InvalidInputError, match="conversation_id"):
        with_arc_memory(Saying(), engine, history_factory_config=[spec("conversation_id")])


def test_a_session_that_was_named_before(engine: ContextEngine) -> None:
    """A run's configuration overrides it."""
    chain = with_arc_memory(Saying(), engine, session_id="s")
    chain.invoke("hello")
    assert chain.invoke("bye").text == "you said: hello\nbye"
    assert chain.invoke("bye", config("other")).text == "you said: bye"


def test_what_the_chain_can_be_asked_about_itself(engine: ContextEngine) -> None:
    """Its schemas and keys are those of any runnable."""
    chain = with_arc_memory(Saying(), engine)
    assert [found.id for found in chain.config_specs] == ["session_id"]
    assert chain.get_input_schema() is not None
    assert chain.get_output_schema() is not None
    assert "session_id" in str(chain.config_schema().model_json_schema())


@pytest.mark.parametrize("way", ["invoke", "astream"])
async def test_the_history_may_be_left_to_the_input(engine: ContextEngine, way: str) -> None:
    """A system message in the input comes first each time and is not stored."""
    seen: list[list[str]] = []

    def note(messages: list[BaseMessage]) -> list[BaseMessage]:
        seen.append([message.type for message in messages])
        return messages

    chain = with_arc_memory(RunnableLambda(note) | Saying(), engine)
    for text in ("hello", "bye"):
        await run(way, chain, [SystemMessage("Be brief."), HumanMessage(text)])
    assert seen == [["system", "human"], ["system", "human", "ai", "human"]]
    assert [role for role, _ in said(engine)] == ["user", "assistant"] * 2


async def test_callbacks_reach_the_model(engine: ContextEngine) -> None:
    """The run's configuration is passed to the chain."""

    class Listening(BaseCallbackHandler):
        def __init__(self) -> None:
            self.runs: list[Any] = []

        def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
            self.runs.append((kwargs["tags"], len(messages[0])))

    listening = Listening()
    chain: Runnable[Any, Any] = with_arc_memory(Saying(), engine)
    chain.invoke("hello", {**config(), "callbacks": [listening], "tags": ["mine"]})
    await chain.ainvoke("bye", {**config(), "callbacks": [listening], "tags": ["mine"]})
    assert listening.runs == [(["mine"], 1), (["mine"], 3)]
