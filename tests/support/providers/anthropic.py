"""Anthropic: the body of a request to the Messages API.

Sources: Anthropic, "Messages API reference" (roles, top-level `system`, "consecutive user or assistant turns in your
request will be combined into a single turn"), "Handle tool calls" (results directly after their calls, all of them in
one user message, first in it), "Extended thinking", "Prefill Claude's response"; the wording of each rule's error is
that of answers with status 400 in public issue trackers.
"""

from collections.abc import Iterator, Mapping, Sequence
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

_ID = pattern(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = pattern(r"[a-zA-Z0-9_-]{1,128}")
_BLOCKS = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
}


def render(messages: Sequence[Message]) -> dict[str, Any]:
    """Render the messages as a request body, like Anthropic's documentation and client libraries.

    - System messages are moved into `system`, wherever they are.
    - Neighbours of the same role become one message; tool results belong to the user.
    - Blank text gives no block. A message with nothing else stays without content, unless a neighbour of its role has
      some. That is a violation, which the caller must prevent.
    - Thinking needs its signature. The final assistant message loses trailing white space.
    - Content without a block is omitted: audio, foreign blocks, an assistant's images.
    """
    turns: list[dict[str, Any]] = []
    for item in addressed([message for message in messages if message.role is not Role.SYSTEM]):
        role = "assistant" if item.message.role is Role.ASSISTANT else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(item, role)
    if turns and turns[-1]["role"] == "assistant":
        last = turns[-1]["content"]
        if last and last[-1]["type"] == "text":
            last[-1]["text"] = last[-1]["text"].rstrip()
    system = system_text(messages)
    return {"system": system, "messages": turns} if system else {"messages": turns}


def violations(request: Mapping[str, Any]) -> list[Violation]:
    """Return the violations of a request.

    Rules, each with the API's error:

    - `messages`: "messages: at least one message is required".
    - `role`: "Unexpected role "system". The Messages API accepts a top-level `system` parameter".
    - `first`: "messages: first message must use the "user" role".
    - `content`: "all messages must have non-empty content except for the optional final assistant message".
    - `text`: "text content blocks must be non-empty", "text content blocks must contain non-whitespace text"; in
      `system` too.
    - `trailing`: "final assistant content cannot end with trailing whitespace".
    - `block`: a block of a type that the role can't carry, or without what it needs.
    - `id`: "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'".
    - `duplicate`: "`tool_use` ids must be unique", in the whole request; "each tool_use must have a single result".
    - `unanswered`: "`tool_use` ids were found without `tool_result` blocks immediately after". The same error answers
      to calls that are not the last blocks of their message.
    - `orphan`: "unexpected `tool_use_id` found in `tool_result` blocks. Each `tool_result` block must have a
      corresponding `tool_use` block in the previous message."
    - `order`: results behind other blocks ("tool_result blocks must come first in the content array").
    - `thinking`: "thinking.signature: Field required"; "The final block in an assistant message cannot be `thinking`".
    """
    found = list(_system_violations(request.get("system")))
    messages = request.get("messages")
    if not isinstance(messages, Sequence) or not messages:
        return [*found, Violation("messages", None, "at least one message is required")]
    if messages[0].get("role") == "assistant":
        found.append(Violation("first", 0, "the first message must be the user's"))
    seen: set[str] = set()
    open_ids: set[str] = set()
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in _BLOCKS:
            found.append(Violation("role", index, f"{role!r} is neither user nor assistant"))
            continue
        blocks = _as_blocks(message.get("content"))
        final = index == len(messages) - 1 and role == "assistant"
        if not blocks and not final:
            found.append(Violation("content", index, "only a final assistant message may be empty"))
        _check_blocks(index, role, blocks, found)
        answers = _check_answers(index, blocks, open_ids, found)
        if open_ids - answers:
            missing = ", ".join(sorted(open_ids - answers))
            found.append(Violation("unanswered", index - 1, f"no result right after it for {missing}"))
        open_ids = _calls(index, blocks, seen, found)
        if final and blocks and blocks[-1].get("type") == "text" and _ends_blank(blocks[-1].get("text")):
            found.append(Violation("trailing", index, "the final assistant message ends with white space"))
    if open_ids:
        found.append(Violation("unanswered", len(messages) - 1, f"no result for {', '.join(sorted(open_ids))}"))
    return found


