"""LlamaIndex messages keep everything on their way through arc, and arc messages read well in LlamaIndex."""

import base64
import sys
from datetime import UTC, datetime
from io import BytesIO
from types import ModuleType
from typing import get_args

import pytest
from hypothesis import given, settings
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.bridge.pydantic import AnyUrl, BaseModel, ConfigDict, PrivateAttr
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.schema import ImageDocument, NodeWithScore, TextNode
from pydantic import HttpUrl

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message, Origin, Role, ToolCall
from llamaindex_arc.messages import from_arc, to_arc
from tests.llamaindex_arc import strategies

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"
PNG_TEXT = base64.b64encode(PNG).decode()


class OwnMessage(ChatMessage):
    """A user's message class with a field of its own."""

    channel: str = "web"


class OpenCall(BaseModel):
    """A provider's model that takes any field, as OpenAI's do."""

    model_config = ConfigDict(extra="allow")
    id: str


class OpenFunction(BaseModel):
    """The function of a provider's call."""

    name: str
    arguments: str


class Secretive(BaseModel):
    """A model with private state."""

    _secret: list[int] = PrivateAttr(default_factory=lambda: [1])


def shown(message):
    """Everything in it with its type, as equality alone doesn't tell (1 and True, text and paths)."""
    return type(message), message.role, repr(message.blocks), repr(sorted(message.additional_kwargs.items()))


@settings(max_examples=300, deadline=None)
@given(strategies.messages)
def test_round_trip_is_exact(message):
    """Every role, block, byte and additional value comes back as it was, and the message given stays as it is."""
    before = shown(message)
    there = to_arc(message)
    back = from_arc(there)
    assert back == message
    assert shown(back) == shown(message) == before
    assert type(back.role) is MessageRole
    if there.origin is not None:
        assert "\x00" not in there.origin.json
        there.origin.json.encode()


@settings(max_examples=150, deadline=None)
@given(strategies.plain_messages)
def test_plain_messages_need_no_origin(message):
    """What arc's fields say in full is not said twice."""
    there = to_arc(message)
    assert there.origin is None
    assert from_arc(there) == message
    assert shown(from_arc(there)) == shown(message)


@pytest.mark.parametrize(
    ("given_role", "role"),
    [
        (MessageRole.SYSTEM, Role.SYSTEM),
        (MessageRole.DEVELOPER, Role.SYSTEM),
        (MessageRole.USER, Role.USER),
        (MessageRole.ASSISTANT, Role.ASSISTANT),
        (MessageRole.CHATBOT, Role.ASSISTANT),
        (MessageRole.MODEL, Role.ASSISTANT),
        (MessageRole.TOOL, Role.TOOL),
        (MessageRole.FUNCTION, Role.TOOL),
    ],
    ids=lambda value: value.value,
)
def test_roles(given_role, role):
    """Each of LlamaIndex's roles has its place among arc's four, and comes back as itself."""
    message = ChatMessage("hi", role=given_role)
    assert to_arc(message).role is role
    assert from_arc(to_arc(message)).role is given_role


def test_every_role_and_block_is_covered():
    """A role or block type that a newer LlamaIndex brings shows up here."""
    known = {TextBlock, ImageBlock, AudioBlock, VideoBlock, DocumentBlock, CachePoint, CitableBlock, CitationBlock}
    assert set(get_args(get_args(ContentBlock)[0])) == known | {ThinkingBlock, ToolCallBlock}
    assert len(MessageRole) == 8


CALL = ToolCallBlock(tool_call_id="c1", tool_name="find", tool_kwargs={"q": "x"})


@pytest.mark.parametrize(
    ("blocks", "content"),
    [
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
    ],
    ids=[
        "nothing",
        "empty",
        "text",
        "empty and call",
        "call only",
        "two texts",
        "image bytes",
        "image url",
        "image data url",
        "audio",
        "video",
        "document",
        "thinking",
        "cache point",
        "citable",
        "citation",
    ],
)
def test_content_reads_as_arc_parts(blocks, content):
    """Each block type becomes the part that says the same; tool calls are no content."""
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
    """Tool call blocks become tool calls: arguments by name where they can be read, else the raw text."""
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
    """Calls that integrations leave in `additional_kwargs` are read, and come back as the objects they were."""
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
    """A call that gives no arguments has none."""
    message = ChatMessage("", role="assistant", additional_kwargs={"tool_calls": [{"id": "1", "function": legacy}]})
    assert to_arc(message).tool_calls == (ToolCall("f", {}, "1"),)


