"""Facts and summary in LlamaIndex's chat memory: one system message in front, no template, never stored."""

import asyncio
import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine, SimpleChatEngine
from llama_index.core.prompts.utils import format_string, get_template_vars
from sqlalchemy import create_engine, event

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ConfigurationError, InvalidInputError
from arc_common.messages import Role
from arc_common.settings import ArcSettings, SummarySettings
from llamaindex_arc import ArcChatMemoryBuffer, ArcLLM, open_engine
from llamaindex_arc.placement import without_fields
from tests.support.databases import sqlite_url
from tests.support.llamaindex_helpers import (
    Numbered,
    OneNode,
    assistant,
    break_writes,
    mend_writes,
    own_statements,
    said,
    settle,
    system,
    user,
)

pytestmark = pytest.mark.usefixtures("blocking_loop")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    with open_engine() as opened:
        yield opened


def memory_over(engine: ContextEngine, **given: Any) -> ArcChatMemoryBuffer:
    return ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", **given)


def told(number: int) -> list[ChatMessage]:
    """So many turns, each with an order number of its own."""
    return [
        message
        for n in range(number)
        for message in (
            user(f"My order number is A-{1000 + n}, and it must not be sent to Berlin."),
            assistant(f"Order A-{1000 + n} goes to Lisbon, on day {n}."),
        )
    ]


def summarised(engine: ContextEngine, messages: list[ChatMessage] | None = None, **given: Any) -> ArcChatMemoryBuffer:
    """A memory whose conversation is summarised, as far as it is due."""
    memory = memory_over(engine, **given)
    memory.put_messages(told(25) if messages is None else messages)
    settle(engine)
    return memory


def text_of(message: ChatMessage) -> str:
    return message.content or ""


@pytest.mark.parametrize("through_async", [False, True], ids=["sync", "async"])
def test_one_system_message_leads(engine: ContextEngine, through_async: bool) -> None:
    """Facts and summary, labelled and fenced, stand in front of the newest messages and in place of the older ones."""
    memory = summarised(engine)
    leading, *verbatim = asyncio.run(memory.aget()) if through_async else memory.get()
    assert leading.role is MessageRole.SYSTEM
    assert leading.additional_kwargs == {}
    assert text_of(leading).startswith("<arc:memory>\n")
    assert "\nFacts:\n- " in text_of(leading)
    assert "\nSummary:\n" in text_of(leading)
    assert "A-1001" in text_of(leading)
    assert said(verbatim) == said(told(25))[-len(verbatim) :]
    assert 10 <= len(verbatim) < 50


def test_instructions_that_were_stored_stand_in_it_too(engine: ContextEngine) -> None:
    """A system message at the conversation's start is not lost with the messages that are summarised."""
    leading, *verbatim = summarised(engine, [system("Be kind."), *told(25)]).get()
    assert text_of(leading).startswith("Be kind.\n\n<arc:memory>\n")
    assert MessageRole.SYSTEM not in {message.role for message in verbatim}


def test_layers_none_is_messages_only(engine: ContextEngine) -> None:
    """The newest turns as they are; the choice goes along when the memory is copied or serialised."""
    summarised(engine)
    memory = memory_over(engine, include_summary=False, token_limit=230)
    shown = said(memory.get())
    assert shown == said(told(25))[-len(shown) :]
    assert copy.deepcopy(memory).include_summary is False
    assert ArcChatMemoryBuffer.from_string(memory.to_string(), engine=engine).include_summary is False
    older = {key: value for key, value in memory.to_dict().items() if key != "include_summary"}
    assert ArcChatMemoryBuffer.from_dict(older, engine=engine).include_summary


@pytest.mark.parametrize("value", ["facts", None, 1])
def test_only_true_and_false_are_taken(engine: ContextEngine, value: Any) -> None:
    """Before anything is read."""
    with pytest.raises(InvalidInputError, match=r"include_summary: .*True or False"):
        memory_over(engine, include_summary=value)


def test_the_limit_holds_for_all_of_it(engine: ContextEngine) -> None:
    """Facts and summary are shortened, and the messages fewer, as the limit says."""
    summarised(engine)
    for limit in (2_000, 600, 200, 100):
        memory = memory_over(engine, token_limit=limit)
        count = engine.token_counter.count
        assert sum(count(text_of(message)) for message in memory.get()) <= limit


