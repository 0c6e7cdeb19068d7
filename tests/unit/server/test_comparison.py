"""The common beginning of two requests, and the items of only one of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import Message, ToolCall
from arc_common.context import ContextWindow, Item, Section, receipt_of
from arc_common.server.inspector.comparison import compare, segments


def window(*messages: Message, sections: tuple[Section, ...] = (), tokens: int = 1_000) -> ContextWindow:
    return ContextWindow(messages, sections, tokens, receipt_of((), (), sections=sections, total_tokens=tokens))


SYSTEM, ASKED, SAID = (
    Message("system", "Be kind."),
    Message("user", "Where is it?"),
    Message("assistant", "On its way."),
)
BEFORE = window(SYSTEM, ASKED)


def test_a_request_that_goes_on_breaks_nowhere() -> None:
    again = compare(BEFORE, BEFORE)
    assert (again.percent, again.shared, again.place) == (100, 1_000, None)
    longer = compare(BEFORE, window(SYSTEM, ASKED, SAID, Message("user", "When does it come?")))
    assert longer.place is None
    assert 40 < longer.percent < 60


BREAKS = {
    "system prompt": (window(replace(SYSTEM, content="Be brief.")), "system", 1, "system: Be ", "kind.", "brief."),
    "a later message": (
        window(SYSTEM, replace(ASKED, content="Where is she?")),
        "user",
        2,
        "user: Where is ",
        "it?",
        "she?",
    ),
    "what followed it": (window(SYSTEM, replace(ASKED, content="Where")), "user", 2, "user: Where", " is it?", ""),
    "another speaker": (
        window(SYSTEM, replace(ASKED, name="ann")),
        "user",
        2,
        "user",
        ": Where is it?",
        " ann: Where is it?",
    ),
    "another role": (window(replace(ASKED, content="Be kind.")), "user", 1, "", "system: Be kind.", "user: Be kind."),
}


@pytest.mark.parametrize(("now", "where", "number", "shared", "before", "after"), BREAKS.values(), ids=BREAKS)
def test_the_place_where_the_beginning_ends(
    now: ContextWindow, where: str, number: int, shared: str, before: str, after: str
) -> None:
    place = compare(BEFORE, now).place
    assert place
    assert (place.where, place.number, place.shared, place.before, place.now) == (where, number, shared, before, after)


def test_what_is_shared_is_told_in_tokens() -> None:
    """Tokens are split in proportion to characters: here 16 of the system message and 15 of 19 of the question."""
    found = compare(BEFORE, window(SYSTEM, replace(ASKED, content="Where is she?"), tokens=350))
    assert (found.percent, found.shared) == (88, 310)


def test_a_changed_call_breaks_the_beginning() -> None:
    calls = [Message("assistant", None, (ToolCall("track", {"order": order}, "c"),)) for order in ("HN-1", "HN-2")]
    place = compare(window(ASKED, calls[0]), window(ASKED, calls[1])).place
    assert place
    assert (place.where, place.before) == ("assistant", '1"})')


def test_other_tools_leave_nothing_shared() -> None:
    """Providers read tools before messages."""
    with_tool = window(SYSTEM, ASKED, sections=(Section("tools", 20, 100, (Item("tool", "", "track", 20),)),))
    found = compare(with_tool, BEFORE)
    assert found.place
    assert (found.percent, found.shared, found.place.where, found.place.before, found.place.now) == (
        0,
        0,
        "tools",
        "track",
        "none",
    )


TEXTS = st.lists(st.text("ab", max_size=4), min_size=1, max_size=4)


@given(TEXTS, TEXTS)
def test_the_shared_beginning_is_the_longest(one: list[str], other: list[str]) -> None:
    before, now = (window(*[Message("user", text) for text in texts]) for texts in (one, other))
    found = compare(before, now)
    assert 0 <= found.percent <= 100
    if found.place is None:
        assert other[: len(one)] == one or one[: len(other)] == other
    else:
        at = found.place.number - 1
        assert one[:at] == other[:at]
        assert one[at] != other[at]
        assert found.place.before[:1] != found.place.now[:1]


def section(name: str, *items: Item) -> Section:
    return Section(name, sum(item.tokens or 0 for item in items), 100, items)


def test_an_item_is_the_same_in_another_section_and_with_an_id() -> None:
    """A question gets an id when stored and is history in the next turn; an edited text is another item."""
    question = Item("message", "Where is it?\n\n<arc:recalled>\nnoted\n</arc:recalled>", None, 12)
    before = window(
        ASKED, sections=(section("facts", Item("fact", "- Ann: oak", "f1", 5)), section("user_message", question))
    )
    now = window(
        ASKED,
        SAID,
        sections=(
            section("facts", Item("fact", "- Ann: ash", "f2", 5)),
            section("history", Item("message", "Where is it?", "m1", 8), Item("message", "On its way.", "m2", 7)),
        ),
        tokens=1_020,
    )
    found = compare(before, now)
    assert [(one.section, one.text, one.tokens) for one in found.added] == [
        ("facts", "Ann: ash", 5),
        ("conversation", "On its way.", 7),
    ]
    assert [one.text for one in found.removed] == ["Ann: oak"]
    assert found.sections == (
        ("facts", "facts", 5, 5),
        ("history", "conversation", 0, 15),
        ("user_message", "user message", 12, 0),
    )
    assert found.tokens == (1_000, 1_020)


def test_a_bar_is_as_long_as_its_tokens() -> None:
    """Sections follow one another; a section without its own colour has that of the others."""
    found = segments(
        window(sections=(section("facts", Item("fact", "", "f", 25)), section("reserved", Item("r", "", "r", 50)))), 100
    )
    assert [(one.name, one.title, one.start, one.width) for one in found] == [
        ("facts", "facts", 0.0, 25.0),
        ("other", "reserved", 25.0, 50.0),
    ]
    assert segments(window(), 0) == []
