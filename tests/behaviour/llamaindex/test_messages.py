"""LlamaIndex messages pass through arc without loss; values that could not be kept are rejected."""

import sys
from io import BytesIO
from types import ModuleType
from typing import get_args

import pytest
from hypothesis import given
from llama_index.core.base.llms.types import (
    AudioBlock,
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
from llama_index.core.bridge.pydantic import BaseModel, PrivateAttr
from llama_index.core.schema import ImageDocument, NodeWithScore, TextNode
from pydantic import HttpUrl

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message, Origin, Role, ToolCall
from llamaindex_arc.messages import from_arc, to_arc
from tests.support import llamaindex_strategies as strategies
from tests.support.llamaindex_values import CALL, PNG, PNG_TEXT, OpenCall


class OwnMessage(ChatMessage):
    """A user's message class with its own field."""

    channel: str = "web"


class Secretive(BaseModel):
    """A model with private state."""

    _secret: list[int] = PrivateAttr(default_factory=lambda: [1])


def shown(message):
    """Return a form with all types, since equality ignores some (1 and True, text and paths)."""
    return type(message), message.role, repr(message.blocks), repr(sorted(message.additional_kwargs.items()))


@given(strategies.messages)
def test_round_trip_is_exact(message):
    """Every role, block, byte and additional value comes back, and the given message is not modified."""
    before = shown(message)
    there = to_arc(message)
    back = from_arc(there)
    assert back == message
    assert shown(back) == shown(message) == before
    assert type(back.role) is MessageRole
    if there.origin is not None:
        assert "\x00" not in there.origin.json
        there.origin.json.encode()


@given(strategies.plain_messages)
def test_plain_messages_need_no_origin(message):
    """If arc's fields say everything, nothing is stored twice."""
    there = to_arc(message)
    assert there.origin is None
    assert from_arc(there) == message
    assert shown(from_arc(there)) == shown(message)


def test_every_role_and_block_is_covered():
    """The test fails if a newer LlamaIndex adds a role or block type."""
    known = {TextBlock, ImageBlock, AudioBlock, VideoBlock, DocumentBlock, CachePoint, CitableBlock, CitationBlock}
    assert set(get_args(get_args(ContentBlock)[0])) == known | {ThinkingBlock, ToolCallBlock}
    assert len(MessageRole) == 8


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
    """The error names the field."""
    with pytest.raises(InvalidInputError) as caught:
        to_arc(message)
    assert caught.value.field == field


def test_a_class_that_cannot_be_found_again_is_refused():
    """An object of a class inside a function would come back as something else."""

    class Local(BaseModel):
        a: int = 1

    with pytest.raises(InvalidInputError, match=r"message\.additional_kwargs\.raw"):
        to_arc(ChatMessage("x", additional_kwargs={"raw": Local()}))


def test_an_unloaded_class_leaves_what_arc_understands():
    """If a provider's class isn't loaded, nothing is imported: role, text and calls come back without it."""
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
    """An origin that is no message is ignored."""
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
    """Subclasses, legacy images and pydantic objects in `additional_kwargs` keep class and value."""
    back = from_arc(to_arc(message))
    assert back == message
    assert type(back) is type(message)
    assert repr(back) == repr(message)


@pytest.mark.parametrize("field", ["image", "video", "audio"])
def test_bytes_assigned_later_keep_their_form(field):
    """Bytes that skipped LlamaIndex's base64 step come back raw, and are base64 in arc."""
    cls = {"image": ImageBlock, "video": VideoBlock, "audio": AudioBlock}[field]
    message = ChatMessage(blocks=[cls()])
    setattr(message.blocks[0], field, PNG)
    there = to_arc(message)
    assert there.content[0].data == PNG_TEXT
    assert getattr(from_arc(there).blocks[0], field) == PNG


def test_a_file_that_is_gone_still_loads(tmp_path):
    """A message keeps the path of its file, whether or not the file exists."""
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)
    message = ChatMessage(blocks=[ImageBlock(path=path), DocumentBlock(path=path), AudioBlock(path=path)])
    there = to_arc(message)
    path.unlink()
    assert from_arc(there) == message
    assert to_arc(message) == there
    assert all(part.data is None and part.url is None for part in there.content)  # a path is useless elsewhere


def test_results_are_fresh_objects():
    """Agents modify returned messages; neither the next reader nor the stored message is affected."""
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
    """Editing a converted message does not change arc's."""
    message = ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="f", tool_kwargs={"a": {"b": 1}})])
    there = to_arc(message)
    message.blocks[0].tool_kwargs["a"]["b"] = 2
    assert there.tool_calls == (ToolCall("f", {"a": {"b": 1}}),)