@pytest.mark.parametrize("length", [60, 600])
def test_get_costs_the_same_for_any_length(tmp_path: Path, length: int) -> None:
    """Once its summary is adopted, a conversation of 600 messages is read by a few statements, as one of 60 is."""
    statements: list[str] = []
    database = create_engine(sqlite_url(tmp_path, "c.db"))
    note = own_statements(statements)
    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(note))
    with open_engine(database) as engine:
        memory = summarised(engine, told(length // 2))
        memory.get()
        statements.clear()
        assert len(memory.get()) < 80
        assert len(statements) < 8
    database.dispose()


# --- handed back ----------------------------------------------------------------------------------------------------


def through_json(shown: list[ChatMessage]) -> list[ChatMessage]:
    """As a web page gets it and sends it back."""
    return [ChatMessage.model_validate_json(message.model_dump_json()) for message in shown]


@pytest.mark.parametrize("through", [list, copy.deepcopy, through_json])
@pytest.mark.parametrize("hand_back", ["put", "aput_messages", "set", "aset", "chat_history"])
def test_it_is_not_stored_when_it_is_handed_back(
    engine: ContextEngine, hand_back: str, through: Callable[[list[ChatMessage]], list[ChatMessage]]
) -> None:
    """And what it stands for stays: giving back what was got changes nothing, whichever memory object gets it."""
    shown = through(summarised(engine, [system("Be kind."), *told(25)]).get())
    memory = memory_over(engine)
    before = memory.get_all()
    match hand_back:
        case "put":
            memory.put(shown[0])
        case "aput_messages":
            asyncio.run(memory.aput_messages(shown[:1]))
        case "set":
            memory.set(shown)
        case "aset":
            asyncio.run(memory.aset(shown))
        case _:
            memory_over(engine, chat_history=shown)
    assert memory.get_all() == before


def test_what_was_changed_behind_it_is_changed(engine: ContextEngine) -> None:
    """Of a history that begins with arc's message, the end can be replaced: what it stands for stays."""
    memory = summarised(engine)
    memory.set([*memory.get()[:-2], user("Another question?"), assistant("Another answer.")])
    assert said(memory.get_all()) == [*said(told(25))[:-2], "Another question?", "Another answer."]


def test_another_history_takes_its_place(engine: ContextEngine) -> None:
    """Without arc's message in front, `set` makes the given messages the conversation."""
    memory = summarised(engine)
    memory.set([user("q"), assistant("a")])
    assert said(memory.get()) == ["q", "a"]


def test_of_equal_places_the_last_counts(engine: ContextEngine) -> None:
    """When what follows could lie in two places, nothing is removed that need not be."""
    memory = summarised(engine, [*told(25), user("yes"), assistant("ok"), user("yes"), assistant("ok")])
    memory.set([memory.get()[0], user("yes"), assistant("ok")])
    assert len(memory.get_all()) == 54


def test_it_does_not_wait_to_be_stored(tmp_path: Path) -> None:
    """When the store fails, arc's own message isn't kept for later either."""
    with open_engine(sqlite_url(tmp_path, "c.db")) as engine:
        memory = summarised(engine)
        shown = memory.get()
        break_writes(tmp_path / "c.db")
        memory.put_messages([shown[0], user("late")])
        assert said(memory.get_all())[50:] == ["late"]
        mend_writes(tmp_path / "c.db")
        memory.put(user("later"))
        assert said(memory.get_all())[50:] == ["late", "later"]


def test_a_user_may_say_what_it_says(engine: ContextEngine) -> None:
    """Only a system message is taken for arc's."""
    memory = summarised(engine)
    memory.put(user(text_of(memory.get()[0])))
    assert len(memory.get_all()) == 51


# --- templates ------------------------------------------------------------------------------------------------------

FIELDS = ["{context_str}", "{{context_str}}", "{query_str}", "{existing_answer}", "{context_msg}", "{chat_history}"]


def with_fields() -> list[ChatMessage]:
    """A conversation whose facts are full of template fields."""
    braces = [
        user(f"My template number {n} must not contain {field} or {{ or }} or {{}}.") for n, field in enumerate(FIELDS)
    ]
    return [message for asked in braces for message in (asked, assistant("Noted."))] + told(12)


def seen_by(model: Numbered) -> str:
    """The system messages of the last request."""
    return "\n".join(message.text for message in model.seen[-1] if message.role is Role.SYSTEM)


@pytest.mark.parametrize("chat_engine", [ContextChatEngine, CondensePlusContextChatEngine])
@pytest.mark.parametrize("through_async", [False, True], ids=["sync", "async"])
def test_no_field_in_a_fact_is_filled(engine: ContextEngine, chat_engine: Any, through_async: bool) -> None:
    """LlamaIndex formats the history; what was retrieved and asked appears in its own places only."""
    memory = summarised(engine, with_fields(), token_limit=8_000)
    assert "template number" in text_of(memory.get()[0])
    model = Numbered()
    chat = chat_engine.from_defaults(retriever=OneNode(), llm=ArcLLM(chat_model=model), memory=memory)
    asyncio.run(chat.achat("How long?")) if through_async else chat.chat("How long?")
    shown = seen_by(model)
    assert shown.count("The warranty lasts 24 months.") == 1
    assert "How long?" not in shown
    assert "must not contain { context_str} or { or } or {}" in shown
    assert "must not contain {{ context_str}} or" in shown


def test_a_plain_engine_shows_the_same(engine: ContextEngine) -> None:
    """One that formats nothing."""
    memory = summarised(engine, with_fields(), token_limit=8_000)
    model = Numbered()
    SimpleChatEngine.from_defaults(llm=ArcLLM(chat_model=model), memory=memory).chat("How long?")
    assert "must not contain { context_str} or { or } or {}" in seen_by(model)


@given(st.lists(st.sampled_from(["{", "}", "context_str", "a.b", " ", "한국어", "1", '"x": 2', "\n"]), max_size=20))
def test_no_text_keeps_a_field(pieces: list[str]) -> None:
    """Nothing is put into a text by LlamaIndex's own formatter, and without the spaces it is the text that it was."""
    text = "".join(pieces)
    escaped = without_fields(text)
    assert get_template_vars(escaped) == []
    assert format_string(escaped, context_str="X", **{"a.b": "X", "한국어": "X"}) == escaped
    assert escaped.replace("{ ", "{") == text.replace("{ ", "{")


def test_what_is_no_field_stays_as_it_is() -> None:
    """Code and JSON are shown as they were written."""
    cases = ['{"a": 1}', "{", "}", "{}", "{ }", "f(x) { return }", "set {1, 2}", "100 % {a b}"]
    for text in cases:
        assert without_fields(text) == text


# --- the summariser -------------------------------------------------------------------------------------------------


class Summariser(Numbered):
    """Answers with a summary."""

    def complete(self, messages: Any) -> str:
        super().complete(messages)
        return '{"facts": [], "narrative": "The user gave order numbers."}'


@pytest.mark.parametrize("foreign", [False, True], ids=["arc's", "LlamaIndex's"])
def test_a_model_of_its_own_summarises(foreign: bool) -> None:
    """`summary_llm` does, not `llm`."""
    talks, cheap = Numbered(), Summariser()
    with open_engine(llm=talks, summary_llm=ArcLLM(chat_model=cheap) if foreign else cheap) as engine:
        summarised(engine)
        summary = engine.session("s").summary()
    assert summary is not None
    assert "The user gave order numbers." in summary.narrative
    assert cheap.seen
    assert not talks.seen


def named(name: str) -> ArcSettings:
    return ArcSettings(summary=SummarySettings(llm_model=name))


PACKAGE = """
from llama_index.core.llms.mock import MockLLM
print("imported")
class OpenAI(MockLLM):
    api_key: str = "none"
    def complete(self, prompt, formatted=False, **kwargs):
        from llama_index.core.base.llms.types import CompletionResponse
        return CompletionResponse(text='{"facts": [], "narrative": "Written by the default."}')
"""

PROGRAM = """
from arc_common import Message
from arc_common.settings import ArcSettings, SummarySettings
from llamaindex_arc import open_engine
with open_engine(settings=ArcSettings(summary=SummarySettings(llm_model="default"))) as engine:
    print("opened")
    session = engine.session("s")
    session.append([Message(role, f"{role} says {n}") for n in range(15) for role in ("user", "assistant")])
    engine.flush(30)
    print(session.summary().narrative)
"""


def test_a_model_is_made_by_its_name_when_it_is_needed(tmp_path: Path) -> None:
    """By LlamaIndex's own factory, and not when the engine is opened."""
    package = tmp_path / "llama_index" / "llms" / "openai"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    (package / "utils.py").write_text("def validate_openai_api_key(key): pass\n")
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{tmp_path}:{Path.cwd()}", "PATH": ""},
    ).stdout
    assert printed.split("\n")[:2] == ["opened", "imported"]
    assert "Written by the default." in printed


@pytest.mark.parametrize("name", ["gpt-4o-mini", "openai:gpt-4o-mini", "local"])
def test_a_name_that_means_nothing_to_llamaindex_is_refused(name: str) -> None:
    """When the engine is opened, with what to do instead."""
    with pytest.raises(ConfigurationError, match="summary_llm="):
        open_engine(settings=named(name))
