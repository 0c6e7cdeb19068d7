"""Cuts LangChain messages to a token limit so that the result is a valid request for any provider."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from math import ceil
from typing import Any, Final, Literal, SupportsFloat, TypeAlias, overload

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    MessageLikeRepresentation,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableLambda

from arc_common.exceptions import BudgetExceededError, InvalidInputError
from arc_common.messages import Message, Role
from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.calibration import corrected
from arc_common.tokens.compression.truncation import shortened
from arc_common.tokens.counters import REQUEST_OVERHEAD, default_token_counter, message_tokens_batch
from arc_common.tokens.selection import (
    check_limits,
    current_turn,
    says_something,
    select_window,
    with_distinct_call_ids,
)
from langchain_arc.content_blocks import block_of
from langchain_arc.messages import to_arc, with_ids_of

TokenCounting: TypeAlias = (
    TokenCounter
    | Callable[[list[BaseMessage]], int]
    | Callable[[BaseMessage], int]
    | BaseLanguageModel[Any]
    | Literal["approximate"]
)
"""A token counter: an arc counter, a function of messages or of one, a model, or "approximate"."""

Messages: TypeAlias = Iterable[MessageLikeRepresentation] | PromptValue
_Count: TypeAlias = Callable[[list[BaseMessage]], int]

_APPROXIMATE: Final = "approximate"


@overload
def fit_messages(
    messages: Messages, *, max_tokens: int, token_counter: TokenCounting = _APPROXIMATE
) -> list[BaseMessage]: ...


@overload
def fit_messages(
    messages: None = None, *, max_tokens: int, token_counter: TokenCounting = _APPROXIMATE
) -> Runnable[Messages, list[BaseMessage]]: ...


def fit_messages(
    messages: Messages | None = None, *, max_tokens: int, token_counter: TokenCounting = _APPROXIMATE
) -> list[BaseMessage] | Runnable[Messages, list[BaseMessage]]:
    """Return the newest messages that fit a token limit: a replacement for `trim_messages`, always a valid request.

        kept = fit_messages(messages, max_tokens=4_000)
        chain = fit_messages(max_tokens=4_000) | model

    - A tool call and its results are kept or left out together, however they are interleaved. A result without a call
      and a call without its results are left out, except for unanswered calls at the very end.
    - System messages at the start and the newest user message are kept whole. Later system messages are kept or left
      out with their turn; they are moved up to the first ones, because providers refuse or drop them elsewhere.
    - After the system messages comes a user message; whole turns are kept, from the newest. If the newest turn is too
      large, its older tool results are cleared first, then its older steps are left out, and finally the results of its
      newest step are cut until they fit.
    - Kept messages are the objects given, in conversation order. Only two kinds are changed copies: cleared or cut
      results, and calls that repeat an earlier call's id (which providers refuse), with their results.
    - The sum is at most `max_tokens` under the counter, even if it counts a list as more than the sum of its messages.
      If an arc counter states an error, that share is kept free as well.

    Args:
        messages: The conversation, oldest first, in any form that LangChain takes. Without it, a runnable is returned
            that takes it.
        max_tokens: The limit, in tokens.
        token_counter: One of arc's counters (which include the framing that providers add), a function of a list of
            messages or (annotated as `BaseMessage`) of one message, a model (`get_num_tokens_from_messages`), or
            "approximate" for arc's own estimate, which needs no network.

    Raises:
        BudgetExceededError: The system messages and the newest user message alone don't fit.
        InvalidInputError: The limit is not a whole number of at least 0, the counter can't count, or a message can't be
            sent (`RemoveMessage`).
    """
    if max_tokens is None:
        raise InvalidInputError("max_tokens", max_tokens, "a whole number of at least 0")
    check_limits(max_tokens=max_tokens)
    if token_counter == _APPROXIMATE:
        token_counter = default_token_counter()
    if isinstance(token_counter, TokenCounter):
        max_tokens = usable_tokens(max_tokens, token_counter)
    count = _counting(token_counter)
    if messages is None:
        return RunnableLambda(partial(_fitted, max_tokens=max_tokens, count=count), name="fit_messages")
    return _fitted(messages, max_tokens=max_tokens, count=count)


def fitted_to(room: int, messages: Messages, *, counter: TokenCounter) -> list[BaseMessage]:
    """Return the newest messages that fit `room` tokens, from which the counter's error is already deducted."""
    return _fitted(messages, max_tokens=room, count=partial(arc_tokens, counter))


