"""The validated request of a turn with its token costs, and the messages drafted from it and the memory layers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from arc_common.context.receipt import NEAREST, Item, LeftOut
from arc_common.documents import Document, ScoredDocument, checked_items
from arc_common.exceptions import InvalidInputError
from arc_common.memories import Pin
from arc_common.messages import ARC_MARK, ContentPart, Message, Role
from arc_common.prompts.context import (
    render_artifacts,
    render_documents,
    render_memory,
    render_memory_lines,
    render_pins,
    render_recalled,
)
from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import TokenBudget
from arc_common.tokens.calibration import Correction
from arc_common.tokens.compression import CompressionStrategy
from arc_common.tokens.counters import message_tokens, schema_tokens, tools_tokens
from arc_common.trust import Trust


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
        factor = self._factor
        self.corrected: Callable[[int], int] = int if factor == 1.0 else lambda raw: math.ceil(round(raw * factor, 3))
        """Returns a raw count with the counter's correction applied, rounded up."""
        self._known: dict[int, int] = {}
        self._held: list[Message] = []  # keeps counted messages alive, so that their id()s stay unique
        self.know(stored)

    def know(self, stored: Mapping[int, int]) -> None:
        """Add stored raw counts by the `id()` of messages that the caller keeps alive."""
        self._known.update(stored if self._factor == 1.0 else {at: self.corrected(raw) for at, raw in stored.items()})

    def message(self, message: Message) -> int:
        """Return a message's tokens; each message is counted once."""
        tokens = self._known.get(id(message))
        if tokens is None:
            raw = message_tokens(self._counter, message) if self._count is None else self._count(message)
            tokens = self._known[id(message)] = self.corrected(raw)
            self._held.append(message)
        return tokens

    def each(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of each message."""
        try:  # most messages are counted when they are stored
            return list(map(self._known.__getitem__, map(id, messages)))
        except KeyError:
            return list(map(self.message, messages))

    def messages(self, messages: Sequence[Message]) -> int:
        """Return the total tokens of some messages."""
        return sum(self.each(messages))

    def text(self, text: str) -> int:
        """Return the tokens of a text."""
        return self.corrected(self._counter.count(text)) if text else 0

    def tool(self, tool: Mapping[str, Any]) -> int:
        """Return the tokens of one tool's schema."""
        return self.corrected(tools_tokens(self._counter, [tool]))

    def schemas(self, request: Request) -> int:
        """Return the tokens of the tools and the response schema."""
        if not request.tools and not request.response_format:
            return 0
        tools = tools_tokens(self._counter, request.tools)
        return self.corrected(tools + schema_tokens(self._counter, request.response_format))


NOTHING = LeftOut(0, 0)


class RecalledLine(NamedTuple):
    """A fact, memory, artifact or message recalled for the current question."""

    id: str
    line: str
    tokens: int  # without correction
    score_parts: Mapping[str, float] = {}
    order: tuple[datetime, str, int] | None = None  # a message's time, session id, and position in the session
    trust: Trust | None = None
    source: str = ""  # of an untrusted one
    speaker: str | None = None  # the user's name in a group chat
    asked: frozenset[str] = frozenset()  # the specific terms of the question, if a message was found by words alone

    def shortened(self, line: str) -> "RecalledLine":
        """Return the item with a shorter line, and its share of the tokens."""
        return self if line == self.line else self._replace(line=line, tokens=self.tokens * len(line) // len(self.line))


RECALLED = {"memories": "memory", "artifacts": "artifact", "recalled": "fact", "messages": "recalled"}
"""The layers recalled for the current question, in the order of the prompt, with their items' kinds in the receipt."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Everything shown of a conversation except its verbatim messages; recalled lines are ordered best first."""

    facts: tuple[str, ...] = ()  # the adopted facts' lines, ids and importance (0 to 1; empty if unknown)
    fact_ids: tuple[str, ...] = ()
    narrative: str = ""  # the summary
    instructions: tuple[str, ...] = ()  # system messages of the summarised part
    recalled: tuple[RecalledLine, ...] = ()  # facts, including adopted ones
    memories: tuple[RecalledLine, ...] = ()
    artifacts: tuple[RecalledLine, ...] = ()
    messages: tuple[RecalledLine, ...] = ()
    importance: tuple[float, ...] = ()
    not_recalled: LeftOut = NOTHING  # facts that are neither adopted nor recalled
    not_narrated: LeftOut = NOTHING  # parts of the summary that did not fit
    boundary: int = 0  # the position (`seq`) of the last summarised message; 0 for none
    covered: int = 0  # the number of summarised messages
    turn: int = 0  # the position of the current user message, stored or not; 0 if unknown
    idle_note: str = ""  # how long the conversation was idle
    pins: tuple[Pin, ...] = ()  # oldest first

    @property
    def narrative_lines(self) -> tuple[str, ...]:
        """The summary's lines, oldest period first."""
        return tuple(self.narrative.splitlines())

    @property
    def recollections(self) -> dict[str, tuple[RecalledLine, ...]]:
        """Everything recalled for the question, by the names in `RECALLED`."""
        return {name: getattr(self, name) for name in RECALLED}

    @property
    def has_recollections(self) -> bool:
        """Return whether anything was recalled for the question."""
        return any(self.recollections.values())

    @property
    def recalled_lines(self) -> list[str]:
        """The lines of everything recalled for the question."""
        return [one.line for lines in self.recollections.values() for one in lines]

    def recollecting(self, count: Callable[[RecalledLine], int], room: int) -> "Layers":
        """Return the layers with the recalled items that fit: memories, artifacts, facts, then messages."""
        kept: dict[str, Any] = {}
        for name, lines in self.recollections.items():
            chosen = []
            for line in lines:
                tokens = count(line)
                if tokens <= room:
                    chosen.append(line)
                    room -= tokens
            kept[name] = tuple(chosen)
        return replace(self, **kept)

    def with_fewer_recollections(self) -> "Layers":
        """Drop a quarter of the messages or, if there are none, of the facts, artifacts or memories."""
        name, lines = next((name, lines) for name, lines in reversed(self.recollections.items()) if lines)
        fewer: dict[str, Any] = {name: lines[: len(lines) - max(len(lines) // 4, 1)]}
        return replace(self, **fewer)

    def with_fewer_facts(self) -> "Layers":
        """Return the layers without the least important quarter of the adopted facts; the earlier go first at ties."""
        weights = dict(enumerate(self.importance))
        order = sorted(range(len(self.facts)), key=lambda place: (weights.get(place, 0.0), place))
        kept = sorted(order[max(len(order) // 4, 1) :])
        return replace(
            self,
            facts=tuple(self.facts[place] for place in kept),
            fact_ids=tuple(self.fact_ids[place] for place in kept if place < len(self.fact_ids)),
            importance=tuple(self.importance[place] for place in kept if place < len(self.importance)),
        )


NO_LAYERS = Layers()

_ADOPTED = ("instructions", "pins", "facts", "narrative")
"""The layers that stay the same between adoptions; the others change each turn."""


@dataclass(frozen=True)
class Draft:
    """The content of the system message and the current user message so far; each is rendered once."""

    request: Request
    user: Message | None
    shown: Layers = NO_LAYERS
    documents: tuple[Document | ScoredDocument, ...] = ()

    @cached_property
    def system(self) -> Message | None:
        """All system text as one message, because providers merge, hoist, reject or silently drop a second one."""
        texts = [text for text in self.shown.instructions if text and not text.isspace()]
        if self._memory and (self.request.facts_role == "system" or self.user is None):
            texts.append(self._memory)
        if self.request.placement == "system" or self.user is None:
            texts += self._volatile
        return Message(Role.SYSTEM, "\n\n".join(texts), metadata={ARC_MARK: "system"}) if texts else None

    @cached_property
    def query(self) -> Message | None:
        """The user's message; content that changes each turn follows its text, so that the prefix stays cached."""
        if self.user is None:
            return None
        blocks = [self._memory] if self._memory and self.request.facts_role == "user" else []
        if self.request.placement == "user":
            blocks += self._volatile
        return _appended(self.user, "\n\n".join(blocks)) if blocks else self.user

    def showing(self, **parts: Any) -> "Draft":
        """Return the draft with these parts of `shown` replaced."""
        draft = Draft(self.request, self.user, replace(self.shown, **parts), self.documents)
        if parts.keys().isdisjoint(_ADOPTED):  # then the layers stay the same
            vars(draft)["_memory"] = self._memory
            if self.user is not None and self.request.placement == "user":
                vars(draft)["system"] = self.system
        return draft

    def tokens(self, costs: Costs) -> int:
        """Return the tokens of both messages."""
        system, query = self.system, self.query
        return (costs.message(system) if system else 0) + (costs.message(query) if query else 0)

    def recollections(self, costs: Costs) -> Callable[[], list[Item]]:
        """Return a function that makes the items recalled for the question, kind by kind."""
        shown, corrected = self.shown, costs.corrected
        recalled = {**shown.recollections, "messages": self._messages_by_time}
        note = [Item("note", shown.idle_note, tokens=costs.text(shown.idle_note))] if shown.idle_note else []
        return lambda: (
            note
            + [
                Item(
                    RECALLED[name],
                    one.line,
                    one.id,
                    corrected(one.tokens),
                    one.score_parts,
                    _day(one.order),
                    one.trust,
                    one.source,
                )
                for name, lines in recalled.items()
                for one in lines
            ]
        )

    @cached_property
    def _messages_by_time(self) -> list[RecalledLine]:
        """The recalled messages in chronological order."""
        dated = sorted([(one.order, place) for place, one in enumerate(self.shown.messages) if one.order is not None])
        undated = [one for one in self.shown.messages if one.order is None]
        return [self.shown.messages[place] for _, place in dated] + undated

    @cached_property
    def _memory(self) -> str:
        pins = render_pins([pin.line for pin in self.shown.pins]) if self.shown.pins else ""
        memory = render_memory(self.shown.facts, self.shown.narrative)
        return f"{pins}\n\n{memory}" if pins and memory else pins or memory

    @property
    def _volatile(self) -> list[str]:
        shown, blocks = self.shown, []
        if shown.idle_note:
            blocks.append(shown.idle_note)
        if shown.memories:
            blocks.append(render_memory_lines([memory.line for memory in shown.memories]))
        if shown.artifacts:
            blocks.append(render_artifacts([artifact.line for artifact in shown.artifacts]))
        if shown.recalled or shown.messages:
            said = [(_day(one.order), one.line) for one in self._messages_by_time]
            blocks.append(render_recalled([fact.line for fact in shown.recalled], said))
        if self.documents:
            blocks.append(render_documents([plain(document) for document in self.documents]))
        return blocks


def fact_items(pins: Sequence[Pin], facts: Sequence[str], fact_ids: Sequence[str]) -> list[Item]:
    """Return pins and adopted facts as items of the receipt."""
    items = [Item("pin", pin.line, pin.id) for pin in pins]
    return items + [Item("fact", line, name) for line, name in zip_longest(facts, fact_ids)]


def _day(order: tuple[datetime, str, int] | None) -> date | None:
    """Return the day of a recalled message; `None` if unknown."""
    return order[0].date() if order and order[0].year > 1 else None


def _appended(message: Message, block: str) -> Message:
    """Return the message with a block after its content, and without its `origin`, which no longer matches."""
    metadata = {**message.metadata, ARC_MARK: "context"}
    if message.content is None or isinstance(message.content, str):
        text = f"{message.content}\n\n{block}" if message.content else block
        return replace(message, content=text, metadata=metadata, origin=None)
    parts = (*message.content, ContentPart("text", text=f"\n\n{block}"))
    return replace(message, content=parts, metadata=metadata, origin=None)