def _blocks(item: Addressed, role: str) -> list[dict[str, Any]]:
    shown = [block for part in text_parts(item.message) if (block := _block(part)) is not None]
    if item.answers is not None:
        content = [block for block in shown if block["type"] in ("text", "image", "document")]
        return [{"type": "tool_result", "tool_use_id": item.answers.id, "content": content}]
    shown = [block for block in shown if block["type"] in _BLOCKS[role]]
    calls = [
        {
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": {"text": call.arguments} if isinstance(call.arguments, str) else dict(call.arguments),
        }
        for call in item.calls
    ]
    return shown + calls


def _block(part: ContentPart) -> dict[str, Any] | None:
    match part.type:
        case "text" if part.text and not part.text.isspace():
            return {"type": "text", "text": part.text}
        case "thinking" if part.extra.get("signature"):
            return {"type": "thinking", "thinking": part.text or "", "signature": part.extra["signature"]}
        case "image":
            return {"type": "image", "source": _source(part)}
        case "file" if part.data or part.url:
            return {"type": "document", "source": _source(part)}
    return None


def _source(part: ContentPart) -> dict[str, Any]:
    if part.data is not None:
        return {"type": "base64", "media_type": part.mime_type or "image/png", "data": part.data}
    return {"type": "url", "url": part.url or ""}


def _as_blocks(content: object) -> Sequence[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, Sequence) else []


def _system_violations(system: object) -> Iterator[Violation]:
    if isinstance(system, Sequence) and not isinstance(system, str):
        for block in system:
            if not str(block.get("text") or ""):
                yield Violation("text", None, "an empty text block in system")


def _ends_blank(text: object) -> bool:
    return isinstance(text, str) and text != text.rstrip()


def _check_blocks(index: int, role: str, blocks: Sequence[Mapping[str, Any]], found: list[Violation]) -> None:
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    if not all(isinstance(text, str) and text for text in texts):
        found.append(Violation("text", index, "an empty text block"))
    elif texts and all(str(text).isspace() for text in texts):
        found.append(Violation("text", index, "text of nothing but white space"))
    for block in blocks:
        kind = block.get("type")
        if kind not in _BLOCKS[role]:
            found.append(Violation("block", index, f"a message of role {role} can't carry a block of type {kind!r}"))
        elif kind in ("image", "document") and not _has_source(block.get("source")):
            found.append(Violation("block", index, f"a block of type {kind} without its source"))
        elif kind == "thinking" and not block.get("signature"):
            found.append(Violation("thinking", index, "thinking without its signature"))
    if role == "assistant" and blocks and blocks[-1].get("type") in ("thinking", "redacted_thinking"):
        found.append(Violation("thinking", index, "the final block of an assistant message is thinking"))


def _has_source(source: object) -> bool:
    return isinstance(source, Mapping) and bool(source.get("url") or (source.get("data") and source.get("media_type")))


def _check_answers(
    index: int, blocks: Sequence[Mapping[str, Any]], open_ids: set[str], found: list[Violation]
) -> set[str]:
    """Return the ids that the message's results answer."""
    answered: set[str] = set()
    behind = False
    for block in blocks:
        if block.get("type") != "tool_result":
            behind = True
            continue
        call_id = str(block.get("tool_use_id") or "")
        if behind:
            found.append(Violation("order", index, f"the result for {call_id} stands behind another block"))
        if call_id in answered:
            found.append(Violation("duplicate", index, f"two results for {call_id}"))
        elif call_id not in open_ids:
            found.append(Violation("orphan", index, f"no call {call_id!r} in the message before"))
        answered.add(call_id)
    return answered


def _calls(index: int, blocks: Sequence[Mapping[str, Any]], seen: set[str], found: list[Violation]) -> set[str]:
    """Return the ids of the message's calls."""
    ids: set[str] = set()
    for block in blocks:
        if block.get("type") != "tool_use":
            if ids:
                found.append(Violation("unanswered", index, "a block stands between the calls and their results"))
            continue
        call_id = block.get("id")
        if not isinstance(call_id, str) or not _ID.match(call_id):
            found.append(Violation("id", index, f"{call_id!r} is no id of letters, digits, _ and -"))
            continue
        if call_id in seen:
            found.append(Violation("duplicate", index, f"the id {call_id} is used before"))
        if not _TOOL_NAME.match(str(block.get("name") or "")):
            found.append(Violation("block", index, f"{block.get('name')!r} is no tool's name"))
        if not is_object(block.get("input")):
            found.append(Violation("block", index, "a call's input must be an object"))
        seen.add(call_id)
        ids.add(call_id)
    return ids
