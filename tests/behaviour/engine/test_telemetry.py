"""Spans and metrics in an OpenTelemetry SDK, and the limit on background model calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from arc_common import ArcSettings, ContextEngine, ContextWindow, Document, HeuristicTokenCounter
from arc_common.otel import OpenTelemetryObserver
from arc_common.testing import CountingObserver, FailingChatModel
from tests.support.summaries import Model, shown, talk

SECRET = "ORD-1001"


class Telemetry:
    """The data that an SDK received."""

    def __init__(self) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracer_provider, self.meter_provider = TracerProvider(), MeterProvider([self._metrics])
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))

    def observer(self, own: Any = None) -> OpenTelemetryObserver:
        return OpenTelemetryObserver(own, tracer_provider=self.tracer_provider, meter_provider=self.meter_provider)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def points(self) -> dict[str, list[Any]]:
        """Return the data points of each metric."""
        data = self._metrics.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}

    def everything(self) -> str:
        return "".join(span.to_json() for span in self._spans.get_finished_spans()) + repr(self.points())


@contextmanager
def recorded() -> Iterator[Telemetry]:
    told = Telemetry()
    yield told
    told.meter_provider.shutdown()


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    with recorded() as told:
        yield told


@pytest.fixture(scope="module")
def own() -> CountingObserver:
    """Return an application's own observer of the turn."""
    return CountingObserver()


@pytest.fixture(scope="module")
def turn(own: CountingObserver) -> Iterator[tuple[Telemetry, ContextWindow]]:
    """Return what was recorded of a turn of a long conversation, and its window."""
    with recorded() as told:
        yield told, run(told, own)


class NamedModel(Model):
    name = "small-1"


def settings(**groups: Any) -> ArcSettings:
    calls = {"attempts": 1, "input_price": 2.0, "output_price": 10.0}
    return ArcSettings(model_calls=calls, summary={"leaf_messages": 16}, memory={"enabled": False}, **groups)


def run(telemetry: Telemetry, own: CountingObserver) -> ContextWindow:
    """Talk until there is a summary, ask with documents, and return the window."""
    counter = HeuristicTokenCounter()
    model, observer = NamedModel(), telemetry.observer(own)
    with ContextEngine.open(
        "sqlite://", chat_model=model, settings=settings(), observer=observer, token_counter=counter
    ) as engine:
        engine.documents.add([Document(f"Orders like {number} travel by boat.") for number in range(12)])
        session = engine.session("s-1")
        talk(session, 40)
        assert engine.flush(60)
        return session.context("Which order travels by boat?")


def test_the_steps_of_a_turn_are_spans_within_each_other(turn: tuple[Telemetry, ContextWindow]) -> None:
    telemetry, _ = turn
    (whole,) = telemetry.spans("arc.context")
    for name in ("load", "recall", "budget"):
        (step,) = telemetry.spans(f"arc.context.{name}")
        assert step.context.trace_id == whole.context.trace_id
        assert whole.start_time <= step.start_time <= step.end_time <= whole.end_time
    for name in ("retrieve", "rerank"):
        assert [span.parent.span_id for span in telemetry.spans(f"arc.rag.{name}")] == [whole.context.span_id]
    assert telemetry.spans("arc.context.save")
    assert telemetry.spans("arc.summary.write")


def test_a_turn_tells_its_tokens_by_section_and_no_text(turn: tuple[Telemetry, ContextWindow]) -> None:
    telemetry, window = turn
    sections = {section.name: section.tokens for section in window.sections}
    told = telemetry.spans("arc.context")[0].attributes
    assert {name: told[f"arc.tokens.{name}"] for name in sections} == sections
    assert told["arc.total_tokens"] == window.total_tokens == sum(sections.values())
    assert told["gen_ai.conversation.id"] == "s-1"
    points = telemetry.points()["arc.context.tokens"]
    assert {point.attributes["arc.section"]: point.sum for point in points} == sections
    assert SECRET in shown(window)
    assert SECRET not in telemetry.everything()
    assert "MODEL" not in telemetry.everything()


def test_arcs_own_model_calls_are_told_with_tokens_and_price(turn: tuple[Telemetry, ContextWindow]) -> None:
    telemetry, _ = turn
    calls = telemetry.spans("chat small-1")
    assert len(calls) > 1
    asked = sum(call.attributes["gen_ai.usage.input_tokens"] for call in calls)
    answered = sum(call.attributes["gen_ai.usage.output_tokens"] for call in calls)
    assert asked > answered > 0
    for call in calls:
        assert call.kind is SpanKind.CLIENT
        assert call.attributes["arc.own"] == "summary"
        assert call.attributes["gen_ai.operation.name"] == "chat"
        assert call.attributes["gen_ai.request.model"] == "small-1"
    points = telemetry.points()
    usage = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert usage == {"input": asked, "output": answered}
    (cost,) = points["arc.model.cost"]
    assert cost.value == pytest.approx((2 * asked + 10 * answered) / 1_000_000)
    (duration,) = points["gen_ai.client.operation.duration"]
    assert duration.count == len(calls)


