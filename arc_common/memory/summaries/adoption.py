"""What is adopted into the prompt, chosen from segments and facts that were read ahead. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

from arc_common.facts import Fact
from arc_common.memory.facts.index import FactIndex
from arc_common.memory.facts.ledger import pinned
from arc_common.memory.summaries.segments import ERA, Placed, boundary_after, shown_narratives
from arc_common.prompts import ERA_MARK
from arc_common.protocols.summaries import Segment, SessionState, View

__all__ = ["Material", "Shown", "adopted", "composed", "narrated"]

_CANDIDATES = 300
"""Facts that are looked through for the pinned ones: the most important."""
_COMPOSED = 3
"""Boundaries for which it is composed ahead."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands for the messages up to a boundary.

    Args:
        facts: The pinned facts' lines.
        fact_ids: Their ids.
        narrative: The narratives.
        unshown: How many narratives did not fit or have yet to be written again.
        unshown_tokens: Their tokens.
        stale: Whether a narrative has yet to be written again.
    """

    facts: tuple[str, ...]
    fact_ids: tuple[str, ...]
    narrative: str
    unshown: int
    unshown_tokens: int
    stale: bool


@dataclass(frozen=True, slots=True)
class Material:
    """What the views of a session can be made from, read at one moment.

    Args:
        epoch: The session's epoch then.
        facts_version: The ledger's version then.
        cover: The segments that stand for the conversation, oldest first.
        final: For each of them, whether it is as good as it will be.
        index: The facts.
        facts_tokens: The ceiling of the pinned facts.
        narrative_tokens: The ceiling of the narratives together.
        ready: What was composed ahead, by its boundary.
    """

    epoch: int
    facts_version: int
    cover: tuple[Segment, ...]
    final: tuple[bool, ...]
    index: FactIndex
    facts_tokens: int
    narrative_tokens: int
    ready: dict[int, Shown]

    def serves(self, state: SessionState, *, being_read: bool) -> bool:
        """Whether it is right for a state; while newer facts are being read, those known do."""
        return self.epoch == state.epoch and (being_read or self.facts_version == state.facts_version)

    def reach(self, verbatim: Sequence[Placed], *, boundary: int, recent: int, any_maker: bool) -> int:
        """How far it can be adopted: to the first segment that is to be written, be it by the model.

        Args:
            verbatim: The messages behind the boundary.
            boundary: How far it has come.
            recent: How many messages must stay verbatim.
            any_maker: Whether one by rules serves that a model is still to write.
        """
        ready = takewhile(
            lambda pair: pair[0].end <= boundary or (pair[0].made_by is not None and (any_maker or pair[1])),
            zip(self.cover, self.final, strict=True),
        )
        return boundary_after([one for one, _ in ready], boundary=boundary, verbatim=verbatim, recent=recent)

    def shown(self, boundary: int) -> Shown:
        """What stands for the messages up to there, composed ahead if that was foreseen."""
        return self.ready.get(boundary) or composed(self, boundary)

    def by_rules(self, *, behind: int, up_to: int) -> bool:
        """Whether a segment of this stretch was written by rules."""
        return any(segment.made_by == "rules" and behind < segment.end <= up_to for segment in self.cover)

    def composed_ahead(
        self, *, boundary: int, unhurried: Callable[[Sequence[Fact]], Sequence[Fact]] = list
    ) -> "Material":
        """With what is shown at the next boundaries there may be, for a turn only to take."""
        ends = [segment.end for segment in self.cover if segment.made_by is not None and segment.end > boundary]
        return replace(self, ready={end: composed(self, end, unhurried=unhurried) for end in ends[-_COMPOSED:]})

    def within(self, facts_tokens: int, narrative_tokens: int) -> "Material":
        """Return the material for other ceilings of facts and narratives."""
        if (facts_tokens, narrative_tokens) == (self.facts_tokens, self.narrative_tokens):
            return self
        return replace(self, facts_tokens=facts_tokens, narrative_tokens=narrative_tokens, ready={})


def composed(
    material: Material, boundary: int, *, unhurried: Callable[[Sequence[Fact]], Sequence[Fact]] = list
) -> Shown:
    """The pinned facts and the narratives that stand for the messages up to a boundary, each within its ceiling.

    Args:
        material: What it is made from.
        boundary: The place.
        unhurried: Goes through facts giving way to replies.
    """
    shown, left_out = shown_narratives(material.cover, boundary=boundary, max_tokens=material.narrative_tokens)
    narrative, dropped = narrated(shown, max_tokens=material.narrative_tokens, count=material.index.count)
    emptied = [one for one in material.cover if one.made_by is None and one.end <= boundary]
    missed = [*left_out, *dropped, *emptied]
    known = [fact for fact in list(material.index.facts.values())[:_CANDIDATES] if fact.segment <= boundary]
    facts = pinned(known, max_tokens=material.facts_tokens, count=material.index.cost, unhurried=unhurried)
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
    """The narratives as one text, and the rest, where all would not keep within the ceiling: the oldest, eras last.

    Eras' lines, which were made from narratives, are marked so; the marks and the line breaks count too.
    """
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
    """The next view of a session.

    Args:
        state: The session.
        shown: What stands for the messages up to the boundary.
        boundary: The `seq` of the last of them.
        remaining: How many messages lie behind it.
        instructions: What system messages before it say.
        correction: The token counter's.
        now: The time.
    """
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
