"""`ArcChatMessageHistory` used directly: its six methods, its view, stored and rejected messages."""

import sqlite3
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
)

from arc_common import (
    CalibratedTokenCounter,
    ContextEngine,
    InvalidInputError,
    Message,
    StoreError,
    ToolCall,
)
from langchain_arc import ArcChatMessageHistory, open_engine, to_arc
from tests.support.databases import sqlite_url
from tests.support.langchain_helpers import said


@pytest.fixture
def history(engine: ContextEngine) -> ArcChatMessageHistory:
    return ArcChatMessageHistory("s", engine=engine)


def again(engine: ContextEngine, **limits: Any) -> list[BaseMessage]:
    """Return the view of a new run."""
    return ArcChatMessageHistory("s", engine=engine, **limits).messages


async def add(history: ArcChatMessageHistory, way: str, messages: list[BaseMessage]) -> None:
    if way == "sync":
        history.add_messages(messages)
    else:
        await history.aadd_messages(messages)


both_ways = pytest.mark.parametrize("way", ["sync", "async"])


@both_ways
async def test_what_was_added_is_read_back(engine: ContextEngine, way: str) -> None:
    """Messages come back unchanged, with the store's ids."""
    given = [
        HumanMessage("hello", name="Ann"),
        AIMessage("hi", id="a1", response_metadata={"model_provider": "x"}),
        HumanMessage([{"type": "text", "text": "look"}, {"type": "image", "url": "https://example.com/i.png"}]),
    ]
    history = ArcChatMessageHistory("s", engine=engine)
    await add(history, way, given)
    read = await history.aget_messages() if way == "async" else history.messages
    assert [type(message) for message in read] == [HumanMessage, AIMessage, HumanMessage]
    assert [message.model_copy(update={"id": None}) for message in read] == [
        message.model_copy(update={"id": None}) for message in given
    ]
    assert read[1].id == "a1"
    assert all(message.id for message in read)
    assert [message.id for message in given] == [None, "a1", None]
    assert again(engine) == read


@both_ways
async def test_the_view_is_frozen_until_this_history_writes(engine: ContextEngine, way: str) -> None:
    """Others' writes appear after its own next write, or in another history."""
    history = ArcChatMessageHistory("s", engine=engine)
    assert history.messages == []
    engine.session("s").append(Message("user", "from elsewhere"))
    assert history.messages == await history.aget_messages() == []
    assert [message.text for message in again(engine)] == ["from elsewhere"]
    await add(history, way, [AIMessage("answer")])
    assert [message.text for message in history.messages] == ["from elsewhere", "answer"]
    engine.session("s").append(Message("user", "more"))
    assert len(history.messages) == 2
    history.clear()
    assert history.messages == []


def test_a_list_that_was_handed_out_is_the_callers_own(history: ArcChatMessageHistory) -> None:
    """Changing the returned list does not change the view."""
    history.add_user_message("hello")
    history.messages.clear()
    assert len(history.messages) == 1


def test_a_greeting_is_there_until_the_conversation_outgrows_the_window(engine: ContextEngine) -> None:
    """`if not history.messages: history.add_ai_message(...)` greets once over all reruns of a script."""
    for n in range(4):
        history = ArcChatMessageHistory("s", engine=engine, max_turns=2)
        if not history.messages:
            history.add_ai_message("How can I help?")
        history.add_user_message(f"question {n}")
        history.add_ai_message(f"answer {n}")
    assert [text for _, text in said(engine)].count("How can I help?") == 1
    assert [message.text for message in again(engine, max_turns=4)][:2] == ["How can I help?", "question 0"]
    assert again(engine, max_turns=2)[0].text == "question 2"


def _turns(number: int) -> list[BaseMessage]:
    return [
        message
        for n in range(number)
        for message in (HumanMessage(f"question {n}"), AIMessage(f"answer {n} {'x' * 40}"))
    ]


