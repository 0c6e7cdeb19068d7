"""Renders the system message and the current user message, and places each block in one of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import zip_longest
from typing import Literal, NamedTuple

from arc_common.context.receipt import Item, LeftOut
from arc_common.context.request import Costs, Request, plain
from arc_common.documents import Document, ScoredDocument
from arc_common.messages import ARC_MARK, ContentPart, Message, Role
from arc_common.prompts import render_artifacts, render_documents, render_memory, render_memory_lines, render_recalled

NOTHING = LeftOut(0, 0)


class RecalledLine(NamedTuple):
    """A fact, memory, artifact or message recalled for the current question.

    Args:
        id: The item's id.
        line: The rendered line.
        tokens: The line's tokens, without correction.
        score_parts: The scores by which the item was chosen.
        order: For messages: the time, the session's id, and the position in the session.
    """

    id: str
    line: str
    tokens: int
    score_parts: Mapping[str, float] = {}
    order: tuple[datetime, str, int] | None = None


@dataclass(frozen=True, slots=True)
class Layers:
    """The memory layers of a conversation: everything shown of it besides its verbatim messages.

    Args:
        facts: The adopted facts' lines.
        fact_ids: The adopted facts' ids.
        narrative: The summary.
        instructions: System messages of the summarised part.
        recalled: Facts recalled for the question, best first, including adopted ones.
        memories: Long-term memories recalled for the question, best first.
        artifacts: Tool snippets recalled for the question, best first.
        messages: Earlier messages recalled for the question, best first.
        importance: The adopted facts' importance, from 0 to 1; empty if unknown.
        not_recalled: The facts that are neither adopted nor recalled.
        not_narrated: The summary's parts that did not fit.
        boundary: The position (`seq`) of the last summarised message; 0 for none.
        covered: The number of summarised messages.
        turn: The position of the current user message, stored or not; 0 if unknown.
        idle_note: A note on how long the conversation was idle; `""` for none.
    """

    facts: tuple[str, ...] = ()
    fact_ids: tuple[str, ...] = ()
    narrative: str = ""
    instructions: tuple[str, ...] = ()
    recalled: tuple[RecalledLine, ...] = ()
    memories: tuple[RecalledLine, ...] = ()
    artifacts: tuple[RecalledLine, ...] = ()
    messages: tuple[RecalledLine, ...] = ()
    importance: tuple[float, ...] = ()
    not_recalled: LeftOut = NOTHING
    not_narrated: LeftOut = NOTHING
    boundary: int = 0
    covered: int = 0
    turn: int = 0
    idle_note: str = ""

    @property
    def narrative_lines(self) -> tuple[str, ...]:
        """The summary's lines, oldest period first."""
        return tuple(self.narrative.splitlines())

    @property
    def has_recollections(self) -> bool:
        """Return whether anything was recalled for the question."""
        return bool(self.memories or self.artifacts or self.recalled or self.messages)

    def recollecting(self, count: Callable[[RecalledLine], int], room: int) -> "Layers":
        """Return the layers with the recalled items that fit: memories, artifacts, facts, then messages."""
        kept: list[tuple[RecalledLine, ...]] = []
        for lines in (self.memories, self.artifacts, self.recalled, self.messages):
            chosen = []
            for line in lines:
                tokens = count(line)
                if tokens <= room:
                    chosen.append(line)
                    room -= tokens
            kept.append(tuple(chosen))
        memories, artifacts, recalled, messages = kept
        return replace(self, memories=memories, artifacts=artifacts, recalled=recalled, messages=messages)

    def with_fewer_recollections(self) -> "Layers":
        """Drop a quarter of the messages or, if there are none, of the facts, artifacts or memories."""
        if self.messages:
            return replace(self, messages=_fewer(self.messages))
        if self.recalled:
            return replace(self, recalled=_fewer(self.recalled))
        if self.artifacts:
            return replace(self, artifacts=_fewer(self.artifacts))
        return replace(self, memories=_fewer(self.memories))

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


