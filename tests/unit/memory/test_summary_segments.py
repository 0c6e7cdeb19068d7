"""Segments: boundaries at turns, merging into blocks and eras, and the boundary of the verbatim part."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.engine.context_engine import ContextEngine
from arc_common.memory.summaries.adoption import boundary_after, narrated, shown_narratives
from arc_common.memory.summaries.trigger import (
    BLOCK_LEAVES,
    ERA_BLOCKS,
    Plan,
    first_to_stay,
    next_block,
    next_era,
    next_leaf,
)
from arc_common.messages import Message, Role
from arc_common.prompts.context import ERA_MARK
from arc_common.protocols.summaries import Outline, Segment
from arc_common.settings import ArcSettings
from arc_common.tokens.counters import HeuristicTokenCounter

SIZE, MOST, RECENT = 16, 2_000, 10

roles = st.sampled_from([Role.USER, Role.ASSISTANT, Role.ASSISTANT, Role.TOOL, Role.SYSTEM])
talks = st.lists(st.tuples(roles, st.integers(0, 900)), max_size=120).map(
    lambda drawn: [Outline(place, role, tokens) for place, (role, tokens) in enumerate(drawn, start=1)]
)


def leaf(start: int, end: int, *, level: int = 0, tokens: int = 10, parts: int = 0, narrative: str = "n") -> Segment:
    return Segment(level, start, end, narrative, tokens, "rules", parts=parts)


def row(*levels: int, tokens: int = 10) -> list[Segment]:
    """Return consecutive segments of these levels, of ten places each; eras of level 2 are full."""
    return [
        leaf(1 + 10 * n, 10 + 10 * n, level=level, tokens=tokens, parts=ERA_BLOCKS if level == 2 else 4)
        for n, level in enumerate(levels)
    ]


def due(
    talk: Sequence[Outline], *, size: int = SIZE, room: int = 10_000, recent: int = RECENT, shown: int = 10_000
) -> Plan | None:
    return next_leaf(talk, room=room, full=MOST, recent=recent, size=size, shown=shown)


def leaves_of(talk: Sequence[Outline], *, size: int = SIZE) -> list[Plan]:
    """Return all leaves that can be planned, in order."""
    plans: list[Plan] = []
    last = 0
    while (plan := due([line for line in talk if line.seq > last], size=size)) is not None:
        plans.append(plan)
        last = plan.end
    return plans


def chat(messages: int, *, tokens: int = 40) -> list[Outline]:
    speakers = (Role.ASSISTANT, Role.USER)
    return [Outline(place, speakers[place % 2], tokens) for place in range(1, messages + 1)]


# Leaves


def test_a_leaf_ends_with_the_turn_that_fills_it() -> None:
    """The first sixteen messages become a leaf when the next turn begins."""
    assert due(chat(16)) is None
    assert due(chat(17)) == Plan(0, 1, 16)
    assert due(chat(18), size=15) == Plan(0, 1, 16)


def test_a_leaf_is_all_but_the_recent_messages() -> None:
    """The first forty of fifty messages of 40 tokens, 2,000 in all, are a leaf; with forty-nine there is none."""
    assert due(chat(49), size=99) is None
    assert due(chat(50), size=99) == Plan(0, 1, 40)
    assert due(chat(51), size=99) == Plan(0, 1, 40)


def test_a_leaf_of_long_messages_ends_earlier() -> None:
    """With 110 tokens a message, a leaf is due when half of 2,000 may leave; with 700, after two turns."""
    assert due(chat(19, tokens=110), size=99) is None
    assert due(chat(20, tokens=110), size=99) == Plan(0, 1, 10)
    assert due(chat(5, tokens=700)) == Plan(0, 1, 4)
    assert due(chat(30, tokens=700)) == Plan(0, 1, 4)


def test_a_leaf_is_due_where_there_is_no_room_for_more() -> None:
    """With 1,200 tokens it is due at thirty messages of 40; with less, once sixteen may leave."""
    assert due(chat(29), size=99, room=1_200) is None
    assert due(chat(30), size=99, room=1_200) == Plan(0, 1, 20)
    for room in (0, 100, 1_000):
        assert due(chat(25), size=99, room=room) is None
        assert due(chat(26), size=99, room=room) == Plan(0, 1, 16)


def test_a_leaf_is_due_where_there_is_no_room_for_the_recent_messages() -> None:
    """Ten messages of 300 tokens exceed 2,000: the part that half of these can't show is a leaf."""
    assert due(chat(6, tokens=300), room=1_800, shown=2_000) is None
    assert due(chat(7, tokens=300), room=1_800, shown=2_000) == Plan(0, 1, 4)
    assert due(chat(9, tokens=300), room=1_800, shown=2_000) == Plan(0, 1, 4)


