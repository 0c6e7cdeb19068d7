"""Calls chat models with a time limit, retries and a circuit breaker."""

from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from arc_common.concurrency import started
from arc_common.exceptions import InvalidInputError, ModelCallError
from arc_common.messages import Message
from arc_common.observability import Observer, timed
from arc_common.protocols import ChatModel

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings


class _LeftAloneError(ModelCallError):
    """The circuit breaker is open: the model failed too often and is not called for a while."""


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
    ) -> None:
        import pybreaker  # noqa: PLC0415 - these two would double arc's import time
        import stamina  # noqa: PLC0415

        options = settings.model_calls
        self._model = model
        self._timeout = options.timeout_seconds
        self._observer = observer
        self._name = name
        self._outcomes = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
        self._breaker = pybreaker.CircuitBreaker(
            options.breaker_failures, options.breaker_reset_seconds, state_storage=self._outcomes
        )
        self._retrying = stamina.RetryingCaller(
            attempts=options.attempts,
            timeout=None,
            wait_initial=pause_seconds,
            wait_max=8 * pause_seconds,
            wait_jitter=pause_seconds,
        ).on(_is_worth_another_try)

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the model's answer, retrying failed calls."""
        return self._retrying(self._attempt, messages)

    def _attempt(self, messages: Sequence[Message]) -> str:
        if self._is_left_alone():
            self._observer.count(f"{self._name}.refused")
            raise _LeftAloneError(f"the model failed {self._breaker.fail_max} times in a row and is not called for now")
        self._observer.count(f"{self._name}.calls")
        try:
            with timed(self._observer, f"{self._name}.call"):
                answer = self._within_time(messages)
        except Exception as error:
            self._observer.count(f"{self._name}.errors")
            self._record(error)
            if isinstance(error, ModelCallError):
                raise
            raise ModelCallError(f"the model failed: {type(error).__name__}: {error}"[:500]) from error
        self._record(None)
        return answer

    def _within_time(self, messages: Sequence[Message]) -> str:
        future = started(partial(_answer, self._model, messages), name="arc-model")
        if not wait([future], self._timeout).done:
            raise ModelCallError(f"the model did not answer within {self._timeout:g} s")
        answer = future.result()
        if not isinstance(answer, str):
            raise ModelCallError(f"the model answered with {type(answer).__name__}, not with text")
        return answer

    def _is_left_alone(self) -> bool:
        opened = self._outcomes.opened_at
        if self._outcomes.state != "open" or opened is None:
            return False
        return (datetime.now(UTC) - opened).total_seconds() < self._breaker.reset_timeout

    def _record(self, error: Exception | None) -> None:
        """Report a call's outcome to the breaker; calls made inside `breaker.call` would block each other."""

        def outcome() -> None:
            if error is not None:
                raise error

        with suppress(Exception):
            self._breaker.call(outcome)


def guarded(chat_model: ChatModel, name: str, settings: "ArcSettings | None", observer: Observer) -> GuardedChatModel:
    """Return the model, guarded by the settings; a guarded one stays as it is, so that its users share a breaker."""
    if isinstance(chat_model, GuardedChatModel):
        return chat_model
    if not isinstance(chat_model, ChatModel):
        raise InvalidInputError("chat_model", chat_model, "a ChatModel: complete(messages)")
    if settings is None:
        from arc_common.settings import ArcSettings  # noqa: PLC0415 - pydantic is slow to import

        settings = ArcSettings()
    return GuardedChatModel(chat_model, settings=settings, observer=observer, name=name)


def _answer(model: ChatModel, messages: Sequence[Message]) -> str:
    try:
        return model.complete(messages)
    except Exception:
        raise
    except BaseException as error:  # a client that exits or is cancelled must not end the thread that waits
        raise ModelCallError(f"the model was stopped: {type(error).__name__}") from error


def _is_worth_another_try(error: Exception) -> bool:
    return not isinstance(error, _LeftAloneError)
