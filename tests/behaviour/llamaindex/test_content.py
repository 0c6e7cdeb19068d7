"""Each block, call and result converts between LlamaIndex and arc with the same meaning."""

from datetime import UTC, datetime

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.bridge.pydantic import AnyUrl, BaseModel
from llama_index.core.llms.llm import ToolSelection

from arc_common.messages import ContentPart, Message, Origin, Role, ToolCall
from llamaindex_arc.messages import from_arc, to_arc
from tests.support.llamaindex_values import CALL, PNG, PNG_TEXT, OpenCall


class OpenFunction(BaseModel):
    """The function of a provider's call."""

    name: str
    arguments: str


def test_roles():
    """Each of LlamaIndex's roles maps to one of arc's four and back to itself."""
    cases = [
        (MessageRole.SYSTEM, Role.SYSTEM),
        (MessageRole.DEVELOPER, Role.SYSTEM),
        (MessageRole.USER, Role.USER),
        (MessageRole.ASSISTANT, Role.ASSISTANT),
        (MessageRole.CHATBOT, Role.ASSISTANT),
        (MessageRole.MODEL, Role.ASSISTANT),
        (MessageRole.TOOL, Role.TOOL),
        (MessageRole.FUNCTION, Role.TOOL),
    ]
    for given_role, role in cases:
        message = ChatMessage("hi", role=given_role)
        assert to_arc(message).role is role
        assert from_arc(to_arc(message)).role is given_role


CONTENTS = [
    ([], None),
    ([TextBlock(text="")], ""),
    ([TextBlock(text="hi")], "hi"),
    ([TextBlock(text=""), CALL], ""),
    ([CALL], None),
    ([TextBlock(text="a"), TextBlock(text="b")], (ContentPart("text", text="a"), ContentPart("text", text="b"))),
    (
        [ImageBlock(image=PNG, detail="low")],
        (ContentPart("image", data=PNG_TEXT, mime_type="image/png", extra={"detail": "low"}),),
    ),
    (
        [ImageBlock(url="https://example.com/a.png")],
        (ContentPart("image", url="https://example.com/a.png", mime_type="image/png"),),
    ),
    (
        [ImageBlock(url=f"data:image/png;base64,{PNG_TEXT}")],
        (ContentPart("image", data=PNG_TEXT, mime_type="image/png"),),
    ),
    ([AudioBlock(audio=b"\xff", format="mp3")], (ContentPart("audio", data="/w==", mime_type="audio/mp3"),)),
    (
        [VideoBlock(video=b"\xff", fps=2)],
        (ContentPart("file", data="/w==", mime_type="video/mp4", extra={"fps": 2}),),
    ),
    (
        [DocumentBlock(data=b"%PDF-1.7", title="a.pdf")],
        (ContentPart("file", data="JVBERi0xLjc=", mime_type="application/pdf", name="a.pdf"),),
    ),
    (
        [ThinkingBlock(content="hm", additional_information={"signature": "s"})],
        (ContentPart("thinking", text="hm", extra={"signature": "s"}),),
    ),
    (
        [TextBlock(text="a"), CachePoint(cache_control=CacheControl(type="ephemeral"))],
        (ContentPart("text", text="a"), ContentPart("opaque", name="cache")),
    ),
    (
        [CitableBlock(title="t", source="s", content=[TextBlock(text="a"), ImageBlock(image=PNG)])],
        (ContentPart("text", text="a"), ContentPart("image", data=PNG_TEXT, mime_type="image/png")),
    ),
    (
        [CitationBlock(title="t", source="s", cited_content="a", additional_location_info={})],
        (ContentPart("text", text="a"),),
    ),
]


def test_content_reads_as_arc_parts():
    """Each block type becomes the part with its meaning; tool calls are not content."""
    for blocks, content in CONTENTS:
        assert to_arc(ChatMessage(role="assistant", blocks=blocks)).content == content


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ToolCallBlock(tool_call_id="1", tool_name="f", tool_kwargs={"a": [1]}), ToolCall("f", {"a": [1]}, "1")),
        (ToolCallBlock(tool_name="f", tool_kwargs='{"a": 1}'), ToolCall("f", {"a": 1})),
        (ToolCallBlock(tool_name="f", tool_kwargs='{"a": '), ToolCall("f", '{"a": ')),
        (ToolCallBlock(tool_name="f", tool_kwargs="[1]"), ToolCall("f", "[1]")),
        (ToolCallBlock(tool_name="f", tool_kwargs='{"a":' * 100_000), ToolCall("f", '{"a":' * 100_000)),
    ],
    ids=["dictionary", "JSON text", "broken text", "not an object", "absurdly nested"],
)
def test_tool_call_blocks(call, expected):
    """They become tool calls with named arguments, or the raw text if it can't be parsed."""
    message = ChatMessage(role="assistant", blocks=[call])
    assert to_arc(message).tool_calls == (expected,)
    assert from_arc(to_arc(message)) == message


@pytest.mark.parametrize(
    "call",
    [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"type": "function_call", "id": "fc_9", "call_id": "1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
        ToolSelection(tool_id="1", tool_name="f", tool_kwargs={"a": 1}),
        OpenCall(id="1", function=OpenFunction(name="f", arguments='{"a": 1}'), index=0),
    ],
    ids=["OpenAI chat", "OpenAI responses", "Anthropic", "ToolSelection", "nested models"],
)
def test_legacy_tool_calls(call):
    """Calls in `additional_kwargs` are read, and come back as the same objects."""
    message = ChatMessage("", role="assistant", additional_kwargs={"tool_calls": [call]})
    there = to_arc(message)
    assert there.tool_calls == (ToolCall("f", {"a": 1}, "1"),)
    back = from_arc(there)
    assert back == message
    assert type(back.additional_kwargs["tool_calls"][0]) is type(call)