def test_a_failed_call_tells_the_kind_of_its_error(telemetry: Telemetry) -> None:
    model = FailingChatModel(PermissionError("invalid key"))
    with ContextEngine.open(
        "sqlite://", chat_model=model, settings=settings(), observer=telemetry.observer()
    ) as engine:
        talk(engine.session("s"), 40)
        assert engine.flush(60)
    calls = telemetry.spans("chat FailingChatModel")
    assert calls
    assert {call.attributes["error.type"] for call in calls} == {"PermissionError"}
    assert {call.status.status_code for call in calls} == {StatusCode.ERROR}
    assert [point.value for point in telemetry.points()["arc.summary.errors"]] == [len(model.requests)]


def test_an_observer_of_ones_own_is_told_the_same(turn: tuple[Telemetry, ContextWindow], own: CountingObserver) -> None:
    telemetry, _ = turn
    steps = {point.attributes["arc.step"]: point.count for point in telemetry.points()["arc.step.duration"]}
    assert steps["context.save"] == own.timings.count("context.save") == 40
    assert own.counts["summary.calls"] == len(telemetry.spans("chat small-1"))


def test_the_setting_uses_the_applications_own_sdk(monkeypatch: pytest.MonkeyPatch, telemetry: Telemetry) -> None:
    """`observability.otel` creates spans with OpenTelemetry's global provider; without it there are none."""
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", telemetry.tracer_provider)
    for otel in (False, True):
        with ContextEngine.open("sqlite://", settings=settings(observability={"otel": otel})) as engine:
            engine.session("s").context("Hello")
        assert len(telemetry.spans("arc.context")) == otel


def test_background_calls_wait_once_the_hours_tokens_are_spent() -> None:
    """Rules summarise, memories wait, health and receipts say so, and an hour later the model continues."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    model, observer = Model(), CountingObserver()
    spending = ArcSettings(
        model_calls={"attempts": 1}, summary={"leaf_messages": 16}, background={"max_tokens_per_hour": 2_000}
    )
    with ContextEngine.open(
        "sqlite://", chat_model=model, settings=spending, clock=lambda: moment, observer=observer
    ) as engine:
        session = engine.session("s", user_id="ann")
        talk(session, 60)
        assert engine.flush(60)
        health = engine.health()
        assert 2_000 <= health.model_tokens < 6_000
        assert "max_tokens_per_hour" in health.problems["spending"]
        assert any("max_tokens_per_hour" in note for note in session.context("And now?").receipt.notes)
        calls, extractions = len(model.requests), observer.counts["memory.extraction.count"]
        postponed = observer.counts["memory.model.postponed"]
        before = session.summary().summarized_up_to
        talk(session, 40, first=61)
        assert engine.flush(60)
        engine.memories(user_id="ben").extract("I live in Busan.")
        assert len(model.requests) == calls
        assert observer.counts["memory.model.postponed"] == postponed + 1
        extractions += 1
        assert observer.counts["memory.extraction.count"] == extractions
        assert session.summary().summarized_up_to > before
        moment += timedelta(minutes=61)
        assert engine.health().ok
        assert not session.context("And now?").receipt.notes
        hour = 0
        while observer.counts["memory.extraction.count"] == extractions:  # a summary may spend what the memories need
            assert hour < 20
            talk(session, 1, first=101 + hour)
            assert engine.flush(60)
            moment += timedelta(minutes=61)
            hour += 1
        assert len(model.requests) > calls


def test_memories_wait_if_the_summary_spends_the_rest_just_before() -> None:
    """The messages are read an hour later, by the model instead of rules."""
    model, extracting = Model(), Event()

    class Waiting(CountingObserver):
        def count(self, name: str, value: int = 1, **attributes: Any) -> None:
            super().count(name, value, **attributes)
            if name == "summary.calls":
                assert extracting.wait(60)
            if name == "memory.extraction.count":
                extracting.set()
                assert model.asked.wait(60)

    observer = Waiting()
    limited = ArcSettings(summary={"leaf_messages": 16}, background={"max_tokens_per_hour": 300})
    with ContextEngine.open("sqlite://", chat_model=model, settings=limited, observer=observer) as engine:
        talk(engine.session("s", user_id="ann"), 60)
        assert engine.flush(60)
        assert observer.counts["memory.model.postponed"] == observer.counts["memory.extraction.count"] > 0
        assert observer.counts["memory.extraction.errors"] == 0
        assert not engine.memories(user_id="ann").list()
