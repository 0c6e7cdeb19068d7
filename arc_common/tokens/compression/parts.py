"""A conversation taken apart for the strategies that drop, and put together again from what they keep."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from arc_common.messages import Exchange, Message, Role, Turn, exchanges_of, turns_of
from arc_common.tokens.compression.base import Compression, CountOnce
from arc_common.tokens.selection import NO_USER, ORPHANED, UNANSWERED, Dropped

__all__ = ["Parts", "Place", "keep_only", "newest_that_fit", "parts_of"]

Place = tuple[int, int]
"""Where an exchange is: its turn's index, and its own within the turn; the user message of a turn is exchange 0."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A conversation as the dropping strategies see it.

    Args:
        leading: The system messages at the very start.
        turns: Each begins with its user message; its exchanges are complete, or still open at the very end.
        opening: What comes before the first user message.
        refused: What no provider accepts: calls and results without each other.
    """

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
    """The newest turns that fit, without gaps, and what is protected.

    - The newest turn, when it does not fit whole, keeps its newest exchanges that do.
    - With `split_oldest`, so does the oldest turn that is kept at all.
    """
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
