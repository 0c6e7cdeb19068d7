"""What the parts of a request cost."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from arc_common.context.request import Request
from arc_common.messages import Message
from arc_common.protocols import TokenCounter
from arc_common.tokens.correction import Correction
from arc_common.tokens.message_tokens import message_tokens, schema_tokens, tools_tokens

__all__ = ["Costs"]


class Costs:
    """What messages cost under a counter and its correction.

    Args:
        counter: The counter; for a text that comes again and again it should remember what it counted.
        stored: The stored raw counts of the history's messages, by `id()`: the caller holds these messages.
        count: Counts a whole message in the counter's place, as it is: for callers with a counter of their own.
    """

    def __init__(
        self, counter: TokenCounter, stored: Mapping[int, int], *, count: Callable[[Message], int] | None = None
    ) -> None:
        self._counter = counter
        self._count = count
        correction = getattr(counter, "correction", None) if count is None else None
        self._factor = correction.factor if isinstance(correction, Correction) else 1.0
        self._known: dict[int, int] = {}
        self._held: list[Message] = []  # those counted here, so that an id() stays its message's own
        self.know(stored)

    def know(self, stored: Mapping[int, int]) -> None:
        """Take over further stored raw counts, by the `id()` of messages that the caller holds."""
        if self._factor == 1.0:
            self._known.update(stored)
        else:
            self._known.update({place: self.corrected(raw) for place, raw in stored.items()})

    def message(self, message: Message) -> int:
        """A message; one of the history is not counted again."""
        tokens = self._known.get(id(message))
        if tokens is None:
            raw = message_tokens(self._counter, message) if self._count is None else self._count(message)
            tokens = self._known[id(message)] = self.corrected(raw)
            self._held.append(message)
        return tokens

    def messages(self, messages: Iterable[Message]) -> int:
        """Some messages together."""
        return sum(map(self.message, messages))

    def text(self, text: str) -> int:
        """A piece of text."""
        return self.corrected(self._counter.count(text)) if text else 0

    def tool(self, tool: Mapping[str, Any]) -> int:
        """Count one tool's schema."""
        return self.corrected(tools_tokens(self._counter, [tool]))

    def schemas(self, request: Request) -> int:
        """Tools and response schema."""
        tools = tools_tokens(self._counter, request.tools)
        return self.corrected(tools + schema_tokens(self._counter, request.response_format))

    def corrected(self, raw: int) -> int:
        """What was counted, with the counter's correction."""
        return raw if self._factor == 1.0 else math.ceil(round(raw * self._factor, 3))