def _fitted(messages: Messages, *, max_tokens: int, count: _Count) -> list[BaseMessage]:
    given = _converted(messages)
    shapes = [_shape(message, str(place)) for place, message in enumerate(given)]
    least = _least(shapes)
    must = [given[place] for place in least]
    if must and (needed := count(must)) > max_tokens:
        raise BudgetExceededError("system messages and newest user message", needed=needed, available=max_tokens)
    costs: dict[int, int] = {}
    counted: list[Message] = []
    around = _around(given, count)

    def cost(shape: Message) -> int:
        if id(shape) not in costs:
            alone = count([_shown(shape, given, shapes)])
            costs[id(shape)] = max(alone - around, 1)  # at least 1, so that a smaller room always holds less
            counted.append(shape)  # keeps the shape alive, so that no other gets its id()
        return costs[id(shape)]

    def shorten(shape: Message, tokens: int) -> Message | None:
        return shortened(shape, max_tokens=tokens, count=cost) if shape.role is Role.TOOL else None

    room = max_tokens - around
    while True:
        selection = select_window(
            shapes, max_tokens=max(room, 0), count=cost, live=True, shorten=shorten, whole_turns=True
        )
        kept = sorted(selection.kept, key=lambda shape: shape.role is not Role.SYSTEM)
        if len(kept) <= len(least) or not {shapes[place].id for place in least} <= {shape.id for shape in kept}:
            return must
        objects = [_shown(shape, given, shapes) for shape in kept]
        fitted = [with_ids_of(named, it) for named, it in zip(with_distinct_call_ids(kept), objects, strict=True)]
        excess = count(fitted) - max_tokens
        if excess <= 0:
            return fitted
        total = sum(map(cost, kept))  # the counter counts a list as more than its messages
        room = total - (max(min(excess, total // 8), 1) if selection.changed else 1)


def _converted(messages: Messages) -> list[BaseMessage]:
    """Convert messages to LangChain's, from any form that it takes."""
    expected = "a list of messages, in any form that LangChain takes"
    if isinstance(messages, str | Mapping):
        raise InvalidInputError("messages", messages, expected)
    try:
        return convert_to_messages(messages)
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise InvalidInputError("messages", messages, f"{expected}: {error}") from error


def _around(given: Sequence[BaseMessage], count: _Count) -> int:
    """Return the tokens that the counter adds once per request, judged by the newest two messages."""
    if len(given) < 2:
        return 0
    *_, one, other = given
    return max(count([one]) + count([other]) - count([one, other]), 0)


def _least(shapes: Sequence[Message]) -> list[int]:
    """Return the places of the leading system messages and the newest user message; blank messages are skipped."""
    spoken = [shape for shape in shapes if says_something(shape)]
    leading = takewhile(lambda shape: shape.role is Role.SYSTEM, spoken)
    user = current_turn(spoken).user
    return [int(shape.id or 0) for shape in (*leading, *([user] if user else ()))]


def _shape(message: BaseMessage, name: str) -> Message:
    """Return the parts of a message that selection needs, even of a message that no store could hold."""
    try:
        whole = to_arc(message)
    except InvalidInputError:
        whole = _plain(message)
    return replace(whole, id=name, metadata={}, origin=None)


def _plain(message: BaseMessage) -> Message:
    """Return the message without any value that can't be stored."""
    bare = message.model_copy(update={"content": message.text, "additional_kwargs": {}, "response_metadata": {}})
    if isinstance(bare, ToolMessage):
        bare = bare.model_copy(update={"artifact": None})
    if isinstance(bare, AIMessage):
        calls = [{**call, "args": {}} for call in bare.tool_calls]
        bare = bare.model_copy(update={"tool_calls": calls})
    return to_arc(bare)


def _shown(shape: Message, given: Sequence[BaseMessage], shapes: Sequence[Message]) -> BaseMessage:
    """Return the message for a shape: the object given, or a copy with the shape's content."""
    place = int(shape.id or 0)
    message, content = given[place], shape.content
    if content == shapes[place].content:
        return message
    blocks = list(map(block_of, content)) if isinstance(content, tuple) else content or ""
    return message.model_copy(update={"content": blocks})


def _counting(token_counter: TokenCounting) -> _Count:
    """Return the counter as a function of a list of messages."""
    if isinstance(token_counter, BaseLanguageModel):
        return token_counter.get_num_tokens_from_messages
    if isinstance(token_counter, TokenCounter):
        return partial(arc_tokens, token_counter)
    if not callable(token_counter):
        raise InvalidInputError(
            "token_counter", token_counter, 'a TokenCounter, a function, a language model or "approximate"'
        )
    if _takes_one(token_counter):
        return lambda messages: sum(_tokens(token_counter(message)) for message in messages)  # type: ignore[arg-type, misc]
    return lambda messages: _tokens(token_counter(messages))  # type: ignore[arg-type]  # only functions of lists remain


def _tokens(counted: object) -> int:
    """Return a function's count, which must be a number."""
    if not isinstance(counted, SupportsFloat):
        raise InvalidInputError("token_counter", counted, "a function that returns a number of tokens")
    return ceil(float(counted))


def _takes_one(function: Callable[..., int]) -> bool:
    """Return whether the first parameter is annotated as one message, as `trim_messages` decides it."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (ValueError, TypeError, NameError):
        return False
    return bool(parameters) and parameters[0].annotation is BaseMessage


def arc_tokens(counter: TokenCounter, messages: Sequence[BaseMessage]) -> int:
    """Return the messages' tokens under an arc counter, including the framing of the request."""
    raw = sum(message_tokens_batch(counter, [_shape(message, "0") for message in messages]))
    return REQUEST_OVERHEAD + corrected(counter, raw)
