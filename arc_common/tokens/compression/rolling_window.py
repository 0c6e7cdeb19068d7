"""Rolling window: the newest whole turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from arc_common.messages import Message
from arc_common.tokens.compression.base import BaseStrategy, Compression, CountOnce, check_whole_number
from arc_common.tokens.compression.parts import keep_only, newest_that_fit, parts_of
from arc_common.tokens.selection import OLDER

__all__ = ["RollingWindow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingWindow(BaseStrategy):
    """Keeps the newest whole turns that fit, without gaps.

    - Only the newest turn may lose some of its exchanges: the oldest, when it does not fit whole.

    Args:
        max_turns: At most so many turns, once anything has to go; `None` for as many as fit.
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
