"""As much of a message as there is room for."""

import pytest

from arc_common import HeuristicTokenCounter
from arc_common.messages import ContentPart, Message, Origin, ToolCall
from arc_common.tokens.compression.truncation import shortened
from arc_common.tokens.counters import message_tokens

COUNTER = HeuristicTokenCounter()
TEXT = ContentPart("text", "Here is the plan of the house that we spoke about. " * 40)
PICTURE = ContentPart("image", url="https://example.org/a.png")
LETTER = ContentPart("file", name="letter.pdf", data="aGVsbG8=" * 800)


def cost(message: Message) -> int:
    """A message's tokens."""
    return message_tokens(COUNTER, message)


def shown(message: Message, room: int) -> list[tuple[str, str | None]]:
    """Types and texts of its parts, as far as they fit."""
    short = shortened(message, max_tokens=room, count=cost)
    assert short is not None
    assert cost(short) <= room
    return [(part.type, part.text) for part in short.content]


def test_what_fits_is_left_alone():
    """The same object."""
    message = Message("user", (TEXT, PICTURE))
    assert shortened(message, max_tokens=cost(message), count=cost) is message


def test_a_picture_stays_while_some_of_the_text_fits_beside_it():
    """Its text is cut."""
    parts = shown(Message("user", (PICTURE, TEXT)), 1_000)
    assert [kind for kind, _ in parts] == ["image", "text"]
    assert parts[1][1].endswith("... [truncated]")


@pytest.mark.parametrize("part", [PICTURE, LETTER], ids=["a picture", "a file"])
def test_a_picture_that_leaves_no_room_for_text_is_named(part):
    """And the text is there, whole if it fits."""
    mark = ("text", f"[cleared: {part.type}]")
    short = ContentPart("text", "Is this right?")
    assert shown(Message("user", (part, short)), 100) == [mark, ("text", "Is this right?")]
    parts = shown(Message("user", (TEXT, part), id="m", origin=Origin("langchain", "{}")), 100)
    assert parts[0][1].endswith("... [truncated]")


def test_a_message_that_is_only_a_picture_says_so():
    """The turn behind it makes sense."""
    assert shown(Message("user", (PICTURE,)), 20) == [("text", "[cleared: image]")]


def test_calls_are_never_taken_out():
    """What cannot be cut does not fit."""
    call = ToolCall("write", {"text": "word " * 500}, id="c")
    assert shortened(Message("assistant", "Done.", tool_calls=(call,)), max_tokens=100, count=cost) is None
    assert shortened(Message("assistant", None, tool_calls=(call,)), max_tokens=100, count=cost) is None
