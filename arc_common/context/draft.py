"""The messages around the history: which block stands in which message, and what they cost so far."""

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
    """A fact, a memory, an artifact or a message for this question.

    Args:
        id: Its identity.
        line: How it is shown.
        tokens: Those of the line as counted, without correction.
        score_parts: Why it is here.
        order: For messages: when they were said, in which session, and their place in it.
    """

    id: str
    line: str
    tokens: int
    score_parts: Mapping[str, float] = {}
    order: tuple[datetime, str, int] | None = None


@dataclass(frozen=True, slots=True)
class Layers:
    """What is remembered of a conversation besides the messages shown.

    Args:
        facts: The adopted facts' lines.
        fact_ids: Their ids.
        narrative: The summary.
        instructions: System messages that summaries stand for.
        recalled: Facts for this question, best first; adopted ones too.
        memories: Long-term memories for this question, best first.
        artifacts: What tools brought, for this question, best first.
        messages: Earlier messages for this question, best first.
        importance: How much each of the adopted facts matters, from 0 to 1; none where that is not known.
        not_recalled: The facts that are neither adopted nor recalled.
        not_narrated: The summary's parts that did not fit.
        boundary: The place of the last message that all this stands for; 0 for none.
        covered: How many messages those are.
        turn: The place of the current user message, or where it will stand; 0 where that is not known.
        idle_note: A word on how long ago the conversation was last active, if that is to be said.
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
        """The summary's lines, the oldest time first."""
        return tuple(self.narrative.splitlines())

    @property
    def has_recollections(self) -> bool:
        """Whether anything comes back for this question."""
        return bool(self.memories or self.artifacts or self.recalled or self.messages)

    def recollecting(self, count: Callable[[RecalledLine], int], room: int) -> "Layers":
        """With as much of what comes back as there is room for: memories, artifacts, facts, then messages."""
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
        """Without a quarter of the messages, or where there are none, of the facts, artifacts or memories."""
        if self.messages:
            return replace(self, messages=_fewer(self.messages))
        if self.recalled:
            return replace(self, recalled=_fewer(self.recalled))
        if self.artifacts:
            return replace(self, artifacts=_fewer(self.artifacts))
        return replace(self, memories=_fewer(self.memories))

    def with_fewer_facts(self) -> "Layers":
        """Without a quarter of the adopted facts, the least important; of equal ones the earlier leave."""
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
    """The system message and the current user message, as far as they are filled."""

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
        """All system text as one message: providers merge, hoist, reject or silently drop any further one."""
        texts = [text for text in self.instructions if text.strip()]
        if self._memory and (self.request.facts_role == "system" or self.user is None):
            texts.append(self._memory)
        if self.request.placement == "system" or self.user is None:
            texts += self._volatile
        return Message(Role.SYSTEM, "\n\n".join(texts), metadata={ARC_MARK: "system"}) if texts else None

    @property
    def query(self) -> Message | None:
        """The user's message; what changes from turn to turn stands behind its text, so that all before it stays."""
        if self.user is None:
            return None
        blocks = [self._memory] if self._memory and self.request.facts_role == "user" else []
        if self.request.placement == "user":
            blocks += self._volatile
        return _appended(self.user, "\n\n".join(blocks)) if blocks else self.user

    def recalling(self, kind: RecalledKind, lines: tuple[RecalledLine, ...]) -> "Draft":
        """The draft with these lines of a kind, in the place of those that it has."""
        return replace(
            self,
            memories=lines if kind == "memories" else self.memories,
            artifacts=lines if kind == "artifacts" else self.artifacts,
            recalled=lines if kind == "recalled" else self.recalled,
            said=lines if kind == "said" else self.said,
        )

    def tokens(self, costs: Costs) -> int:
        """What both messages cost."""
        return sum(costs.message(message) for message in (self.system, self.query) if message)

    @property
    def told(self) -> list[RecalledLine]:
        """The recalled messages in the order in which they were said."""
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
    """When it was said, if that is known."""
    return one.order[0].date() if one.order and one.order[0].year > 1 else None


def _appended(message: Message, block: str) -> Message:
    """The message with a block behind its content; its exact foreign form no longer holds."""
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