def _fewer(lines: tuple[RecalledLine, ...]) -> tuple[RecalledLine, ...]:
    return lines[: len(lines) - max(len(lines) // 4, 1)]


NO_LAYERS = Layers()


RecalledKind = Literal["memories", "artifacts", "recalled", "said"]


@dataclass(frozen=True, slots=True)
class Draft:
    """The content of the system message and the current user message so far."""

    request: Request
    user: Message | None
    instructions: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    narrative: tuple[str, ...] = ()
    idle_note: str = ""
    memories: tuple[RecalledLine, ...] = ()
    artifacts: tuple[RecalledLine, ...] = ()
    recalled: tuple[RecalledLine, ...] = ()
    said: tuple[RecalledLine, ...] = ()
    documents: tuple[Document | ScoredDocument, ...] = ()

    @property
    def system(self) -> Message | None:
        """All system text as one message, because providers merge, hoist, reject or silently drop a second one."""
        texts = [text for text in self.instructions if text.strip()]
        if self._memory and (self.request.facts_role == "system" or self.user is None):
            texts.append(self._memory)
        if self.request.placement == "system" or self.user is None:
            texts += self._volatile
        return Message(Role.SYSTEM, "\n\n".join(texts), metadata={ARC_MARK: "system"}) if texts else None

    @property
    def query(self) -> Message | None:
        """The user's message; content that changes each turn follows its text, so that the prefix stays cached."""
        if self.user is None:
            return None
        blocks = [self._memory] if self._memory and self.request.facts_role == "user" else []
        if self.request.placement == "user":
            blocks += self._volatile
        return _appended(self.user, "\n\n".join(blocks)) if blocks else self.user

    def recalling(self, kind: RecalledKind, lines: tuple[RecalledLine, ...]) -> "Draft":
        """Return the draft with its lines of this kind replaced."""
        return replace(
            self,
            memories=lines if kind == "memories" else self.memories,
            artifacts=lines if kind == "artifacts" else self.artifacts,
            recalled=lines if kind == "recalled" else self.recalled,
            said=lines if kind == "said" else self.said,
        )

    def tokens(self, costs: Costs) -> int:
        """Return the tokens of both messages."""
        return sum(costs.message(message) for message in (self.system, self.query) if message)

    @property
    def told(self) -> list[RecalledLine]:
        """The recalled messages in chronological order."""
        return sorted(self.said, key=lambda one: (one.order is None, one.order))

    def recollections(self, costs: Costs) -> list[Item]:
        """Return the blocks recalled for the question as items, in the order of the prompt."""
        note = [Item("note", self.idle_note, tokens=costs.text(self.idle_note))] if self.idle_note else []
        return note + [
            Item(kind, one.line, one.id, costs.corrected(one.tokens), one.score_parts, day_of(one))
            for kind, lines in (
                ("memory", self.memories),
                ("artifact", self.artifacts),
                ("fact", self.recalled),
                ("recalled", self.told),
            )
            for one in lines
        ]

    @property
    def _memory(self) -> str:
        return render_memory(self.facts, "\n".join(self.narrative))

    @property
    def _volatile(self) -> list[str]:
        blocks = (
            self.idle_note,
            render_memory_lines([memory.line for memory in self.memories]),
            render_artifacts([artifact.line for artifact in self.artifacts]),
            render_recalled(
                [fact.line for fact in self.recalled],
                [(day_of(one), one.line) for one in self.told],
            ),
            render_documents([plain(document) for document in self.documents]),
        )
        return [block for block in blocks if block]


def fact_items(layers: Layers) -> list[Item]:
    """Return the adopted facts as items."""
    return [Item("fact", line, name) for line, name in zip_longest(layers.facts, layers.fact_ids)]


def day_of(one: RecalledLine) -> date | None:
    """Return the day of a recalled message; `None` if unknown."""
    return one.order[0].date() if one.order and one.order[0].year > 1 else None


def _appended(message: Message, block: str) -> Message:
    """Return the message with a block after its content, and without its `origin`, which no longer matches."""
    metadata = {**message.metadata, ARC_MARK: "context"}
    if message.content is None or isinstance(message.content, str):
        text = f"{message.content}\n\n{block}" if message.content else block
        return replace(message, content=text, metadata=metadata, origin=None)
    parts = (*message.content, ContentPart("text", text=f"\n\n{block}"))
    return replace(message, content=parts, metadata=metadata, origin=None)


def memory_message(layers: Layers, *, max_tokens: int, costs: Costs) -> tuple[Message | None, list[Item]]:
    """Return older instructions, facts and summary as one leading system message, and its items."""
    narrative = layers.narrative_lines
    while True:
        draft = Draft(
            Request(),
            None,
            layers.instructions,
            facts=layers.facts,
            narrative=narrative,
            idle_note=layers.idle_note,
            memories=layers.memories,
            artifacts=layers.artifacts,
            recalled=layers.recalled,
            said=layers.messages,
        )
        message = draft.system
        if message is None:
            return None, []
        message = replace(message, metadata={ARC_MARK: "memory"})
        if costs.message(message) <= max_tokens:
            lines = [Item("summary", line) for line in narrative]
            return message, [*fact_items(layers), *lines, *draft.recollections(costs)]
        if layers.idle_note:
            layers = replace(layers, idle_note="")
        elif not (layers.facts or narrative or layers.has_recollections):
            return message, []
        elif layers.has_recollections:
            layers = layers.with_fewer_recollections()
        elif narrative:
            narrative = narrative[1:]
        else:
            layers = layers.with_fewer_facts()
