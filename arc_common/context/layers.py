"""What is remembered of a conversation besides the messages that are shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from arc_common.context.context_window import LeftOut

__all__ = ["NOTHING", "NO_LAYERS", "Layers", "RecalledLine"]

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
        facts: The pinned facts' lines.
        fact_ids: Their ids.
        narrative: The summary.
        instructions: System messages that summaries stand for.
        recalled: Facts for this question, best first; pinned ones too.
        memories: Long-term memories for this question, best first.
        artifacts: What tools brought, for this question, best first.
        messages: Earlier messages for this question, best first.
        importance: How much each of the pinned facts matters, from 0 to 1; none where that is not known.
        not_recalled: The facts that are neither pinned nor recalled.
        not_narrated: The summary's parts that its ceiling left no room for.
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
        """Without a quarter of the pinned facts, the least important; of equal ones the earlier leave."""
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
