"""`ArcChatMemoryBuffer` used by code that is typed to `ChatMemoryBuffer`."""

import logging
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from sqlalchemy import create_engine, event

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
)
from arc_common.messages import Message, Role
from arc_common.settings import ArcSettings
from arc_common.tokens.counters import message_tokens
from llamaindex_arc import ArcChatMemoryBuffer, ArcMemory, open_engine, to_arc
from tests.support import llamaindex_strategies as strategies
from tests.support.counters import Ones
from tests.support.databases import sqlite_url
from tests.support.llamaindex_helpers import (
    NO_SUMMARIES,
    Both,
    assistant,
    break_writes,
    calling,
    forms,
    memory_over,
    mend_writes,
    own_statements,
    result,
    said,
    turns,
    user,
)

# --- get ------------------------------------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize(
    ("limit", "taken", "expected"),
    [
        pytest.param(100, 0, ["q0", "a0", "q1", "a1", "q2", "a2"], id="everything fits"),
        pytest.param(29, 0, ["q1", "a1", "q2", "a2"], id="whole turns"),
        pytest.param(30, 0, ["q0", "a0", "q1", "a1", "q2", "a2"], id="to the last token"),
        pytest.param(30, 1, ["q1", "a1", "q2", "a2"], id="less what is taken already"),
        pytest.param(30, 31, ["q2", "a2"], id="more is taken than there is"),
        pytest.param(5, 0, ["q2"], id="the newest question alone"),
    ],
)
def test_get_keeps_the_newest_whole_turns(
    engine: ContextEngine, through_async: bool, limit: int, taken: int, expected: list[str]
) -> None:
    """Turns that exceed the limit leave whole, oldest first; the newest question never does."""
    memory = memory_over(engine, token_limit=limit)
    memory.put_messages(turns(3))
    assert said(Both(memory, through_async=through_async).get(initial_token_count=taken)) == expected


def test_get_takes_what_chat_engines_give_it(engine: ContextEngine) -> None:
    """It accepts the question, further arguments, and a count in the question's place as in LlamaIndex's own tests."""
    memory = memory_over(engine)
    memory.put(user("hello"))
    assert said(memory.get("hello")) == said(memory.get(input="hello", anything="else")) == ["hello"]
    assert said(memory.get(5)) == ["hello"]  # type: ignore[arg-type]  # as they do


def test_a_question_too_long_is_refused(engine: ContextEngine) -> None:
    """For a question over the limit, the error has both figures, before any model call."""
    memory = memory_over(engine, token_limit=1)
    memory.put_messages([*turns(2), user("a long question")])
    with pytest.raises(BudgetExceededError, match="user message: 5 tokens needed, 1 available"):
        memory.get()


def test_a_greeting_is_shown_until_the_user_speaks(engine: ContextEngine) -> None:
    """Anthropic and Gemini reject requests that begin with the assistant; `get_all` still has it."""
    memory = memory_over(engine, token_limit=15)
    memory.put(assistant("Welcome!"))
    assert said(memory.get()) == ["Welcome!"]
    memory.put_messages([user("q"), assistant("a")])
    assert said(memory.get()) == ["q", "a"]
    assert said(memory.get_all()) == ["Welcome!", "q", "a"]


def test_what_get_returns_is_the_callers_own(engine: ContextEngine) -> None:
    """Agents modify returned messages; the next `get` is unaffected."""
    memory = memory_over(engine)
    memory.put_messages([user("q"), calling("1", text="let me see"), result("1")])
    for read in (memory.get, memory.get_all):
        for message in read():
            message.blocks.append(TextBlock(text="scribble"))
            message.blocks[0].__dict__["tool_kwargs"] = {"q": "scribble"}
            message.additional_kwargs["scribble"] = True
    assert "scribble" not in repr([*memory.get(), *memory.get_all()])


def test_the_users_tokenizer_decides_alone(engine: ContextEngine) -> None:
    """With the user's tokenizer, only its counts apply; without one, the engine's counter replaces it."""
    memory = memory_over(engine, token_limit=100, tokenizer_fn=str.split)
    memory.put_messages([user("one " * 50), *turns(1), user("two " * 46)])
    first, *others = memory.get()
    assert (first.content or "").endswith("... [truncated]")
    assert len(others) == 3
    assert len(memory.get(initial_token_count=41)) == 1
    assert len(memory_over(engine, token_limit=20).get()) == 4
    assert len(memory_over(engine).tokenizer_fn("any text")) == 1


def test_the_users_tokenizer_counts_no_more_than_is_read_and_each_text_once(engine: ContextEngine) -> None:
    """This holds for any length; stored counts come from the engine's own counter."""
    tokenized: list[str] = []

    def tokenizer(text: str) -> list[int]:
        tokenized.append(text)
        return [1]

    memory_over(engine).put_messages(turns(250))
    for options, number in (({}, 0), ({"tokenizer_fn": tokenizer}, 32)):
        memory = memory_over(engine, token_limit=100, **options)
        for _ in range(2):
            assert len(memory.get()) == 20
            assert len(tokenized) == number