def test_blocks_win_over_legacy_calls():
    """A call that is there in both forms is one call."""
    legacy = {"id": "other id", "function": {"name": "find", "arguments": '{"q": "x"}'}}
    message = ChatMessage(role="assistant", blocks=[CALL], additional_kwargs={"tool_calls": [legacy]})
    assert to_arc(message).tool_calls == (ToolCall("find", {"q": "x"}, "c1"),)


@pytest.mark.parametrize("key", ["tool_call_id", "call_id"])
def test_tool_results(key):
    """A tool message's call id and name are read; an assistant's are its own business."""
    kwargs = {key: "c1", "name": "find"}
    result = to_arc(ChatMessage("found", role="tool", additional_kwargs=kwargs))
    assert (result.role, result.tool_call_id, result.name) == (Role.TOOL, "c1", "find")
    assert to_arc(ChatMessage("found", role="assistant", additional_kwargs=kwargs)).tool_call_id is None


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("hi", "message"),
        (ChatMessage(blocks=[ImageBlock(image=BytesIO(b"x"))]), "message.blocks[0].image"),
        (ChatMessage(blocks=[TextBlock(text="a"), AudioBlock(audio=BytesIO(b"x"))]), "message.blocks[1].audio"),
        (ChatMessage(blocks=[DocumentBlock(data=BytesIO(b"x"))]), "message.blocks[0].data"),
        (ChatMessage("x", additional_kwargs={"raw": [object()]}), "message.additional_kwargs.raw[0]"),
        (ChatMessage("x", additional_kwargs={"raw": Secretive()}), "message.additional_kwargs.raw"),
        (
            ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="f", tool_kwargs={"a": object()})]),
            "message.blocks[0].tool_kwargs.a",
        ),
        (ChatMessage.model_construct(role="narrator"), "message.role"),
    ],
    ids=["no message", "image stream", "audio stream", "document stream", "object", "private", "argument", "role"],
)
def test_what_cannot_be_stored_is_refused(message, field):
    """The error names the field that is in the way."""
    with pytest.raises(InvalidInputError) as caught:
        to_arc(message)
    assert caught.value.field == field


def test_a_class_that_cannot_be_found_again_is_refused():
    """An object of a class made inside a function would come back as something else."""

    class Local(BaseModel):
        a: int = 1

    with pytest.raises(InvalidInputError, match=r"message\.additional_kwargs\.raw"):
        to_arc(ChatMessage("x", additional_kwargs={"raw": Local()}))


def test_an_unloaded_class_leaves_what_arc_understands():
    """Where a provider's class isn't loaded, nothing is imported: role, text and calls come back without it."""
    module = ModuleType("provider_of_a_test")
    module.Call = type("Call", (OpenCall,), {"__module__": module.__name__, "__qualname__": "Call"})
    sys.modules[module.__name__] = module
    call = module.Call(id="1", name="f", arguments="{}")
    message = ChatMessage("a", role="assistant", additional_kwargs={"tool_calls": [call]})
    try:
        there = to_arc(message)
        assert from_arc(there) == message
    finally:
        del sys.modules[module.__name__]
    expected = [TextBlock(text="a"), ToolCallBlock(tool_call_id="1", tool_name="f")]
    assert from_arc(there) == ChatMessage(role="assistant", blocks=expected)


@pytest.mark.parametrize(
    "stored", ['{"__arc__":"model","value":{"class":"os:system"}}', '{"a":1}'], ids=["code", "junk"]
)
def test_a_foreign_origin_runs_nothing(stored):
    """An origin that is no message is passed over."""
    assert from_arc(Message(Role.USER, "hi", origin=Origin("llamaindex", stored))) == ChatMessage("hi")


