"""Clearing tool results: the pair stays, the text goes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from arc_common.messages import Message, Role, exchanges_of
from arc_common.tokens.compression.base import (
    BaseStrategy,
    Compression,
    CountOnce,
    change_until_it_fits,
    check_whole_number,
)

__all__ = ["ClearToolResults", "cleared"]

CLEARED = "tool result cleared"
_CLEARED = re.compile(r"\[cleared: [\d,]+ tokens\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearToolResults(BaseStrategy):
    """Puts `[cleared: 1,240 tokens]` in place of tool results, oldest first, until the rest fits.

    - Drops nothing: each call keeps its result's message, so no provider refuses the request, and the model still sees
      what it called.

    Args:
        keep_last: So many of the newest exchanges with tools keep their results.
    """

    name: ClassVar[str] = "clear_tool_results"
    keep_last: int = 1

    def __post_init__(self) -> None:
        check_whole_number("keep_last", self.keep_last)

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        with_tools = [exchange for exchange in exchanges_of(messages)[0] if exchange.messages[0].tool_calls]
        newest = with_tools[max(0, len(with_tools) - self.keep_last) :]
        untouched = {id(message) for exchange in newest for message in exchange.messages}

        def change(_: int, message: Message) -> Message | None:
            return None if id(message) in untouched else cleared(message, tokens=count(message))

        return change_until_it_fits(messages, change=change, reason=CLEARED, max_tokens=max_tokens, count=count)


def cleared(message: Message, *, tokens: int) -> Message | None:
    """A tool result without its content, which cost so many tokens; `None` for any other message and a cleared one."""
    if message.role is not Role.TOOL or (isinstance(message.content, str) and _CLEARED.fullmatch(message.content)):
        return None
    return replace(message, content=f"[cleared: {tokens:,} tokens]", origin=None)
