"""What every compression strategy takes, gives and guarantees."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Exchange, Message, Role, Turn, exchanges_of, turns_of
from arc_common.tokens.selection import NO_USER, ORPHANED, UNANSWERED, Changed, Dropped


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
    """Change messages, oldest first, until all fit."""
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


@dataclass(frozen=True, slots=True)
class Chain(BaseStrategy):
    """Runs strategies in order, each only while the budget is still exceeded.

    - The account names the originals: a message changed twice is one change; one changed and then dropped is dropped.

    Args:
        strategies: The gentlest first, one that drops last: `Chain((ClearToolResults(), Truncate(), RollingWindow()))`.
    """

    name: ClassVar[str] = "chain"
    strategies: Sequence[CompressionStrategy]

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategies", tuple(self.strategies))
        for strategy in self.strategies:
            if not callable(getattr(strategy, "compress", None)):
                raise InvalidInputError("strategies", strategy, "compression strategies")

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        result = Compression(tuple(messages), count.total(messages))
        for strategy in self.strategies:
            if result.tokens <= max_tokens:
                break
            result = _joined(result, strategy.compress(result.messages, max_tokens=max_tokens, count=count))
        place = {id(message): i for i, message in enumerate(messages)}
        return replace(
            result, changed=tuple(sorted(result.changed, key=lambda change: place.get(id(change.message), -1)))
        )


def _joined(first: Compression, then: Compression) -> Compression:
    """The account of two steps as one."""
    earlier: dict[int, list[Changed]] = {}
    for change in first.changed:
        earlier.setdefault(id(change.replacement), []).append(change)
    dropped: list[Dropped] = []
    for item in then.dropped:
        originals = [change.message for change in earlier.pop(id(item.message), ())]
        dropped += [Dropped(message, item.reason) for message in originals or [item.message]]
    changed: list[Changed] = []
    for change in then.changed:
        changed += [_one(before, change) for before in earlier.pop(id(change.message), ())] or [change]
    untouched = [change for changes in earlier.values() for change in changes]
    return replace(then, dropped=(*first.dropped, *dropped), changed=(*untouched, *changed))


def _one(before: Changed, then: Changed) -> Changed:
    """A message changed twice."""
    return Changed(
        before.message,
        then.replacement,
        f"{before.reason}, {then.reason}",
        before.tokens_before,
        then.tokens_after if before.tokens_after else 0,
    )


Place = tuple[int, int]
"""Where an exchange is: its turn's index, and its own within the turn; the user message of a turn is exchange 0."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A conversation as the dropping strategies see it."""

    leading: tuple[Message, ...]
    turns: tuple[Turn, ...]
    opening: tuple[Message, ...]
    refused: tuple[Dropped, ...]

    @property
    def places(self) -> list[Place]:
        """Every exchange, in conversation order."""
        return [(t, e) for t, turn in enumerate(self.turns) for e in range(len(turn.exchanges))]

    @property
    def protected(self) -> set[Place]:
        """What is never dropped: the newest user message, and calls still open at the end."""
        if not self.turns:
            return set()
        last = len(self.turns) - 1
        still_open = {(last, e) for e, exchange in enumerate(self.turns[last].exchanges) if not exchange.complete}
        return {(last, 0), *still_open}

    def at(self, place: Place) -> Exchange:
        """The exchange at a place."""
        return self.turns[place[0]].exchanges[place[1]]

    def cost(self, places: Set[Place], count: CountOnce) -> int:
        """The tokens of the leading messages and of these exchanges."""
        return count.total(self.leading) + sum(count.total(self.at(place).messages) for place in places)


def parts_of(messages: Sequence[Message]) -> Parts:
    """Take a conversation apart."""
    first = next((i for i, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    exchanges, orphans = exchanges_of(messages[first:])
    last_complete = max((i for i, exchange in enumerate(exchanges) if exchange.complete), default=-1)
    usable = [exchange for i, exchange in enumerate(exchanges) if exchange.complete or i > last_complete]
    unanswered = [exchange for exchange in exchanges[: last_complete + 1] if not exchange.complete]
    turns = turns_of(usable)
    opening = turns.pop(0).messages if turns and not turns[0].starts_with_user else ()
    refused = [Dropped(message, UNANSWERED) for exchange in unanswered for message in exchange.messages]
    refused += [Dropped(message, ORPHANED) for message in orphans]
    return Parts(tuple(messages[:first]), tuple(turns), opening, tuple(refused))


def keep_only(parts: Parts, kept: Set[Place], *, reason: str, count: CountOnce) -> Compression:
    """The leading messages and some exchanges, in conversation order; the others are dropped for `reason`."""
    messages = list(parts.leading)
    dropped: list[Dropped] = []
    for place in parts.places:
        if place in kept:
            messages += parts.at(place).messages
        else:
            dropped += [Dropped(message, reason) for message in parts.at(place).messages]
    dropped += [Dropped(message, NO_USER) for message in parts.opening]
    return Compression(tuple(messages), count.total(messages), (*dropped, *parts.refused))


def newest_that_fit(
    parts: Parts, *, max_tokens: int, count: CountOnce, max_turns: int | None = None, split_oldest: bool = False
) -> set[Place]:
    """The newest turns that fit, without gaps, and what is protected."""
    kept = parts.protected
    room = max_tokens - parts.cost(kept, count)
    newest = len(parts.turns) - 1
    for t in range(newest, -1, -1):
        if max_turns is not None and newest - t >= max_turns:
            break
        places = [(t, e) for e in range(len(parts.turns[t].exchanges)) if (t, e) not in kept]
        costs = {place: count.total(parts.at(place).messages) for place in places}
        if sum(costs.values()) <= room:
            kept.update(places)
            room -= sum(costs.values())
            continue
        user = (t, 0)
        if t == newest or (split_oldest and costs[user] <= room):
            room -= costs.pop(user, 0)
            kept.add(user)
            for place in reversed(costs):
                if costs[place] > room:
                    break
                kept.add(place)
                room -= costs[place]
        break
    return kept