@pytest.mark.parametrize(
    ("costs", "shown", "leave"),
    [([], 0, 0), ([5], 20, 0), ([5, 5, 5], 20, 1), ([5, 4, 3], 12, 2), ([5, 5, 5], 8, 3)],
    ids=["nothing", "fewer", "as many as should", "as many as half holds", "one is too long"],
)
def test_the_recent_messages_stay_where_there_is_room_for_them(costs: list[int], shown: int, leave: int) -> None:
    assert first_to_stay([0, *accumulate(costs)], recent=2, shown=shown) == leave


@given(talks, talks, st.integers(0, 20), st.integers(0, 4_000))
def test_a_leaf_is_the_same_whenever_it_is_planned(
    talk: list[Outline], further: list[Outline], recent: int, room: int
) -> None:
    longer = [*talk, *(replace(line, seq=line.seq + len(talk)) for line in further)]
    plan = due(talk, size=64, room=room, recent=recent, shown=room)
    assert plan in (None, due(longer, size=64, room=room, recent=recent, shown=room))


def test_nothing_to_plan() -> None:
    assert due([]) is None
    endless = [Outline(1, Role.USER, 5), *(Outline(place, Role.TOOL, 500) for place in range(2, 99))]
    assert due(endless) is None


@given(talks, talks)
def test_more_messages_change_no_earlier_leaf(talk: list[Outline], further: list[Outline]) -> None:
    longer = [*talk, *(replace(line, seq=line.seq + len(talk)) for line in further)]
    before = leaves_of(talk)
    assert leaves_of(longer)[: len(before)] == before


@given(talks)
def test_leaves_are_whole_turns(talk: list[Outline]) -> None:
    """They follow each other without a gap, and each but the first begins with a user message."""
    by_place = {line.seq: line for line in talk}
    end = 0
    for plan in leaves_of(talk):
        assert plan.start == end + 1
        assert plan.start == 1 or by_place[plan.start].role is Role.USER
        assert by_place[plan.end + 1].role is Role.USER
        leaf_tokens = sum(by_place[p].tokens for p in range(plan.start, plan.end + 1))
        assert plan.end - plan.start + 1 >= SIZE or 2 * leaf_tokens >= MOST
        end = plan.end


# Blocks and eras


@pytest.mark.parametrize(
    ("levels", "boundary", "expected"),
    [
        pytest.param((0, 0, 0, 0, 0), 50, Plan(1, 1, 40), id="the first four"),
        pytest.param((1, 0, 0, 0, 0), 50, Plan(1, 11, 50), id="behind a block"),
        pytest.param((0, 0, 0), 30, None, id="three only"),
        pytest.param((0, 0, 0, 0), 39, None, id="the fourth is not adopted"),
        pytest.param((1, 0, 0, 1, 0), 50, Plan(1, 11, 30), id="what a removal left between blocks"),
        pytest.param((0, 0, 2, 1, 0, 0), 60, Plan(1, 1, 20), id="what a removal left before an era"),
        pytest.param((0, 0, 0, 0, 1), 50, Plan(1, 1, 40), id="a block that fell apart"),
        pytest.param((), 50, None, id="nothing"),
    ],
)
def test_blocks(levels: tuple[int, ...], boundary: int, expected: Plan | None) -> None:
    """A block has four consecutive adopted leaves, or fewer if something other than a leaf follows."""
    assert next_block(row(*levels), boundary=boundary) == expected


