"""with_overflow_recovery: a request that an LLM refuses as too long is sent once more, with less of the memory."""
# mypy: disable-error-code="safe-super"

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from typing import Any, NoReturn, Self, TypeVar
from weakref import WeakKeyDictionary

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.llm import LLM

from arc_common.engine.context_engine import ContextEngine
from arc_common.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    StoreError,
    or_converted,
)
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.overflow import Again, LearnedLimits, aanswered, answered, astreamed, streamed
from llamaindex_arc.memory import ArcMemory
from llamaindex_arc.messages import request_tokens

_log = logging.getLogger("arc.llamaindex")

Model = TypeVar("Model", bound=LLM)
Asked = TypeVar("Asked", Sequence[ChatMessage], str)
Answer = TypeVar("Answer")
_Tried = tuple[Callable[[Asked], Answer], Asked, Again[Asked]]


def with_overflow_recovery(llm: Model, memory: ArcMemory) -> Model:
    """Return a copy of an LLM that retries, with a smaller request, when the model refuses one as too long.

        llm = with_overflow_recovery(llm, memory)
        agent = FunctionAgent(llm=llm, tools=tools)
        answer = await agent.run("Hello", memory=memory)

    - The second request has less of the memory's conversation: see `ArcMemory.reduced`. The receipt has a note on it,
      a warning is logged, and `context.overflows` is counted.
    - The engine remembers the limit that arc learned for the model: later requests over it are made smaller at once.
    - If instructions, documents and the user's message alone exceed the limit, they are sent alone.
    - A second refusal is raised as it is, with both token counts in a note. A stream that has begun is not repeated,
      nor is a request that can't be made smaller, or that shows nothing of the conversation (of a query engine).
    - The copy is an instance of the same class, with the same client and settings, and recovers however it is called.
      It can't be pickled. Agents for several conversations need one for each.

    Raises:
        InvalidInputError: An argument is of the wrong kind.
    """
    if not isinstance(llm, LLM):
        raise InvalidInputError("llm", llm, or_converted("a LlamaIndex LLM", llm))
    if not isinstance(memory, ArcMemory):
        raise InvalidInputError("memory", memory, "an ArcMemory")
    if isinstance(llm, _Recovering):
        raise InvalidInputError("llm", llm, "an LLM that has no overflow recovery yet")
    engine = memory.chat_store.engine
    limits = _limits.setdefault(engine, LearnedLimits(engine.observer))
    copy = llm.model_copy()
    copy.__class__ = _recovering(type(llm))  # type: ignore[assignment]  # a subclass with the same layout
    copy._recovery = _Recovery(memory, limits, llm.metadata.model_name)  # type: ignore[attr-defined]  # noqa: SLF001 - ours
    return copy


_limits: "WeakKeyDictionary[ContextEngine, LearnedLimits]" = WeakKeyDictionary()

_UNLIMITED = TokenBudget(1_000_000_000, 0)

_calls = count(1)
_FINAL = "arc_final_at"
"""An attribute of an error that is not retried: the number of calls begun before it. A later call may get the same."""


@contextmanager
def _final(last_try: AbstractContextManager[None]) -> Iterator[None]:
    """Mark an error as one after which no other method of the LLM asks again."""
    try:
        with last_try:
            yield
    except Exception as error:
        setattr(error, _FINAL, next(_calls))
        raise


@dataclass(frozen=True, slots=True)
class _Recovery:
    """Makes requests to one model smaller, by one memory."""

    memory: ArcMemory
    limits: LearnedLimits
    model: str

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def fitting(self, request: Asked) -> Asked:
        """Return the request, or a smaller one if it exceeds the limit learned for the model."""
        budget = self.limits.limited(_UNLIMITED, self.model)
        if budget is _UNLIMITED or self._tokens(request) <= budget.input_limit:
            return request
        try:
            try:
                return self.memory.reduced(request, max_tokens=budget.input_limit) or request
            except BudgetExceededError as error:  # the mandatory parts are sent alone, and the model refuses them
                inaccuracy = budget.counted_by(self.memory.chat_store.engine.token_counter).relative_error
                least = int(error.needed * (1 + inaccuracy)) + 2
                return self.memory.reduced(request, max_tokens=least) or request
        except StoreError as error:
            _log.error("session %r could not be read: %s", self.memory.session.id, error, exc_info=error)
            self.memory.chat_store.engine.observer.count("context.errors")
            return request

    def tried(self, ask: Callable[..., Answer], request: Asked, options: dict[str, Any]) -> "_Tried[Asked, Answer]":
        """Return what `answered` and its other forms take."""
        request = self.fitting(request)
        since = next(_calls)
        return partial(ask, **options), request, partial(self.again, request, whole=not options, since=since)

    async def atried(
        self, ask: Callable[..., Answer], request: Asked, options: dict[str, Any]
    ) -> "_Tried[Asked, Answer]":
        """Async form of `tried`."""
        return await asyncio.to_thread(self.tried, ask, request, options)

    def again(
        self, request: Asked, error: Exception, *, whole: bool, since: int
    ) -> tuple[Asked, AbstractContextManager[None]]:
        """Return a smaller request and a context that notes the figures on its refusal; raise any other error again."""
        if getattr(error, _FINAL, 0) > since:  # one method of an LLM may answer through another, which has tried twice
            raise error
        note = self.limits.learn(error, self._tokens(request), self.model, whole=whole)
        smaller = self.fitting(request)
        if smaller is request:
            error.add_note(note)
            with _final(nullcontext()):
                raise error
        self.memory.note(note)
        return smaller, _final(self.limits.last_try(self._tokens(smaller)))

    def _tokens(self, request: Sequence[ChatMessage] | str) -> int:
        messages = [ChatMessage(request)] if isinstance(request, str) else request
        return request_tokens(self.memory.chat_store.engine.token_counter, messages)


class _Recovering(LLM):
    """The first base of an LLM with overflow recovery; the LLM's own class is the second, and `super()` here."""

    _recovery: _Recovery = PrivateAttr()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an LLM with overflow recovery holds its memory's engine and can't be pickled: create it again")

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return answered(*self._recovery.tried(super().chat, messages, kwargs))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return await aanswered(*await self._recovery.atried(super().achat, messages, kwargs))

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        return streamed(*self._recovery.tried(super().stream_chat, messages, kwargs))

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        return astreamed(*await self._recovery.atried(super().astream_chat, messages, kwargs))

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return answered(*self._recovery.tried(partial(super().complete, formatted=formatted), prompt, kwargs))

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        ask = partial(super().acomplete, formatted=formatted)
        return await aanswered(*await self._recovery.atried(ask, prompt, kwargs))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        return streamed(*self._recovery.tried(partial(super().stream_complete, formatted=formatted), prompt, kwargs))

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        ask = partial(super().astream_complete, formatted=formatted)
        return astreamed(*await self._recovery.atried(ask, prompt, kwargs))


@cache
def _recovering(kind: type[LLM]) -> type[LLM]:
    """Return a subclass of an LLM's class that recovers; its name, module and serialised form are the class's own."""
    return type(kind.__name__, (_Recovering, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
