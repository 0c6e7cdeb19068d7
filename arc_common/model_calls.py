"""Calls chat models with a time limit, retries and a circuit breaker."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from arc_common.circuit_breaker import Breaker
from arc_common.concurrency import begin_in_each_process, started
from arc_common.exceptions import EngineClosedError, InvalidInputError, ModelCallError, without_keys
from arc_common.messages import Message
from arc_common.observability import Attributes, Observer, timed
from arc_common.protocols import ChatModel, StructuredChatModel

if TYPE_CHECKING:
    from pydantic import BaseModel

    from arc_common.settings import ArcSettings

_log = logging.getLogger("arc.models")

EMBEDDER = "embedder"
"""The name of embedders among an engine's problems."""

_STRUCTURED_FAILURES = 3
"""After this many failures in a row, a model is no longer asked for structured answers: each failure cost a call."""


SPENT = "background calls to models wait: the hour's tokens are spent (background.max_tokens_per_hour)"
_HOUR = timedelta(hours=1)


class _CircuitOpenError(ModelCallError):
    """The circuit breaker is open: the model failed too often and is not called for a while."""


class SpentError(ModelCallError):
    """The hour's tokens for background calls are spent."""


class ModelHealth:
    """The failures and the spending of an engine's models, and the end of their calls when it closes. Thread-safe."""

    def __init__(self, *, max_tokens_per_hour: int | None = None, clock: Callable[[], datetime] | None = None) -> None:
        self._most = max_tokens_per_hour  # of background calls in this process; the call that reaches it is the last
        self._clock = clock or partial(datetime.now, UTC)
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self._lock = Lock()
        self._failing: dict[str, tuple[object, ModelCallError]] = {}
        self._failures: Sequence[str] = ()
        self.notes: Sequence[str] = ()
        """A note for receipts on each kind of failure, without the error's text, and on work that waits."""
        self._spent: deque[tuple[datetime, int]] = deque()
        self.closed: Future[None] = Future()

    def spend(self, tokens: int) -> None:
        """Note the tokens of a call."""
        with self._lock:
            self._spent.append((self._clock(), tokens))
        self.may_spend()

    def may_spend(self) -> bool:
        """Return whether a background call may be made now, and note it for receipts."""
        may = self._most is None or self.spent() < self._most
        self.notes = self._failures if may else [*self._failures, SPENT]
        return may

    def spent(self) -> int:
        """Return the tokens of the calls within the last hour."""
        with self._lock:
            now = self._clock()
            while self._spent and abs(now - self._spent[0][0]) >= _HOUR:  # a clock may be set back
                self._spent.popleft()
            return sum(tokens for _, tokens in self._spent)

    def close(self) -> None:
        """End the model calls that are running, and refuse new ones. Safe to call twice."""
        with self._lock:
            if not self.closed.done():
                self.closed.set_result(None)

    def failed(
        self, name: str, model: object, error: ModelCallError, *, meanwhile: str = "rules take its place"
    ) -> None:
        """Note a failure, and log the first one since the model's last answer."""
        with self._lock:
            is_first = all(failing is not model for failing, _ in self._failing.values())
            if name not in self._failing or not isinstance(error, _CircuitOpenError):
                self._failing[name] = model, error
                self._note()
        if is_first:
            _log.error("%s; %s until it answers again (see engine.health())", error, meanwhile)

    def answered(self, model: object) -> None:
        """Note that a model works."""
        if self._failing:
            with self._lock:
                self._failing = {name: one for name, one in self._failing.items() if one[0] is not model}
                self._note()

    def problems(self) -> dict[str, str]:
        """Return the failing models' errors by the name of their counters, and whether work waits."""
        failing = {name: str(error) for name, (_, error) in sorted(self._failing.items())}
        return failing if self.may_spend() else {**failing, "spending": SPENT}

    def _note(self) -> None:
        failing = {
            ("the embedder" if name == EMBEDDER else "a chat model", type(error.__cause__ or error).__name__)
            for name, (_, error) in self._failing.items()
        }
        self._failures = [f"{which} fails: {kind}" for which, kind in sorted(failing)]
        self.notes = [*self._failures, *(note for note in self.notes if note == SPENT)]


