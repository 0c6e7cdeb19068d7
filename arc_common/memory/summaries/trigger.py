"""Decides when summaries start: which segment is written next, and when a turn adopts the written ones. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from arc_common.messages import Role
from arc_common.protocols import StoredMessage
from arc_common.protocols.summaries import Outline, Segment, SessionState

if TYPE_CHECKING:
    from arc_common.settings.groups import SummarySettings

ERA = 2
"""The lowest level of an era."""
BLOCK_LEAVES = 4
"""Leaves in a block."""
ERA_BLOCKS = 64
"""Blocks in an era of the lowest level."""
ERA_ERAS = 4
"""Eras in an era of a higher level."""
EVERY = 2**31 - 1
"""Asks a store for all of a conversation's outlines."""
_WORTH_A_CALL = 16
"""The least messages in a leaf worth a model call, unless they are long."""
_FULL = 0.9
"""Start a leaf once messages fill this share of their room; the rest holds the turns said during a model call."""
_BY_NUMBER = 16
"""The most messages in a leaf where their number, not their tokens, limits the verbatim part."""

MOST_VERBATIM = 512
"""The most messages shown verbatim for lack of a summary, where there is room. Adding one to a request takes about
2 µs, so these slow a turn by a millisecond; if the model is further behind, the rules write the summaries."""
BACKLOG = 2
"""A turn does not wait for the model if more than this many times its room waits to be summarised."""
_WORTH_A_PREFIX = 2 / 3
"""The share of the verbatim tokens that an early adoption must free. Otherwise it waits for the limit, because it
invalidates the provider's cached prefix after the system prompt."""

Line = StoredMessage | Outline
"""A message that is not summarised yet."""


def is_long_enough(message_count: int, settings: "SummarySettings") -> bool:
    """Return whether a session with this many messages is summarised."""
    return message_count > settings.trigger_message_count


def is_summarised(state: SessionState, settings: "SummarySettings") -> bool:
    """Return whether a session is long enough for summaries, or has adopted one."""
    return state.view is not None or is_long_enough(state.message_count, settings)


def token_limit(settings: "SummarySettings", room: int) -> int:
    """Return the most tokens that verbatim messages may take."""
    return room if settings.trigger_tokens is None else min(room, settings.trigger_tokens)


def fits(verbatim: Sequence[Line], *, limit: int, behind: int = 0) -> bool:
    """Return whether the messages behind a place can all be shown."""
    costs = [line.tokens for line in verbatim if line.seq > behind]
    return len(costs) <= MOST_VERBATIM and sum(costs) <= limit


def least_to_free(state: SessionState, settings: "SummarySettings", *, tokens: int, soft: int) -> int | None:
    """Return the tokens that an adoption must free while all messages fit; `None` if no adoption is due."""
    view, count = state.view, len(state.messages)
    if view is None:
        is_due = is_long_enough(count, settings)
    else:
        was_cut = count > 0 and state.messages[-1].seq - view.boundary > count  # by `max_messages_per_session`
        is_due = was_cut or (count > settings.high_water_mark and tokens > settings.high_water_tokens)
    if is_due:
        return 0
    return int(_WORTH_A_PREFIX * tokens) if tokens > soft else None


def leaf_size(settings: "SummarySettings", *, room: int, is_first: bool) -> tuple[int, int]:
    """Return the tokens at which a leaf starts, and the most messages in it, given the room for messages."""
    by_number = settings.high_water_tokens < settings.leaf_tokens
    most = min(settings.leaf_messages, _BY_NUMBER) if by_number else settings.leaf_messages
    if is_first:  # the first adoption, just above the trigger, must leave the recent messages
        most = min(most, max(1, settings.trigger_message_count - settings.recent_message_count))
    return int(_FULL * token_limit(settings, room)), most


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


def rest_leaf(messages: Sequence[Outline], *, recent: int) -> Plan | None:
    """Return one leaf of the messages after the last one, except the newest `recent` and the running turn."""
    last = max(len(messages) - recent, 0)
    border = max((i for i, one in enumerate(messages[: last + 1]) if one.role is Role.USER), default=0)
    return Plan(0, messages[0].seq, messages[border - 1].seq) if border else None


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
