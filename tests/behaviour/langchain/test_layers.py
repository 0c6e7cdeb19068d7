"""Facts and summary in LangChain's history: one system message in front, frozen for a run, never stored."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda

from arc_common import ContextEngine, Message
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Role
from arc_common.settings import ArcSettings, SummarySettings
from langchain_arc import ArcChatMessageHistory, LangChainChatModel, open_engine, to_arc
from tests.support.langchain_helpers import WAYS, Echo, run, said, settle, with_history


def told(number: int, *, start: int = 0) -> list[BaseMessage]:
    """So many turns, each with an order number of its own."""
    return [
        message
        for n in range(start, start + number)
        for message in (
            HumanMessage(f"My order number is A-{1000 + n}, and it must not be sent to Berlin."),
            AIMessage(f"Order A-{1000 + n} goes to Lisbon, on day {n}."),
        )
    ]


def fill(engine: ContextEngine, number: int = 25) -> None:
    """A conversation that is summarised, as far as it is due."""
    ArcChatMessageHistory("s", engine=engine).add_messages(told(number))
    settle(engine)


def adopt(engine: ContextEngine, *, start: int) -> None:
    """Another run writes so much that its own view takes a new summary."""
    other = ArcChatMessageHistory("s", engine=engine)
    before = other.messages[0].text
    other.add_messages(told(20, start=start))
    settle(engine)
    assert other.messages[0].text != before


def view(engine: ContextEngine, **given: Any) -> list[BaseMessage]:
    return ArcChatMessageHistory("s", engine=engine, **given).messages


@pytest.mark.parametrize("read", ["sync", "async"])
def test_one_system_message_leads(engine: ContextEngine, read: str) -> None:
    """Facts and summary, labelled and fenced, stand in front of the newest messages and in place of the older ones."""
    fill(engine)
    history = ArcChatMessageHistory("s", engine=engine)
    shown = history.messages if read == "sync" else asyncio.run(history.aget_messages())
    leading, *verbatim = shown
    assert isinstance(leading, SystemMessage)
    assert not any(isinstance(message, SystemMessage) for message in verbatim)
    assert leading.text.startswith("<arc:memory>\n")
    assert leading.text.endswith("\n</arc:memory>")
    assert "\nFacts:\n- " in leading.text
    assert "\nSummary:\n" in leading.text
    assert "A-1001" in leading.text
    assert [message.text for message in verbatim] == [message.text for message in told(25)][-len(verbatim) :]
    assert 10 <= len(verbatim) < 50


def test_instructions_that_were_stored_stand_in_it_too(engine: ContextEngine) -> None:
    """A system message at the conversation's start is not lost with the messages that are summarised."""
    ArcChatMessageHistory("s", engine=engine).add_messages([SystemMessage("Be kind."), *told(25)])
    settle(engine)
    leading, *verbatim = view(engine)
    assert leading.text.startswith("Be kind.\n\n<arc:memory>\n")
    assert not any(isinstance(message, SystemMessage) for message in verbatim)


def test_layers_none_is_messages_only(engine: ContextEngine) -> None:
    """The last turns as they are, in the class and in what its factory makes."""
    fill(engine)
    expected = [message.text for message in told(25)][-20:]
    assert [message.text for message in view(engine, include_summary=False)] == expected
    made = ArcChatMessageHistory.factory(engine, include_summary=False)("s")
    assert [message.text for message in made.messages] == expected


@pytest.mark.parametrize("value", ["facts", None, 1])
def test_only_true_and_false_are_taken(engine: ContextEngine, value: Any) -> None:
    """Before anything is read."""
    with pytest.raises(InvalidInputError, match=r"include_summary: .*True or False"):
        ArcChatMessageHistory("s", engine=engine, include_summary=value)


@pytest.mark.parametrize("give", [list, lambda shown: [shown[0].model_copy(update={"id": "given by a graph"})]])
def test_it_is_not_stored_when_it_is_handed_back(
    engine: ContextEngine, give: Callable[[list[BaseMessage]], list[BaseMessage]]
) -> None:
    """Whether the whole view comes back or that message alone, with an id by then."""
    fill(engine)
    before = said(engine)
    ArcChatMessageHistory("s", engine=engine).add_messages(give(view(engine)))
    assert said(engine) == before


with_key = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])

