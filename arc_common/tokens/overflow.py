"""Recognises a model's refusal of a request as too long, and learns from it how long a request may be."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AbstractContextManager, aclosing, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from arc_common.observability import Observer
from arc_common.tokens.budget import TokenBudget

_TYPE = "ContextOverflowError"
"""The class that LangChain's provider packages raise; LlamaIndex's raise the provider's own errors."""
_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_NUMBER = r"([\d,]+)"
_ASKED_THEN_LIMIT = re.compile(
    rf"prompt is too long: {_NUMBER} tokens > {_NUMBER}"  # Anthropic
    rf"|token count \({_NUMBER}\) exceeds the maximum number of tokens allowed \({_NUMBER}\)"  # Gemini
    rf"|Requested tokens \({_NUMBER}\) exceed context window of {_NUMBER}"  # llama-cpp-python
    rf"|request \({_NUMBER} tokens\) exceeds the available context size \({_NUMBER} tokens\)"  # llama.cpp
)
_LIMIT_THEN_ASKED = re.compile(
    rf"maximum context length is {_NUMBER} tokens.*?(?:resulted in|requested) (?:about )?{_NUMBER} tokens"
    rf"(?: \({_NUMBER} in the messages, {_NUMBER} in the completion\))?",  # OpenAI, vLLM and others of its kind
    re.DOTALL,
)
_WORDS = re.compile(
    r"(?:input|prompt|request) is too long|too many (?:input )?tokens|context (?:length|window)", re.IGNORECASE
)
_STATUSES = (400, 413)
_SHARE = 0.75
"""The share of a request that is sent again if the refusal has no figures."""
_MOST = 0.95
"""The share of the stated limit that is filled again: a counter is off by more in one text than in another."""

_log = logging.getLogger("arc.context")


@dataclass(frozen=True, slots=True)
class Overflow:
    """A refusal: the request's tokens and the most that it may have, as the model counts them; `None` if unstated."""

    tokens: int | None = None
    limit: int | None = None


def overflow_of(error: BaseException) -> Overflow | None:
    """Return the refusal that an error states, itself or by its causes; `None` for any other error."""
    return next(filter(None, map(_overflow, _causes(error))), None)


class LearnedLimits:
    """The input limits of models, learned from the requests that they refuse. Thread-safe."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._most: dict[str, int] = {}  # by model, in tokens as arc counts them

    def limited(self, budget: TokenBudget, model: str = "") -> TokenBudget:
        """Return the budget, with the input limit learned for the model if that is lower."""
        most = self._most.get(model)
        if most is None or most >= budget.input_limit:
            return budget
        return replace(budget, context_window=most, output_reserve=0)

    def learn(self, error: Exception, counted: int, model: str = "", *, whole: bool = True) -> str:
        """Learn from the refusal of a request of `counted` tokens, and return a note on it; raise any other error.

        If the request is not counted as a `whole`, the part that arc does not know stays as long as it is.
        """
        overflow = overflow_of(error)
        if overflow is None:
            raise error
        most = int(counted * _SHARE)
        if overflow.tokens and overflow.limit:
            most = int(counted * min(overflow.limit / overflow.tokens, 1.0) * _MOST)
            if not whole:
                most = max(min(counted - overflow.tokens + overflow.limit, most), most // 2)
        self._most[model] = max(most, 1)
        self._observer.count("context.overflows")
        note = f"the first request was too long: {_figures(overflow, counted)}"
        _log.warning("%s", note)
        return note

    @contextmanager
    def last_try(self, counted: int) -> Iterator[None]:
        """Add the figures to the error as a note if the second request is refused, too."""
        try:
            yield
        except Exception as error:
            if overflow := overflow_of(error):
                error.add_note(f"the second request was also too long: {_figures(overflow, counted)}")
            raise


Request = TypeVar("Request")
Answer = TypeVar("Answer")
Again = Callable[[Exception], tuple[Request, AbstractContextManager[None]]]
"""Returns a smaller request, and a context that notes the figures on its refusal; raises any error but a refusal."""


def answered(ask: Callable[[Request], Answer], request: Request, again: Again[Request]) -> Answer:
    """Return a model's answer; if it refuses the request as too long, its answer to a smaller one."""
    try:
        return ask(request)
    except Exception as error:  # noqa: BLE001 - any client's; raised by `again` unless it is a refusal
        request, last_try = again(error)
    with last_try:
        return ask(request)


async def aanswered(ask: Callable[[Request], Awaitable[Answer]], request: Request, again: Again[Request]) -> Answer:
    """Async form of `answered`."""
    try:
        return await ask(request)
    except Exception as error:  # noqa: BLE001 - as above
        request, last_try = await asyncio.to_thread(again, error)
    with last_try:
        return await ask(request)


def streamed(
    ask: Callable[[Request], Iterator[Answer]], request: Request, again: Again[Request]
) -> Generator[Answer, None, None]:
    """Yield the parts of a model's answer, as `answered` does; a stream that has begun is not repeated."""

    def begun(request: Request) -> tuple[Iterator[Answer], list[Answer]]:
        parts = ask(request)
        return parts, list(islice(parts, 1))

    parts, first = answered(begun, request, again)
    with closing(parts) if isinstance(parts, Generator) else nullcontext():  # a model stops once nobody reads
        yield from first
        yield from parts


async def astreamed(
    ask: Callable[[Request], Awaitable[AsyncIterator[Answer]]], request: Request, again: Again[Request]
) -> AsyncGenerator[Answer, None]:
    """Async form of `streamed`."""

    async def begun(request: Request) -> tuple[AsyncIterator[Answer], list[Answer]]:
        parts = await ask(request)
        async for part in parts:
            return parts, [part]
        return parts, []

    parts, first = await aanswered(begun, request, again)
    async with aclosing(parts) if isinstance(parts, AsyncGenerator) else nullcontext():
        for part in first:
            yield part
        async for part in parts:
            yield part


def _figures(overflow: Overflow, counted: int) -> str:
    model = "" if overflow.tokens is None else f", the model {overflow.tokens:,}"
    limit = "" if overflow.limit is None else f" of at most {overflow.limit:,}"
    return f"arc counted {counted:,} tokens{model}{limit}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _overflow(error: BaseException) -> Overflow | None:
    text = str(error)
    if found := _ASKED_THEN_LIMIT.search(text):
        asked, limit = (_whole(number) for number in found.groups() if number)
        return Overflow(asked, limit)
    if found := _LIMIT_THEN_ASKED.search(text):
        limit, asked, messages, answer = (_whole(number) if number else 0 for number in found.groups())
        return Overflow(messages or asked, max(limit - answer, 1))
    named = any(kind.__name__ == _TYPE for kind in type(error).__mro__) or _code(error) in _CODES
    return Overflow() if named or (_status(error) in _STATUSES and _WORDS.search(text)) else None


def _code(error: BaseException) -> object:
    code, body = getattr(error, "code", None), getattr(error, "body", None)
    return body.get("code", code) if isinstance(body, dict) else code


def _status(error: BaseException) -> object:
    """Return the HTTP status as OpenAI's and Anthropic's clients, Google's and botocore keep it."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return getattr(error, "status_code", None) or getattr(error, "code", None)


def _whole(number: str) -> int:
    return int(number.replace(",", ""))