# --- put, set, reset ------------------------------------------------------------------------------------------------


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), strategies.messages),
            st.tuples(st.just("put_messages"), st.lists(strategies.messages, max_size=3)),
            st.tuples(st.just("set"), st.tuples(st.integers(0, 6), st.lists(strategies.messages, max_size=3))),
            st.tuples(st.just("reset"), st.none()),
        ),
        max_size=6,
    ),
    through_async=st.booleans(),
)
def test_holds_what_a_plain_list_would_hold(steps: list[tuple[str, Any]], through_async: bool) -> None:
    """After any writes, the conversation is the list that upstream's memory would hold."""
    expected: list[ChatMessage] = []
    with open_engine(token_counter=Ones()) as engine:
        memory = Both(memory_over(engine), through_async=through_async)
        for step, value in steps:
            if step == "put":
                memory.put(value)
                expected = [*expected, value]
            elif step == "put_messages":
                memory.put_messages(value)
                expected = [*expected, *value]
            elif step == "set":
                kept, more = value
                expected = [*expected[:kept], *more]
                memory.set(expected)
            else:
                memory.reset()
                expected = []
            assert memory.get_all() == expected


@forms
def test_set_keeps_what_is_there_already(engine: ContextEngine, through_async: bool) -> None:
    """Equal messages at the start keep ids and times; only the rest is replaced."""
    memory = memory_over(engine)
    memory.put_messages(turns(2))
    before = memory.session.messages()
    Both(memory, through_async=through_async).set([*turns(1), user("instead")])
    after = memory.session.messages()
    assert after[:2] == before[:2]
    assert [message.text for message in after] == ["q0", "a0", "instead"]


def test_set_does_not_keep_what_get_added() -> None:
    """Pins, memories and notes are shown before there is a summary, too."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    settings = ArcSettings(conversation={"resume_note_days": 1})
    with open_engine(settings=settings, clock=lambda: now) as engine:
        memory = ArcMemory.from_defaults(engine=engine, session_id="s", user_id="ann")
        memory.session.append(Message(Role.USER, "Hello", created_at=now - timedelta(days=9)))
        now += timedelta(hours=1)
        memory.put(user("Which peanuts may I eat?"))
        note = memory.get()
        assert [message.role.value for message in note] == ["system", "user", "user"]
        memory.set(note)
        engine.memories(user_id="ann").add("Ann is allergic to peanuts.")
        memory.session.pin("Answer in French.")
        memory.set(memory.get())
        assert said(memory.get_all()) == ["Hello", "Which peanuts may I eat?"]


def test_put_messages_is_one_append(tmp_path: Path) -> None:
    """A scratchpad is stored in one transaction."""
    statements: list[str] = []
    database = create_engine(sqlite_url(tmp_path, "c.db"))
    note = own_statements(statements)
    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(note))
    with open_engine(database, settings=NO_SUMMARIES) as engine:
        memory = memory_over(engine)
        memory.put(user("q"))
        statements.clear()
        memory.put_messages(turns(5))
        assert [text for text in statements if text.startswith(("BEGIN", "COMMIT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    database.dispose()


def test_a_question_larger_than_the_limit_is_refused_before_it_is_stored() -> None:
    """Engines that append a question to the result of `get` call it first."""
    memory = ArcChatMemoryBuffer.from_defaults(token_limit=200)
    memory.put(ChatMessage(role="user", content="Hello"))
    for words in (93, 1_000):  # 93 are within the limit but not within the counter's error
        with pytest.raises(BudgetExceededError, match="176 available"):
            memory.get(input="word " * words)
    assert memory.get(input="How are you?")


def test_every_kind_of_block_costs_something_and_comes_back(engine: ContextEngine) -> None:
    """Images, videos, audio, documents, thinking and calls have costs, and none is fetched."""
    nothing = message_tokens(Ones(), to_arc(ChatMessage(role="assistant", blocks=[])))
    for block in (
        TextBlock(text="Test message"),
        ImageBlock(url="http://example.com/image.jpg"),
        VideoBlock(url="http://example.com/video.mp4"),
        AudioBlock(url="http://example.com/audio.mp3"),
        DocumentBlock(url="http://example.com/doc.pdf", document_mimetype="application/pdf"),
        ThinkingBlock(content="let me reason about this carefully"),
        ToolCallBlock(tool_call_id="c1", tool_name="search", tool_kwargs={"query": "word " * 50}),
    ):
        message = ChatMessage(role="assistant", blocks=[block])
        assert message_tokens(Ones(), to_arc(message)) > nothing
        memory = memory_over(engine, token_limit=20_000)
        memory.set([user("q"), message, result("c1")])
        assert message in memory.get()


def test_set_that_is_cut_short_loses_nothing(tmp_path: Path) -> None:
    """If the store fails halfway through `set`, all old messages remain."""
    database = tmp_path / "c.db"
    with open_engine(f"sqlite:///{database}") as engine:
        memory = memory_over(engine)
        memory.put_messages(turns(2))
        break_writes(database)
        with pytest.raises(StoreError, match="disk full"):
            memory.set([user("instead")])
        assert memory.get_all() == turns(2)


@forms
def test_a_put_that_fails_does_not_break_the_reply(
    tmp_path: Path, through_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The message is reported, still shown to the model, and stored once by the next successful put."""
    database = tmp_path / "c.db"
    reported: list[tuple[Exception, list[str]]] = []
    with open_engine(
        f"sqlite:///{database}",
        on_save_error=lambda error, messages: reported.append((error, [message.text for message in messages])),
    ) as engine:
        memory = Both(memory_over(engine), through_async=through_async)
        memory.put_messages(turns(1))
        break_writes(database)
        with caplog.at_level(logging.CRITICAL):
            memory.put(user("q1"))
            memory.put(assistant("a1"))
        assert [texts for _, texts in reported] == [["q1"], ["q1", "a1"]]
        assert said(memory.get()) == said(memory.get_all()) == ["q0", "a0", "q1", "a1"]
        assert memory_over(engine).get_all() == turns(1)
        mend_writes(database)
        memory.put(user("q2"))
        assert said(memory_over(engine).get_all()) == ["q0", "a0", "q1", "a1", "q2"]
        memory.put(assistant("a2"))
        assert said(memory_over(engine).get_all()) == ["q0", "a0", "q1", "a1", "q2", "a2"]


