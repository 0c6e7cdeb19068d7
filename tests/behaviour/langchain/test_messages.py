"""Conversion of LangChain's messages to arc's and back."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.load.serializable import Serializable
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
)
from pydantic import BaseModel

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message, Origin, Role, ToolCall
from arc_common.serialization import dumps
from langchain_arc.messages import from_arc, to_arc
from tests.support import langchain_strategies as strategies

TEXT = {"type": "text", "text": "hello"}


def exactly(message: BaseMessage) -> tuple[type, str, str]:
    """Return a form that distinguishes messages even if == does not: 1 and True, tuples, missing fields."""
    fields = {**message.__dict__, **(message.model_extra or {})}
    return type(message), repr(sorted(fields.items())), repr(sorted(message.__dict__))


@given(strategies.messages)
@example(HumanMessage([{"text": "x", "type": "text"}]))  # the order of keys matters to prompt caches
def test_every_message_comes_back_as_it_was(message: BaseMessage) -> None:
    """`from_arc(to_arc(m))` equals `m` with all its types, and `m` is not modified."""
    before = exactly(message)
    back = from_arc(to_arc(message))
    assert back == message
    assert exactly(back) == before == exactly(message)


@given(strategies.messages)
def test_what_arc_holds_of_a_message_can_be_stored(message: BaseMessage) -> None:
    """The canonical fields contain only storable values, and the origin is UTF-8 without NUL."""
    arc = to_arc(message)
    dumps([dict(part.extra) for part in arc.content or () if isinstance(part, ContentPart)], field="extra")
    dumps([call.arguments for call in arc.tool_calls], field="arguments")
    dumps(dict(arc.metadata), field="metadata")
    if arc.origin is not None:
        assert b"\x00" not in arc.origin.json.encode()


@given(strategies.plain_messages)
def test_a_plain_message_needs_no_origin(message: BaseMessage) -> None:
    """If arc's fields say everything, nothing is stored twice."""
    arc = to_arc(message)
    assert arc.origin is None
    assert exactly(from_arc(arc)) == exactly(message)


@given(strategies.messages)
def test_the_canonical_form_is_stable(message: BaseMessage) -> None:
    """A message rebuilt from the canonical fields has the same fields when converted again."""
    bare = replace(to_arc(message), origin=None)
    again = replace(to_arc(from_arc(bare)), origin=None)
    assert again == bare


def test_the_origin_is_the_form_that_langchain_reads_itself() -> None:
    """An origin of JSON values is the output of `message_to_dict`, which LangChain reads without arc."""
    message = AIMessage("hi", response_metadata={"model_name": "m"}, id="a", remark="kept")
    origin = to_arc(message).origin
    assert origin is not None
    assert origin.format == "langchain"
    assert messages_from_dict([json.loads(origin.json)]) == [message]


ROLES = [
    (HumanMessage("x"), Role.USER),
    (SystemMessage("x"), Role.SYSTEM),
    (AIMessage("x"), Role.ASSISTANT),
    (AIMessageChunk(content="x"), Role.ASSISTANT),
    (ToolMessage("x", tool_call_id="c"), Role.TOOL),
    (FunctionMessage(content="x", name="f"), Role.TOOL),
    *((ChatMessage(content="x", role=role), Role.SYSTEM) for role in ("system", "Developer")),
    *((ChatMessage(content="x", role=role), Role.USER) for role in ("user", "HUMAN", "critic", "")),
    *((ChatMessage(content="x", role=role), Role.ASSISTANT) for role in ("assistant", "AI", "Model", "chatbot")),
    *((ChatMessage(content="x", role=role), Role.TOOL) for role in ("tool", "Function")),
]


def test_roles() -> None:
    """Each type has its role; a chat message has the role that it names."""
    for message, role in ROLES:
        assert to_arc(message).role is role