@pytest.mark.parametrize(
    ("cover", "expected"),
    [
        pytest.param(row(1, 1, 0), None, id="within the ceiling"),
        pytest.param(row(1, 1, 0, tokens=50), (2, [0]), id="all blocks but the newest"),
        pytest.param(row(1, 0, 0, tokens=50), None, id="the newest block stays"),
        pytest.param(row(2, 1, 1, 0, tokens=50), (2, [1]), id="a full era does not grow"),
        pytest.param([replace(row(2)[0], parts=3), *row(1, 1, 1, 0, tokens=50)[1:]], (2, [0, 1]), id="an era grows"),
        pytest.param(row(2, 2, 2, 2, 1), (3, [0, 1, 2, 3]), id="four eras become one"),
        pytest.param(row(3, 2, 2, 2, 1), None, id="three don't"),
        pytest.param(row(3, 3, 3, 3, 2), (4, [0, 1, 2, 3]), id="four higher ones too"),
        pytest.param([*row(2, 2, 2), replace(row(2, 2, 2, 2)[3], parts=9), *row(2, 2, 2, 2, 1)[4:]], None, id="open"),
        pytest.param(row(2, 2, 1, 2, 2), None, id="not in a row"),
        pytest.param(row(2, 1, 1, 2, 1, tokens=50), (2, [1, 2]), id="blocks of an era that fell apart"),
    ],
)
def test_eras(cover: list[Segment], expected: tuple[int, list[int]] | None) -> None:
    """Four consecutive closed eras become one; else, if narratives are too long, the oldest blocks go into an era."""
    plan = next_era(cover, max_tokens=100)
    if expected is None:
        assert plan is None
        return
    level, places = expected
    parts = tuple(cover[place] for place in places)
    assert plan == Plan(level, parts[0].start, parts[-1].end, parts)


@given(st.lists(st.tuples(st.sampled_from([0, 0, 1, 1, 1, 2, 2, 3]), st.integers(1, 64)), max_size=40))
def test_merged_segments_are_consecutive(drawn: list[tuple[int, int]]) -> None:
    """After any edits, a plan takes consecutive segments of the cover, in order."""
    cover = [leaf(1 + 10 * n, 10 + 10 * n, level=level, parts=parts) for n, (level, parts) in enumerate(drawn)]
    block, era = next_block(cover, boundary=10 * len(cover)), next_era(cover, max_tokens=0)
    for plan in (block, era):
        if plan is not None:
            within = [segment for segment in cover if plan.start <= segment.start and segment.end <= plan.end]
            assert (within[0].start, within[-1].end) == (plan.start, plan.end)
            assert plan.level == 1 or tuple(within) == plan.parts
            assert {segment.level for segment in within} <= {plan.level - 1, plan.level}


