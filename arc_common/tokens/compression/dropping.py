"""Dropping tool results: call and results go together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from arc_common.messages import Message
from arc_common.tokens.compression.base import BaseStrategy, Compression, CountOnce, check_whole_number
from arc_common.tokens.compression.parts import keep_only, parts_of

__all__ = ["DropToolResults"]

TOOL_EXCHANGE = "older tool call"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropToolResults(BaseStrategy):
    """Drops tool calls together with their results, oldest first, until the rest fits.

    - Nothing else goes, so it may not be enough.

    Args:
        keep_last: So many of the newest exchanges with tools stay.
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
            if tokens <= max_tokens or not parts.at(place).complete:  # what is still open stands at the very end
                break
            kept.remove(place)
            tokens -= count.total(parts.at(place).messages)
        return keep_only(parts, kept, reason=TOOL_EXCHANGE, count=count)
