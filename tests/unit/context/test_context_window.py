"""The values of a context window, apart from how they are shown."""

import json
from copy import deepcopy

import pytest

from arc_common.context import ContextWindow, Item, MessageItems, Omission, Receipt, Section
from arc_common.messages import Message, Role

SAID = (Message(Role.USER, "hello", id="m0"), Message(Role.ASSISTANT, "hi", id="m1"))
ITEMS = (Item("message", "hello", "m0", 3), Item("message", "hi", "m1", 2))


def test_messages_as_items_are_like_a_tuple_of_items():
    items = MessageItems(SAID, [3, 2])

    assert (len(items), items[1], items[-2:], tuple(items)) == (2, ITEMS[1], ITEMS, ITEMS)
    assert items == ITEMS
    assert items == MessageItems(SAID, [3, 2])
    assert items != MessageItems(SAID, [3, 1])
    assert repr(items) == repr(ITEMS)
    assert deepcopy(items) == items
    assert Section("history", 5, 9, items) == Section("history", 5, 9, ITEMS)
    assert Section("history", 5, 9, ITEMS) == Section("history", 5, 9, items)


def test_the_items_of_messages_are_the_same_objects_each_time():
    """What shows a window finds the message of an item by the item itself."""
    items = MessageItems(SAID, [3, 2])

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
    """Nothing of what anybody said: windows end up in logs."""
    total = sum(section.tokens for section in sections)

    window = ContextWindow(messages, sections, total, Receipt((), input_tokens=4_000))

    assert repr(window) == f"<ContextWindow {shown}>"


def test_a_receipts_lines_tell_documents_from_what_was_recalled():
    """Each with its section and with what was left out of it."""
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
