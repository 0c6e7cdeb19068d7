"""Permitted places to cut texts and messages."""

import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from arc_common import HeuristicTokenCounter
from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message, Origin, ToolCall
from arc_common.text.sentences import is_border
from arc_common.tokens.compression import truncated
from arc_common.tokens.compression.truncation import MARKER, CuttableText, longest_head, shortened
from arc_common.tokens.counters import message_tokens
from tests.support.broken_conversations import SENTENCES

CLUSTERS = regex.compile(r"\X")  # extended grapheme clusters; regex is a dependency of tiktoken

PIECES = [
    *("a", " ", "\n", "\r\n", "\r", "0", "가", "각", "\u1100", "\u1161", "\u11a8", "中", "が", "か\u3099", "ｶﾞ"),
    *(
        "e\u0301",
        "\u0301",
        "\u200d",
        "\u200c",
        "\ufe0f",
        "👩",
        "👩‍👩‍👧",
        "👍🏽",
        "🏽",
        "🇩🇪",
        "🇫",
        "1️⃣",
        "🏴\U000e0067\U000e007f",
    ),
    *(
        "क",
        "\u094d",
        "ष",
        "\u093c",
        "क्षि",
        "ক\u09cd",
        "กำ",
        "ກຳ",
        "\u0600",
        "\u0e33",
        "\u0d4e",
        "\ud83d",
        "\ude00",
        "\x00",
    ),
]
texts = st.lists(st.sampled_from([*PIECES, *SENTENCES]), max_size=14).map("".join)
fenced = st.lists(
    st.sampled_from(
        ["```", "```py", "````", "~~~", "  ```", "x = 1", "print('a long line of code')", "words", "", "`x`"]
    ),
    max_size=16,
).map("\n".join)


def whole_characters(text: str) -> set[int]:
    """Return the places where the Unicode algorithm permits a cut."""
    return {0, len(text)} | {match.end() for match in CLUSTERS.finditer(text)}


@given(texts)
def test_no_border_is_within_a_character(text):
    for position in range(len(text) + 1):
        if is_border(text, position):
            assert position in whole_characters(text)
            assert not (
                "\ud800" <= text[position - 1 : position] <= "\udbff" and "\udc00" <= text[position:] < "\ue000"
            )


def test_no_border_is_within_a_pair_of_any_two_characters():
    alike = ((0x3410, 0x4DB0), (0x4E10, 0x9FF0), (0xAC10, 0xD7A0), (0x17010, 0x18CD0), (0x20010, 0x323A0))
    for code in range(0x80, 0x110000):
        character = chr(code)
        if unicodedata.category(character) in ("Cn", "Co") or any(first < code < last for first, last in alike):
            continue
        for other in ("a", "👩", "क", "\u1100", "가"):
            for pair in (character + other, other + character):
                if is_border(pair, 1):
                    assert len(CLUSTERS.findall(pair)) == 2, ascii(pair)


def test_ordinary_text_may_be_cut_between_any_two_characters():
    """Text without joined characters can be cut anywhere."""
    for text in ("plain words, 123", "안녕하세요", "订单星期一到", "注文は月曜日", "Заказ придёт", "שלום", "👍👎🎉"):
        assert all(is_border(text, position) for position in range(len(text)))


@given(texts, st.integers(0, 200))
def test_a_head_is_a_beginning_and_short_enough(text, most):
    """It is the text up to a boundary plus the marker, within the limit."""
    head = CuttableText(text).head(most)
    if head is None:
        return
    assert len(head) <= most
    assert head.endswith(MARKER)
    kept = head.removesuffix(MARKER)
    assert text.startswith(kept)
    assert kept.strip()
    assert any(text[:end].rstrip() == kept for end in whole_characters(text))


@given(fenced, st.integers(16, 200))
def test_a_head_leaves_no_fence_open(text, most):
    head = CuttableText(text).head(most)
    if head is None:
        return
    assert len(head) <= most
    assert open_fence(head.removesuffix(MARKER)) is None


