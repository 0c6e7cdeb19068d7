"""Everything in a request is counted: texts, fixed costs of images and audio, framing, tools and schemas."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message, ToolCall
from arc_common.tokens.calibration import CalibratedTokenCounter
from arc_common.tokens.counters import (
    REQUEST_OVERHEAD,
    TiktokenCounter,
    message_tokens,
    message_tokens_batch,
    schema_tokens,
    tools_tokens,
)

EXACT = TiktokenCounter("o200k_base")


class CharacterCounter:
    """Counts characters as tokens and records its calls."""

    name = "characters"

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def count(self, text: str) -> int:
        """Return the length."""
        return len(text)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the lengths."""
        self.batches.append(list(texts))
        return [len(text) for text in texts]


PICTURE = base64.b64encode(bytes(range(256)) * 40).decode()
SOUND = base64.b64encode(bytes(16_000)).decode()


def part(kind: str, **fields: Any) -> Message:
    return Message("user", (ContentPart(kind, **fields),))


def test_each_part_costs_what_it_should() -> None:
    """Each kind of part adds exactly its text or fixed cost to the framing of four."""
    calls = Message("assistant", None, tool_calls=(ToolCall("find", {"q": "é"}, id="c1"),))
    bare_calls = Message("assistant", "", tool_calls=(ToolCall("f", "{broken"), ToolCall("g")))
    texts = Message("user", (ContentPart("text", text="ab"), ContentPart("thinking", text="cde")))
    cases = [
        (Message("user", None), 0),
        (Message("user", ""), 0),
        (Message("user", "12345"), 5),
        (Message("user", "12345", name="ann"), 5 + 3 + 1),
        (Message("tool", "ok", tool_call_id="call_1"), 2 + 6),
        (calls, 3 + 4 + len('{"q": "é"}') + 2),
        (bare_calls, (3 + 1 + 7) + (3 + 1 + 2)),
        (texts, 5),
        (part("image", url="https://a.b/c.png"), 765),
        (part("image", data=PICTURE, extra={"detail": "low"}), 85),
        (part("image", data=PICTURE), 765),
        (part("audio", data=SOUND), 11),
        (part("audio", url="https://a.b/c.mp3"), 600),
        (part("file", data=PICTURE, mime_type="application/pdf", name="a.pdf"), 5 + 321),
        (part("file", data=PICTURE, mime_type="text/csv"), 2561),
        (part("file", url="https://a.b/c.pdf"), 2_000),
        (part("opaque", name="x", extra={"a": [1, "b"]}), len('{"a":[1,"b"]}')),
        (part("opaque", extra={"data": PICTURE}), len('{"data":""}') + 321),
    ]
    for message, tokens in cases:
        assert message_tokens(CharacterCounter(), message) == 4 + tokens, message


def test_base64_is_never_counted_as_text() -> None:
    """No counter ever gets the bytes of images, audio and files."""
    counter = CharacterCounter()
    parts = (
        *(ContentPart(kind, data=PICTURE, mime_type="application/octet-stream") for kind in ("image", "audio", "file")),
        ContentPart("opaque", extra={"deep": [{"blob": PICTURE}], "raw": bytes(5_000)}),
    )
    message_tokens(counter, Message("user", parts))
    assert max(len(text) for batch in counter.batches for text in batch) < 150


@given(
    st.lists(
        st.builds(
            Message,
            st.sampled_from(["user", "assistant", "tool", "system"]),
            st.none() | st.text(max_size=20),
            tool_calls=st.lists(
                st.builds(ToolCall, st.text(max_size=5), st.dictionaries(st.text(max_size=3), st.integers())),
                max_size=3,
            ).map(tuple),
            name=st.none() | st.text(max_size=5),
        ),
        max_size=6,
    )
)
def test_a_batch_is_its_messages_and_one_call(messages: list[Message]) -> None:
    """The sum equals that of single messages, with one call of the counter."""
    counter = CharacterCounter()
    batch = message_tokens_batch(counter, messages)
    assert len(counter.batches) == 1
    assert batch == [message_tokens(counter, message) for message in messages]
    assert all(tokens >= 4 for tokens in batch)


@given(st.text(max_size=10), st.text(max_size=10))
def test_any_unicode_counts(text: str, key: str) -> None:
    """Names, arguments and content may hold any characters, lone surrogates included."""
    call = ToolCall("f\ud800", {key + "\ud800": text + "\0\udfff"})
    assert message_tokens(CalibratedTokenCounter(), Message("assistant", text + "\ud800", tool_calls=(call,))) > 4