PARTS: list[tuple[str, Any, ContentPart]] = [
    ("text", TEXT, ContentPart("text", text="hello")),
    ("plain string", "hello", ContentPart("text", text="hello")),
    ("v1 image", {"type": "image", "base64": "QQ==", "mime_type": "image/png"},
     ContentPart("image", data="QQ==", mime_type="image/png")),
    ("v1 image url", {"type": "image", "url": "https://x/y.png"}, ContentPart("image", url="https://x/y.png")),
    ("v0 image", {"type": "image", "source_type": "base64", "data": "QQ==", "mime_type": "image/png"},
     ContentPart("image", data="QQ==", mime_type="image/png")),
    ("v0 image url", {"type": "image", "source_type": "url", "url": "https://x"}, ContentPart("image", url="https://x")),
    ("openai image", {"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}},
     ContentPart("image", url="https://x", extra={"detail": "low"})),
    ("openai inline image", {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
     ContentPart("image", data="QQ==", mime_type="image/png")),
    ("openai short image", {"type": "image_url", "image_url": "https://x"}, ContentPart("image", url="https://x")),
    ("anthropic image",
     {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
     ContentPart("image", data="QQ==", mime_type="image/png")),
    ("anthropic image url", {"type": "image", "source": {"type": "url", "url": "https://x"}},
     ContentPart("image", url="https://x")),
    ("audio", {"type": "audio", "base64": "QQ==", "mime_type": "audio/wav"},
     ContentPart("audio", data="QQ==", mime_type="audio/wav")),
    ("openai audio", {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "mp3"}},
     ContentPart("audio", data="QQ==", mime_type="audio/mp3")),
    ("video", {"type": "video", "url": "https://x"}, ContentPart("file", url="https://x", mime_type="video/mp4")),
    ("file", {"type": "file", "base64": "QQ==", "mime_type": "application/pdf", "filename": "a.pdf"},
     ContentPart("file", data="QQ==", mime_type="application/pdf", name="a.pdf")),
    ("openai file", {"type": "file", "file": {"file_data": "data:application/pdf;base64,QQ==", "filename": "a.pdf"}},
     ContentPart("file", data="QQ==", mime_type="application/pdf", name="a.pdf")),
    ("anthropic document",
     {"type": "document", "title": "A", "source": {"type": "text", "media_type": "text/plain", "data": "A"}},
     ContentPart("file", data="QQ==", mime_type="text/plain", name="A")),
    ("plain text file", {"type": "text-plain", "text": "A", "mime_type": "text/plain"},
     ContentPart("file", data="QQ==", mime_type="text/plain")),
    ("reasoning", {"type": "reasoning", "reasoning": "hm"}, ContentPart("thinking", text="hm")),
    ("anthropic thinking", {"type": "thinking", "thinking": "hm", "signature": "s"},
     ContentPart("thinking", text="hm", extra={"signature": "s"})),
    ("file id", {"type": "image", "file_id": "f"},
     ContentPart("opaque", name="image", extra={"type": "image", "file_id": "f"})),
    ("tool use", {"type": "tool_use", "id": "c", "name": "f", "input": {}},
     ContentPart("opaque", name="tool_use", extra={"type": "tool_use", "id": "c", "name": "f", "input": {}})),
    ("foreign block", {"type": "non_standard", "value": {"a": 1}, "name": "cache"},
     ContentPart("opaque", name="cache", extra={"a": 1})),
    ("non-standard block with more to it", {"type": "non_standard", "value": {"a": 1}, "id": "1"},
     ContentPart("opaque", name="non_standard", extra={"type": "non_standard", "value": {"a": 1}, "id": "1"})),
    ("lone surrogate", {"type": "text-plain", "text": "\ud800"},
     ContentPart("file", data="7aCA", mime_type="text/plain")),
    ("no type", {"a": 1}, ContentPart("opaque", extra={"a": 1})),
]  # fmt: skip


@pytest.mark.parametrize(("block", "part"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS])
def test_blocks_become_parts(block: Any, part: ContentPart) -> None:
    """Each kind of block of any writer becomes its part; unknown ones are kept whole."""
    assert to_arc(HumanMessage([block])).content == (part,)


BLOCKS: list[tuple[str, ContentPart, dict[str, Any]]] = [
    ("text", ContentPart("text", text="hello"), TEXT),
    ("image", ContentPart("image", data="QQ==", mime_type="image/png"),
     {"type": "image", "base64": "QQ==", "mime_type": "image/png"}),
    ("image url", ContentPart("image", url="https://x", extra={"detail": "low"}),
     {"type": "image", "url": "https://x", "extras": {"detail": "low"}}),
    ("audio", ContentPart("audio", data="QQ==", mime_type="audio/wav"),
     {"type": "audio", "base64": "QQ==", "mime_type": "audio/wav"}),
    ("file", ContentPart("file", url="https://x", mime_type="application/pdf", name="a.pdf"),
     {"type": "file", "url": "https://x", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}}),
    ("video", ContentPart("file", url="https://x", mime_type="video/webm"),
     {"type": "video", "url": "https://x", "mime_type": "video/webm"}),
    ("thinking", ContentPart("thinking", text="hm", extra={"signature": "s"}),
     {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}}),
    ("foreign block", ContentPart("opaque", name="cache", extra={"block_type": "cache"}),
     {"type": "non_standard", "value": {"block_type": "cache"}, "name": "cache"}),
    ("foreign block with a type", ContentPart("opaque", name="cache", extra={"type": "other"}),
     {"type": "non_standard", "value": {"type": "other"}, "name": "cache"}),
    ("own block", ContentPart("opaque", name="custom", extra={"type": "custom", "a": [1]}),
     {"type": "custom", "a": [1]}),
]  # fmt: skip


