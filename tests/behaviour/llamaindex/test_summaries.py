"""Facts and summary in LlamaIndex's chat memory: one leading system message, no template, never stored."""

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.prompts.utils import format_string, get_template_vars
from sqlalchemy import create_engine, event

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import ConfigurationError, InvalidInputError
from arc_common.messages import Role
from arc_common.settings import ArcSettings, ContextSettings, SummarySettings
from arc_common.tokens.counters import message_tokens
from llamaindex_arc import ArcChatMemoryBuffer, ArcLLM, open_engine, to_arc
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
    """Return turns, each with its own order number."""
    return [
        message
        for n in range(number)
        for message in (
            user(f"My order number is A-{1000 + n}, and it must not be sent to Berlin."),
            assistant(f"Order A-{1000 + n} goes to Lisbon, on day {n}."),
        )
    ]


def summarised(engine: ContextEngine, messages: list[ChatMessage] | None = None, **given: Any) -> ArcChatMemoryBuffer:
    """Return a memory whose due summaries are written."""
    memory = memory_over(engine, **given)
    memory.put_messages(told(25) if messages is None else messages)
    settle(engine)
    return memory


def text_of(message: ChatMessage) -> str:
    return message.content or ""


def test_the_choice_to_show_no_summary_is_kept(engine: ContextEngine) -> None:
    """Copies and serialised forms keep it."""
    memory = memory_over(engine, include_summary=False)
    assert copy.deepcopy(memory).include_summary is False
    assert ArcChatMemoryBuffer.from_string(memory.to_string(), engine=engine).include_summary is False
    older = {key: value for key, value in memory.to_dict().items() if key != "include_summary"}
    assert ArcChatMemoryBuffer.from_dict(older, engine=engine).include_summary


# --- handed back ----------------------------------------------------------------------------------------------------


def through_json(shown: list[ChatMessage]) -> list[ChatMessage]:
    """Convert the messages to JSON and back, like a web page."""
    return [ChatMessage.model_validate_json(message.model_dump_json()) for message in shown]


def test_another_history_takes_its_place(engine: ContextEngine) -> None:
    """Without arc's message in front, `set` replaces the conversation."""
    memory = summarised(engine)
    memory.set([user("q"), assistant("a")])
    assert said(memory.get()) == ["q", "a"]


def test_of_equal_places_the_last_counts(engine: ContextEngine) -> None:
    """If the rest could match in two places, as little as possible is removed."""
    memory = summarised(engine, [*told(25), user("yes"), assistant("ok"), user("yes"), assistant("ok")])
    memory.set([memory.get()[0], user("yes"), assistant("ok")])
    assert len(memory.get_all()) == 54


def test_it_does_not_wait_to_be_stored(tmp_path: Path) -> None:
    """If the store fails, arc's message is not kept for later, either."""
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
    """Only a system message is recognised as arc's."""
    memory = summarised(engine)
    memory.put(user(text_of(memory.get()[0])))
    assert len(memory.get_all()) == 51


# --- templates ------------------------------------------------------------------------------------------------------

FIELDS = ["{context_str}", "{{context_str}}", "{query_str}", "{existing_answer}", "{context_msg}", "{chat_history}"]


def with_fields() -> list[ChatMessage]:
    """Return a conversation whose facts are full of template fields."""
    braces = [
        user(f"My template number {n} must not contain {field} or {{ or }} or {{}}.") for n, field in enumerate(FIELDS)
    ]
    return [message for asked in braces for message in (asked, assistant("Noted."))] + told(12)


def seen_by(model: Numbered) -> str:
    """Return the system messages of the last request."""
    return "\n".join(message.text for message in model.seen[-1] if message.role is Role.SYSTEM)


@pytest.mark.parametrize("chat_engine", [ContextChatEngine, CondensePlusContextChatEngine])
@pytest.mark.parametrize("through_async", [False, True], ids=["sync", "async"])
def test_no_field_in_a_fact_is_filled(engine: ContextEngine, chat_engine: Any, through_async: bool) -> None:
    """LlamaIndex formats the history; retrieved text and the question appear only in their own places."""
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


@given(st.lists(st.sampled_from(["{", "}", "context_str", "a.b", " ", "한국어", "1", '"x": 2', "\n"]), max_size=20))
def test_no_text_keeps_a_field(pieces: list[str]) -> None:
    """LlamaIndex's formatter inserts nothing, and without added spaces the text is unchanged."""
    text = "".join(pieces)
    escaped = without_fields(text)
    assert get_template_vars(escaped) == []
    assert format_string(escaped, context_str="X", **{"a.b": "X", "한국어": "X"}) == escaped
    assert escaped.replace("{ ", "{") == text.replace("{ ", "{")


def test_what_is_no_field_stays_as_it_is() -> None:
    """Code and JSON are unchanged."""
    cases = ['{"a": 1}', "{", "}", "{}", "{ }", "f(x) { return }", "set {1, 2}", "100 % {a b}"]
    for text in cases:
        assert without_fields(text) == text


# --- the summariser -------------------------------------------------------------------------------------------------


def named(name: str) -> ArcSettings:
    return ArcSettings(summary=SummarySettings(llm_model=name))


