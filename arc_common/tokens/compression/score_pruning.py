"""Score pruning: what says least for its length goes first."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Exchange, Message, Role
from arc_common.tokens.compression.base import BaseStrategy, Compression, CountOnce, check_whole_number
from arc_common.tokens.compression.parts import Parts, Place, keep_only, parts_of

__all__ = ["ScorePruning"]

LOW_SCORE = "lower score than what was kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePruning(BaseStrategy):
    """Keeps the exchanges of the highest scores that fit, in their original order.

    - An exchange is scored as a whole, by who opens it and how long it is.
    - An answer counts no more than its question, and never stays without it.
    - At equal scores the newer stays. The newest exchange of all comes before any other.

    Args:
        user: The score of a user message.
        assistant: The score of an assistant message with its tools' results.
        long: The score of any exchange over `long_characters`.
        other: The score of everything else.
        long_characters: Characters of text from which on an exchange is long.
    """

    name: ClassVar[str] = "score_pruning"
    user: float = 1.0
    assistant: float = 0.9
    long: float = 0.5
    other: float = 0.7
    long_characters: int = 1_000

    def __post_init__(self) -> None:
        for field in ("user", "assistant", "long", "other"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                raise InvalidInputError(field, value, "a finite number")
        check_whole_number("long_characters", self.long_characters)

    def score(self, exchange: Exchange) -> float:
        """What an exchange is worth by itself."""
        if sum(len(message.text) for message in exchange.messages) > self.long_characters:
            return self.long
        return {Role.USER: self.user, Role.ASSISTANT: self.assistant}.get(exchange.role, self.other)

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        parts = parts_of(messages)
        kept = parts.protected
        room = max_tokens - parts.cost(kept, count)
        for place in self._best_first(parts):
            cost = count.total(parts.at(place).messages)
            if place not in kept and cost <= room and (place[1] == 0 or (place[0], 0) in kept):
                kept.add(place)
                room -= cost
        return keep_only(parts, kept, reason=LOW_SCORE, count=count)

    def _best_first(self, parts: Parts) -> list[Place]:
        """Every exchange, a turn's user message before what follows it."""

        def rank(place: Place) -> tuple[bool, float, int, bool, int]:
            turn, exchange = place
            own, question = self.score(parts.at(place)), self.score(parts.at((turn, 0)))
            return place != newest, -min(own, question), -turn, exchange != 0, -exchange

        places = parts.places
        newest = places[-1] if places else None
        return sorted(places, key=rank)
