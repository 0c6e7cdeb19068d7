"""Pruning system messages that came in the middle of a conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from arc_common.messages import Message, Role
from arc_common.tokens.compression.base import BaseStrategy, Compression, CountOnce, check_whole_number
from arc_common.tokens.compression.parts import keep_only, parts_of

__all__ = ["PruneSystem"]

LONG_SYSTEM = "long system message in the middle"


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneSystem(BaseStrategy):
    """Drops long system messages that don't lead the conversation, oldest first, until the rest fits.

    - Short ones ("the user has signed in") stay; nothing else goes, so it may not be enough.

    Args:
        min_characters: From so many characters on a system message may go.
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