@pytest.mark.parametrize(
    ("limit", "length"), [({}, 20), ({"max_turns": 3}, 6), ({"max_messages": 5}, 4), ({"max_tokens": 70}, 4)], ids=str
)
def test_own_limits(engine: ContextEngine, limit: dict[str, int], length: int) -> None:
    """Whole turns fit any given limit, or the settings' ten turns."""
    ArcChatMessageHistory("s", engine=engine).add_messages(_turns(30))
    view = again(engine, **limit, include_summary=False)
    assert len(view) == length
    assert isinstance(view[0], HumanMessage)


def test_chunks_become_whole_messages(engine: ContextEngine) -> None:
    """A stream's sum is stored as a message."""
    chunk = AIMessageChunk(content="hel") + AIMessageChunk(content="lo", chunk_position="last")
    ArcChatMessageHistory("s", engine=engine).add_messages([HumanMessageChunk(content="hi"), chunk])
    assert [(type(message), message.content) for message in again(engine)] == [
        (HumanMessage, "hi"),
        (AIMessage, "hello"),
    ]


def test_nothing_to_store_creates_nothing(engine: ContextEngine, history: ArcChatMessageHistory) -> None:
    """Reading, or adding no message, creates no session."""
    assert history.messages == []
    history.add_messages([])
    history.clear()
    assert not engine.session("s").exists()


def test_an_edited_message_is_a_new_revision(engine: ContextEngine) -> None:
    """The same id with other content replaces the message in place; equal content changes nothing."""
    history = ArcChatMessageHistory("s", engine=engine)
    history.add_messages([HumanMessage("my PIN is 1234", id="u1"), AIMessage("1234, noted", id="a1")])
    history.add_messages([HumanMessage("my PIN is 1234", id="u1")])
    history.add_messages(
        [HumanMessage("my PIN is [redacted]", id="u1"), AIMessage("noted", id="a1"), HumanMessage("ok")]
    )
    assert said(engine) == [("user", "my PIN is [redacted]"), ("assistant", "noted"), ("user", "ok")]


def test_a_message_from_another_framework_handed_back_is_no_edit(engine: ContextEngine) -> None:
    """Content that LangChain's form can't express does not count as changed."""
    calls = (ToolCall("look_up", "{broken", "c1"), ToolCall("look_up", {"q": "x"}, "c2"))  # LangChain sorts calls
    foreign = Message("assistant", None, tool_calls=calls, id="a1", metadata={"from": "elsewhere"})
    results = [Message("tool", "42", tool_call_id=name, id=name) for name in ("c1", "c2")]
    engine.session("s").append([Message("user", "x?", id="u1"), foreign, *results])
    history = ArcChatMessageHistory("s", engine=engine)
    history.add_messages([*history.messages, AIMessage("It is 42.")])
    stored = engine.session("s").messages()
    assert len(stored) == 5
    assert (stored[1].content, stored[1].tool_calls, stored[1].metadata) == (None, calls, {"from": "elsewhere"})


@both_ways
async def test_a_failed_write_is_reported_and_raised(tmp_path: Path, way: str) -> None:
    """The caller gets the error, the engine's handler also the messages; the next write works."""
    failures: list[tuple[Exception, Any]] = []
    threads: list[int] = []

    def report(error: Exception, turn: Any) -> None:
        failures.append((error, turn))
        threads.append(threading.get_ident())

    url = sqlite_url(tmp_path)
    with open_engine(url, on_save_error=report) as engine:
        history = ArcChatMessageHistory("s", engine=engine)
        history.add_user_message("one")
        with sqlite3.connect(tmp_path / "arc.db") as connection:
            connection.execute("ALTER TABLE arc_messages RENAME TO away")
        with pytest.raises(StoreError):
            await add(history, way, [AIMessage("two")])
        with sqlite3.connect(tmp_path / "arc.db") as connection:
            connection.execute("ALTER TABLE away RENAME TO arc_messages")
        await add(history, way, [AIMessage("three")])
        assert said(engine) == [("user", "one"), ("assistant", "three")]
    assert (threads == [threading.get_ident()]) is (
        way == "sync"
    )  # a handler may block, so it must not run on the event loop
    ((error, turn),) = failures
    assert isinstance(error, StoreError)
    assert [message.text for message in turn] == ["two"]


