"""Model calls end in time, after retries, or at once while the model is down."""

import contextvars
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event

import pytest
from pydantic import BaseModel

from arc_common import ArcSettings, Message
from arc_common.exceptions import ModelCallError
from arc_common.model_calls import GuardedChatModel, SerialChatModel
from arc_common.testing import CountingObserver
from arc_common.testing.fakes import (
    FailingChatModel,
    OneThreadChatModel,
    ReplyingChatModel,
    SlowChatModel,
    StructuredReplyingChatModel,
)

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
    """After several failures in a row, calls fail at once without a request or retries."""
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
    """The model gets at most one request per call, and none in the end."""
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


class Point(BaseModel):
    x: int


def test_a_structured_answer_comes_back_as_json_within_the_same_guard():
    """It has the time limit of a text answer; without a schema, the model answers with text."""
    observer, model = CountingObserver(), StructuredReplyingChatModel([{"x": 3}], ["hi"])
    calls = guarded(model, observer=observer)
    assert calls.complete(ASK, schema=Point) == '{"x":3}'
    assert calls.complete(ASK) == "hi"
    assert model.schemas == [Point]
    assert observer.counts == {"test.calls": 2}
    released = Event()

    class Hanging(StructuredReplyingChatModel):
        def complete_structured(self, messages, schema):
            released.wait()
            return super().complete_structured(messages, schema)

    with pytest.raises(ModelCallError, match=r"0\.05 s"):
        guarded(Hanging([{"x": 3}]), timeout_seconds=0.05).complete(ASK, schema=Point)
    released.set()


@pytest.mark.parametrize(
    ("failure", "asked"), [(NotImplementedError(), 1), (OSError("no such format"), 3), ({"x": "?"}, 3), (None, 3)]
)
def test_a_text_answer_takes_the_place_of_a_structured_one_that_failed(failure, asked, caplog):
    """The same call returns it; failures are counted and logged once, and after a while only text is requested."""
    observer, model = CountingObserver(), StructuredReplyingChatModel([failure], ["text"])
    calls = guarded(model, observer=observer)
    with caplog.at_level(logging.WARNING):
        assert [calls.complete(ASK, schema=Point) for _ in range(5)] == ["text"] * 5
    assert len(model.schemas) == asked
    assert observer.counts == {"test.calls": 5, "test.unstructured": asked}
    assert [record.name for record in caplog.records].count("arc.models") == 1


def test_a_success_in_between_keeps_answers_structured():
    model = StructuredReplyingChatModel([OSError(), OSError(), {"x": 1}, OSError(), OSError(), {"x": 2}], ["text"])
    calls = guarded(model)
    answers = [calls.complete(ASK, schema=Point) for _ in range(6)]
    assert answers == ["text", "text", '{"x":1}', "text", "text", '{"x":2}']


def test_a_model_for_one_thread_is_called_by_one_at_a_time():
    """This holds for all users of the model; a call's time limit begins with the call itself."""

    class Structured(OneThreadChatModel):
        def complete_structured(self, messages, schema):
            return schema(x=len(self.complete(messages)))

    inner = Structured(ReplyingChatModel(["hi"]), seconds=0.1)
    model = SerialChatModel(inner)
    summaries, memories = (guarded(model, timeout_seconds=5) for _ in range(2))
    calls = [summaries.complete, partial(memories.complete, schema=Point), model.complete]
    calls.append(partial(model.complete_structured, schema=Point))
    with ThreadPoolExecutor(4) as pool:
        answers = [future.result() for future in [pool.submit(call, ASK) for call in calls]]
    assert answers == ["hi", '{"x":2}', "hi", Point(x=2)]
    assert inner.clashes == 0


def test_a_call_that_hangs_keeps_a_model_for_one_thread_to_itself():
    """The next call waits at most for its time limit and is not queued behind the hanging one."""
    inner = ReplyingChatModel(["late", "in time"])
    slow = SlowChatModel(inner)
    model = guarded(SerialChatModel(slow), timeout_seconds=0.05)
    for reason in ("the model did not answer", "other calls"):
        with pytest.raises(ModelCallError, match=reason):
            model.complete(ASK)
    slow.may_answer.set()
    assert slow.answered.wait(10)
    assert guarded(SerialChatModel(slow)).complete(ASK) == "in time"
    assert len(inner.requests) == 2
