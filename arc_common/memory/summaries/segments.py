"""Which stretches of a conversation are summarised together, and which of the summaries stand for it. Pure.

Level 0 is a leaf: some 2,000 tokens of messages on turn borders, from which it is written. Level 1 is a block: four
leaves. Level 2 is an era, written from the narratives of up to 64 blocks; level 3 and above from four eras of the level
below. A stretch is named by its level and the places (`seq`) of its first and last message.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Protocol

from arc_common.messages import Role
from arc_common.protocols.summaries import Outline, Segment

__all__ = [
    "BLOCK_LEAVES",
    "ERA",
    "ERA_BLOCKS",
    "ERA_ERAS",
    "Plan",
    "boundary_after",
    "first_to_stay",
    "next_block",
    "next_era",
    "next_leaf",
    "shown_narratives",
]

ERA = 2
"""The lowest level of an era."""
BLOCK_LEAVES = 4
"""Leaves in a block."""
ERA_BLOCKS = 64
"""Blocks in an era of the lowest level."""
ERA_ERAS = 4
"""Eras in an era of a higher level."""
_WORTH_A_CALL = 16
"""Messages: a leaf of fewer waits for more to be read with it, unless they are long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A stretch that is to be summarised; for eras with the segments that it takes in."""

    level: int
    start: int
    end: int
    parts: tuple[Segment, ...] = ()


def first_to_stay(before: Sequence[int], *, recent: int, shown: int) -> int:
    """How many messages may leave the verbatim part: all but the last `recent`.

    Where these take more than half of what a request can show, all but as many as take half: else what it cannot show
    beside them would be in no summary either, until there is enough of it for one.

    Args:
        before: The tokens in front of each message, oldest first, and those of all of them.
        recent: How many should stay.
        shown: The tokens that a request can show of them.
    """
    return max(0, len(before) - 1 - recent, bisect_left(before, before[-1] - shown // 2))


def next_leaf(
    messages: Sequence[Outline], *, room: int, full: int, recent: int, size: int, shown: int, by_rules: bool = False
) -> Plan | None:
    """The first leaf among the messages behind the last leaf, if it is complete.

    - It is complete when these messages fill the room, or `full` tokens: then it is what may leave the verbatim part,
      all but the last `recent` of them (see `first_to_stay`), so that each adoption frees as much as one can. Not
      before that is worth a call: 16 messages, or half of `full`. By rules, which cost none, as soon as not all of the
      messages can be shown.
    - Before that with the turn in which it reaches `size` messages, or `full` tokens by itself.
    - It ends before a user message. Its end depends on the messages that were there when it was complete, never on when
      it is planned.
    - It begins with a user message, unless that was removed before the leaf was planned: then with what is left of the
      turn, so that each message is in one.
    """
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
    """The first four leaves in a row, up to the boundary, that are in no block yet.

    Fewer when a block or era follows them: they are what a removal left of a block.
    """
    behind = [segment for segment in cover if segment.end <= boundary]
    for level, run in _runs(behind):
        leaves = run[:BLOCK_LEAVES]
        if level == 0 and (len(leaves) == BLOCK_LEAVES or leaves[-1] is not behind[-1]):
            return Plan(1, leaves[0].start, leaves[-1].end)
    return None


def next_era(cover: Sequence[Segment], *, max_tokens: int) -> Plan | None:
    """What to fold so that narratives fit: four closed eras into one, or the oldest blocks into the era before them.

    The newest block stays on its own. An era is written anew, from its blocks' narratives and the added ones, until it
    has 64 blocks or another follows it: then it is closed.

    Args:
        cover: The segments that stand for the conversation, oldest first.
        max_tokens: What their narratives may cost together.
    """
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
    """The segments of one level that stand next to each other, with their level, in order."""
    return [(level, list(run)) for level, run in groupby(cover, key=lambda segment: segment.level)]


class Placed(Protocol):
    """A message with its place."""

    @property
    def seq(self) -> int:
        """The place."""


def boundary_after(cover: Sequence[Segment], *, boundary: int, verbatim: Sequence[Placed], recent: int) -> int:
    """How far summaries may take the place of messages: the `seq` of the last message that leaves the verbatim part.

    Moves by whole segments, passes over no message that is in none, and leaves at least `recent` messages verbatim.

    Args:
        cover: The segments that are ready, oldest first.
        boundary: How far it has come; 0 at first.
        verbatim: The messages behind it.
        recent: How many of them must stay.
    """
    further = [segment for segment in cover if segment.end > boundary]
    if len(verbatim) <= recent or not further:
        return boundary
    latest = verbatim[-recent].seq if recent else verbatim[-1].seq + 1
    following = deque(message.seq for message in verbatim)
    for segment in further:
        if segment.end < following[0]:  # all of its messages are gone
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
    """The narratives up to the boundary that fit, oldest first, and those that don't.

    When there is not room for all, eras come first, which stand for the most, and of the others the newest.
    """
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
