"""OpenAI: the messages of a chat completion.

Sources: OpenAI, "API Reference: Create chat completion" (roles, content by role, `tool_calls`, `tool_call_id`) and
"Function calling" guide; the wording of each rule's error is that of answers with status 400 in public issue trackers.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from arc_common.messages import ContentPart, Message, Role
from tests.support.providers.rules import Addressed, Violation, addressed, data_url, is_object, pattern, text_parts

_ROLES = frozenset({"developer", "system", "user", "assistant", "tool"})
_PARTS = {
    "developer": {"text"},
    "system": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
_LONGEST_ID = 40
_FUNCTION_NAME = pattern(r"[a-zA-Z0-9_-]{1,64}")
_NAME = pattern(r"[^\s<|\\/>]{1,64}")


def render(messages: Sequence[Message]) -> dict[str, Any]:
    """Render the messages as the messages of a request.

    - Each message is one message of the request, in order, system messages included.
    - Content that a role can't carry is omitted: thinking, foreign blocks, images of an assistant or a tool.
    - Missing content stays missing (`null`), except in a tool result, which must have some.
    """
    return {"messages": [_rendered(item) for item in addressed(messages)]}


def violations(request: Mapping[str, Any]) -> list[Violation]:
    """Return the violations of a request.

    Rules, each with the API's error:

    - `messages`: "Invalid 'messages': empty array. Expected an array with minimum length 1".
    - `role`: a role that is none of developer, system, user, assistant, tool.
    - `content`: "Invalid value for 'content': expected a string, got null"; only an assistant that calls tools may
      have none. "Invalid 'content': empty array."
    - `part`: a content part of a type that the role can't carry, or without its value (reference: "content").
    - `name`: "Invalid 'messages[1].name': string does not match pattern".
    - `tool_calls`: calls by another role than the assistant, "Invalid 'tool_calls': empty array", arguments that are
      no string, a function's name that does not match `^[a-zA-Z0-9_-]+$` or has more than 64 characters.
    - `id`: a call's id that is missing, or "string too long. Expected a string with maximum length 40".
    - `unanswered`: "An assistant message with 'tool_calls' must be followed by tool messages responding to each
      'tool_call_id'."
    - `orphan`: "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
    - `duplicate`: "Duplicate value for 'tool_call_id'", among the calls of a message or the results after it.
    """
    messages = request.get("messages")
    if not isinstance(messages, Sequence) or not messages:
        return [Violation("messages", None, "there must be at least one message")]
    found: list[Violation] = []
    open_ids: set[str] = set()
    answered: set[str] = set()
    caller = -1
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in _ROLES:
            found.append(Violation("role", index, f"{role!r} is no role"))
            continue
        if role == "tool":
            _check_result(index, message.get("tool_call_id"), open_ids, answered, found)
        else:
            if open_ids:
                found.append(_unanswered(caller, open_ids))
            open_ids, answered, caller = _call_ids(index, message, found), set(), index
        _check_content(index, message, found)
        name = message.get("name")
        if name is not None and not _NAME.match(name):
            found.append(Violation("name", index, f"{name!r} is empty, too long or has a space or a bracket in it"))
    if open_ids:
        found.append(_unanswered(caller, open_ids))
    return found


def _rendered(item: Addressed) -> dict[str, Any]:
    message = item.message
    rendered: dict[str, Any] = {"role": message.role.value, "content": _content(message)}
    if message.name is not None and message.role is not Role.TOOL:
        rendered["name"] = message.name
    if item.answers is not None:
        rendered["tool_call_id"] = item.answers.id
    if item.calls:
        rendered["content"] = rendered["content"] or None
        rendered["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in item.calls
        ]
    return rendered


def _content(message: Message) -> str | list[dict[str, Any]] | None:
    if message.content is None:
        return "" if message.role is Role.TOOL else None
    if isinstance(message.content, str):
        return message.content
    allowed = _PARTS[message.role.value]
    parts = [part for part in map(_part, text_parts(message)) if part["type"] in allowed]
    return parts or ""


def _part(part: ContentPart) -> dict[str, Any]:
    match part.type:
        case "text":
            return {"type": "text", "text": part.text}
        case "image":
            return {"type": "image_url", "image_url": {"url": data_url(part)}}
        case "audio" if part.data:
            kind = (part.mime_type or "audio/wav").rpartition("/")[2]
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": kind}}
        case "file" if part.data:
            return {"type": "file", "file": {"filename": part.name or "file", "file_data": data_url(part)}}
    return {"type": "none"}


def _arguments(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False, default=str)


def _unanswered(index: int, ids: set[str]) -> Violation:
    return Violation("unanswered", index, f"no tool message answers {', '.join(sorted(ids))}")


def _check_result(index: int, call_id: object, open_ids: set[str], answered: set[str], found: list[Violation]) -> None:
    if not isinstance(call_id, str) or not call_id:
        found.append(Violation("id", index, "a tool message needs the id of the call that it answers"))
    elif call_id in open_ids:
        open_ids.discard(call_id)
        answered.add(call_id)
    elif call_id in answered:
        found.append(Violation("duplicate", index, f"{call_id} is answered twice"))
    else:
        found.append(Violation("orphan", index, f"no assistant message right before it made the call {call_id}"))


def _call_ids(index: int, message: Mapping[str, Any], found: list[Violation]) -> set[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return set()
    if message["role"] != "assistant":
        found.append(Violation("tool_calls", index, f"a message of role {message['role']} can't call tools"))
        return set()
    if not calls:
        found.append(Violation("tool_calls", index, "an empty array of calls"))
    ids: set[str] = set()
    for call in calls:
        call_id, function = call.get("id"), call.get("function")
        if not isinstance(call_id, str) or not 0 < len(call_id) <= _LONGEST_ID:
            found.append(Violation("id", index, f"{call_id!r} is no id of 1 to {_LONGEST_ID} characters"))
        elif call_id in ids:
            found.append(Violation("duplicate", index, f"two calls of one message have the id {call_id}"))
        else:
            ids.add(call_id)
        if not is_object(function) or not _FUNCTION_NAME.match(str(function.get("name") or "")):
            found.append(Violation("tool_calls", index, "a call needs a function's name of letters, digits, _ and -"))
        elif not isinstance(function.get("arguments"), str):
            found.append(Violation("tool_calls", index, "a call's arguments must be JSON text"))
    return ids


def _check_content(index: int, message: Mapping[str, Any], found: list[Violation]) -> None:
    content, role = message.get("content"), message["role"]
    if content is None:
        if role != "assistant" or not message.get("tool_calls"):
            found.append(Violation("content", index, "expected a string, got null"))
        return
    if isinstance(content, str):
        return
    if not isinstance(content, Sequence) or not content:
        found.append(Violation("content", index, "neither text nor a list of at least one part"))
        return
    for part in content:
        kind = part.get("type")
        if kind not in _PARTS[role]:
            found.append(Violation("part", index, f"a message of role {role} can't carry a part of type {kind!r}"))
        elif kind == "text" and not isinstance(part.get("text"), str):
            found.append(Violation("part", index, "a text part without text"))
        elif kind == "image_url" and not (is_object(part.get("image_url")) and part["image_url"].get("url")):
            found.append(Violation("part", index, "an image part without an address"))