def open_fence(text: str) -> str | None:
    """Return the marks of the code fence open at the end of a text, found line by line."""
    marks: str | None = None
    for line in text.split("\n"):
        stripped = line.strip()
        for sign in "`~":
            run = len(stripped) - len(stripped.lstrip(sign))
            rest = stripped[run:]
            if run < 3:
                continue
            if marks is None and not (sign == "`" and "`" in rest):
                marks = sign * run
            elif marks is not None and marks[0] == sign and run >= len(marks) and not rest:
                marks = None
    return marks


HEADS = [
    ("one two three four", 28, "one two three... [truncated]"),
    ("订单星期一到，请准备好", 20, "订单星期一... [truncated]"),
    ("OK 订单星期一到，请准备好", 20, "OK 订单... [truncated]"),
    ("คำสั่งซื้อจะมาถึงวันจันทร์", 23, "คำสั่ง... [truncated]"),
    ("👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", 28, "👩‍👩‍👧👩‍👩‍👧... [truncated]"),
    ("See:\n```py\nx = 1\ny = 2\nz = 3\n```\nand so on", 40, "See:\n```py\nx = 1\n```\n... [truncated]"),
    ("See:\n```python\nx = 1\n```\n", 24, "See:... [truncated]"),
    ("```\nx = 1\n" + "`" * 200 + "\nmore", 120, "```\nx = 1\n```\n... [truncated]"),
    ("a" * 30, 15, None),
    ("   \n\n  " * 10, 40, None),
]


def test_a_head_ends_behind_a_word_and_closes_its_fence():
    """Scripts without spaces are cut between characters; there is no head without space or with only code."""
    for text, most, head in HEADS:
        assert CuttableText(text).head(most) == head, text


def test_a_head_of_a_huge_text_of_marks_takes_no_time():
    """A million combining marks are one character, which can't be cut."""
    assert CuttableText("e" + "\u0301" * 1_000_000).head(5_000) is None


def test_the_head_of_a_message_keeps_everything_else():
    """Calls, id, name and metadata stay; the foreign form, which has the whole text, is removed."""
    call = ToolCall("write", {"text": "x" * 9_000}, id="c")
    message = Message(
        "assistant", "word " * 2_000, tool_calls=(call,), id="m", metadata={"a": 1}, origin=Origin("langchain", "{}")
    )
    short = truncated(message, max_characters=100)
    assert short.content == "word " * 16 + "word... [truncated]"
    assert (short.tool_calls, short.id, short.metadata, short.origin) == ((call,), "m", {"a": 1}, None)
    assert truncated(message, max_characters=10_000) is message


def test_text_parts_behind_the_cut_go_and_pictures_stay():
    picture = ContentPart("image", url="https://example.org/a.png")
    message = Message(
        "user",
        (ContentPart("text", "short"), ContentPart("text", "long " * 50), picture, ContentPart("text", "the end")),
    )
    short = truncated(message, max_characters=60)
    assert short.content == (ContentPart("text", "short"), ContentPart("text", "long " * 7 + "long" + MARKER), picture)
    assert len(short.text) <= 60


def test_the_marker_has_its_room_also_where_a_part_ends():
    message = Message("user", (ContentPart("text", "x" * 50), ContentPart("text", "y" * 50)))
    assert [truncated(message, max_characters=n).text for n in (60, 65)] == ["x" * 45 + MARKER, "x" * 50 + MARKER]


def tokens(message: Message) -> int:
    return 4 + len(message.text.encode(errors="surrogatepass")) // 4