class SerialChatModel:
    """A chat model that is called by one thread at a time, for models that are not thread-safe.

    - Give the same object to the engine and to whatever else calls the model.
    - The engine's time limit of a call begins once the call does; it waits as long again for its turn.

    Args:
        model: The model.
    """

    def __init__(self, model: ChatModel) -> None:
        if not isinstance(model, ChatModel):
            raise InvalidInputError("model", model, "a ChatModel: complete(messages)")
        self.model = model
        begin_in_each_process(self._begin)

    def _begin(self) -> None:
        self.turn = Lock()

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the model's answer, after the calls before it."""
        with self.turn:
            return self.model.complete(messages)

    def complete_structured(self, messages: Sequence[Message], schema: "type[BaseModel]") -> "BaseModel":
        """Return the model's structured answer, after the calls before it.

        Raises:
            NotImplementedError: The model has no structured output.
        """
        if not isinstance(self.model, StructuredChatModel):
            raise NotImplementedError(f"{type(self.model).__name__} has no structured output")
        with self.turn:
            return self.model.complete_structured(messages, schema)


class NamedChatModel:
    """A chat model that is made from its name at the first call, which imports its package and reads its keys."""

    def __init__(self, name: str, make: Callable[[str], StructuredChatModel]) -> None:
        self.name = name
        self._make = make

    @cached_property
    def _model(self) -> StructuredChatModel:
        return self._make(self.name)

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the model's answer. Raises whatever creating or calling the model raises."""
        return self._model.complete(messages)

    def complete_structured(self, messages: Sequence[Message], schema: "type[BaseModel]") -> "BaseModel":
        """Return the model's structured answer. Raises whatever creating or calling the model raises."""
        return self._model.complete_structured(messages, schema)