def test_arguments_that_are_not_json_still_count() -> None:
    """A framework's non-JSON arguments don't make counting fail."""
    wrong: list[dict[Any, Any]] = [{"when": object()}, {"x": float("nan")}, {(1, 2): 3}]
    for arguments in wrong:
        message = Message("assistant", None, tool_calls=(ToolCall("f", arguments),))
        assert message_tokens(CharacterCounter(), message) > 8


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
                "unit": {
                    "type": "string",
                    "description": "The unit of temperature to return",
                    "enum": ["celsius", "fahrenheit"],
                },
            },
            "required": ["location"],
        },
    },
}
QUESTION = [
    Message("system", "You are a helpful assistant that can answer to questions about the weather."),
    Message("user", "What's the weather like in San Francisco?"),
]


def test_a_request_with_tools_against_the_published_count() -> None:
    """OpenAI's cookbook states 101 prompt tokens; the count is not below and at most a fifth above."""
    total = sum(message_tokens_batch(EXACT, QUESTION)) + REQUEST_OVERHEAD + tools_tokens(EXACT, [WEATHER])
    assert 101 <= total <= 121


def test_a_chat_against_the_published_count() -> None:
    """The messages of OpenAI's cookbook cost 124 tokens with o200k_base, as the API says."""
    messages = [
        Message(
            "system",
            "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
        ),
        Message("system", "New synergies will help drive top-line growth.", name="example_user"),
        Message("system", "Things working well together will increase revenue.", name="example_assistant"),
        Message(
            "system",
            "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
            name="example_user",
        ),
        Message(
            "system",
            "Let's talk later when we're less busy about how to do better.",
            name="example_assistant",
        ),
        Message(
            "user",
            "This late pivot means we don't have time to boil the ocean for the client deliverable.",
        ),
    ]
    assert sum(message_tokens_batch(EXACT, messages)) + REQUEST_OVERHEAD == 124


TOOL_CONVERSATION = [
    Message("user", "Find me a flight from London to Rome on Friday."),
    Message(
        "assistant",
        None,
        tool_calls=(
            ToolCall("search_flights", {"from": "LON", "to": "ROM", "date": "2026-11-27", "seats": 1}, id="call_8f2a"),
            ToolCall("get_weather", {"city": "Rome", "date": "2026-11-27"}, id="call_8f2b"),
        ),
    ),
    Message(
        "tool",
        json.dumps([{"flight": "BA 552", "departs": "08:25", "arrives": "12:05", "price": 129.5, "currency": "GBP"}]),
        tool_call_id="call_8f2a",
    ),
    Message("tool", '{"forecast": "sunny", "high": 17, "low": 9}', tool_call_id="call_8f2b"),
    Message("assistant", "BA 552 leaves at 08:25 and costs £129.50. It will be sunny in Rome."),
]


@pytest.mark.parametrize("counter", [EXACT, CalibratedTokenCounter()], ids=["exact", "calibrated"])
def test_a_tool_conversation_is_counted_whole(counter: TiktokenCounter | CalibratedTokenCounter) -> None:
    """The count is close to that of the request's JSON; without tool calls it would be far below."""
    wire: list[dict[str, Any]] = []
    for message in TOOL_CONVERSATION:
        sent: dict[str, Any] = {"role": message.role.value, "content": message.content}
        if message.tool_call_id:
            sent["tool_call_id"] = message.tool_call_id
        if message.tool_calls:
            sent["tool_calls"] = [
                {"id": call.id, "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
                for call in message.tool_calls
            ]
        wire.append(sent)
    upper = EXACT.count(json.dumps(wire, ensure_ascii=False))
    whole = sum(message_tokens_batch(counter, TOOL_CONVERSATION))
    without = sum(message_tokens_batch(counter, [replace(message, tool_calls=()) for message in TOOL_CONVERSATION]))
    assert 0.65 * upper <= whole <= upper
    assert whole - without >= 50


def test_tools_and_schemas() -> None:
    """Tool definitions and response schemas count as compact JSON; none is 0; a non-mapping is rejected."""
    counter = CharacterCounter()
    compact = len(json.dumps(WEATHER, separators=(",", ":")))
    assert tools_tokens(counter, [WEATHER, WEATHER]) == 2 * compact
    assert tools_tokens(counter, []) == tools_tokens(counter, None) == 0
    assert schema_tokens(counter, {"type": "object", "title": "Ä"}) == len('{"type":"object","title":"Ä"}')
    assert schema_tokens(counter, None) == schema_tokens(counter, {}) == 0
    with pytest.raises(InvalidInputError, match="tools"):
        tools_tokens(counter, ["get_weather"])  # type: ignore[list-item]  # that is the test
    with pytest.raises(InvalidInputError, match="response_format"):
        schema_tokens(counter, {(1, 2): 3})  # type: ignore[dict-item]  # the same
