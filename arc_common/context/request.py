"""The validated request of a turn, and its token costs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from arc_common.context.receipt import NEAREST
from arc_common.documents import Document, ScoredDocument, checked_items
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message
from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.calibration import Correction
from arc_common.tokens.compression import CompressionStrategy
from arc_common.tokens.counters import message_tokens, schema_tokens, tools_tokens


@dataclass(frozen=True, slots=True)
class Request:
    """The input of one turn, validated on construction; without a query, the current user message is in the history."""

    query: Message | None = None
    system_prompt: str | None = None
    documents: tuple[Document | ScoredDocument, ...] = ()  # best first
    tools: Sequence[Mapping[str, Any]] | None = None
    response_format: Mapping[str, Any] | None = None
    budget: TokenBudget = field(default_factory=TokenBudget)
    max_turns: int | None = None
    max_messages: int | None = None
    placement: Literal["user", "system"] = "user"  # the message that holds recalled items and documents
    facts_role: Literal["system", "user"] = "system"  # the message that holds facts and summary
    nearest: int = NEAREST  # the number of omissions that the receipt lists one by one
    compression: CompressionStrategy | None = None
    compress_from: float = 0.8  # the share of the budget, or above 1 the tokens, beyond which `compression` is applied

    def __post_init__(self) -> None:
        if not isinstance(self.system_prompt, str | None):
            raise InvalidInputError("system_prompt", self.system_prompt, "text or None")
        if not isinstance(self.budget, TokenBudget):
            raise InvalidInputError("budget", self.budget, "a TokenBudget or None")
        if not isinstance(self.tools, Sequence | None) or isinstance(self.tools, str):
            raise InvalidInputError("tools", self.tools, "a sequence of tool schemas or None")
        if not isinstance(self.response_format, Mapping | None):
            raise InvalidInputError("response_format", self.response_format, "a schema or None")

    @property
    def threshold(self) -> int:
        """The tokens beyond which the compression strategy is applied."""
        share = self.compress_from
        return int(share if share > 1 else share * self.budget.input_tokens)


def as_documents(documents: Sequence[object] | None) -> tuple[Document | ScoredDocument, ...]:
    """Return a caller's documents as values, with plain text wrapped; refuse anything else."""
    kinds = (str, Document, ScoredDocument)
    given: list[str | Document | ScoredDocument] = checked_items(
        "documents", () if documents is None else documents, kinds, expected="a sequence of documents or texts"
    )
    return tuple(Document(one) if isinstance(one, str) else one for one in given)


def plain(document: Document | ScoredDocument) -> Document:
    """Return the document without its score."""
    return document.document if isinstance(document, ScoredDocument) else document


class Costs:
    """Counts messages and texts with a token counter and its correction, each message once."""

    def __init__(
        self, counter: TokenCounter, stored: Mapping[int, int], *, count: Callable[[Message], int] | None = None
    ) -> None:
        self._counter = counter
        self._count = count  # counts a whole message instead of `counter`, without correction
        correction = getattr(counter, "correction", None) if count is None else None
        self._factor = correction.factor if isinstance(correction, Correction) else 1.0
        self._known: dict[int, int] = {}
        self._held: list[Message] = []  # keeps counted messages alive, so that their id()s stay unique
        self.know(stored)

    def know(self, stored: Mapping[int, int]) -> None:
        """Add stored raw counts by the `id()` of messages that the caller keeps alive."""
        self._known.update({place: self.corrected(raw) for place, raw in stored.items()})

    def message(self, message: Message) -> int:
        """Return a message's tokens; each message is counted once."""
        tokens = self._known.get(id(message))
        if tokens is None:
            raw = message_tokens(self._counter, message) if self._count is None else self._count(message)
            tokens = self._known[id(message)] = self.corrected(raw)
            self._held.append(message)
        return tokens

    def messages(self, messages: Iterable[Message]) -> int:
        """Return the total tokens of some messages."""
        return sum(map(self.message, messages))

    def text(self, text: str) -> int:
        """Return the tokens of a text."""
        return self.corrected(self._counter.count(text)) if text else 0

    def tool(self, tool: Mapping[str, Any]) -> int:
        """Return the tokens of one tool's schema."""
        return self.corrected(tools_tokens(self._counter, [tool]))

    def schemas(self, request: Request) -> int:
        """Return the tokens of the tools and the response schema."""
        tools = tools_tokens(self._counter, request.tools)
        return self.corrected(tools + schema_tokens(self._counter, request.response_format))

    def corrected(self, raw: int) -> int:
        """Return a raw count with the counter's correction applied, rounded up."""
        return raw if self._factor == 1.0 else math.ceil(round(raw * self._factor, 3))