class GuardedChatModel:
    """A chat model whose every call returns an answer in time or raises `ModelCallError`."""

    def __init__(
        self,
        model: ChatModel,
        *,
        settings: "ArcSettings",
        observer: Observer,
        name: str,
        pause_seconds: float = 0.5,
        health: ModelHealth | None = None,
        count: Callable[[str], int] | None = None,
    ) -> None:
        import stamina  # noqa: PLC0415 - arc is imported faster without it

        options = settings.model_calls
        self._serial = model if isinstance(model, SerialChatModel) else None
        self._model = model.model if isinstance(model, SerialChatModel) else model
        self._timeout = options.timeout_seconds
        self._observer = observer
        self._name = name
        self._health = health or ModelHealth()
        self._count = count  # the limit of tokens, for a model that works in the background
        self._prices = options.input_price, options.output_price
        self._unstructured = 0  # the structured answers that failed in a row
        self._logged = False
        self._breaker = Breaker(options.breaker_failures, options.breaker_reset_seconds)
        self._retrying = stamina.RetryingCaller(
            attempts=options.attempts,
            timeout=None,
            wait_initial=pause_seconds,
            wait_max=8 * pause_seconds,
            wait_jitter=pause_seconds,
        ).on(_is_worth_another_try)

    def complete(self, messages: Sequence[Message], *, schema: "type[BaseModel] | None" = None) -> str:
        """Return the model's answer, retrying failed calls.

        With a schema it is a JSON object of that schema if the model has structured output and the call succeeds;
        otherwise it is text that the messages ask for, within the same attempt and its time limit.
        """
        try:
            answer = self._retrying(self._attempt, messages, schema)
        except SpentError:
            raise
        except ModelCallError as error:
            self._health.failed(self._name, self._model, error)
            raise
        self._health.answered(self._model)
        return answer

    def _attempt(self, messages: Sequence[Message], schema: "type[BaseModel] | None") -> str:
        if self._breaker.is_open:
            self._observer.count(f"{self._name}.refused")
            failures = self._breaker.failures
            raise _CircuitOpenError(f"the model failed {failures} times in a row and is not called for now")
        if self._count is not None and not self._health.may_spend():
            self._observer.count(f"{self._name}.postponed")
            raise SpentError(SPENT)
        self._observer.count(f"{self._name}.calls")
        try:
            with timed(self._observer, f"{self._name}.call", model=_name_of(self._model)) as span:
                asked = self._spend(message.text for message in messages)
                answer = self._within_time(messages, schema)
                answered = self._spend([answer])
                if span is not None and self._count is not None:
                    span.set(self._usage(asked, answered))
        except EngineClosedError:
            raise
        except Exception as error:
            self._observer.count(f"{self._name}.errors")
            self._breaker.record(error)
            if isinstance(error, ModelCallError):
                raise
            raise ModelCallError(without_keys(f"the model failed: {type(error).__name__}: {error}")[:500]) from error
        self._breaker.record(None)
        return answer

    def _spend(self, texts: Iterable[str]) -> int:
        """Note the tokens of texts as spent; return them."""
        if self._count is None:
            return 0
        tokens = sum(map(self._count, texts))
        self._health.spend(tokens)
        return tokens

    def _usage(self, asked: int, answered: int) -> Attributes:
        """Return the tokens of a call, and its price if the prices are known."""
        usage = {"gen_ai.usage.input_tokens": asked, "gen_ai.usage.output_tokens": answered}
        per_input, per_output = self._prices
        if per_input is None and per_output is None:
            return usage
        return {**usage, "arc.model.cost": (asked * (per_input or 0) + answered * (per_output or 0)) / 1_000_000}

    def _within_time(self, messages: Sequence[Message], schema: "type[BaseModel] | None") -> str:
        turn = self._serial.turn if self._serial else Lock()
        if not turn.acquire(timeout=self._timeout):
            raise ModelCallError(f"other calls of the model did not end within {self._timeout:g} s")
        try:
            future = started(partial(self._answer, messages, schema), name="arc-model")
        except BaseException:
            turn.release()
            raise
        future.add_done_callback(lambda _: turn.release())  # one that takes too long counts, too, but only at its end
        closed = self._health.closed
        either: tuple[Future[Any], ...] = (future, closed)
        wait(either, self._timeout, return_when=FIRST_COMPLETED)
        if closed.done() and not future.done():
            raise EngineClosedError("the engine was closed during a model call")
        if not future.done():
            raise ModelCallError(f"the model did not answer within {self._timeout:g} s")
        answer = future.result()
        if not isinstance(answer, str):
            raise ModelCallError(f"the model answered with {type(answer).__name__}, not with text")
        return answer

    def _answer(self, messages: Sequence[Message], schema: "type[BaseModel] | None") -> str:
        try:
            answer = None if schema is None else self._structured(messages, schema)
            return self._model.complete(messages) if answer is None else answer
        except Exception:
            raise
        except BaseException as error:  # a client that exits or is cancelled must not end the thread that waits
            raise ModelCallError(f"the model was stopped: {type(error).__name__}") from error

    def _structured(self, messages: Sequence[Message], schema: "type[BaseModel]") -> str | None:
        """Return the structured answer as JSON; `None` if there is none."""
        model = self._model
        if self._unstructured >= _STRUCTURED_FAILURES or not isinstance(model, StructuredChatModel):
            return None
        try:
            answer = schema.model_validate(model.complete_structured(messages, schema)).model_dump_json()
        except Exception as error:  # noqa: BLE001 - a client's own; a text answer is asked for in its place
            self._unstructured += _STRUCTURED_FAILURES if isinstance(error, NotImplementedError) else 1
            self._observer.count(f"{self._name}.unstructured", error=type(error).__name__)
            if not self._logged:
                self._logged = True
                _log.warning(
                    "no structured answer, text is used: %s: %.300s", type(error).__name__, without_keys(str(error))
                )
            return None
        self._unstructured = 0
        return answer


def guarded(chat_model: ChatModel, name: str, settings: "ArcSettings | None", observer: Observer) -> GuardedChatModel:
    """Return the model, guarded by the settings; a guarded one stays as it is, so that its users share a breaker."""
    if isinstance(chat_model, GuardedChatModel):
        return chat_model
    if not isinstance(chat_model, ChatModel):
        raise InvalidInputError("chat_model", chat_model, "a ChatModel: complete(messages)")
    from arc_common.settings import checked_settings  # noqa: PLC0415 - pydantic is slow to import

    return GuardedChatModel(chat_model, settings=checked_settings(settings), observer=observer, name=name)


def _is_worth_another_try(error: Exception) -> bool:
    return not isinstance(error, _CircuitOpenError | SpentError | EngineClosedError)


def _name_of(model: ChatModel) -> str:
    """Return the model's own name if it has one, else the name of its class."""
    name = getattr(model, "name", None)
    return name if isinstance(name, str) and name else type(model).__name__
