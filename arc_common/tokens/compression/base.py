"""The interface and guarantees of compression strategies."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.messages import Exchange, Message, Role, Turn, exchanges_of, turns_of
from arc_common.tokens.selection import NO_USER, ORPHANED, UNANSWERED, Changed, Dropped


@dataclass(frozen=True, slots=True)
class Compression:
    """The remaining messages in conversation order, their tokens, and the dropped and replaced ones, oldest first.

    Each input message is in `messages` (itself, or its replacement in `changed`) or in `dropped`.
    """

    messages: tuple[Message, ...]
    tokens: int
    dropped: tuple[Dropped, ...] = ()
    changed: tuple[Changed, ...] = ()


@runtime_checkable
class CompressionStrategy(Protocol):
    """Makes a conversation fit a token limit."""

    @property
    def name(self) -> str:
        """The strategy's name in settings and receipts."""

    def compress(self, messages: Sequence[Message], *, max_tokens: int, count: Callable[[Message], int]) -> Compression:
        """Make the conversation fit `max_tokens`; see `BaseStrategy.compress`."""


class BaseStrategy(ABC):
    """Base of the strategies: returns a conversation that fits unchanged, and counts each message once."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The strategy's name in settings and receipts."""

    def compress(self, messages: Sequence[Message], *, max_tokens: int, count: Callable[[Message], int]) -> Compression:
        """Make a conversation fit a token limit.

        - A conversation that fits is returned unchanged: the same objects.
        - The system messages at the very start and the newest user message are kept whole.
        - A call and its results stay together. Open calls at the end are kept, because their results come next.
        - A strategy that drops anything also drops messages that no provider accepts: calls without results, results
          without calls, and messages before the first user message. Late results are moved to their calls.
        - The conversation's order is kept, without duplicates. Inputs are not changed; copies keep id, role and name.
        - Deterministic and idempotent: compressing the output again returns it unchanged.
        - The result may exceed `max_tokens` if the strategy only shortens or if protected messages are too large.
        - `count` is called once for each message, and for the strategy's copies.
        """
        check_whole("max_tokens", max_tokens, least=0)
        counted = CountOnce(count)
        tokens = counted.total(messages)
        if tokens <= max_tokens:
            return Compression(tuple(messages), tokens)
        return self._shrink(messages, max_tokens, counted)

    @abstractmethod
    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: "CountOnce") -> Compression:
        """Compress a conversation that exceeds `max_tokens`."""


class CountOnce:
    """Counts each message object once and caches the result."""

    __slots__ = ("_count", "_known")

    def __init__(self, count: Callable[[Message], int]) -> None:
        self._count = count
        self._known: dict[int, tuple[Message, int]] = {}  # keeps the message alive, so that its id() stays unique

    def __call__(self, message: Message) -> int:
        """Return the tokens of one message."""
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, self._count(message)
        return known[1]

    def total(self, messages: Iterable[Message]) -> int:
        """Return the total tokens of some messages."""
        return sum(map(self, messages))


def change_until_it_fits(
    messages: Sequence[Message],
    *,
    change: Callable[[int, Message], Message | None],
    reason: str,
    max_tokens: int,
    count: CountOnce,
) -> Compression:
    """Replace messages by `change`, oldest first, until all fit."""
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


@dataclass(frozen=True, slots=True)
class Chain(BaseStrategy):
    """Runs strategies in order until the conversation fits.

    - Changes and drops refer to the originals: two changes of a message are merged, and a drop replaces its changes.

    Args:
        strategies: The mildest first, a dropping one last: `Chain((ClearToolResults(), Truncate(), RollingWindow()))`.
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
    """Merge the results of two consecutive steps."""
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
    """Merge two changes of the same message."""
    return Changed(
        before.message,
        then.replacement,
        f"{before.reason}, {then.reason}",
        before.tokens_before,
        then.tokens_after if before.tokens_after else 0,
    )


Place = tuple[int, int]
"""An exchange's position: the turn's index and the index within the turn; a turn's user message is exchange 0."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A conversation split for the dropping strategies: leading messages, turns, and messages no provider accepts."""

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
        """The exchanges that are never dropped: the newest user message, and open calls at the end."""
        if not self.turns:
            return set()
        last = len(self.turns) - 1
        still_open = {(last, e) for e, exchange in enumerate(self.turns[last].exchanges) if not exchange.complete}
        return {(last, 0), *still_open}

    def at(self, place: Place) -> Exchange:
        """Return the exchange at a position."""
        return self.turns[place[0]].exchanges[place[1]]

    def cost(self, places: Set[Place], count: CountOnce) -> int:
        """Return the tokens of the leading messages and these exchanges."""
        return count.total(self.leading) + sum(count.total(self.at(place).messages) for place in places)

    def only(self, kept: Set[Place], *, reason: str, count: CountOnce) -> Compression:
        """Keep the leading messages and some exchanges, in conversation order; drop the others for `reason`."""
        messages = list(self.leading)
        dropped: list[Dropped] = []
        for place in self.places:
            if place in kept:
                messages += self.at(place).messages
            else:
                dropped += [Dropped(message, reason) for message in self.at(place).messages]
        dropped += [Dropped(message, NO_USER) for message in self.opening]
        return Compression(tuple(messages), count.total(messages), (*dropped, *self.refused))

    def without_some(self, places: Sequence[Place], *, max_tokens: int, count: CountOnce) -> set[Place]:
        """Return all exchanges but the first of these, as many as must go for the rest to fit."""
        kept = set(self.places)
        tokens = self.cost(kept, count)
        for place in places:
            if tokens <= max_tokens:
                break
            kept.remove(place)
            tokens -= count.total(self.at(place).messages)
        return kept

    def newest_that_fit(self, *, max_tokens: int, count: CountOnce, split_oldest: bool = False) -> set[Place]:
        """Return the protected exchanges and those of the newest turns that fit, without gaps."""
        kept = self.protected
        room = max_tokens - self.cost(kept, count)
        newest = len(self.turns) - 1
        for t in range(newest, -1, -1):
            places = [(t, e) for e in range(len(self.turns[t].exchanges)) if (t, e) not in kept]
            costs = {place: count.total(self.at(place).messages) for place in places}
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


def parts_of(messages: Sequence[Message]) -> Parts:
    """Split a conversation into its parts."""
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


class DroppingStrategy(BaseStrategy):
    """Base of the strategies that only drop whole exchanges."""

    __slots__ = ()
    reason: ClassVar[str]

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        parts = parts_of(messages)
        return parts.only(self._kept(parts, max_tokens, count), reason=self.reason, count=count)

    @abstractmethod
    def _kept(self, parts: Parts, max_tokens: int, count: CountOnce) -> set[Place]:
        """Return the exchanges to keep."""