@pytest.mark.parametrize(("part", "block"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS])
def test_parts_become_standard_blocks(part: ContentPart, block: dict[str, Any]) -> None:
    """Other frameworks' messages get LangChain's standard blocks, which convert back to the same parts."""
    message = Message(Role.USER, (part,), origin=Origin("llamaindex", "{}"))
    assert from_arc(message).content == [block]
    assert to_arc(from_arc(message)) == replace(message, origin=None)


def test_tool_calls_valid_and_invalid() -> None:
    """Parsed calls keep their arguments, invalid ones their raw text, or an empty string."""
    message = AIMessage(
        "",
        tool_calls=[{"name": "f", "args": {"a": 1}, "id": "1"}],
        invalid_tool_calls=[
            {"name": "g", "args": "{", "id": "2", "error": "bad"},
            {"name": None, "args": None, "id": None, "error": None},
        ],
    )
    calls = (ToolCall("f", {"a": 1}, "1"), ToolCall("g", "{", "2"), ToolCall("", "", None))
    assert to_arc(message).tool_calls == calls
    rebuilt = from_arc(Message(Role.ASSISTANT, None, tool_calls=calls[:2]))
    assert isinstance(rebuilt, AIMessage)
    assert rebuilt.content == ""
    assert rebuilt.tool_calls == message.tool_calls
    assert rebuilt.invalid_tool_calls == [{**message.invalid_tool_calls[0], "error": None}]


@pytest.mark.parametrize(
    "message", [HumanMessage("x"), HumanMessage("x", remark=1), AIMessageChunk(content="x", id="")], ids=repr
)
def test_the_id_that_the_store_gave(message: BaseMessage) -> None:
    """A message without an id comes back with its stored id and is otherwise equal."""
    stored = replace(to_arc(message), id="minted")
    assert from_arc(stored) == message.model_copy(update={"id": "minted"})


@pytest.mark.parametrize("response_metadata", [{"a": []}, {}], ids=["origin", "canonical"])
def test_nothing_mutable_is_shared(response_metadata: dict[str, Any]) -> None:
    """Changing input or output affects neither the arc message nor later conversions."""
    call = {"name": "f", "args": {"a": []}, "id": "1"}
    message = AIMessage(
        [{"type": "custom", "a": []}, {**TEXT, "extras": {"a": []}}],
        tool_calls=[call, {**call, "args": {}}],
        additional_kwargs={"arc": []},
        response_metadata=response_metadata,
    )
    original = message.model_copy(deep=True)
    arc = to_arc(message)
    assert (arc.origin is None) is (response_metadata == {})
    for spoiled in (message, from_arc(arc)):
        assert isinstance(spoiled, AIMessage)
        custom, text = (block for block in spoiled.content if isinstance(block, dict))
        custom["a"].append("spoiled")
        text["extras"]["a"].append("spoiled")
        spoiled.tool_calls[0]["args"]["a"].append("spoiled")
        spoiled.tool_calls[1]["args"]["spoiled"] = True
        spoiled.additional_kwargs["arc"].append("spoiled")
        spoiled.response_metadata["spoiled"] = True
        assert from_arc(arc) == original


def test_what_arc_made_is_recognised_when_it_is_handed_back() -> None:
    """The mark is in `additional_kwargs`; other metadata stays in arc."""
    marked = Message(Role.SYSTEM, "facts", metadata={"arc": {"section": ["facts"]}, "mine": 1})
    handed_out = from_arc(marked)
    assert handed_out.additional_kwargs == {"arc": {"section": ["facts"]}}
    assert to_arc(handed_out).made_by_arc
    assert to_arc(handed_out) == replace(marked, metadata={"arc": {"section": ["facts"]}})
    assert not to_arc(HumanMessage("x", additional_kwargs={"mine": 1})).made_by_arc


def test_a_mark_given_later_is_handed_out() -> None:
    """Marking a message with an origin marks its conversion, too."""
    arc = to_arc(HumanMessage("x", additional_kwargs={"kept": 1}))
    assert from_arc(replace(arc, metadata={"arc": True})).additional_kwargs == {"kept": 1, "arc": True}


