"""Decides which part of a conversation is summarised next. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from arc_common.messages import Role
from arc_common.protocols.summaries import Outline, Segment

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