def test_at_a_hundred_thousand_messages() -> None:
    """Few segments cover them, their text passes through at most four steps, and it is written quickly."""
    adopted: list[Segment] = []
    depth: dict[tuple[int, int], int] = {}
    blocks_of: dict[int, list[Segment]] = {}
    read_by_eras = 0
    most_shown = longest = 0
    for start in range(1, 100_001, 16):
        adopted.append(leaf(start, start + 15, tokens=60))
        boundary = adopted[-1].end
        while (plan := next_block(adopted, boundary=boundary)) is not None:
            inside = [segment for segment in adopted if plan.start <= segment.start <= plan.end]
            assert len(inside) == BLOCK_LEAVES
            place = adopted.index(inside[0])
            adopted[place : place + BLOCK_LEAVES] = [leaf(plan.start, plan.end, level=1, tokens=80)]
        while (plan := next_era(adopted, max_tokens=500)) is not None:
            parts = [below for part in plan.parts for below in blocks_of.get(part.start, [part])]
            if plan.level == 2:
                blocks_of[plan.start] = parts = [
                    below for part in plan.parts for below in (blocks_of[part.start] if part.level == 2 else [part])
                ]
            else:
                parts = list(plan.parts)
            read_by_eras += sum(part.tokens for part in parts)
            depth[plan.level, plan.start] = 1 + max(depth.get((part.level, part.start), 0) for part in parts)
            place = adopted.index(plan.parts[0])
            adopted[place : place + len(plan.parts)] = [
                leaf(plan.start, plan.end, level=plan.level, tokens=120, parts=len(parts))
            ]
        shown, _ = shown_narratives(adopted, boundary=boundary, max_tokens=500)
        most_shown = max(most_shown, sum(segment.tokens for segment in shown))
        longest = max(longest, len(adopted))
    assert most_shown <= 500
    assert longest <= 16
    assert max(depth.values()) <= 4
    assert read_by_eras <= 100_000 * 40


# The boundary


def test_the_boundary_moves_by_whole_segments() -> None:
    """It keeps at least the recent messages verbatim and stops before a segment that is not ready."""
    cover = [leaf(1, 10), leaf(11, 26), leaf(27, 42)]
    for messages, expected in ((19, 0), (20, 10), (35, 10), (36, 26), (60, 42)):
        assert boundary_after(cover, boundary=0, verbatim=chat(messages), recent=10) == expected
    assert boundary_after(cover[:1], boundary=0, verbatim=chat(60), recent=10) == 10
    assert boundary_after([cover[0], cover[2]], boundary=0, verbatim=chat(60), recent=10) == 10
    assert boundary_after(cover, boundary=26, verbatim=chat(60)[26:], recent=10) == 42
    assert boundary_after(cover, boundary=26, verbatim=chat(60)[26:51], recent=10) == 26
    assert boundary_after(cover, boundary=0, verbatim=chat(60), recent=0) == 42
    assert boundary_after(cover, boundary=0, verbatim=chat(60), recent=61) == 0


def test_the_boundary_passes_over_what_is_no_longer_there() -> None:
    """A leaf whose messages all left by a cap does not stop it; messages without a leaf do."""
    verbatim = chat(60)[20:]
    assert boundary_after([leaf(1, 10), leaf(11, 26)], boundary=0, verbatim=verbatim, recent=10) == 26
    assert boundary_after([leaf(1, 10), leaf(23, 26)], boundary=0, verbatim=verbatim, recent=10) == 10


