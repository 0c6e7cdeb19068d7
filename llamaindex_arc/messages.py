"""LlamaIndex chat messages to arc's and back.

An arc message is made of what every framework knows: role, text or parts, tool calls. Where these fields alone don't
rebuild the very same `ChatMessage`, its exact form travels along as the message's origin. Nothing here reads a file
or an address.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.messages import ARC_MARK, ContentPart, Message, Origin, PartType, Role, ToolCall
from arc_common.prompts import holds_memory
from arc_common.serialization import dumps, loads
from arc_common.tokens.selection import renamed_ids

try:
    from llama_index.core.base.llms.types import (
        AudioBlock,
        BaseContentBlock,
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
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc", package="llama-index-core", extra="llamaindex") from error

from llamaindex_arc._exact import from_exact, to_exact

__all__ = ["from_arc", "to_arc"]

FORMAT = "llamaindex"

_ROLES = {
    MessageRole.SYSTEM: Role.SYSTEM,
    MessageRole.DEVELOPER: Role.SYSTEM,
    MessageRole.USER: Role.USER,
    MessageRole.ASSISTANT: Role.ASSISTANT,
    MessageRole.CHATBOT: Role.ASSISTANT,
    MessageRole.MODEL: Role.ASSISTANT,
    MessageRole.TOOL: Role.TOOL,
    MessageRole.FUNCTION: Role.TOOL,
}
_UNTITLED = "input_document"
"""What `DocumentBlock` calls a document that was given no title."""

_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.DOTALL)

_AUDIO_FORMATS = {"mpeg": "mp3", "mp4": "m4a", "wave": "wav", "x-wav": "wav", "x-flac": "flac", "x-m4a": "m4a"}
"""Mime subtypes whose file extension, which is what `AudioBlock.format` holds, reads differently."""


def to_arc(message: ChatMessage) -> Message:
    """The arc message that says what this one says.

    - `from_arc` makes an equal message of it: class, role, blocks, their bytes, `additional_kwargs`.
    - The message is not changed, and the result shares nothing mutable with it.
    - Tool calls are read from `ToolCallBlock`s, or, where there are none, from `additional_kwargs["tool_calls"]` or
      `["function_call"]`; a tool result's `tool_call_id` and any message's `name` from `additional_kwargs`.
    - A system message that shows arc's block of facts and summary carries arc's mark: it is never stored. (It is known
      by its text, because a mark in `additional_kwargs` would be sent to providers, and some refuse it.)

    Raises:
        InvalidInputError: It isn't a `ChatMessage`, or it holds what can't be stored (an open stream, an object that
            is neither a plain value nor a pydantic model); the error names the field ("message.blocks[0].image").
    """
    if not isinstance(message, ChatMessage):
        raise InvalidInputError("message", message, "a llama_index ChatMessage")
    try:
        role = _ROLES[MessageRole(message.role)]
    except ValueError as error:
        raise InvalidInputError("message.role", message.role, f"one of {', '.join(MessageRole)}") from error
    kwargs = message.additional_kwargs
    own = role is Role.SYSTEM and holds_memory(message.content or "")
    result = Message(
        role=role,
        content=_content_of(message.blocks),
        tool_calls=_calls_of(message, role),
        tool_call_id=_text(kwargs, "tool_call_id", "call_id") if role is Role.TOOL else None,
        name=_text(kwargs, "name"),
        metadata={ARC_MARK: "memory"} if own else {},
    )
    if _rebuilt(result) == message:
        return result
    return replace(result, origin=Origin(FORMAT, to_exact(message)))


def from_arc(message: Message) -> ChatMessage:
    """Return an arc message as LlamaIndex's.

    - It equals the original if the message came from LlamaIndex, but its calls have the ids of arc's calls.
    - Otherwise it is built from arc's fields: `None` becomes no blocks, `""` an empty text block.
    - It is a fresh object each time, down to its blocks and arguments, because agents edit messages in place.
    - Parts that LlamaIndex has no block for are left out, except for their text.
    - `id`, `created_at` and `metadata` are left out: a `ChatMessage` has no place for them but `additional_kwargs`,
      which providers may be sent.
    """
    if message.origin is not None and message.origin.format == FORMAT:
        exact = from_exact(message.origin.json)
        if exact is not None:
            return _with_ids_of(message, exact)
    return _rebuilt(message)


# --- from LlamaIndex ------------------------------------------------------------------------------------------------


def _content_of(blocks: Iterable[BaseContentBlock]) -> str | tuple[ContentPart, ...] | None:
    shown = [block for block in blocks if not isinstance(block, ToolCallBlock)]
    if not shown:
        return None
    if len(shown) == 1 and isinstance(shown[0], TextBlock):
        return shown[0].text
    return tuple(part for block in shown for part in _parts_of(block))


def _parts_of(block: BaseContentBlock) -> Iterable[ContentPart]:
    """What a block says; cited content is unpacked, so that the other framework's model reads it too."""
    match block:
        case TextBlock():
            yield ContentPart("text", text=block.text)
        case ImageBlock():
            extra = _without_none(detail=block.detail)
            yield _media("image", block.image, block.url, mime_type=block.image_mimetype, extra=extra)
        case AudioBlock():
            mime_type = f"audio/{block.format}" if block.format else None
            yield _media("audio", block.audio, block.url, mime_type=mime_type)
        case VideoBlock():
            extra = _without_none(detail=block.detail, fps=block.fps)
            yield _media("file", block.video, block.url, mime_type=block.video_mimetype or "video/mp4", extra=extra)
        case DocumentBlock():
            name = None if block.title == _UNTITLED else block.title
            yield _media("file", block.data, block.url, mime_type=block.document_mimetype, name=name)
        case ThinkingBlock():
            yield ContentPart("thinking", text=block.content, extra=_storable(block.additional_information))
        case CitableBlock() | CitationBlock():
            cited = block.content if isinstance(block, CitableBlock) else [block.cited_content]
            for inner in cited:
                yield from _parts_of(inner)
        case _:
            yield ContentPart("opaque", name=str(getattr(block, "block_type", type(block).__name__)))