@pytest.mark.parametrize(
    "message",
    [
        OwnMessage("hi", channel="phone"),
        ChatMessage("hi", additional_kwargs={"images": [ImageDocument(image=PNG_TEXT)]}),
        ChatMessage(
            "hi", additional_kwargs={"n": NodeWithScore(node=TextNode(text="t", metadata={"k": 1}), score=0.5)}
        ),
        ChatMessage("hi", additional_kwargs={"url": HttpUrl("https://example.com/ü")}),
    ],
    ids=["subclass", "legacy images", "node", "address"],
)
def test_objects_come_back_as_they_were(message):
    """Subclasses, legacy images and pydantic objects in `additional_kwargs` are equal and of the same class."""
    back = from_arc(to_arc(message))
    assert back == message
    assert type(back) is type(message)
    assert repr(back) == repr(message)


@pytest.mark.parametrize("field", ["image", "video", "audio"])
def test_bytes_assigned_later_keep_their_form(field):
    """Bytes that never went through LlamaIndex's base64 step come back raw, and read as base64 in arc."""
    cls = {"image": ImageBlock, "video": VideoBlock, "audio": AudioBlock}[field]
    message = ChatMessage(blocks=[cls()])
    setattr(message.blocks[0], field, PNG)
    there = to_arc(message)
    assert there.content[0].data == PNG_TEXT
    assert getattr(from_arc(there).blocks[0], field) == PNG


def test_a_file_that_is_gone_still_loads(tmp_path):
    """A message refers to its file by path; that path comes back, whether or not there is a file."""
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)
    message = ChatMessage(blocks=[ImageBlock(path=path), DocumentBlock(path=path), AudioBlock(path=path)])
    there = to_arc(message)
    path.unlink()
    assert from_arc(there) == message
    assert to_arc(message) == there
    assert all(part.data is None and part.url is None for part in there.content)  # a path means nothing elsewhere


def test_results_are_fresh_objects():
    """Agents edit what they were handed; neither the next reader nor the stored message notices."""
    for message in (
        ChatMessage(role="assistant", blocks=[TextBlock(text="a"), CALL]),
        ChatMessage("a", role="developer", additional_kwargs={"a": [1]}),
        ChatMessage(role="assistant", blocks=[ThinkingBlock(content="a", additional_information={"a": [1]})]),
    ):
        there = to_arc(message)
        first = from_arc(there)
        for block in first.blocks:
            getattr(block, "tool_kwargs", getattr(block, "additional_information", {})).update(edited=True)
        first.blocks.append(TextBlock(text="edited"))
        first.additional_kwargs["edited"] = True
        assert from_arc(there) == message


def test_to_arc_shares_nothing_with_its_message():
    """Editing a message after it was converted changes nothing in arc."""
    message = ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="f", tool_kwargs={"a": {"b": 1}})])
    there = to_arc(message)
    message.blocks[0].tool_kwargs["a"]["b"] = 2
    assert there.tool_calls == (ToolCall("f", {"a": {"b": 1}}),)


@pytest.mark.parametrize(
    ("part", "block"),
    [
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
    ],
    ids=[
        "text",
        "image",
        "image url",
        "audio",
        "video",
        "file",
        "file url",
        "thinking",
        "opaque text",
        "opaque",
        "no source",
    ],
)
def test_parts_become_blocks(part, block):
    """Each part becomes LlamaIndex's own block; what has none, or no source that a model could see, is left out."""
    assert from_arc(Message(Role.USER, (part,))).blocks == ([] if block is None else [block])


@pytest.mark.parametrize("url", ["https://example.com", "not an address", "https://example.com/a b"])
def test_addresses_stay_as_they_are_written(url):
    """An address that parsing would change, or refuse, is kept as text."""
    block = from_arc(Message(Role.USER, (ContentPart("image", url=url),))).blocks[0]
    assert str(block.url) == url
    assert to_arc(ChatMessage(blocks=[block])).content[0].url == url


def test_messages_born_elsewhere():
    """Role, text, calls and results are where LlamaIndex's agents and models look for them, and nothing else leaks."""
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
    """Nothing said and an empty text are two things, both ways."""
    there = from_arc(Message(role, content))
    assert there.content == content
    assert to_arc(there).content == content
