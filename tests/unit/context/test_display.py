"""A context window's values, and what is shown of them: safe, short, and by those who said it."""

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.context import ContextWindow, Item, Omission, Receipt, Section
from arc_common.context.display import (
    about,
    excerpt,
    messages_by_item,
    said,
    shown_items,
    visible,
)
from arc_common.context.receipt import message_items
from arc_common.messages import Message, Role, ToolCall
from arc_common.prompts.context import longest_share
from tests.support.context_windows import SCRIPTS, window_of, window_saying

every_character = st.text(st.characters())


@given(every_character)
def test_nothing_visible_acts(text):
    """Only line ends and tabs stay of all that a terminal or a page would obey."""
    shown = visible(text)
    shown.encode()
    acting = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029]
    assert not {*map(ord, shown)} & {*acting} - {*map(ord, "\t\n")}
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "␛[31m"),
        ("a\x00b\x7f", "a␀b␡"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("\x9b2J", "�2J"),
        ("\u202egnp.exe", "�gnp.exe"),
        ("hi\U000e0068\U000e0069", "hi��"),
        ("\ud83d", "�"),
        (SCRIPTS, SCRIPTS),
    ],
    ids=["escape", "controls", "line ends", "C1", "override", "tags", "half a pair", "scripts"],
)
def test_what_acts_is_seen(text, shown):
    assert visible(text) == shown


@given(every_character, st.integers(1, 50))
def test_an_excerpt_keeps_within_its_length(text, most):
    shown = excerpt(text, most)
    assert len(shown) <= most
    assert len(text) > most or shown == visible(text)


@given(st.lists(st.integers(0, 1_000), max_size=30), st.integers(0, 5_000))
def test_shares_are_even_and_none_is_wasted(lengths, total):
    """Together within the total; one more each would be too much, if any text is cut at all."""
    share = longest_share(lengths, total)
    assert sum(min(length, share) for length in lengths) <= total
    if any(length > share for length in lengths):
        assert sum(min(length, share + 1) for length in lengths) > total


@pytest.mark.parametrize(("name", "expected"), [("documents", ("a", "b")), ("history", ("c", "d"))])
def test_what_matters_most_is_shown(name, expected):
    shown, others = shown_items(Section(name, 1, 1, tuple(Item("x", text) for text in "abcd")), 2)
    assert tuple(item.text for item in shown) == expected
    assert others == 2


def test_messages_are_found_for_their_items():
    window = window_saying("look")
    found = messages_by_item(window)
    items = {section.name: section.items for section in window.sections}
    assert [found[id(item)].role for item in items["history"]] == ["user", "assistant", "tool"]
    assert [found[id(item)].role for item in (*items["user_message"], *items["current_turn"])] == ["user", "assistant"]
    assert about(items["history"][0], found[id(items["history"][0])]) == "user · look · look"
    assert said(items["history"][1], found[id(items["history"][1])]) == 'look\n→ look({"look": "look"})\n→ look(look)'
    assert said(items["history"][2], found[id(items["history"][2])]) == "look\n[image]"
    assert said(items["current_turn"][0], found[id(items["current_turn"][0])]) == "→ look({})"


def test_a_window_made_by_others_has_items_alone():
    window = window_of(["a", "b"], input_tokens=100)
    strange = type(window)(window.messages[1:], window.sections, window.total_tokens, window.receipt)
    assert messages_by_item(strange) == {}
    assert about(window.sections[0].items[0]) == "message · m0"


def test_a_calls_arguments_may_hold_anything():
    call = Message("assistant", None, tool_calls=(ToolCall("f", {"n": {1}}),))
    assert said(Item("message", ""), call) == '→ f({"n": "{1}"})'


SAID = (Message(Role.USER, "hello", id="m0"), Message(Role.ASSISTANT, "hi", id="m1"))
ITEMS = (Item("message", "hello", "m0", 3), Item("message", "hi", "m1", 2))


def test_messages_as_items_are_like_a_tuple_of_items():
    items = message_items(SAID, [3, 2])

    assert (len(items), items[1], items[-2:], tuple(items)) == (2, ITEMS[1], ITEMS, ITEMS)
    assert items == ITEMS
    assert items == message_items(SAID, [3, 2])
    assert items != message_items(SAID, [3, 1])
    assert repr(items) == repr(ITEMS)
    assert deepcopy(items) == items
    assert Section("history", 5, 9, items) == Section("history", 5, 9, ITEMS)
    assert Section("history", 5, 9, ITEMS) == Section("history", 5, 9, items)


def test_the_items_of_messages_are_the_same_objects_each_time():
    items = message_items(SAID, [3, 2])

    assert items[0] is items[0] is next(iter(items))


@pytest.mark.parametrize(
    ("messages", "sections", "shown"),
    [
        (
            SAID,
            (Section("system", 0, 9), Section("history", 1_500, 9)),
            "1,500 of 4,000 tokens, 2 messages: history 1,500",
        ),
        (
            SAID[:1],
            (Section("user_message", 3, 9), Section("facts", 7, 9)),
            "10 of 4,000 tokens, 1 message: user_message 3, facts 7",
        ),
        ((), (), "0 of 4,000 tokens, 0 messages: nothing"),
    ],
    ids=["two", "one", "none"],
)
def test_a_window_says_on_one_line_what_it_takes(messages, sections, shown):
    total = sum(section.tokens for section in sections)

    window = ContextWindow(messages, sections, total, Receipt((), input_tokens=4_000))

    assert repr(window) == f"<ContextWindow {shown}>"


def test_a_receipts_lines_tell_documents_from_what_was_recalled():
    kinds = ("message", "document", "fact", "memory", "artifact", "recalled")
    sections = (
        Section("documents", 9, 9),
        Section("recalled", 7, 8, (Item("recalled", "secret", "m", 5, {"bm25": 0.5}),)),
    )
    receipt = Receipt((), tuple(Omission(kind, kind, 3, "no room for it") for kind in kinds), sections=sections)

    documents, recalled = (json.loads(line.split(maxsplit=2)[2]) for line in receipt.sse_lines()[1:])

    whole = receipt.to_dict()
    assert documents == {"sections": whole["sections"][:1], "nearest": whole["nearest"][1:2]}
    assert recalled == {"sections": whole["sections"][1:], "nearest": whole["nearest"][2:]}
    assert [item["id"] for item in recalled["sections"][0]["items"]] == ["m"]