def _media(
    kind: PartType,
    data: object,
    url: object,
    *,
    mime_type: str | None,
    name: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> ContentPart:
    address = None if url is None else str(url)
    encoded = _base64_text(data) if isinstance(data, bytes) else None
    if address is not None and (inline := _DATA_URL.fullmatch(address)):
        address = None  # bytes of the block's own win, as they do in LlamaIndex
        if encoded is None:
            encoded, mime_type = inline[2], mime_type or inline[1] or None
    return ContentPart(kind, url=address, data=encoded, mime_type=mime_type, name=name, extra=extra or {})


def _base64_text(data: bytes) -> str:
    """LlamaIndex keeps bytes as base64 already, unless they were assigned after construction."""
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        data = base64.b64encode(data)
    return data.decode("ascii")


def _without_none(**values: object) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


def _storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of what plain storage takes; the rest is in the origin only."""
    kept = {}
    for key, value in values.items():
        try:
            kept[key] = loads(dumps(value, field=key))
        except InvalidInputError:
            continue
    return kept


def _calls_of(message: ChatMessage, role: Role) -> tuple[ToolCall, ...]:
    calls = tuple(
        ToolCall(block.tool_name, _arguments(block.tool_kwargs, f"message.blocks[{i}].tool_kwargs"), block.tool_call_id)
        for i, block in enumerate(message.blocks)
        if isinstance(block, ToolCallBlock)
    )
    if calls or role is not Role.ASSISTANT or not message.additional_kwargs:
        return calls
    legacy = message.additional_kwargs.get("tool_calls") or [message.additional_kwargs.get("function_call")]
    return tuple(call for call in map(_legacy_call, legacy) if call is not None) if isinstance(legacy, list) else ()


def _legacy_call(call: object) -> ToolCall | None:
    """A call as OpenAI's two APIs, Anthropic's or `ToolSelection` word it, as dictionary or model; else `None`."""
    fields = _fields(call)
    body = _fields(fields.get("function")) or fields
    name = _text(body, "name", "tool_name")
    if name is None:
        return None
    given: object = next((body[key] for key in ("arguments", "tool_kwargs", "input") if body.get(key)), {})
    call_id = _text(fields, "call_id", "id", "tool_id")
    return ToolCall(name, _arguments(given, "message.additional_kwargs.tool_calls"), call_id)


def _fields(value: object) -> Mapping[str, Any]:
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.model_extra or {})}
    return value if isinstance(value, Mapping) else {}


def _arguments(given: object, field: str) -> Mapping[str, Any] | str:
    """The arguments by name, as a deep copy; the raw text where it isn't a JSON object.

    Raises:
        InvalidInputError: They can't be stored.
    """
    if isinstance(given, str):
        try:
            parsed = json.loads(given)
            dumps(parsed, field=field)
        except (ValueError, RecursionError):
            return given
        return parsed if isinstance(parsed, dict) else given
    arguments = loads(dumps(given, field=field))
    if not isinstance(arguments, dict):
        raise InvalidInputError(field, given, "a dictionary or text")
    return arguments


def _text(values: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these that is there as text."""
    return next((values[key] for key in keys if isinstance(values.get(key), str)), None)


# --- to LlamaIndex --------------------------------------------------------------------------------------------------


def _rebuilt(message: Message) -> ChatMessage:
    """The message from its canonical fields, without the validators' guessing, re-encoding and looking for files."""
    blocks: list[BaseContentBlock] = []
    if isinstance(message.content, str):
        blocks.append(TextBlock.model_construct(text=message.content))
    else:
        blocks.extend(block for block in map(_block_of, message.content or ()) if block is not None)
    blocks.extend(
        ToolCallBlock.model_construct(tool_call_id=call.id, tool_name=call.name, tool_kwargs=_fresh(call.arguments))
        for call in message.tool_calls
    )
    kwargs = _without_none(tool_call_id=message.tool_call_id, name=message.name)
    return ChatMessage.model_construct(role=MessageRole(message.role), additional_kwargs=kwargs, blocks=blocks)


def _with_ids_of(message: Message, exact: ChatMessage) -> ChatMessage:
    """Put arc's call ids into a fresh message, in its blocks and in `additional_kwargs`."""
    kwargs = exact.additional_kwargs
    if message.role is Role.TOOL:
        old, new = [_text(kwargs, "tool_call_id", "call_id")], [message.tool_call_id]
    else:
        old, new = [call.id for call in _calls_of(exact, message.role)], [call.id for call in message.tool_calls]
    if old == new or len(old) != len(new):
        return exact
    blocks = [block for block in exact.blocks if isinstance(block, ToolCallBlock)]
    named = renamed_ids([{"id": block.tool_call_id} for block in blocks], old, new)
    for block, name in zip(blocks, named, strict=True):
        block.tool_call_id = name["id"]
    listed = kwargs.get("tool_calls")
    exact.additional_kwargs = renamed_ids(kwargs, old, new)
    if isinstance(listed, list):
        fields = renamed_ids([dict(_fields(call)) for call in listed], old, new)
        exact.additional_kwargs["tool_calls"] = [
            call.model_copy(update=changed) if isinstance(call, BaseModel) else changed
            for call, changed in zip(listed, fields, strict=True)
        ]
    return exact


def _block_of(part: ContentPart) -> BaseContentBlock | None:
    if part.type == "text":
        return TextBlock.model_construct(text=part.text)
    if part.type == "opaque":
        text = part.text or _text(part.extra, "text")
        return TextBlock.model_construct(text=text) if text else None
    if part.type == "thinking":
        return ThinkingBlock.model_construct(content=part.text, additional_information=_fresh(part.extra))
    if part.url is None and part.data is None:
        return None
    return _media_block(part, None if part.data is None else part.data.encode(errors="surrogatepass"))


def _media_block(part: ContentPart, data: bytes | None) -> BaseContentBlock:
    mime_type, detail = part.mime_type, _text(part.extra, "detail")
    family, _, subtype = (mime_type or "").partition("/")
    if part.type == "image":
        return ImageBlock.model_construct(image=data, url=_url(part.url), image_mimetype=mime_type, detail=detail)
    if part.type == "audio":
        audio_format = _AUDIO_FORMATS.get(subtype, subtype) or None
        return AudioBlock.model_construct(audio=data, url=_url(part.url), format=audio_format)
    if family == "video":
        fps = part.extra.get("fps")
        return VideoBlock.model_construct(
            video=data,
            url=_url(part.url),
            video_mimetype=mime_type,
            detail=detail,
            fps=fps if isinstance(fps, int) else None,
        )
    return DocumentBlock.model_construct(
        data=data, url=part.url, title=part.name or _UNTITLED, document_mimetype=mime_type
    )


def _url(text: str | None) -> AnyUrl | str | None:
    """The address as LlamaIndex holds it, unless parsing would change it or refuse it."""
    if text is None:
        return None
    try:
        url = AnyUrl(text)
    except ValueError:
        return text
    return url if str(url) == text else text


def _fresh(value: Mapping[str, Any] | str) -> dict[str, Any] | str:
    return value if isinstance(value, str) else deepcopy(dict(value))