@given(talks, st.integers(0, 30), st.randoms(use_true_random=False), st.booleans())
def test_every_message_is_there_exactly_once(talk: list[Outline], recent: int, chance: Random, capped: bool) -> None:
    """In any order of completion, each message is either verbatim or covered by one segment."""
    plans = leaves_of(talk)
    order = list(plans)
    chance.shuffle(order)
    there = talk[len(talk) // 3 :] if capped else talk
    done: list[Plan] = []
    boundary = 0
    for plan in order:
        done.append(plan)
        cover = sorted((leaf(one.start, one.end) for one in done), key=lambda segment: segment.start)
        verbatim = [line for line in there if line.seq > boundary]
        moved = boundary_after(cover, boundary=boundary, verbatim=verbatim, recent=recent)
        assert moved >= boundary
        boundary = moved
        behind = [line.seq for line in there if line.seq > boundary]
        stood_for = [line.seq for line in there for s in cover if s.start <= line.seq <= s.end <= boundary]
        assert sorted(stood_for + behind) == [line.seq for line in there]
        assert len(behind) >= min(recent, len(there))


# Shown narratives


def test_the_newest_narratives_are_shown() -> None:
    """Narratives up to the boundary are shown in order; if not all fit, the oldest are left out."""
    cover = [leaf(1, 10, level=1), leaf(11, 20), leaf(21, 30), leaf(31, 40)]
    assert shown_narratives(cover, boundary=30, max_tokens=30) == (cover[:3], [])
    assert shown_narratives(cover, boundary=30, max_tokens=29) == (cover[1:3], cover[:1])
    assert shown_narratives(cover, boundary=30, max_tokens=0) == ([], cover[:3])
    assert shown_narratives([leaf(1, 5, narrative="")], boundary=9, max_tokens=30) == ([], [])


def test_eras_are_shown_before_the_newest() -> None:
    """They cover the most messages; an adoption of many leaves at once used to omit them for good."""
    cover = [leaf(1, 640, level=2, tokens=12), leaf(641, 700, level=1), *(leaf(n, n + 9) for n in range(701, 791, 10))]
    shown, left_out = shown_narratives(cover, boundary=790, max_tokens=50)
    assert shown == [cover[0], *cover[-3:]]
    assert left_out == cover[1:-3]


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(0, 600), st.integers(0, 300))
def test_narratives_keep_within_their_ceiling(sizes: list[int], most: int, boundary: int) -> None:
    cover = [leaf(1 + 10 * n, 10 + 10 * n, tokens=tokens) for n, tokens in enumerate(sizes)]
    shown, left_out = shown_narratives(cover, boundary=boundary, max_tokens=most)
    assert sum(segment.tokens for segment in shown) <= most
    assert sorted([*shown, *left_out], key=lambda s: s.start) == [s for s in cover if s.end <= boundary]


COUNT: Callable[[str], int] = HeuristicTokenCounter().count
COVER = [Segment(level, n, n, f"Part {n} was agreed.", 6, "rules") for n, level in enumerate((3, 2, 1, 0))]
LINES = [f"{ERA_MARK}Part 0 was agreed.", f"{ERA_MARK}Part 1 was agreed.", "Part 2 was agreed.", "Part 3 was agreed."]


def test_what_was_made_from_narratives_is_marked() -> None:
    """Eras of every level are; blocks and leaves, which come from messages, are not."""
    assert narrated(COVER, max_tokens=1_000, count=COUNT) == ("\n".join(LINES), [])


def test_marks_count_too() -> None:
    """The text with all its marks stays within its limit; the oldest parts leave first, and eras last."""
    for dropped in range(5):
        gone = (2, 3, 0, 1)[:dropped]
        text = "\n".join(line for place, line in enumerate(LINES) if place not in gone)
        assert narrated(COVER, max_tokens=COUNT(text), count=COUNT) == (text, [COVER[place] for place in sorted(gone)])
        if text:
            assert len(narrated(COVER, max_tokens=COUNT(text) - 1, count=COUNT)[1]) == dropped + 1


def test_excerpts_of_eras_stand_among_the_others_by_day() -> None:
    """They are verbatim, so they are shown by day like any others, without a mark."""
    settings = ArcSettings(summary={"high_water_tokens": 0, "max_tokens": 300})
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    with ContextEngine.open(settings=settings, token_counter=HeuristicTokenCounter()) as engine:
        session = engine.session("s")
        for n in range(120):
            at = start + timedelta(days=n)
            asked = Message(Role.USER, f"The gardener of house {n} waters roses.", created_at=at)
            session.append([asked, Message(Role.ASSISTANT, "Noted.", created_at=at)])
            session.summarize()
            system = session.context("And now?").messages[0].text
    told = system.partition("Summary:\n")[2].removesuffix("\n</arc:memory>")
    days = re.findall(r"^\[(.+)\]$", told, re.MULTILINE)
    assert days == sorted(set(days))
    assert days[0] < "2026-04"
    assert ERA_MARK.rstrip() not in told
    assert COUNT(told.partition("\n")[2]) <= settings.summary.max_tokens