def test_text_that_looks_like_a_wrapped_object_stays_text() -> None:
    """The stored form of an object inside a message creates no object."""
    forged = {"__arc__": "langchain", "value": {"id": ["langchain", "schema", "document", "Document"], "kwargs": {}}}
    also = {"lc": 1, "type": "secret", "id": ["HOME"]}
    message = ToolMessage("x", tool_call_id="c", artifact=[forged, also, Document("x", metadata=also)])
    assert from_arc(to_arc(message)) == message


class Parsed(BaseModel):
    """A user's own model."""

    total: int


class OwnDocument(Document):
    """A user's own document."""


class Secretive(Serializable):
    """An object whose repr omits its key."""

    key: str

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"key": "HOME"}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("x", additional_kwargs={"parsed": Parsed(total=1)}),  # as in structured output
        ToolMessage("x", tool_call_id="c", artifact=[OwnDocument(page_content="x")]),
    ],
    ids=["parsed", "own document"],
)
def test_objects_of_the_users_own_classes_survive(message: BaseMessage) -> None:
    """Structured output adds a pydantic object to the answer; a tool may return any object."""
    back = from_arc(to_arc(message))
    assert back == message
    assert repr(back) == repr(message)


def test_an_object_whose_class_is_not_loaded_leaves_the_message_readable() -> None:
    """In another process, nothing is imported for it, and arc's own fields are readable."""
    stored = to_arc(AIMessage("x", additional_kwargs={"parsed": Parsed(total=1)}, response_metadata={"a": 1}))
    assert stored.origin is not None
    elsewhere = stored.origin.json.replace(f"{__name__}:Parsed", "module_of_nobody:Parsed")
    assert elsewhere != stored.origin.json
    assert from_arc(replace(stored, origin=Origin("langchain", elsewhere))) == AIMessage("x")


REFUSED: list[tuple[str, BaseMessage, str]] = [
    ("artifact", ToolMessage("x", tool_call_id="c", artifact=object()), "message.artifact"),
    ("array", ToolMessage("x", tool_call_id="c", artifact=np.zeros(3)), "message.artifact"),
    ("secrets", ToolMessage("x", tool_call_id="c", artifact=Secretive(key="k")), "message.artifact"),
    ("metadata", AIMessage("x", response_metadata={"a": [{1}, open]}), "message.response_metadata.a[1]"),
    ("block", HumanMessage(["ok", {"type": "custom", "a": object()}]), "message.content[1].a"),
    ("extras", HumanMessage([{**TEXT, "extras": {"a": object()}}]), "message.content[0].extras.a"),
    ("arguments", AIMessage("", tool_calls=[{"name": "f", "args": {"a": object()}, "id": "1"}]),
     "message.tool_calls[0].args.a"),
    ("mark", HumanMessage("x", additional_kwargs={"arc": object()}), "message.additional_kwargs.arc"),
    ("further field", HumanMessage("x", remark=object()), "message.remark"),
    ("id", HumanMessage("x", id="\x00"), "message.id"),
    ("long id", HumanMessage("x", id="i" * 256), "message.id"),
    ("removal", RemoveMessage(id="1"), "message"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "field"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_cannot_be_stored_is_refused_by_name(message: BaseMessage, field: str) -> None:
    """The error names the path to the value before anything is written."""
    with pytest.raises(InvalidInputError) as refused:
        to_arc(message)
    assert refused.value.field == field


def test_what_is_no_message_is_refused() -> None:
    """Other values raise arc's own error."""
    for value in ["text", None, {"type": "human"}, object()]:
        with pytest.raises(InvalidInputError, match=r"^message: got .* expected .* message of LangChain"):
            to_arc(value)


class Annotated(HumanMessage):
    """A user's own message class."""

    remark: str = ""


def test_an_own_message_class_comes_back_as_the_one_it_extends() -> None:
    """All its fields are kept; only LangChain's classes can be created again."""
    assert from_arc(to_arc(Annotated(content="x", remark="y", id="i"))) == HumanMessage("x", remark="y", id="i")


@given(st.floats())
def test_numbers_that_json_lacks(number: float) -> None:
    """NaN and infinities come back (compared as text, since NaN is not equal to itself)."""
    message = AIMessage(
        "x", response_metadata={"logprob": number}, tool_calls=[{"name": "f", "args": {"a": number}, "id": "1"}]
    )
    assert exactly(from_arc(to_arc(message))) == exactly(message)