SHAPES: dict[str, tuple[Callable[[Any], Any], dict[str, str], Callable[[str], Any]]] = {
    "history key": (
        lambda model: with_key | model,
        {"input_messages_key": "question", "history_messages_key": "history"},
        lambda text: {"question": text},
    ),
    "no history key": (lambda model: model, {}, lambda text: [HumanMessage(text)]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_summary_that_lands_within_a_run_changes_nothing_for_it(
    engine: ContextEngine, shape: str, way: str
) -> None:
    """Another run writes and a new summary is adopted while the model thinks: nothing is lost or stored twice."""
    await asyncio.to_thread(fill, engine, 26)
    before = len(view(engine))

    def think(shown: Any) -> AIMessage:
        assert len([message for message in _messages(shown) if isinstance(message, SystemMessage)]) == 1
        adopt(engine, start=100)
        assert len(view(engine)) > before  # else the second read could be another one, and nothing would show
        return AIMessage("thought about it")

    async def athink(shown: Any) -> AIMessage:
        return await asyncio.to_thread(think, shown)

    chain, keys, value = SHAPES[shape]
    wrapped = with_history(chain(RunnableLambda(think, afunc=athink)), ArcChatMessageHistory.factory(engine), **keys)
    await run(way, wrapped, value("and now?"))
    expected = [*told(26), *told(20, start=100), HumanMessage("and now?"), AIMessage("thought about it")]
    assert said(engine) == [(to_arc(message).role.value, message.text) for message in expected]


def _messages(shown: Any) -> list[BaseMessage]:
    return list(shown.to_messages() if hasattr(shown, "to_messages") else shown)


@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_that_replays_everything_stores_its_turn_once(engine: ContextEngine, way: str) -> None:
    """Its state begins with arc's system message, which has been given an id."""
    await asyncio.to_thread(fill, engine)
    agent = create_agent(GenericFakeChatModel(messages=iter([AIMessage("one"), AIMessage("two")])))
    wrapped = with_history(
        agent,
        ArcChatMessageHistory.factory(engine),
        input_messages_key="messages",
        output_messages_key="messages",
    )
    for question in ("first", "second"):
        await run(way, wrapped, {"messages": [HumanMessage(question)]})
    assert said(engine)[50:] == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
    ]


def test_a_second_read_after_writing_takes_what_is_new(engine: ContextEngine) -> None:
    """The view is frozen only until this history writes."""
    fill(engine)
    history = ArcChatMessageHistory("s", engine=engine)
    first = history.messages
    adopt(engine, start=200)
    assert history.messages == first
    history.add_messages([HumanMessage("new"), AIMessage("ok")])
    assert [message.text for message in history.messages][-2:] == ["new", "ok"]
    assert history.messages[0].text != first[0].text


# --- the summariser -------------------------------------------------------------------------------------------------

LEAF = '{"facts": [], "narrative": "The user gave order numbers."}'


class Summariser(Echo):
    """Answers with a summary, and notes what it was shown."""

    def complete(self, messages: Any) -> str:
        super().complete([*messages, Message(Role.USER, "")])
        return LEAF


def summarising_by(name: str | None) -> ArcSettings:
    return ArcSettings(summary=SummarySettings(llm_model=name))


@pytest.mark.parametrize("foreign", [False, True], ids=["arc's", "LangChain's"])
def test_a_model_of_its_own_summarises(foreign: bool) -> None:
    """`summary_llm` does, not `llm`."""
    talks, cheap = Echo(), Summariser()
    model: Any = RunnableLambda(lambda _: AIMessage(cheap.complete([]))) if foreign else cheap
    with open_engine(llm=talks, summary_llm=model) as engine:
        fill(engine)
        summary = engine.session("s").summary()
    assert summary is not None
    assert "The user gave order numbers." in summary.narrative
    assert cheap.shown
    assert not talks.shown


PACKAGE = """
from langchain_core.language_models.fake_chat_models import FakeListChatModel
print("imported")
class ChatOpenAI(FakeListChatModel):
    responses: list = ['{"facts": [], "narrative": "Written by gpt-cheap."}']
    model: str
"""

PROGRAM = """
import warnings
warnings.simplefilter("error")
from arc_common import Message
from arc_common.settings import ArcSettings, SummarySettings
from langchain_arc import open_engine
with open_engine(settings=ArcSettings(summary=SummarySettings(llm_model="openai:gpt-cheap"))) as engine:
    print("opened")
    session = engine.session("s")
    session.append([Message(role, f"{role} says {n}") for n in range(15) for role in ("user", "assistant")])
    engine.flush(30)
    print(session.summary().narrative)
"""


def test_a_model_is_made_by_its_name_when_it_is_needed(tmp_path: Path) -> None:
    """By LangChain's own factory, and not when the engine is opened."""
    (tmp_path / "langchain_openai.py").write_text(PACKAGE)
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{tmp_path}:{Path.cwd()}", "PATH": ""},
    ).stdout
    assert printed.split("\n")[:2] == ["opened", "imported"]
    assert "Written by gpt-cheap." in printed


def test_a_name_needs_langchain() -> None:
    """Said when the engine is opened, with what to install."""
    program = (
        "import sys; sys.modules['langchain'] = None\n"
        "from arc_common.exceptions import MissingDependencyError\n"
        "from arc_common.settings import ArcSettings, SummarySettings\n"
        "from langchain_arc import open_engine\n"
        "try:\n"
        "    open_engine(settings=ArcSettings(summary=SummarySettings(llm_model='gpt-cheap')))\n"
        "except MissingDependencyError as error:\n"
        "    print(error)\n"
    )
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert "summary.llm_model" in printed
    assert "arc-context-engine[agents]" in printed


def test_the_model_given_wins_over_the_name() -> None:
    """An object in the program is nearer than a setting."""
    cheap = Summariser()
    with open_engine(
        summary_llm=LangChainChatModel(RunnableLambda(lambda _: AIMessage(cheap.complete([])))),
        settings=summarising_by("no such provider:x"),
    ) as engine:
        fill(engine)
    assert cheap.shown
