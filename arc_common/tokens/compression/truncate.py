"""Truncating long messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from arc_common.messages import Message, Role
from arc_common.tokens.compression.base import (
    BaseStrategy,
    Compression,
    CountOnce,
    change_until_it_fits,
    check_whole_number,
)
from arc_common.tokens.compression.cuts import MARKER
from arc_common.tokens.compression.truncation import truncated

__all__ = ["Truncate"]

TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate(BaseStrategy):
    """Cuts long messages down to `max_characters`, oldest first, until the rest fits.

    - Drops nothing, and cuts text only; see `truncated`. It may not be enough.

    Args:
        max_characters: What a message keeps of its text, the marker `... [truncated]` included.
    """

    name: ClassVar[str] = "truncate"
    max_characters: int = 5_000

    def __post_init__(self) -> None:
        check_whole_number("max_characters", self.max_characters, least=len(MARKER) + 1)

    def _shrink(self, messages: Sequence[Message], max_tokens: int, count: CountOnce) -> Compression:
        first = next((i for i, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
        newest_user = max((i for i, message in enumerate(messages) if message.role is Role.USER), default=-1)

        def change(position: int, message: Message) -> Message | None:
            if position < first or position == newest_user or len(message.text) <= self.max_characters:
                return None
            return truncated(message, max_characters=self.max_characters)

        return change_until_it_fits(messages, change=change, reason=TRUNCATED, max_tokens=max_tokens, count=count)
