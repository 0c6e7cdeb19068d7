"""A failing model or store is reported once in the log, on receipts and by `engine.health()`."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from arc_common import ArcSettings, ContextEngine, EngineClosedError, Message
from arc_common.testing import CountingObserver, FailingChatModel, ReplyingChatModel, SlowChatModel

ONE_ATTEMPT = ArcSettings(model_calls={"attempts": 1})
ANSWER = '{"memories": [{"type": "fact", "content": "The user lives in Busan.", "importance": 0.9}]}'


def talk(engine: ContextEngine, session_id: str) -> None:
    """Append enough for a summary and memories, and wait for both."""
    session = engine.session(session_id, user_id="ann")
    session.append([Message("user", f"My order {session_id} is ORD-{place}.") for place in range(60)])
    assert engine.flush(60)


def test_a_key_that_a_provider_repeats_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """OpenAI's error for a wrong key quotes most of it."""
    refusals = (
        "Incorrect API key provided: sk-proj-Ab12cd****************Wxyz. You can find yours at https://example.org.",
        "API key not valid: AIzaSyA-1234567890abcdef",
        "Bearer gsk_abcdef1234567890 was refused",
    )
    for refusal in refusals:
        model = FailingChatModel(PermissionError(refusal))
        with ContextEngine.open("sqlite://", chat_model=model, settings=ONE_ATTEMPT) as engine:
            talk(engine, "a")
            told = f"{caplog.text} {engine.health()}"
        assert "PermissionError: " in told
        assert not any(part in told for part in ("Ab12cd", "Wxyz", "AIzaSy", "abcdef"))
    assert "You can find yours at https://example.org" in caplog.text


def test_a_model_that_fails_on_every_call_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """One log error gives the cause; receipts, counters and `health` report it while it lasts."""
    observer = CountingObserver()
    model = FailingChatModel(PermissionError("invalid key"))
    with ContextEngine.open("sqlite://", chat_model=model, settings=ONE_ATTEMPT, observer=observer) as engine:
        assert engine.health().ok
        for session_id in "ab":
            talk(engine, session_id)
        (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "PermissionError: invalid key" in line.getMessage()
        assert observer.counts["summary.errors"] + observer.counts["memory.model.errors"] == len(model.requests) > 2
        session = engine.session("a", user_id="ann")
        window = session.context("And now?")
        assert "a chat model fails: PermissionError" in window.receipt.notes
        assert "invalid key" not in window.receipt.to_json()
        session.window(query="And now?")
        assert "a chat model fails: PermissionError" in engine.admin.debug("a", user_id="ann").receipt.notes
        health = engine.health()
        assert not health.ok
        said = "the model failed: PermissionError: invalid key"
        assert health.problems == {"memory.model": said, "summary": said}


def test_a_model_that_answers_again_is_well_again(caplog: pytest.LogCaptureFixture) -> None:
    model = ReplyingChatModel([TimeoutError("slow"), ANSWER, TimeoutError("slow"), ANSWER])
    with ContextEngine.open("sqlite://", chat_model=model, settings=ONE_ATTEMPT) as engine:
        memories = engine.memories(user_id="ann")
        for _ in range(2):
            memories.extract("I live in Busan.")
            assert list(engine.health().problems) == ["memory.model"]
            memories.extract("I live in Busan.")
            assert engine.health().ok
            assert not engine.session("s", user_id="ann").context("Hi").receipt.notes
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2


class FailingEmbedder:
    """Fails in its first calls."""

    name = "refused"

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.failures -= 1
        if self.failures >= 0:
            raise PermissionError("invalid key")
        return [[1.0, 0.0] for _ in texts]


def test_an_embedder_that_fails_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Words are searched meanwhile; a receipt says so, and recovery is reported."""
    embedder = FailingEmbedder(3)
    with ContextEngine.open("sqlite://", embedder=embedder) as engine:
        for text in ("Tea is free.", "Coffee is not."):
            engine.documents.add(text)
        assert engine.health().problems == {"embedder": "the embedder refused failed: PermissionError: invalid key"}
        window = engine.session("s").context("Is tea free?")
        assert "Tea is free." in window.messages[-1].text
        assert "the embedder fails: PermissionError" in window.receipt.notes
        assert "invalid key" not in window.receipt.to_json()
        embedder.failures = 0
        engine.documents.add("Water is free.")
        assert engine.health().ok
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith("the embedder refused failed: PermissionError: invalid key; only words are searched until")


async def test_a_store_that_can_t_be_opened_is_a_problem(tmp_path: Path) -> None:
    engine = ContextEngine.open(f"sqlite:///{tmp_path / 'missing' / 'chat.db'}")
    assert list((await engine.ahealth()).problems) == ["store"]
    engine.close()
    assert engine.health().problems == {"engine": "the engine is closed"}


@pytest.mark.parametrize("asked", ["background", "caller"])
def test_closing_ends_a_model_call_that_hangs(asked: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Closing returns at once; the next engine catches up."""
    slow = SlowChatModel(ReplyingChatModel(["too late"]))
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    engine = ContextEngine.open(url, chat_model=slow)
    session = engine.session("s")
    calls: dict[str, Any] = {
        "background": lambda: session.append([Message("user", f"My order is ORD-{place}.") for place in range(60)]),
        "caller": lambda: engine.memories(user_id="ann").extract("I live in Busan."),
    }
    with ThreadPoolExecutor() as pool:
        call = pool.submit(calls[asked])
        assert slow.asked.wait(60)
        begin = perf_counter()
        engine.close()
        assert perf_counter() - begin < 3  # it used to wait five seconds for background work
        if asked == "caller":
            with pytest.raises(EngineClosedError, match="during a model call"):
                call.result(60)
    slow.may_answer.set()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    with ContextEngine.open(url) as again:
        assert (again.session("s").summarize() is None) == (asked == "caller")
