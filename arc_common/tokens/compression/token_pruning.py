"""Token pruning: the oldest exchanges go, one by one, until the rest fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from arc_common.messages import Message
from arc_common.tokens.compression.base import BaseStrategy, Compression, CountOnce
from arc_common.tokens.compression.parts import keep_only, newest_that_fit, parts_of
from arc_common.tokens.selection import OLDER

__all__ = ["TokenPruning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPruning(BaseStrategy):
    """Drops the oldest exchanges until the rest fits.

    - Fills the budget more than a rolling window does: of the oldest turn that is kept, the user message stays with
      the newest exchanges that fit.
    """

    name: ClassVar[str] = "token_pruning"

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        parts = parts_of(messages)
        kept = newest_that_fit(parts, max_tokens=max_tokens, count=count, split_oldest=True)
        return keep_only(parts, kept, reason=OLDER, count=count)
