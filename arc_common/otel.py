"""Arc's steps, tokens and model calls as OpenTelemetry's spans and metrics."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from arc_common.exceptions import MissingDependencyError
from arc_common.observability import SECTION_TOKENS, Attributes, Observer

try:
    from opentelemetry import metrics, trace
    from opentelemetry.trace import SpanKind
except ImportError as error:
    raise MissingDependencyError("observability.otel", package="opentelemetry-api", extra="otel") from error

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

_OPERATIONS = {"embedder": "embeddings"}
"""The operations of model calls by the names of their steps, where it is not "chat"."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_MODEL_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
"""The buckets that the GenAI conventions recommend, and ours for steps."""


class OpenTelemetryObserver:
    """An observer that makes OpenTelemetry's spans and metrics. `docs/observability.md` lists their names.

        ContextEngine.open(url, settings=ArcSettings(observability={"otel": True}))

    - Spans and metrics hold names, counts, times and session ids, but no text of a conversation.
    - Spans of arc's own model calls have the attribute `arc.own`, so that a sampler or exporter can leave them out.

    Args:
        observer: Receives all counts and timings, too; optional.
        tracer_provider: Makes the spans; by default OpenTelemetry's global one.
        meter_provider: Makes the metrics; by default OpenTelemetry's global one.
    """

    def __init__(
        self,
        observer: Observer | None = None,
        *,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
    ) -> None:
        self._observer = observer
        self._tracer = trace.get_tracer("arc", tracer_provider=tracer_provider)
        self._meter = metrics.get_meter("arc", meter_provider=meter_provider)
        self._counters: dict[str, Counter] = {}

        def histogram(name: str, unit: str, description: str, buckets: Sequence[float]) -> "Histogram":
            return self._meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

        self._steps = histogram("arc.step.duration", "s", "Duration of a step.", _SECONDS)
        self._sections = histogram("arc.context.tokens", "{token}", "Tokens by section.", _TOKENS)
        self._calls = histogram("gen_ai.client.operation.duration", "s", "Model calls.", _MODEL_SECONDS)
        self._usage = histogram("gen_ai.client.token.usage", "{token}", "Tokens of calls.", _TOKENS)
        self._cost = self._meter.create_counter("arc.model.cost", "{currency}", "Price of arc's own model calls.")

    def count(self, name: str, value: int = 1, **tags: str) -> None:
        """Add to the counter `arc.<name>`."""
        counter = self._counters.get(name) or self._counters.setdefault(name, self._meter.create_counter(f"arc.{name}"))
        counter.add(value, {f"arc.{key}": tag for key, tag in tags.items()})
        if self._observer is not None:
            self._observer.count(name, value, **tags)

    def timing(self, name: str, seconds: float, **tags: str) -> None:
        """Record the duration of a step; that of a model call is recorded with its span."""
        if not name.endswith(".call"):
            self._steps.record(seconds, {"arc.step": name, **{f"arc.{key}": tag for key, tag in tags.items()}})
        if self._observer is not None:
            self._observer.timing(name, seconds, **tags)

    def record(self, attributes: Attributes, known: Mapping[str, str]) -> None:
        """Record the tokens and the price among a span's attributes."""
        for name, value in attributes.items():
            if isinstance(value, str):
                continue
            if name.startswith(SECTION_TOKENS):
                self._sections.record(value, {"arc.section": name.removeprefix(SECTION_TOKENS)})
            elif name.startswith("gen_ai.usage."):
                kind = name.removeprefix("gen_ai.usage.").removesuffix("_tokens")
                self._usage.record(value, {**known, "gen_ai.token.type": kind})
            elif name == "arc.model.cost":
                self._cost.add(value, known)

    @contextmanager
    def span(self, name: str, **tags: str) -> Iterator["_Span"]:
        """Begin the span `arc.<name>`, or that of a model call."""
        step, _, last = name.rpartition(".")
        if last != "call":
            with self._tracer.start_as_current_span(f"arc.{name}") as current:
                current.set_attributes({f"arc.{key}": tag for key, tag in tags.items()})
                yield _Span(self, current)
            return
        operation, model = _OPERATIONS.get(step, "chat"), tags.get("model", "")
        known = {"gen_ai.operation.name": operation, **({"gen_ai.request.model": model} if model else {})}
        began = perf_counter()
        with self._tracer.start_as_current_span(
            f"{operation} {model}".strip(), kind=SpanKind.CLIENT, attributes={**known, "arc.own": step}
        ) as current:
            span = _Span(self, current, {**known, "arc.own": step})
            try:
                yield span
            except BaseException as error:
                span.known["error.type"] = type(error).__qualname__
                current.set_attribute("error.type", type(error).__qualname__)
                raise
            finally:
                self._calls.record(perf_counter() - began, span.known)


class _Span:
    """A span of OpenTelemetry, whose tokens and price are metrics, too."""

    def __init__(self, observer: OpenTelemetryObserver, span: "Span", known: dict[str, str] | None = None) -> None:
        self._observer = observer
        self._span = span
        self.known = known or {}

    def set(self, attributes: Attributes) -> None:
        """Add attributes, and record the tokens and the price among them."""
        self._span.set_attributes(dict(attributes))
        self._observer.record(attributes, self.known)