@pytest.mark.parametrize("name", ["gpt-4o-mini", "openai:gpt-4o-mini", "local"])
def test_a_name_that_means_nothing_to_llamaindex_is_refused(name: str) -> None:
    """The error comes when the engine is opened and says what to do."""
    with pytest.raises(ConfigurationError, match="summary_llm="):
        open_engine(settings=named(name))


WITH_USER: dict[str, Any] = {"facts_role": "user"}


def test_facts_open_the_first_question(engine: ContextEngine) -> None:
    """They are a block before the question's own blocks, and no system message is left."""
    first, *others = summarised(engine, **WITH_USER).get()
    memory, *own = first.blocks
    assert first.role is MessageRole.USER
    assert isinstance(memory, TextBlock)
    assert memory.text.startswith("<arc:memory>\n")
    assert memory.text.endswith("\n</arc:memory>\n\n")
    assert ChatMessage(role=first.role, blocks=own) in told(25)
    assert MessageRole.SYSTEM not in {message.role for message in others}


def test_instructions_stay_in_the_system_message(engine: ContextEngine) -> None:
    """Only facts and summary leave it."""
    first, second, *_ = summarised(engine, [system("Be kind."), *told(25)], **WITH_USER).get()
    assert (first.role, first.content) == (MessageRole.SYSTEM, "Be kind.")
    assert text_of(second).startswith("<arc:memory>\n")


def test_the_engines_setting_holds_where_nothing_is_said() -> None:
    """A memory's own choice is kept in copies and serialised forms."""
    with open_engine(settings=ArcSettings(context=ContextSettings(facts_role="user"))) as engine:
        assert summarised(engine).get()[0].role is MessageRole.USER
        memory = ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s", facts_role="system")
        for other in (
            memory,
            copy.deepcopy(memory),
            ArcChatMemoryBuffer.from_string(memory.to_string(), engine=engine),
        ):
            assert other.get()[0].role is MessageRole.SYSTEM


@pytest.mark.parametrize("placement", ["tool", "", True, 3])
def test_other_places_are_refused(engine: ContextEngine, placement: Any) -> None:
    """The error comes before anything is read."""
    with pytest.raises(InvalidInputError, match=r'facts_role: .*"system", "user" or None'):
        ArcChatMemoryBuffer.from_defaults(engine=engine, facts_role=placement)


@pytest.mark.parametrize("instructed", [False, True])
def test_the_limit_holds_there_too(engine: ContextEngine, instructed: bool) -> None:
    """It holds for any limit."""
    summarised(engine, [*([system("Be kind.")] if instructed else []), *told(25)])
    for limit in (60, 73, 110, 200, 420, 1_000, 3_000):
        memory = memory_over(engine, token_limit=limit, **WITH_USER)
        assert sum(message_tokens(engine.token_counter, to_arc(message)) for message in memory.get()) <= limit
        assert memory.get(initial_token_count=0)[-2:] == told(25)[-2:]
        assert memory.get(initial_token_count=limit // 2)


@pytest.mark.parametrize("placement", ["system", "user"])
@pytest.mark.parametrize("instructed", [False, True])
def test_handing_it_back_changes_nothing(engine: ContextEngine, instructed: bool, placement: Any) -> None:
    """Any memory recognises it; the summarised messages stay, and the given objects are not modified."""
    told_before = [*([system("Be kind.")] if instructed else []), *told(25)]
    memory = summarised(engine, told_before, facts_role=placement)
    before = memory.get_all()
    for through in (list, copy.deepcopy, through_json):
        shown = through(memory.get())
        given = copy.deepcopy(shown)
        memory.set(shown)
        assert memory.get_all() == before
        asyncio.run(ArcChatMemoryBuffer.from_defaults(engine=engine, session_id="s").aset(shown))
        assert memory.get_all() == memory_over(engine, chat_history=shown).get_all() == before
        assert shown == given
    memory.set([*shown[:-2], user("Another question?"), assistant("Another answer.")])
    assert said(memory.get_all()) == [*said(before)[:-2], "Another question?", "Another answer."]


def test_it_is_not_stored_with_the_question_that_carries_it(engine: ContextEngine) -> None:
    """An agent that puts the result of `get` stores the question as asked."""
    memory = summarised(engine, **WITH_USER)
    carrier = memory.get()[0]
    memory.put(carrier)
    assert memory.get_all()[-1].blocks == carrier.blocks[1:]


def test_a_user_may_say_what_opens_a_question(engine: ContextEngine) -> None:
    """A question that consists only of it, or has it elsewhere, is a question."""
    memory = summarised(engine, **WITH_USER)
    block = memory.get()[0].blocks[0]
    assert isinstance(block, TextBlock)
    for message in (
        ChatMessage(role=MessageRole.USER, blocks=[block]),
        ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text="see:"), block]),
        ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text=block.text + "!"), block]),
        ChatMessage(role=MessageRole.ASSISTANT, blocks=[block, block]),
    ):
        memory.put(message)
        assert memory.get_all()[-1] == message


def test_get_costs_the_same_for_any_length(tmp_path: Path) -> None:
    """With its summary adopted, 400 messages are read by a few statements."""
    statements: list[str] = []
    database = create_engine(sqlite_url(tmp_path, "c.db"))
    note = own_statements(statements)
    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(note))
    with open_engine(database) as engine:
        memory = summarised(engine, told(200))
        memory.get()
        statements.clear()
        assert len(memory.get()) < 80
        assert len(statements) < 8
    database.dispose()
