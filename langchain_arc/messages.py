"""Converts LangChain's messages to arc's, and back, without loss."""

from collections.abc import Mapping
from typing import Any

from langchain_core.load.load import Reviver
from langchain_core.load.serializable import Serializable
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from arc_common.exceptions import InvalidInputError, or_converted
from arc_common.messages import ARC_MARK, Message, Origin, Role, ToolCall
from arc_common.serialization import OBJECTS, Extension, dumps, loads, storable_copy
from arc_common.tokens.selection import renamed_ids
from arc_common.trust import SOURCE
from langchain_arc.content_blocks import block_of, part_of

_FORMAT = "langchain"

_ROLES: dict[type[BaseMessage], Role] = {
    HumanMessageChunk: Role.USER,
    HumanMessage: Role.USER,
    AIMessageChunk: Role.ASSISTANT,
    AIMessage: Role.ASSISTANT,
    SystemMessageChunk: Role.SYSTEM,
    SystemMessage: Role.SYSTEM,
    ToolMessageChunk: Role.TOOL,
    ToolMessage: Role.TOOL,
    FunctionMessageChunk: Role.TOOL,
    FunctionMessage: Role.TOOL,
    ChatMessageChunk: Role.USER,  # unless its own field `role` says otherwise
    ChatMessage: Role.USER,
}
_CLASSES: dict[str, type[BaseMessage]] = {cls.model_fields["type"].default: cls for cls in _ROLES}
_PLAIN_CLASSES: dict[Role, type[BaseMessage]] = {
    Role.SYSTEM: SystemMessage,
    Role.USER: HumanMessage,
    Role.ASSISTANT: AIMessage,
    Role.TOOL: ToolMessage,
}
_SPEAKERS = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "chatbot": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}

# Recreates documents and messages inside artifacts: LangChain's core classes only, and no secrets from the environment.
_revive = Reviver(allowed_objects="core", secrets_from_env=False)


def to_arc(message: BaseMessage) -> Message:
    """Convert a LangChain message to arc's.

    - Lossless: `from_arc(to_arc(message)) == message`, of the same type. `origin` keeps whatever arc's own fields can't
      express, and is `None` when they express everything.
    - A subclass of one of LangChain's message classes comes back as LangChain's class, with all its fields.
    - A message that arc made (`from_arc` marks it) carries its mark again, and one that names a source in its
      `additional_kwargs` ("arc_source") names it in its metadata.
    - The message is not changed, and shares no mutable value with the result.

    Raises:
        InvalidInputError: It is not a message that can be stored (a `RemoveMessage` is an instruction to a graph), or
            it holds a value that can't be; the error's field is the path to the value ("message.artifact").
    """
    cls = _core_class(message)
    content = message.content
    fields: dict[str, Any] = {
        "role": _SPEAKERS.get(message.role.lower(), Role.USER) if isinstance(message, ChatMessage) else _ROLES[cls],
        "content": tuple(part_of(block, f"message.content[{i}]") for i, block in enumerate(content))
        if isinstance(content, list)
        else content,
        "name": message.name,
        "id": message.id or None,
    }
    if isinstance(message, AIMessage):
        fields["tool_calls"] = _calls_of(message)
    elif isinstance(message, ToolMessage):
        fields["tool_call_id"] = message.tool_call_id or None
    marks = {name: message.additional_kwargs[name] for name in (ARC_MARK, SOURCE) if name in message.additional_kwargs}
    if marks:
        fields["metadata"] = storable_copy(marks, "message.additional_kwargs")
    bare = Message(**fields)
    return bare if _says_it_all(bare, message) else Message(**fields, origin=_origin_of(message, cls))


def from_arc(message: Message) -> BaseMessage:
    """Convert an arc message to LangChain's.

    - It equals the message that `to_arc` was given, if there was one, but has the stored id, and its calls have the ids
      of arc's calls. (If it holds an object whose class this process has not loaded, the next point applies.)
    - Otherwise it is a system, human, AI or tool message with LangChain's standard content blocks; missing content and
      a missing tool call id, which LangChain doesn't allow, become `""`.
    - Each call returns a new object, which shares no mutable value with arc's.

    Raises:
        InvalidInputError: It is not an arc message.
    """
    if not isinstance(message, Message):
        raise InvalidInputError("message", message, or_converted("an arc Message", message))
    if message.origin is None or message.origin.format != _FORMAT:
        return _built(message)
    try:
        exact = loads(message.origin.json, extensions=_EXTENSIONS)
    except LookupError:
        return _built(message)
    data = exact["data"]
    if message.id is not None:
        data["id"] = message.id
    if ARC_MARK in message.metadata:
        data["additional_kwargs"] = {**data["additional_kwargs"], **_mark_of(message)}
    # Not through the constructor, which would derive tool calls that the original no longer had.
    return with_ids_of(message, _CLASSES[exact["type"]].model_construct(**data))


