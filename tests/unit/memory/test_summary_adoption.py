"""What stands for messages: narratives as one text within its ceiling, those made from narratives marked."""

from collections.abc import Callable

from arc_common.engine.context_engine import ContextEngine
from arc_common.memory.summaries.adoption import narrated
from arc_common.messages import Message, Role
from arc_common.prompts.context import ERA_MARK
from arc_common.protocols.summaries import Segment
from arc_common.settings import ArcSettings
from arc_common.tokens.counters import HeuristicTokenCounter

COUNT: Callable[[str], int] = HeuristicTokenCounter().count
COVER = [Segment(level, n, n, f"Part {n} was agreed.", 6, "rules") for n, level in enumerate((3, 2, 1, 0))]
LINES = [f"{ERA_MARK}Part 0 was agreed.", f"{ERA_MARK}Part 1 was agreed.", "Part 2 was agreed.", "Part 3 was agreed."]


def test_what_was_made_from_narratives_is_marked() -> None:
    """Eras of every level; blocks and leaves, which were made from messages, are not."""
    assert narrated(COVER, max_tokens=1_000, count=COUNT) == ("\n".join(LINES), [])


def test_marks_count_too() -> None:
    """The text keeps within its ceiling with all that stands in it; the oldest parts leave, and eras last."""
    for dropped in range(5):
        gone = (2, 3, 0, 1)[:dropped]
        text = "\n".join(line for place, line in enumerate(LINES) if place not in gone)
        assert narrated(COVER, max_tokens=COUNT(text), count=COUNT) == (text, [COVER[place] for place in sorted(gone)])
        if text:
            assert len(narrated(COVER, max_tokens=COUNT(text) - 1, count=COUNT)[1]) == dropped + 1


def test_eras_are_marked_in_the_prompt() -> None:
    """A long conversation shows its eras' lines in front of the others, marked, and within the ceiling."""
    settings = ArcSettings(summary={"high_water_tokens": 0})
    with ContextEngine.open(settings=settings, token_counter=HeuristicTokenCounter()) as engine:
        session = engine.session("s")
        for n in range(200):
            session.append([Message(Role.USER, f"My order {n} is ORD-{n}."), Message(Role.ASSISTANT, "Noted.")])
            session.summarize()
            system = session.context("And now?").messages[0].text
    told = system.partition("Summary:\n")[2].removesuffix("\n</arc:memory>").splitlines()
    marked = [line.startswith(ERA_MARK) for line in told]
    assert marked == sorted(marked, reverse=True)
    assert any(marked)
    assert not all(marked)
    assert COUNT("\n".join(told)) <= settings.summary.max_tokens