@given(
    st.lists(st.sampled_from(SENTENCES), min_size=30, max_size=400).map(" ".join),
    st.integers(30, 2_000),
    st.booleans(),
)
def test_a_head_fills_the_tokens_it_is_given(text, budget, as_parts):
    counts: list[int] = []

    def count(message: Message) -> int:
        counts.append(len(message.text))
        return tokens(message)

    message = Message("user", (ContentPart("text", text),) if as_parts else text)
    short = truncated(message, max_tokens=budget, count=count)
    if tokens(message) <= budget:
        assert short is message
    elif short is not None:
        assert 0.9 * budget - 10 <= tokens(short) <= budget
        assert max(counts[1:]) <= 2 * len(short.text) + 200
    else:
        assert budget < 60
    assert len(counts) <= 2 * len(text).bit_length()


def test_no_head_worth_keeping():
    """A head of fewer than some sixteen characters is useless, and a call that is too large leaves no space."""
    assert truncated(Message("user", "word " * 100), max_tokens=10, count=tokens) is None
    assert truncated(Message("user", None), max_tokens=3, count=tokens) is None
    assert truncated(Message("user", "word " * 100), max_tokens=50, count=lambda _: 51) is None


def test_both_limits_hold_together():
    message = Message("user", "word " * 1_000)
    assert len(truncated(message, max_characters=400, max_tokens=10_000, count=tokens).text) <= 400
    assert tokens(truncated(message, max_characters=4_000, max_tokens=100, count=tokens)) <= 100


def test_wrong_limits_are_refused():
    cases = [
        ({}, "max_tokens"),
        ({"max_tokens": 3}, "count"),
        ({"max_tokens": -1, "count": tokens}, "max_tokens"),
        ({"max_characters": 2.5}, "max_characters"),
    ]
    for limits, field in cases:
        with pytest.raises(InvalidInputError, match=field):
            truncated(Message("user", "hello"), **limits)


def test_the_longest_head_of_a_text():
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    assert longest_head(text, lambda head: True) is text
    assert longest_head(text, lambda head: False) is None
    assert longest_head(text * 9, lambda head: len(head) <= 100).endswith(MARKER)


COUNTER = HeuristicTokenCounter()
TEXT = ContentPart("text", "Here is the plan of the house that we spoke about. " * 40)
PICTURE = ContentPart("image", url="https://example.org/a.png")
LETTER = ContentPart("file", name="letter.pdf", data="aGVsbG8=" * 800)


def cost(message: Message) -> int:
    """Return a message's tokens."""
    return message_tokens(COUNTER, message)


def shown(message: Message, room: int) -> list[tuple[str, str | None]]:
    """Return types and texts of the parts that fit."""
    short = shortened(message, max_tokens=room, count=cost)
    assert short is not None
    assert cost(short) <= room
    return [(part.type, part.text) for part in short.content]


def test_what_fits_is_left_alone():
    message = Message("user", (TEXT, PICTURE))
    assert shortened(message, max_tokens=cost(message), count=cost) is message


def test_a_picture_stays_while_some_of_the_text_fits_beside_it():
    parts = shown(Message("user", (PICTURE, TEXT)), 1_000)
    assert [kind for kind, _ in parts] == ["image", "text"]
    assert parts[1][1].endswith("... [truncated]")


@pytest.mark.parametrize("part", [PICTURE, LETTER], ids=["a picture", "a file"])
def test_a_picture_that_leaves_no_room_for_text_is_named(part):
    mark = ("text", f"[cleared: {part.type}]")
    short = ContentPart("text", "Is this right?")
    assert shown(Message("user", (part, short)), 100) == [mark, ("text", "Is this right?")]
    parts = shown(Message("user", (TEXT, part), id="m", origin=Origin("langchain", "{}")), 100)
    assert parts[0][1].endswith("... [truncated]")


def test_a_message_that_is_only_a_picture_says_so():
    assert shown(Message("user", (PICTURE,)), 20) == [("text", "[cleared: image]")]


def test_calls_are_never_taken_out():
    call = ToolCall("write", {"text": "word " * 500}, id="c")
    assert shortened(Message("assistant", "Done.", tool_calls=(call,)), max_tokens=100, count=cost) is None
    assert shortened(Message("assistant", None, tool_calls=(call,)), max_tokens=100, count=cost) is None