def test_legacy_function_call_and_its_result():
    """OpenAI's older form has no ids; call and result name the function."""
    call = ChatMessage("", role="assistant", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}})
    result = ChatMessage("42", role="function", additional_kwargs={"name": "f"})
    assert to_arc(call).tool_calls == (ToolCall("f", {}),)
    assert (to_arc(result).role, to_arc(result).name, to_arc(result).tool_call_id) == (Role.TOOL, "f", None)


@pytest.mark.parametrize("legacy", [{"name": "f"}, {"name": "f", "arguments": None}], ids=["absent", "None"])
def test_legacy_call_without_arguments(legacy):
    """A call without arguments has none."""
    message = ChatMessage("", role="assistant", additional_kwargs={"tool_calls": [{"id": "1", "function": legacy}]})
    assert to_arc(message).tool_calls == (ToolCall("f", {}, "1"),)


def test_blocks_win_over_legacy_calls():
    """A call in both forms is one call."""
    legacy = {"id": "other id", "function": {"name": "find", "arguments": '{"q": "x"}'}}
    message = ChatMessage(role="assistant", blocks=[CALL], additional_kwargs={"tool_calls": [legacy]})
    assert to_arc(message).tool_calls == (ToolCall("find", {"q": "x"}, "c1"),)


@pytest.mark.parametrize("key", ["tool_call_id", "call_id"])
def test_tool_results(key):
    """A tool message's call id and name are read; an assistant's are kept unread."""
    kwargs = {key: "c1", "name": "find"}
    result = to_arc(ChatMessage("found", role="tool", additional_kwargs=kwargs))
    assert (result.role, result.tool_call_id, result.name) == (Role.TOOL, "c1", "find")
    assert to_arc(ChatMessage("found", role="assistant", additional_kwargs=kwargs)).tool_call_id is None


PARTS = [
    (ContentPart("text", text=""), TextBlock(text="")),
    (
        ContentPart("image", data=PNG_TEXT, mime_type="image/png"),
        ImageBlock(image=PNG, image_mimetype="image/png"),
    ),
    (
        ContentPart("image", url="https://example.com/", extra={"detail": "low"}),
        ImageBlock(url=AnyUrl("https://example.com/"), detail="low"),
    ),
    (ContentPart("audio", data="/w==", mime_type="audio/mpeg"), AudioBlock(audio=b"\xff", format="mp3")),
    (
        ContentPart("file", data="/w==", mime_type="video/mp4"),
        VideoBlock(video=b"\xff", video_mimetype="video/mp4"),
    ),
    (
        ContentPart("file", data="/w==", mime_type="application/pdf", name="a"),
        DocumentBlock(data=b"\xff", title="a", document_mimetype="application/pdf"),
    ),
    (
        ContentPart("file", url="https://example.com/x"),
        DocumentBlock(url="https://example.com/x", title="input_document"),
    ),
    (
        ContentPart("thinking", text="hm", extra={"signature": "s"}),
        ThinkingBlock(content="hm", additional_information={"signature": "s"}),
    ),
    (ContentPart("opaque", name="note", extra={"type": "note", "text": "words"}), TextBlock(text="words")),
    (ContentPart("opaque", name="x", extra={"type": "x", "secret": 1}), None),
    (ContentPart("image", extra={"file_id": "f1", "path": "/etc/passwd"}), None),
]


def test_parts_become_blocks():
    """Each part becomes LlamaIndex's block; parts without one, or without a usable source, are omitted."""
    for part, block in PARTS:
        assert from_arc(Message(Role.USER, (part,))).blocks == ([] if block is None else [block])


@pytest.mark.parametrize("url", ["https://example.com", "not an address", "https://example.com/a b"])
def test_addresses_stay_as_they_are_written(url):
    """A URL that parsing would change or reject is kept as text."""
    block = from_arc(Message(Role.USER, (ContentPart("image", url=url),))).blocks[0]
    assert str(block.url) == url
    assert to_arc(ChatMessage(blocks=[block])).content[0].url == url


def test_messages_born_elsewhere():
    """Role, text, calls and results are where LlamaIndex expects them, and nothing else is added."""
    message = Message(
        Role.ASSISTANT,
        "let me see",
        (ToolCall("find", {"q": "x"}, "c1"), ToolCall("raw", "{", None)),
        id="m1",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        metadata={"private": 1},
        origin=Origin("langchain", "{}"),
    )
    assert from_arc(message) == ChatMessage(
        role="assistant",
        blocks=[TextBlock(text="let me see"), CALL, ToolCallBlock(tool_name="raw", tool_kwargs="{")],
    )
    result = Message(Role.TOOL, "found", tool_call_id="c1", name="find")
    assert from_arc(result) == ChatMessage(
        "found", role="tool", additional_kwargs={"tool_call_id": "c1", "name": "find"}
    )


@pytest.mark.parametrize("content", [None, ""], ids=["None", "empty"])
@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.value)
def test_none_and_empty_text_stay_apart(role, content):
    """Missing content and empty text stay distinct in both directions."""
    there = from_arc(Message(role, content))
    assert there.content == content
    assert to_arc(there).content == content