class UnsureConnection(sqlite3.Connection):
    """Commits, then raises, like a connection that breaks in between."""

    unsure = False

    def commit(self) -> None:
        super().commit()
        self._break()

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *parameters)
        if sql == "COMMIT":
            self._break()
        return cursor

    def _break(self) -> None:
        if UnsureConnection.unsure:
            raise sqlite3.OperationalError("disk I/O error")


@forms
def test_a_message_that_was_stored_after_all_is_not_stored_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through_async: bool
) -> None:
    """If the outcome of a put is unknown, a retry does no harm."""
    reported: list[Exception] = []
    database = create_engine(f"sqlite:///{tmp_path / 'c.db'}", connect_args={"factory": UnsureConnection})
    settings = ArcSettings(summary={"enabled": False}, recall={"enabled": False})
    with open_engine(database, settings=settings, on_save_error=lambda error, _: reported.append(error)) as engine:
        memory = Both(memory_over(engine), through_async=through_async)
        assert memory.get_all() == []
        with monkeypatch.context() as patch:
            patch.setattr(UnsureConnection, "unsure", True)
            memory.put(user("q"))
        assert len(reported) == 1
        assert said(memory_over(engine).get_all()) == ["q"]
        memory.put(assistant("a"))
        assert said(memory.get_all()) == ["q", "a"]
    database.dispose()


@pytest.mark.parametrize("forget", ["reset", "set"])
def test_what_could_not_be_stored_is_forgotten_with_the_rest(tmp_path: Path, forget: str) -> None:
    """`reset` and `set` also drop messages that wait to be stored."""
    database = tmp_path / "c.db"
    with open_engine(f"sqlite:///{database}") as engine:
        memory = memory_over(engine)
        memory.put(user("q0"))
        break_writes(database)
        memory.put(user("lost"))
        mend_writes(database)
        memory.reset() if forget == "reset" else memory.set([user("q0")])
        memory.put(user("next"))
        assert said(memory.get_all()) == (["next"] if forget == "reset" else ["q0", "next"])


def test_reads_raise_when_the_store_can_not_be_read(tmp_path: Path) -> None:
    """An unreadable conversation must not look empty."""
    (tmp_path / "c.db").write_text("this is no database, and long enough to be seen as none " * 50)
    with open_engine(sqlite_url(tmp_path, "c.db")) as engine:
        memory = memory_over(engine)
        for read in (memory.get, memory.get_all, memory.to_dict):
            with pytest.raises(StoreUnavailableError):
                read()


@forms
def test_wrong_use_raises(engine: ContextEngine, through_async: bool) -> None:
    """`put` rejects non-messages and another user's session."""
    memory = Both(memory_over(engine, user_id="ann"), through_async=through_async)
    with pytest.raises(InvalidInputError, match="message"):
        memory.put("text")
    with pytest.raises(InvalidInputError, match="initial_token_count"):
        memory.get(initial_token_count=-1)
    memory.put(user("private"))
    stranger = Both(memory_over(engine, user_id="bob"), through_async=through_async)
    for call, arguments in ((stranger.get, ()), (stranger.get_all, ()), (stranger.put, (user("hi"),))):
        with pytest.raises(SessionNotFoundError):
            call(*arguments)
