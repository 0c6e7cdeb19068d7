"""Calls to models end: in time, after retries, or at once while the model is down."""

import contextvars
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from arc_common import ArcSettings, Message
from arc_common.exceptions import ModelCallError
from arc_common.model_calls import GuardedChatModel
from arc_common.testing import CountingObserver
from arc_common.testing.fakes import FailingChatModel, ReplyingChatModel, SlowChatModel

ASK = [Message("user", "hello?")]


def guarded(model, *, observer=None, **settings):
    settings = ArcSettings(model_calls={"timeout_seconds": 20, "attempts": 1, **settings})
    return GuardedChatModel(
        model, settings=settings, observer=observer or CountingObserver(), name="test", pause_seconds=0
    )


def test_an_answer_comes_back():
    observer, model = CountingObserver(), ReplyingChatModel(["hi"])
    assert guarded(model, observer=observer).complete(ASK) == "hi"
    assert model.requests == [tuple(ASK)]
    assert observer.counts == {"test.calls": 1}
    assert observer.timings == ["test.call"]


def test_what_fails_is_tried_again():
    observer, model = CountingObserver(), ReplyingChatModel([OSError("one"), OSError("two"), "hi"])
    assert guarded(model, observer=observer, attempts=3).complete(ASK) == "hi"
    assert observer.counts == {"test.calls": 3, "test.errors": 2}


@pytest.mark.parametrize("error", [OSError("no route"), KeyError("x"), TimeoutError("the client's own")])
def test_what_fails_each_time_is_one_kind_of_error(error):
    model = FailingChatModel(error)
    with pytest.raises(ModelCallError, match=type(error).__name__) as caught:
        guarded(model, attempts=2).complete(ASK)
    assert caught.value.__cause__ is error
    assert len(model.requests) == 2


@pytest.mark.parametrize("answer", [None, 3, ["text"]])
def test_an_answer_that_is_no_text_is_a_failure(answer):
    with pytest.raises(ModelCallError, match=type(answer).__name__):
        guarded(ReplyingChatModel([answer])).complete(ASK)


def test_a_call_that_hangs_is_given_up_and_its_late_answer_ignored():
    inner = ReplyingChatModel(["late", "in time"])
    slow = SlowChatModel(inner)
    model = guarded(slow, timeout_seconds=0.05)
    start = time.monotonic()
    with pytest.raises(ModelCallError, match=r"0\.05 s"):
        model.complete(ASK)
    assert time.monotonic() - start < 4
    slow.may_answer.set()
    assert slow.answered.wait(10)
    assert model.complete(ASK) == "in time"


def test_a_model_that_is_down_is_left_alone():
    """After so many failures in a row calls fail at once, without asking and without retries."""
    observer, model = CountingObserver(), FailingChatModel(OSError("down"))
    calls = guarded(model, observer=observer, breaker_failures=3, attempts=2)
    for _ in range(4):
        with pytest.raises(ModelCallError):
            calls.complete(ASK)
    assert len(model.requests) == 3
    assert observer.counts == {"test.calls": 3, "test.errors": 3, "test.refused": 3}


def test_a_success_in_between_keeps_the_breaker_closed():
    model = ReplyingChatModel([OSError(), OSError(), "hi", OSError(), OSError(), "ho"])
    calls = guarded(model, breaker_failures=3)
    outcomes = []
    for _ in range(6):
        try:
            outcomes.append(calls.complete(ASK))
        except ModelCallError:
            outcomes.append(None)
    assert outcomes == [None, None, "hi", None, None, "ho"]


def test_after_a_while_the_model_is_tried_again():
    model = ReplyingChatModel([OSError(), OSError(), OSError(), "hi", OSError(), "ho"])
    calls = guarded(model, breaker_failures=2, breaker_reset_seconds=1e-6)
    for _ in range(3):
        with pytest.raises(ModelCallError):
            calls.complete(ASK)
    assert calls.complete(ASK) == "hi"
    with pytest.raises(ModelCallError):
        calls.complete(ASK)
    assert calls.complete(ASK) == "ho"


def test_calls_run_side_by_side():
    barrier = Barrier(4, timeout=20)

    class Meeting:
        def complete(self, messages):
            barrier.wait()
            return "met"

    calls = guarded(Meeting())
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: calls.complete(ASK), range(4))) == ["met"] * 4


def test_failures_of_many_threads_open_the_breaker_once():
    """The model is asked no more often than there are calls, and is left alone in the end."""
    model = FailingChatModel(OSError("down"))
    calls = guarded(model, breaker_failures=5)

    def ask(_):
        with pytest.raises(ModelCallError):
            calls.complete(ASK)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(40)))
    assert 5 <= len(model.requests) <= 5 + 8
    asked = len(model.requests)
    ask(None)
    assert len(model.requests) == asked


def test_the_model_sees_the_caller_s_context_variables():
    trace = contextvars.ContextVar("trace", default="none")

    class Tracing:
        def complete(self, messages):
            return trace.get()

    trace.set("abc")
    assert guarded(Tracing()).complete(ASK) == "abc"


def test_a_client_that_is_cancelled_is_a_failure():
    class Cancelled:
        def complete(self, messages):
            raise SystemExit

    with pytest.raises(ModelCallError, match="SystemExit"):
        guarded(Cancelled()).complete(ASK)
