"""Sessions through the public API: stored and shown messages, and robustness."""

import asyncio
import logging
from datetime import UTC, datetime

import pytest

from arc_common import (
    ArcSettings,
    BudgetExceededError,
    ContextEngine,
    HeuristicTokenCounter,
    InvalidInputError,
    Message,
    StoreUnavailableError,
    TokenBudget,
    ToolCall,
)
from arc_common.testing import CountingObserver
from arc_common.tokens.budget import usable_tokens
from tests.support.databases import sqlite_url


@pytest.fixture
def observer():
    return CountingObserver()


PLAIN = ArcSettings(summary={"enabled": False})
"""Settings without summaries, so that a context consists of the last turns."""


@pytest.fixture
def engine(tmp_path, observer):
    with ContextEngine.open(sqlite_url(tmp_path), observer=observer, settings=PLAIN) as engine:
        yield engine


@pytest.fixture
def broken(tmp_path, observer):
    saved = []
    with ContextEngine.open(
        f"sqlite:///{tmp_path}",
        observer=observer,
        on_save_error=lambda error, messages: saved.append((error, messages)),
    ) as engine:
        engine.reported = saved
        yield engine


def texts(messages):
    return [message.text for message in messages]


def test_ids_and_times_are_injected():
    numbers = iter(range(100))
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    with ContextEngine.open(clock=lambda: moment, new_id=lambda: f"id-{next(numbers)}") as engine:
        (stored,) = engine.session("s").append(Message("user", "hi"))
        memory = engine.memories().add("The office is closed on Mondays.")
    assert (stored.id, stored.created_at) == ("id-0", moment)
    assert (memory.id, memory.created_at) == ("id-1", moment)


def test_a_failed_turn_is_not_saved(engine, observer):
    session = engine.session("s")
    session.save_turn("hi", "sorry, an error", success=False)
    assert not session.exists()
    assert observer.counts["save.skipped"] == 1


def test_a_failed_save_never_breaks_the_reply(broken, observer, caplog):
    """It is logged, counted and passed to `on_save_error` with the messages."""
    broken.session("s").save_turn("hi", "hello")
    (error, messages) = broken.reported[0]
    assert isinstance(error, StoreUnavailableError)
    assert texts(messages) == ["hi", "hello"]
    assert observer.counts["save.errors"] == 1
    assert "was not saved" in caplog.text


def test_a_handler_that_fails_does_not_break_the_reply_either(tmp_path, caplog):
    def handler(error, messages):
        raise RuntimeError("handler")

    with ContextEngine.open(f"sqlite:///{tmp_path}", on_save_error=handler) as engine:
        engine.session("s").save_turn("hi", "hello")
    assert "on_save_error itself failed" in caplog.text


def test_a_turn_that_can_not_be_stored_is_reported(engine, observer):
    engine.session("s").save_turn("hi", Message("assistant", "ok", metadata={"thing": object()}))
    assert observer.counts["save.errors"] == 1
    assert not engine.session("s").exists()


def test_a_save_after_close_is_reported(engine, observer):
    session = engine.session("s")
    engine.close()
    session.save_turn("hi", "hello")
    asyncio.run(session.asave_turn("hi", "hello"))
    assert observer.counts["save.errors"] == 2


def test_reading_from_a_broken_store_raises(broken):
    with pytest.raises(StoreUnavailableError):
        broken.session("s").messages()
    with pytest.raises(StoreUnavailableError):
        broken.session("s").context("hi")


def test_without_an_id_there_is_no_history(engine):
    session = engine.session(None)
    session.save_turn("hi", "hello")
    assert session.id is None
    assert session.messages() == []
    assert texts(session.context("hi").messages) == ["hi"]
    assert not session.exists()
    assert session.clear() == 0
    assert session.delete() is False
    with pytest.raises(InvalidInputError, match="session_id"):
        session.append(Message("user", "hi"))


def test_explicit_history_beats_the_stored_one(engine):
    session = engine.session("s")
    session.save_turn("stored", "stored")
    window = session.context("now", history=[Message("user", "given"), Message("assistant", "given too")])
    assert texts(window.messages) == ["given", "given too", "now"]
    assert texts(session.context("now", history=[]).messages) == ["now"]


