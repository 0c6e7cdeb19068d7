"""Converts LlamaIndex's chat messages to arc's, and back.

An arc message holds the fields that every framework knows: role, text or parts, tool calls. If these fields alone don't
rebuild the same `ChatMessage`, its exact form is kept as the message's origin. This module reads no file and no URL.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.base.llms.types import BaseContentBlock, ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.bridge.pydantic import BaseModel

from arc_common.exceptions import InvalidInputError, or_converted
from arc_common.messages import ARC_MARK, ContentPart, Message, Origin, Role, ToolCall
from arc_common.prompts.context import holds_insertion
from arc_common.protocols import TokenCounter
from arc_common.serialization import OBJECTS, dumps, loads, storable_copy
from arc_common.tokens.calibration import corrected
from arc_common.tokens.counters import REQUEST_OVERHEAD, message_tokens_batch
from arc_common.tokens.selection import renamed_ids
from arc_common.trust import SOURCE
from llamaindex_arc.content_blocks import block_of, fresh, parts_of, text_of, without_none

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


def to_arc(message: ChatMessage) -> Message:
    """Convert a chat message to arc's.

    - `from_arc` restores an equal message: class, role, blocks, their bytes, `additional_kwargs`.
    - The message is not changed, and shares no mutable value with the result.
    - Tool calls are read from `ToolCallBlock`s, or, without any, from `additional_kwargs["tool_calls"]` or
      `["function_call"]`; a tool result's `tool_call_id`, any message's `name` and its "arc_source" are read from
      `additional_kwargs`.
    - A system message with a block of arc (facts, summary, pins, memories) carries its mark and is never stored. (It
      is recognised by its text, because a mark in `additional_kwargs` would be sent to providers, and some refuse it.)

    Raises:
        InvalidInputError: It isn't a `ChatMessage`, or it holds a value that can't be stored (an open stream, an object
            that is neither a plain value nor a pydantic model); the error names the field ("message.blocks[0].image").
    """
    if not isinstance(message, ChatMessage):
        raise InvalidInputError("message", message, "a llama_index ChatMessage")
    try:
        role = _ROLES[MessageRole(message.role)]
    except ValueError as error:
        raise InvalidInputError("message.role", message.role, f"one of {', '.join(MessageRole)}") from error
    kwargs = message.additional_kwargs
    own = role is Role.SYSTEM and holds_insertion(message.content or "")
    result = Message(
        role=role,
        content=_content_of(message.blocks),
        tool_calls=_calls_of(message, role),
        tool_call_id=text_of(kwargs, "tool_call_id", "call_id") if role is Role.TOOL else None,
        name=text_of(kwargs, "name"),
        metadata=without_none(**{ARC_MARK: "memory" if own else None, SOURCE: text_of(kwargs, SOURCE)}),
    )
    if _rebuilt(result) == message:
        return result
    return replace(result, origin=Origin(FORMAT, to_exact(message)))


def from_arc(message: Message) -> ChatMessage:
    """Convert an arc message to LlamaIndex's.

    - A message that came from LlamaIndex equals the original, except that its calls have the ids of arc's calls.
    - Any other is built from arc's fields: `None` becomes no blocks, `""` an empty text block.
    - Each call returns a new object, down to its blocks and arguments, because agents edit messages in place.
    - Parts for which LlamaIndex has no block are left out, except for their text.
    - `id`, `created_at` and `metadata` are left out: a `ChatMessage` could hold them only in `additional_kwargs`, which
      may be sent to providers.

    Raises:
        InvalidInputError: It is not an arc message.
    """
    if not isinstance(message, Message):
        raise InvalidInputError("message", message, or_converted("an arc Message", message))
    if message.origin is not None and message.origin.format == FORMAT:
        exact = from_exact(message.origin.json)
        if exact is not None:
            return _with_ids_of(message, exact)
    return _rebuilt(message)


def request_tokens(counter: TokenCounter, request: Sequence[ChatMessage]) -> int:
    """Return a request's tokens under an arc counter, including its framing."""
    return REQUEST_OVERHEAD + corrected(counter, sum(message_tokens_batch(counter, list(map(to_arc, request)))))


# --- from LlamaIndex ------------------------------------------------------------------------------------------------


def _content_of(blocks: Iterable[BaseContentBlock]) -> str | tuple[ContentPart, ...] | None:
    shown = [block for block in blocks if not isinstance(block, ToolCallBlock)]
    if not shown:
        return None
    if len(shown) == 1 and isinstance(shown[0], TextBlock):
        return shown[0].text
    return tuple(part for block in shown for part in parts_of(block))


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
    """Read a call in the form of OpenAI's two APIs, Anthropic's or `ToolSelection`'s; `None` for any other."""
    fields = _fields(call)
    body = _fields(fields.get("function")) or fields
    name = text_of(body, "name", "tool_name")
    if name is None:
        return None
    given: object = next((body[key] for key in ("arguments", "tool_kwargs", "input") if body.get(key)), {})
    call_id = text_of(fields, "call_id", "id", "tool_id")
    return ToolCall(name, _arguments(given, "message.additional_kwargs.tool_calls"), call_id)


def _fields(value: object) -> Mapping[str, Any]:
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.model_extra or {})}
    return value if isinstance(value, Mapping) else {}


def _arguments(given: object, field: str) -> Mapping[str, Any] | str:
    """Return the arguments by name, as a deep copy, or the raw text if it isn't a JSON object."""
    if isinstance(given, str):
        try:
            parsed = json.loads(given)
            dumps(parsed, field=field)
        except (ValueError, RecursionError):
            return given
        return parsed if isinstance(parsed, dict) else given
    arguments = storable_copy(given, field)
    if not isinstance(arguments, dict):
        raise InvalidInputError(field, given, "a dictionary or text")
    return arguments


# --- to LlamaIndex --------------------------------------------------------------------------------------------------


def _rebuilt(message: Message) -> ChatMessage:
    """Build the message from its canonical fields, bypassing the validators, which guess, re-encode and open files."""
    blocks: list[BaseContentBlock] = []
    if isinstance(message.content, str):
        blocks.append(TextBlock.model_construct(text=message.content))
    else:
        blocks.extend(block for block in map(block_of, message.content or ()) if block is not None)
    blocks.extend(
        ToolCallBlock.model_construct(tool_call_id=call.id, tool_name=call.name, tool_kwargs=fresh(call.arguments))
        for call in message.tool_calls
    )
    kwargs = without_none(tool_call_id=message.tool_call_id, name=message.name)
    return ChatMessage.model_construct(role=MessageRole(message.role), additional_kwargs=kwargs, blocks=blocks)


def _with_ids_of(message: Message, exact: ChatMessage) -> ChatMessage:
    """Put arc's call ids into a fresh message, in its blocks and in `additional_kwargs`."""
    kwargs = exact.additional_kwargs
    if message.role is Role.TOOL:
        old, new = [text_of(kwargs, "tool_call_id", "call_id")], [message.tool_call_id]
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


# --- exactly ----------------------------------------------------------------------------------------------------------
# Not with `model_dump` and `model_validate`, which re-encode bytes, look for files, guess MIME types and drop fields
# that a subclass adds.


def to_exact(message: ChatMessage) -> str:
    """Return the text from which `from_exact` restores an equal message."""
    return dumps(message, field="message", extensions=OBJECTS)


def from_exact(text: str) -> ChatMessage | None:
    """Restore a message from that text; `None` if one of its classes isn't loaded in this process."""
    try:
        message = loads(text, extensions=OBJECTS)
    except LookupError:
        return None
    return message if isinstance(message, ChatMessage) else None