def with_ids_of(message: Message, original: BaseMessage) -> BaseMessage:
    """Return LangChain's message with arc's call ids everywhere; the same object if nothing changes."""
    fields: tuple[str, ...]
    old: list[str | None]
    if isinstance(original, AIMessage):
        calls = [*original.tool_calls, *original.invalid_tool_calls]
        old, new = [call["id"] for call in calls], [call.id for call in message.tool_calls]
        fields = ("content", "additional_kwargs", "response_metadata", "tool_call_chunks")
    elif isinstance(original, ToolMessage):
        old, new = [original.tool_call_id or None], [message.tool_call_id]
        fields = ("content", "additional_kwargs")
    else:
        return original
    if old == new or len(old) != len(new):
        return original
    changes = {name: renamed_ids(getattr(original, name), old, new) for name in fields if hasattr(original, name)}
    if isinstance(original, AIMessage):
        renamed = [{**call, "id": name} for call, name in zip(calls, new, strict=True)]
        valid = len(original.tool_calls)
        changes |= {"tool_calls": renamed[:valid], "invalid_tool_calls": renamed[valid:]}
    else:
        changes["tool_call_id"] = new[0]
    return original.model_copy(update=changes)


def _core_class(message: BaseMessage) -> type[BaseMessage]:
    for cls in type(message).__mro__:
        if cls in _ROLES:
            return cls
    raise InvalidInputError("message", message, "a system, human, AI, tool, chat or function message of LangChain")


def _calls_of(message: AIMessage) -> tuple[ToolCall, ...]:
    calls = [
        ToolCall(call["name"], storable_copy(call["args"], f"message.tool_calls[{i}].args"), call["id"])
        for i, call in enumerate(message.tool_calls)
    ]
    invalid = [ToolCall(call["name"] or "", call["args"] or "", call["id"]) for call in message.invalid_tool_calls]
    return (*calls, *invalid)


def _says_it_all(bare: Message, message: BaseMessage) -> bool:
    """Return whether arc's own fields alone rebuild this message."""
    if type(message) is not _PLAIN_CLASSES[bare.role] or getattr(message, "artifact", None) is not None:
        return False  # an artifact may be anything, even something that can't be compared
    if message.response_metadata:
        return False  # every model answer has it: skips the comparison
    built = _built(bare)
    # The order of a block's keys counts: providers' prompt caches compare bytes.
    return built == message and (isinstance(message.content, str) or repr(built.content) == repr(message.content))


def _built(message: Message) -> BaseMessage:
    content = message.content
    fields: dict[str, Any] = {
        "content": [block_of(part) for part in content] if isinstance(content, tuple) else content or "",
        "additional_kwargs": _mark_of(message),
        "name": message.name,
        "id": message.id,
    }
    if message.role is Role.TOOL:
        fields["tool_call_id"] = message.tool_call_id or ""
    elif message.role is Role.ASSISTANT and message.tool_calls:
        fields["tool_calls"] = [
            {"name": call.name, "args": storable_copy(call.arguments, "message.tool_calls.arguments"), "id": call.id}
            for call in message.tool_calls
            if not isinstance(call.arguments, str)
        ]
        fields["invalid_tool_calls"] = [
            {"name": call.name, "args": call.arguments, "id": call.id, "error": None}
            for call in message.tool_calls
            if isinstance(call.arguments, str)
        ]
    return _PLAIN_CLASSES[message.role](**fields)


def _mark_of(message: Message) -> dict[str, Any]:
    if ARC_MARK not in message.metadata:
        return {}
    return {ARC_MARK: storable_copy(message.metadata[ARC_MARK], f"message.metadata.{ARC_MARK}")}


def _origin_of(message: BaseMessage, cls: type[BaseMessage]) -> Origin:
    # The form of LangChain's `message_to_dict`, except that its `model_dump` would turn documents into dictionaries.
    kind = cls.model_fields["type"].default
    data = {**message.__dict__, **(message.model_extra or {}), "type": kind}
    return Origin(_FORMAT, f'{{"type":"{kind}","data":{dumps(data, field="message", extensions=_EXTENSIONS)}}}')


def _storable_of(value: Any) -> dict[str, Any] | None:
    """Return LangChain's own description of an object, if the object can be recreated from it."""
    if not isinstance(value, Serializable):
        return None
    try:
        form = value.to_json()
        if form["type"] == "constructor" and _revive({**form}) == value:
            return {"id": form["id"], "kwargs": form["kwargs"]}
    except Exception:  # noqa: BLE001 - any error of a foreign constructor means that it can't be recreated
        return None
    return None


def _made_again(form: Mapping[str, Any]) -> Any:
    return _revive({"lc": 1, "type": "constructor", **form})


def _without_secrets(extension: Extension) -> Extension:
    """Return the extension restricted to objects without keys or passwords; others are refused."""
    tag, to_storable, back = extension

    def checked(value: Any) -> Any:
        return None if isinstance(value, Serializable) and value.lc_secrets else to_storable(value)

    return tag, checked, back


_EXTENSIONS: tuple[Extension, ...] = ((_FORMAT, _storable_of, _made_again), *map(_without_secrets, OBJECTS))