def test_the_context_has_prompt_history_and_query(engine):
    session = engine.session("s")
    for n in range(12):
        session.save_turn(f"q{n}", f"a{n}")
    window = session.context("now", system_prompt="Be kind.")
    assert texts(window.messages) == ["Be kind.", *(f"{c}{n}" for n in range(2, 12) for c in "qa"), "now"]
    assert [message.role for message in window.messages][:2] == ["system", "user"]
    assert window.messages == session.context("now", system_prompt="Be kind.").messages


def test_what_arc_made_is_not_saved_again(engine):
    session = engine.session("s")
    window = session.context("now", system_prompt="Be kind.", documents=["a document"])
    session.append(window.messages)
    assert session.messages() == []


def test_a_prompt_that_can_not_fit_raises_before_any_model_is_called(engine):
    with pytest.raises(BudgetExceededError, match="system prompt and user message") as caught:
        engine.session("s").context("word " * 50, system_prompt="word " * 50, budget=TokenBudget(60, output_reserve=10))
    assert caught.value.available == usable_tokens(50, engine.token_counter)
    assert caught.value.needed > 100


def test_the_default_caller_can_be_refused():
    with ContextEngine.open(settings=ArcSettings(require_scope=True)) as engine:
        for use in (lambda: engine.session("s"), engine.memories, lambda: engine.documents):
            with pytest.raises(InvalidInputError, match="caller_id"):
                use()
        engine.session("s", caller_id="app").save_turn("hi", "hello")


def test_another_counter_counts_what_it_shows_itself(tmp_path):
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url, token_counter=HeuristicTokenCounter()) as engine:
        engine.session("s").save_turn("한국어로 질문합니다", "네")

    class Ten:
        name = "ten"

        def count(self, text):
            return 10

        def count_batch(self, texts):
            return [10 for _ in texts]

    with ContextEngine.open(url, token_counter=Ten()) as engine:
        window = engine.session("s").context("now")
    assert next(section.tokens for section in window.sections if section.name == "history") == 2 * (10 + 4)


def test_old_messages_are_read_by_chunks_and_the_rest_is_on_the_receipt(engine):
    session = engine.session("s")
    session.append([Message("user" if n % 2 == 0 else "assistant", f"message {n}") for n in range(300)])
    window = session.context("now")
    total = len(window.receipt.nearest) + sum(left.count for left in window.receipt.rest.values())
    assert total == 280
    assert len(window.receipt.nearest) <= 20


def test_messages_that_follow_are_shown_and_not_stored():
    """They contain the question for documents, recall and facts; each costs tokens."""
    with ContextEngine.open("sqlite://") as engine:
        engine.documents.add("Returns of kettles are free.")
        session = engine.session("s")
        session.append([Message("user", "Hello there.", id="q"), Message("assistant", "Welcome!", id="a")])
        following = [Message("user", "Can I return the kettle?"), Message("assistant", "One moment.")]
        window = session.context(following=[*following, Message("user", "And is it free to return the kettle?")])
        assert [message.id for message in window.messages] == ["q", "a", None, None, None]
        assert "Returns of kettles are free." in window.messages[-1].text
        assert window.total_tokens > session.context(following=following).total_tokens
        assert len(session.messages()) == 2
        with pytest.raises(BudgetExceededError):
            session.context(following=[Message("user", "word " * 500)], budget=TokenBudget(300, 0))
        with pytest.raises(InvalidInputError, match="following"):
            session.context("And?", following="And?")


def test_in_memory_is_said_in_the_log(caplog):
    with caplog.at_level(logging.INFO, logger="arc.engine"), ContextEngine.open():
        pass
    assert "kept in memory" in caplog.text


def test_pages_of_originals(engine):
    session = engine.session("s")
    stored = session.append([Message("user", str(n)) for n in range(10)])
    newest = session.messages(limit=3)
    assert texts(newest) == ["7", "8", "9"]
    assert texts(session.messages(limit=3, before=newest[0].id)) == ["4", "5", "6"]
    assert session.messages(before=stored[0].id) == []
    with pytest.raises(InvalidInputError, match="before"):
        session.messages(before="nobody")


def test_a_turn_with_tool_calls_is_saved_whole(engine):
    session = engine.session("s")
    call = Message("assistant", None, tool_calls=(ToolCall("clock", {}, id="c"),))
    session.save_turn("time?", [call, Message("tool", "noon", tool_call_id="c"), Message("assistant", "Noon.")])
    assert [message.role for message in session.messages()] == ["user", "assistant", "tool", "assistant"]
