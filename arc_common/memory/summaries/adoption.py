"""Chooses what the prompt adopts, from segments and facts that were read ahead. Pure."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate, groupby, takewhile
from typing import Protocol

from arc_common.memory.facts.index import FactIndex
from arc_common.memory.facts.ledger import adopted_facts
from arc_common.messages import Role
from arc_common.prompts import ERA_MARK
from arc_common.protocols.summaries import Outline, Segment, SessionState, View

ERA = 2
"""The lowest level of an era."""
BLOCK_LEAVES = 4
"""Leaves in a block."""
ERA_BLOCKS = 64
"""Blocks in an era of the lowest level."""
ERA_ERAS = 4
"""Eras in an era of a higher level."""
_WORTH_A_CALL = 16
"""The least messages in a leaf worth a model call, unless they are long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A span to be summarised; for eras, with the segments that it includes."""

    level: int
    start: int
    end: int
    parts: tuple[Segment, ...] = ()


def first_to_stay(before: Sequence[int], *, recent: int, shown: int) -> int:
    """Return how many messages may leave the verbatim part: all but the last `recent`, or more if those are long."""
    return max(0, len(before) - 1 - recent, bisect_left(before, before[-1] - shown // 2))


def next_leaf(
    messages: Sequence[Outline], *, room: int, full: int, recent: int, size: int, shown: int, by_rules: bool = False
) -> Plan | None:
    """Return the next leaf among the messages after the last one, if it is complete."""
    before = [0, *accumulate(message.tokens for message in messages)]
    borders = [index for index, message in enumerate(messages) if index and message.role is Role.USER]
    for index, message in enumerate(messages):
        if index and message.role is Role.USER and (index >= size or before[index] >= full):
            return Plan(0, messages[0].seq, messages[index - 1].seq)
        if not borders or borders[0] > index or before[index + 1] < min(room, full):
            continue
        further = min(index, first_to_stay(before[: index + 2], recent=recent, shown=shown))
        passed = bisect_right(borders, further)
        border = borders[passed - 1] if passed else 0
        worth = border >= _WORTH_A_CALL or 2 * before[border] >= full or (by_rules and before[index + 1] >= shown)
        if border and worth:
            return Plan(0, messages[0].seq, messages[border - 1].seq)
    return None


def next_block(cover: Sequence[Segment], *, boundary: int) -> Plan | None:
    """Return the next block up to the boundary: four adjacent leaves, or fewer before another block or era."""
    behind = [segment for segment in cover if segment.end <= boundary]
    for level, run in _runs(behind):
        leaves = run[:BLOCK_LEAVES]
        if level == 0 and (len(leaves) == BLOCK_LEAVES or leaves[-1] is not behind[-1]):
            return Plan(1, leaves[0].start, leaves[-1].end)
    return None


def next_era(cover: Sequence[Segment], *, max_tokens: int) -> Plan | None:
    """Plan the next era so that narratives fit: merge four closed eras, or the oldest blocks with the era before."""
    runs = _runs(cover)
    newest_era = max((segment.start for segment in cover if segment.level >= ERA), default=0)
    for level, run in sorted(runs, key=lambda pair: pair[0]):
        if level >= ERA:
            closed = [era for era in run if level > 2 or era.parts >= ERA_BLOCKS or era.start < newest_era][:ERA_ERAS]
            if len(closed) == ERA_ERAS:
                return Plan(level + 1, closed[0].start, closed[-1].end, tuple(closed))
    if sum(segment.tokens for segment in cover) <= max_tokens:
        return None
    newest_block = max((segment.start for segment in cover if segment.level == 1), default=0)
    before: Segment | None = None
    for level, run in runs:
        blocks = [block for block in run if block.start < newest_block] if level == 1 else []
        if blocks:
            growing = (before,) if before and before.level == 2 and before.parts < ERA_BLOCKS else ()
            room = ERA_BLOCKS - sum(era.parts for era in growing)
            parts = (*growing, *blocks[:room])
            return Plan(2, parts[0].start, parts[-1].end, parts)
        before = run[-1]
    return None


def _runs(cover: Sequence[Segment]) -> list[tuple[int, list[Segment]]]:
    """Group adjacent segments of the same level, in order."""
    return [(level, list(run)) for level, run in groupby(cover, key=lambda segment: segment.level)]


class Placed(Protocol):
    """A message's place."""

    @property
    def seq(self) -> int:
        """The place."""


def boundary_after(cover: Sequence[Segment], *, boundary: int, verbatim: Sequence[Placed], recent: int) -> int:
    """Return how far summaries may replace messages: the `seq` of the last message that leaves the verbatim part."""
    further = [segment for segment in cover if segment.end > boundary]
    if len(verbatim) <= recent or not further:
        return boundary
    latest = verbatim[-recent].seq if recent else verbatim[-1].seq + 1
    following = deque(message.seq for message in verbatim)
    for segment in further:
        if segment.end < following[0]:  # all its messages were removed
            boundary = segment.end
            continue
        if segment.start > following[0] or segment.end >= latest:
            break
        boundary = segment.end
        while following and following[0] <= boundary:
            following.popleft()
        if not following:
            break
    return boundary