@pytest.mark.parametrize(
    "bad",
    [RemoveMessage(id="x"), "hello", AIMessage("hi", response_metadata={"client": object()})],
    ids=["instruction", "text", "value"],
)
def test_what_cannot_be_stored_is_refused_whole(engine: ContextEngine, bad: Any) -> None:
    """With one bad message, nothing of the batch is stored."""
    history = ArcChatMessageHistory("s", engine=engine)
    with pytest.raises(InvalidInputError, match="message"):
        history.add_messages([HumanMessage("hello"), bad])
    assert not engine.session("s").exists()


@pytest.mark.parametrize("bad", [None, 5, "hello"], ids=repr)
async def test_what_are_no_messages_is_refused(engine: ContextEngine, bad: Any) -> None:
    """The error names the argument, in both forms."""
    history = ArcChatMessageHistory("s", engine=engine)
    with pytest.raises(InvalidInputError, match="messages: got"):
        history.add_messages(bad)
    with pytest.raises(InvalidInputError, match="messages: got"):
        await history.aadd_messages(bad)


@pytest.mark.parametrize("options", [{"max_turns": -1}, {"include_summary": 5}, {"caller_id": ""}, {"max_turn": 3}])
def test_a_factory_refuses_wrong_options_before_the_first_run(engine: ContextEngine, options: Any) -> None:
    with pytest.raises((InvalidInputError, TypeError), match=next(iter(options))):
        ArcChatMessageHistory.factory(engine, **options)


def test_reported_usage_teaches_the_counter() -> None:
    """A provider's reported tokens, without hidden reasoning, correct the estimate at the next adoption."""
    counter = CalibratedTokenCounter()
    text = "The quick brown fox jumps over the lazy dog. " * 200
    usage = {
        "input_tokens": 10,
        "output_tokens": 9_000,
        "total_tokens": 9_010,
        "output_token_details": {"reasoning": 3_000},
    }
    with open_engine(token_counter=counter) as engine:
        history = ArcChatMessageHistory("s", engine=engine)
        history.add_messages([HumanMessage("go on"), AIMessage(text, id="a1", usage_metadata=usage)])
        estimated = engine.session("s").messages()
        assert counter.correction.factor == 1.0
        learned = counter.adopt_correction().factor
        assert learned > 1.0
        assert estimated[1].metadata["usage"] == {"output_tokens": 9_000, "reasoning_tokens": 3_000}
        history.add_messages([*history.messages])
        assert counter.adopt_correction().factor == learned
        cached = AIMessage(text).model_copy(update={"usage_metadata": {"total_cost": 0}})  # like LangChain's cache
        history.add_messages([HumanMessage("again"), cached])
        assert counter.adopt_correction().factor == learned


@given(st.data())
def test_two_histories_on_one_session(data: st.DataObject) -> None:
    """For any order of reads and writes, the originals are the batches in the order of their commits.

    A write is a batch of new messages, or an agent's state: input, history, the input again and the answers.
    """
    numbers = count()

    def message(cls: Any, *, known: bool) -> BaseMessage:
        return cls(f"{data.draw(st.sampled_from(['yes', 'no']))}", id=f"m{next(numbers)}" if known else None)

    expected: list[tuple[str, str]] = []
    with open_engine() as engine:
        histories = [ArcChatMessageHistory("s", engine=engine, max_turns=2) for _ in range(2)]
        for _ in range(data.draw(st.integers(1, 12))):
            history = histories[data.draw(st.integers(0, 1))]
            action = data.draw(st.sampled_from(["read", "plain", "agent", "agent without an id"]))
            if action == "read":
                assert history.messages == history.messages
                continue
            if action == "plain":
                kinds = data.draw(st.lists(st.sampled_from([HumanMessage, AIMessage]), max_size=3))
                new = [message(kind, known=False) for kind in kinds]
                batch = new
            else:
                question, answer = message(HumanMessage, known=True), message(AIMessage, known=True)
                first = question if action == "agent" else question.model_copy(update={"id": None})
                new = [question, answer]
                batch = [first, *history.messages, *new]
            history.add_messages(batch)
            expected += [(to_arc(it).role.value, it.text) for it in new]
        assert said(engine) == expected
