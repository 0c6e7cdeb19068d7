"""Strategies that drop messages; a tool call is always dropped together with its results."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Exchange, Message, Role
from arc_common.tokens.compression.base import (
    BaseStrategy,
    Compression,
    CountOnce,
    Parts,
    Place,
    check_whole_number,
    keep_only,
    newest_that_fit,
    parts_of,
)
from arc_common.tokens.selection import OLDER

LONG_SYSTEM = "long system message in the middle"


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneSystem(BaseStrategy):
    """Drops long system messages that don't lead the conversation, oldest first, until the rest fits.

    - Short ones ("the user has signed in") are kept. Nothing else is dropped, so the result may not fit.

    Args:
        min_characters: The length from which a system message may be dropped, in characters.
    """

    name: ClassVar[str] = "prune_system"
    min_characters: int = 200

    def __post_init__(self) -> None:
        check_whole_number("min_characters", self.min_characters)

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        parts = parts_of(messages)
        kept = set(parts.places)
        tokens = parts.cost(kept, count)
        for place in parts.places:
            if tokens <= max_tokens:
                break
            message = parts.at(place).messages[0]
            if message.role is Role.SYSTEM and len(message.text) >= self.min_characters:
                kept.remove(place)
                tokens -= count(message)
        return keep_only(parts, kept, reason=LONG_SYSTEM, count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingWindow(BaseStrategy):
    """Keeps the newest whole turns that fit, without gaps.

    - Only the newest turn may lose exchanges, oldest first, if it does not fit whole.

    Args:
        max_turns: The most turns to keep if the conversation does not fit; `None` for as many as fit.
    """

    name: ClassVar[str] = "rolling_window"
    max_turns: int | None = None

    def __post_init__(self) -> None:
        if self.max_turns is not None:
            check_whole_number("max_turns", self.max_turns, least=1)

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        parts = parts_of(messages)
        kept = newest_that_fit(parts, max_tokens=max_tokens, count=count, max_turns=self.max_turns)
        return keep_only(parts, kept, reason=OLDER, count=count)


LOW_SCORE = "lower score than what was kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePruning(BaseStrategy):
    """Keeps the highest-scoring exchanges that fit, in their original order.

    - An exchange is scored as a whole, by the role of its first message and its length.
    - An answer ranks no higher than its question, and is never kept without it.
    - At equal scores the newer exchange is kept. The newest exchange ranks above all others.

    Args:
        user: The score of a user message.
        assistant: The score of an assistant message with its tools' results.
        long: The score of any exchange over `long_characters`.
        other: The score of any other exchange.
        long_characters: The length above which an exchange is long, in characters.
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
        """Return an exchange's own score."""
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
        """Return all exchanges, best first, each turn's user message before its other exchanges."""

        def rank(place: Place) -> tuple[bool, float, int, bool, int]:
            turn, exchange = place
            own, question = self.score(parts.at(place)), self.score(parts.at((turn, 0)))
            return place != newest, -min(own, question), -turn, exchange != 0, -exchange

        places = parts.places
        newest = places[-1] if places else None
        return sorted(places, key=rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPruning(BaseStrategy):
    """Drops the oldest exchanges until the rest fits.

    - Fills the budget better than `RollingWindow`: the oldest kept turn may consist of its user message and its newest
      exchanges that fit.
    """

    name: ClassVar[str] = "token_pruning"

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        parts = parts_of(messages)
        kept = newest_that_fit(parts, max_tokens=max_tokens, count=count, split_oldest=True)
        return keep_only(parts, kept, reason=OLDER, count=count)


TOOL_EXCHANGE = "older tool call"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropToolResults(BaseStrategy):
    """Drops tool calls together with their results, oldest first, until the rest fits.

    - Nothing else is dropped, so the result may not fit.

    Args:
        keep_last: The number of newest exchanges with tools to keep.
    """

    name: ClassVar[str] = "drop_tool_results"
    keep_last: int = 1

    def __post_init__(self) -> None:
        check_whole_number("keep_last", self.keep_last)

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        parts = parts_of(messages)
        kept = set(parts.places)
        tokens = parts.cost(kept, count)
        with_tools = [place for place in parts.places if parts.at(place).messages[0].tool_calls]
        older = with_tools[: max(0, len(with_tools) - self.keep_last)]
        for place in older:
            if tokens <= max_tokens or not parts.at(place).complete:  # open calls are at the very end
                break
            kept.remove(place)
            tokens -= count.total(parts.at(place).messages)
        return keep_only(parts, kept, reason=TOOL_EXCHANGE, count=count)
