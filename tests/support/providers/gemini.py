"""Gemini: the body of a request to `generateContent`.

Sources: Google, "Gemini API reference: Content" (roles, parts, one datum each), "Function calling with the Gemini API"
(calls, responses, parallel calls), "Vertex AI: inference reference" ("a Content message must have at least one Part");
the wording of each rule's error is that of answers with status 400 (INVALID_ARGUMENT) in public issue trackers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from arc_common.messages import ContentPart, Message, Role
from tests.support.providers.rules import (
    Addressed,
    Violation,
    addressed,
    is_object,
    pattern,
    system_text,
    text_parts,
)

_FUNCTION_NAME = pattern(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_DATA = frozenset(
    {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
)


def render(messages: Sequence[Message]) -> dict[str, Any]:
    """Render the messages as a request body, like Google's documentation.

    - System messages become the one `systemInstruction`, wherever they are.
    - Neighbours of the same role become one content, so that user and model alternate; only the responses to a turn's
      calls are a content of their own, all of them together.
    - Empty text gives no part. A content with nothing else stays without parts: a violation, which the caller must
      prevent.
    - Thoughts and foreign blocks are omitted: only the signatures on calls are sent back, by the adapter.
    """
    contents: list[dict[str, Any]] = []
    previous = ""
    for item in addressed([message for message in messages if message.role is not Role.SYSTEM]):
        kind = item.message.role.value
        if kind != previous:
            contents.append({"role": "model" if item.message.role is Role.ASSISTANT else "user", "parts": []})
        contents[-1]["parts"] += _parts(item)
        previous = kind
    system = system_text(messages)
    if not system:
        return {"contents": contents}
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": contents}


def violations(request: Mapping[str, Any]) -> list[Violation]:
    """Return the violations of a request.

    Rules, each with the API's error:

    - `contents`: "GenerateContentRequest.contents: contents is not specified".
    - `role`: "Please use a valid role: user, model."
    - `first`: "First content should be with role 'user'" (the client libraries' check of a chat's history).
    - `last`: "Please ensure that multiturn requests ends with a user role or a function response".
    - `parts`: "GenerateContentRequest.contents[0].parts: contents.parts must not be empty".
    - `part`: "required oneof field 'data' must have one initialized field"; a datum without what it needs, or from the
      wrong role.
    - `text`: "Unable to submit request because it has an empty text parameter"; in `systemInstruction` too.
    - `name`: "Invalid function name. Must start with a letter or an underscore", at most 64 characters;
      "function_response.name: Name cannot be empty".
    - `call_turn`: "Please ensure that function call turn comes immediately after a user turn or after a function
      response turn".
    - `response_turn`: "Please ensure that function response turn comes immediately after a function call turn".
    - `count`: "Please ensure that the number of function response parts is equal to the number of function call parts
      of the function call turn"; the names and, where there are any, the ids have to be the calls' too.
    """
    found = list(_system_violations(request.get("systemInstruction")))
    contents = request.get("contents")
    if not isinstance(contents, Sequence) or not contents:
        return [*found, Violation("contents", None, "contents is not specified")]
    if contents[0].get("role") == "model":
        found.append(Violation("first", 0, "the first content must be the user's"))
    if contents[-1].get("role") == "model":
        found.append(Violation("last", len(contents) - 1, "the last content must be the user's or a function response"))
    calls: list[Mapping[str, Any]] = []
    previous = ""
    for index, content in enumerate(contents):
        role, parts = content.get("role"), content.get("parts")
        if role not in ("user", "model"):
            found.append(Violation("role", index, f"{role!r} is neither user nor model"))
        if not isinstance(parts, Sequence) or not parts:
            found.append(Violation("parts", index, "a content needs at least one part"))
            parts = []
        for part in parts:
            found += _part_violations(index, role, part)
        made = [part["functionCall"] for part in parts if is_object(part.get("functionCall"))]
        responses = [part["functionResponse"] for part in parts if is_object(part.get("functionResponse"))]
        if made and previous in ("", "model"):
            found.append(Violation("call_turn", index, "a function call must follow a user turn or a response turn"))
        if responses and not calls:
            found.append(Violation("response_turn", index, "no function call turn right before it"))
        elif calls and not responses:
            found.append(Violation("response_turn", index, "the calls before it have no response here"))
        elif not _match(calls, responses):
            found.append(Violation("count", index, f"{len(responses)} responses to {len(calls)} calls, or to others"))
        calls, previous = made, str(role)
    return found


def _parts(item: Addressed) -> list[dict[str, Any]]:
    shown = [part for part in map(_part, text_parts(item.message)) if part is not None]
    if item.answers is not None:
        response = {"name": item.answers.name, "response": {"result": item.message.text}, "id": item.answers.id}
        return [{"functionResponse": response}]
    return shown + [
        {
            "functionCall": {
                "id": call.id,
                "name": call.name,
                "args": {"text": call.arguments} if isinstance(call.arguments, str) else dict(call.arguments),
            }
        }
        for call in item.calls
    ]


def _part(part: ContentPart) -> dict[str, Any] | None:
    match part.type:
        case "text" if part.text:
            return {"text": part.text}
        case "image" | "audio" | "file":
            mime_type = part.mime_type or "application/octet-stream"
            if part.data is not None:
                return {"inlineData": {"mimeType": mime_type, "data": part.data}}
            return {"fileData": {"mimeType": mime_type, "fileUri": part.url}} if part.url else None
    return None


def _system_violations(system: object) -> list[Violation]:
    if not isinstance(system, Mapping):
        return []
    parts = system.get("parts") or []
    if parts and all(part.get("text") for part in parts):
        return []
    return [Violation("text", None, "systemInstruction needs at least one part, each with text")]


def _part_violations(index: int, role: object, part: Mapping[str, Any]) -> list[Violation]:
    data = [name for name in part if name in _DATA]
    if len(data) != 1:
        return [Violation("part", index, f"a part must have one datum, not {len(data)}")]
    (name,) = data
    value = part[name]
    if name == "text":
        return [] if isinstance(value, str) and value else [Violation("text", index, "an empty text parameter")]
    if not is_object(value):
        return [Violation("part", index, f"{name} must be an object")]
    if name in ("inlineData", "fileData"):
        held = value.get("data") if name == "inlineData" else value.get("fileUri")
        return [] if held and value.get("mimeType") else [Violation("part", index, f"{name} without its value")]
    found = []
    if name in ("functionCall", "functionResponse"):
        if role != ("model" if name == "functionCall" else "user"):
            found.append(Violation("part", index, f"a content of role {role} can't carry a {name}"))
        if not _FUNCTION_NAME.match(str(value.get("name") or "")):
            found.append(Violation("name", index, f"{value.get('name')!r} is no function's name"))
        if not is_object(value.get("args", {}) if name == "functionCall" else value.get("response")):
            found.append(Violation("part", index, f"the value of a {name} must be an object"))
    return found


def _match(calls: Sequence[Mapping[str, Any]], responses: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether responses and calls agree in number, names and, if all have one, ids."""
    if Counter(call.get("name") for call in calls) != Counter(response.get("name") for response in responses):
        return False
    call_ids, response_ids = [item.get("id") for item in calls], [item.get("id") for item in responses]
    return not (all(call_ids) and all(response_ids)) or Counter(call_ids) == Counter(response_ids)