def shown_narratives(
    cover: Sequence[Segment], *, boundary: int, max_tokens: int
) -> tuple[list[Segment], list[Segment]]:
    """Return the narratives up to the boundary that fit, oldest first, and those that do not."""
    told = [segment for segment in cover if segment.end <= boundary and segment.narrative]
    shown: list[Segment] = []
    total = 0
    for segment in sorted(told, key=lambda one: (one.level < ERA, -one.start)):
        if total + segment.tokens <= max_tokens:
            shown.append(segment)
            total += segment.tokens
    kept = {segment.start for segment in shown}
    left_out = sorted((segment for segment in told if segment.start not in kept), key=lambda one: one.start)
    return sorted(shown, key=lambda one: one.start), left_out


_CANDIDATES = 300
"""The most facts considered for adoption, the most important first."""
_COMPOSED = 3
"""The number of boundaries for which material is composed ahead."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The facts and narrative that replace the messages up to a boundary."""

    facts: tuple[str, ...]
    fact_ids: tuple[str, ...]
    narrative: str
    unshown: int
    unshown_tokens: int
    stale: bool


@dataclass(frozen=True, slots=True)
class Material:
    """The input for a session's views, read at one moment."""

    epoch: int
    facts_version: int
    cover: tuple[Segment, ...]
    final: tuple[bool, ...]
    index: FactIndex
    facts_tokens: int
    narrative_tokens: int
    ready: dict[int, Shown]

    def serves(self, state: SessionState, *, being_read: bool) -> bool:
        """Return whether this is current for a state; while newer facts are being read, the known ones do."""
        return self.epoch == state.epoch and (being_read or self.facts_version == state.facts_version)

    def reach(self, verbatim: Sequence[Placed], *, boundary: int, recent: int, any_maker: bool) -> int:
        """Return how far this can be adopted: up to the first unwritten (or, unless `any_maker`, not final) segment."""
        ready = takewhile(
            lambda pair: pair[0].end <= boundary or (pair[0].made_by is not None and (any_maker or pair[1])),
            zip(self.cover, self.final, strict=True),
        )
        return boundary_after([one for one, _ in ready], boundary=boundary, verbatim=verbatim, recent=recent)

    def shown(self, boundary: int) -> Shown:
        """Return the facts and narrative for a boundary, composed ahead if possible."""
        return self.ready.get(boundary) or composed(self, boundary)

    def by_rules(self, *, behind: int, up_to: int) -> bool:
        """Return whether a segment that ends in this span was written by rules."""
        return any(segment.made_by == "rules" and behind < segment.end <= up_to for segment in self.cover)

    def composed_ahead(self, *, boundary: int) -> "Material":
        """Return the material with the contents for its last boundaries composed ahead of the turns."""
        ends = [segment.end for segment in self.cover if segment.made_by is not None and segment.end > boundary]
        return replace(self, ready={end: composed(self, end) for end in ends[-_COMPOSED:]})

    def within(self, facts_tokens: int, narrative_tokens: int) -> "Material":
        """Return the material for other limits of facts and narratives."""
        if (facts_tokens, narrative_tokens) == (self.facts_tokens, self.narrative_tokens):
            return self
        return replace(self, facts_tokens=facts_tokens, narrative_tokens=narrative_tokens, ready={})


def composed(material: Material, boundary: int) -> Shown:
    """Compose the facts and narrative that replace the messages up to a boundary, each within its limit."""
    shown, left_out = shown_narratives(material.cover, boundary=boundary, max_tokens=material.narrative_tokens)
    narrative, dropped = narrated(shown, max_tokens=material.narrative_tokens, count=material.index.count)
    emptied = [one for one in material.cover if one.made_by is None and one.end <= boundary]
    missed = [*left_out, *dropped, *emptied]
    known = [fact for fact in list(material.index.facts.values())[:_CANDIDATES] if fact.segment <= boundary]
    facts = adopted_facts(known, max_tokens=material.facts_tokens, count=material.index.cost)
    return Shown(
        facts=tuple(fact.line for fact in facts),
        fact_ids=tuple(fact.id for fact in facts),
        narrative=narrative,
        unshown=len(missed),
        unshown_tokens=sum(segment.tokens for segment in missed),
        stale=bool(emptied),
    )


def narrated(
    shown: Sequence[Segment], *, max_tokens: int, count: Callable[[str], int]
) -> tuple[str, Sequence[Segment]]:
    """Join the narratives, and return those dropped to keep within the limit: the oldest first, eras last."""
    lines = {one.start: f"{ERA_MARK}{one.narrative}" if one.level >= ERA else one.narrative for one in shown}
    dropped: list[Segment] = []
    for one in sorted(shown, key=lambda one: (one.level >= ERA, one.start)):
        if count("\n".join(lines.values())) <= max_tokens:
            break
        del lines[one.start]
        dropped.append(one)
    return "\n".join(lines.values()), sorted(dropped, key=lambda one: one.start)


def adopted(
    state: SessionState,
    shown: Shown,
    *,
    boundary: int,
    remaining: int,
    instructions: tuple[str, ...],
    correction: float,
    now: datetime,
) -> View:
    """Return the next view of a session."""
    return View(
        version=state.view.version + 1 if state.view else 1,
        boundary=boundary,
        covered=state.message_count - remaining,
        facts=shown.facts,
        fact_ids=shown.fact_ids,
        narrative=shown.narrative,
        instructions=instructions,
        correction=correction,
        adopted_at=now,
        stale=shown.stale,
        unshown=shown.unshown,
        unshown_tokens=shown.unshown_tokens,
    )
