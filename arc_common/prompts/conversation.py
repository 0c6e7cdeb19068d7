"""A conversation as text for a model that reads about it."""

import json
from collections.abc import Sequence

from arc_common.messages import ContentPart, Message, Role

__all__ = ["render_conversation"]

_TOOL_RESULT_CHARACTERS = 600
_ARGUMENT_CHARACTERS = 200


def render_conversation(messages: Sequence[Message], *, max_characters: int) -> str:
    """The messages, a line each: `[user]: …`, `[assistant]: …`, tool calls and results compactly.

    - Further lines of a message are indented, so that no text can pretend to be another message.
    - System messages are left out: they are the developer's, not the conversation's.
    - Longer than `max_characters`, the longest messages lose their middles, as little as it takes; short ones stay.
    """
    said = [(_speaker(message), _content(message)) for message in messages if message.role is not Role.SYSTEM]
    said = [(speaker, content) for speaker, content in said if content]
    ceiling = _ceiling([len(content) for _, content in said], max_characters)
    return "\n".join(
        f"[{speaker}]: {_without_middle(content, ceiling)}".replace("\n", "\n    ") for speaker, content in said
    )


def _speaker(message: Message) -> str:
    if message.role is Role.TOOL:
        return f"result of {_one_line(message.name)}" if message.name else "tool result"
    return message.role.value


def _content(message: Message) -> str:
    text = message.text.strip()
    if message.role is Role.TOOL:
        return _without_middle(text, _TOOL_RESULT_CHARACTERS)
    parts = [text] if text else []
    if message.content is not None and not isinstance(message.content, str):
        parts += [shown for part in message.content if (shown := _thing(part))]
    parts += [f"(calls {_one_line(call.name)}: {_arguments(call.arguments)})" for call in message.tool_calls]
    return "\n".join(parts)


def _thing(part: ContentPart) -> str:
    if part.type not in ("image", "audio", "file"):
        return ""
    return f"({part.type}: {_one_line(part.name)})" if part.name else f"({part.type})"


def _arguments(arguments: object) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return _without_middle(_one_line(text), _ARGUMENT_CHARACTERS)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _ceiling(lengths: Sequence[int], total: int) -> int:
    """The most that each may have so that together they have no more than `total`: long ones give, short ones don't."""
    left, count = total, len(lengths)
    for length in sorted(lengths):
        if length * count > left:
            return left // count
        left -= length
        count -= 1
    return max(lengths, default=0)


def _without_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … ({len(text) - 2 * half:,} characters left out) … {text[len(text) - half :]}"
