"""What every compression strategy takes, gives and guarantees."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message
from arc_common.tokens.greedy import Changed
from arc_common.tokens.selection import Dropped

__all__ = [
    "BaseStrategy",
    "Changed",
    "Compression",
    "CompressionStrategy",
    "CountOnce",
    "change_until_it_fits",
    "check_whole_number",
]


@dataclass(frozen=True, slots=True)
class Compression:
    """What a strategy made of a conversation.

    - Each message of the input is in `messages` (itself, or the replacement that `changed` names) or in `dropped`.

    Args:
        messages: What is left, in conversation order.
        tokens: Of these messages together.
        dropped: What was left out, oldest first by reason.
        changed: What stands there in another form, oldest first.
    """

    messages: tuple[Message, ...]
    tokens: int
    dropped: tuple[Dropped, ...] = ()
    changed: tuple[Changed, ...] = ()


@runtime_checkable
class CompressionStrategy(Protocol):
    """A way to make a conversation fit."""

    @property
    def name(self) -> str:
        """What it is called in settings and receipts."""

    def compress(self, messages: Sequence[Message], *, max_tokens: int, count: Callable[[Message], int]) -> Compression:
        """The conversation, made to fit `max_tokens`; see `BaseStrategy.compress`."""


class BaseStrategy(ABC):
    """What the strategies share: what fits is left alone, and each message is counted once."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in settings and receipts."""

    def compress(self, messages: Sequence[Message], *, max_tokens: int, count: Callable[[Message], int]) -> Compression:
        """Make a conversation fit.

        - What fits is returned as it is: the same objects.
        - The system messages at the very start and the newest user message are there whole.
        - A call and its results stay together. Calls still open at the end stay, for their results come next.
        - A strategy that drops anything also drops what no provider accepts: calls and results without each other, and
          what comes before the first user message. Results that came late then stand at their call.
        - Order is the conversation's; there are no duplicates; inputs are not changed, copies keep id, role and name.
        - The same input gives the same output, and the output given back in is returned as it is.

        Args:
            messages: The conversation, oldest first.
            max_tokens: What `messages` may cost together. A strategy that only shortens, or what must stay whole, may
                cost more: `tokens` says so.
            count: The tokens of a message; called once for each, besides the copies that a strategy makes.

        Raises:
            InvalidInputError: `max_tokens` is negative or no whole number.
        """
        check_whole_number("max_tokens", max_tokens)
        counted = CountOnce(count)
        tokens = counted.total(messages)
        if tokens <= max_tokens:
            return Compression(tuple(messages), tokens)
        return self._shrink(messages, max_tokens, counted)

    @abstractmethod
    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: "CountOnce") -> Compression:
        """Make a conversation that costs more than `max_tokens` cost less."""


class CountOnce:
    """Counts each message object once, however often it is asked."""

    __slots__ = ("_count", "_known")

    def __init__(self, count: Callable[[Message], int]) -> None:
        self._count = count
        self._known: dict[int, tuple[Message, int]] = {}  # holds the message, so that its id() stays its own

    def __call__(self, message: Message) -> int:
        """The tokens of one message."""
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, self._count(message)
        return known[1]

    def total(self, messages: Iterable[Message]) -> int:
        """The tokens of some messages together."""
        return sum(map(self, messages))


def change_until_it_fits(
    messages: Sequence[Message],
    *,
    change: Callable[[int, Message], Message | None],
    reason: str,
    max_tokens: int,
    count: CountOnce,
) -> Compression:
    """Change messages, oldest first, until all fit.

    Args:
        messages: The conversation.
        change: What is to stand in a message's place (its position is given too); `None` to leave it.
        reason: Why, for the account. A change that saves nothing is not made.
        max_tokens: Where to stop.
        count: The tokens of a message.
    """
    left = list(messages)
    tokens = count.total(messages)
    changed: list[Changed] = []
    for position, message in enumerate(messages):
        if tokens <= max_tokens:
            break
        replacement = change(position, message)
        if replacement is None:
            continue
        before, after = count(message), count(replacement)
        if after < before:
            left[position] = replacement
            tokens += after - before
            changed.append(Changed(message, replacement, reason, before, after))
    return Compression(tuple(left), tokens, changed=tuple(changed))


def check_whole_number(name: str, value: object, *, least: int = 0) -> None:
    """Raise `InvalidInputError` for what is no whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInputError(name, value, f"a whole number of at least {least}")
