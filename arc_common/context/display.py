"""Helpers shared by the displays of a context window: names, shares, and texts made safe and short."""

import json
from collections.abc import Mapping, Sequence

from arc_common.context.context_window import ContextWindow
from arc_common.context.receipt import Item, LeftOut, Omission, Section, receipt_of
from arc_common.messages import Message, Role

TITLES = {
    "system": "system prompt",
    "tools": "tools and schemas",
    "facts": "facts",
    "summary": "summary",
    "history": "conversation",
    "user_message": "user message",
    "recalled": "recalled",
    "documents": "documents",
    "current_turn": "current turn",
}
"""The sections' display names."""

_BEST_FIRST = frozenset({"documents", "recalled", "tools"})
_SPOKEN = ("history", "user_message", "current_turn")
_NAME_CHARACTERS = 120
_SCORES = 6

_INVISIBLE: dict[int, str | int] = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys((0x2028, 0x2029), "\n"),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
    **dict.fromkeys(range(0xE0000, 0xE0080), 0xFFFD),
}


def visible(text: str) -> str:
    """Replace control characters, so that every character of the text is displayed rather than interpreted."""
    return text.replace("\r\n", "\n").translate(_INVISIBLE)


def excerpt(text: str, most: int) -> str:
    """Return the first `most` characters of the text, made `visible`."""
    return visible(text if len(text) <= most else f"{text[: most - 1].rstrip()}…")


def even_share(lengths: Sequence[int], total: int) -> int:
    """Return the largest limit per length that keeps the sum within `total`; short lengths leave room to others."""
    left = total
    for place, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - place)
        if length > share:
            return share
        left -= length
    return total


def title(section: Section) -> str:
    """Return a section's display name."""
    return TITLES.get(section.name) or excerpt(section.name, _NAME_CHARACTERS)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 item`, `1,200 items`."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def shown_sections(window: ContextWindow) -> list[Section]:
    """Return the sections that are not empty."""
    return [section for section in window.sections if section.tokens or section.items]


def best_first(section: Section) -> bool:
    """Return whether a section's items are ordered best first; the others are ordered by time, newest last."""
    return section.name in _BEST_FIRST


def shown_items(section: Section, most: int) -> tuple[tuple[Item, ...], int]:
    """Return a section's `most` most important items, and the number of its other items."""
    items = section.items
    others = max(len(items) - most, 0)
    return tuple(items[:most] if best_first(section) else items[others:]), others


def error_note(window: ContextWindow) -> str:
    """Say how many tokens are kept free because the counter estimates; "" if none are."""
    reserve = window.receipt.error_reserve
    return f"{reserve:,} kept free because tokens are estimated" if reserve else ""


def free_tokens(window: ContextWindow) -> int:
    """Return the tokens of the budget that the request does not use."""
    return max(window.receipt.input_tokens - window.receipt.error_reserve - window.total_tokens, 0)


def share_used(window: ContextWindow) -> str:
    """Return the share of the budget used, in per cent: 100 only for a full budget, 0 only for an empty request."""
    limit = window.receipt.input_tokens
    percent = 100 * window.total_tokens // limit if limit else 0
    return f"{percent}%" if percent or not window.total_tokens else "under 1%"


def left_out(window: ContextWindow) -> tuple[int, int]:
    """Return the number of omitted or shortened items, and their tokens."""
    receipt = window.receipt
    count = len(receipt.nearest) + sum(left.count for left in receipt.rest.values())
    tokens = sum(omission.tokens for omission in receipt.nearest) + sum(left.tokens for left in receipt.rest.values())
    return count, tokens


def rest(window: ContextWindow, *, named: int) -> Mapping[str, LeftOut]:
    """Summarise the omissions after the first `named`, by reason."""
    omissions = window.receipt.nearest[named:]
    return receipt_of((), omissions, rest=window.receipt.rest, nearest=0).rest


def messages_by_item(window: ContextWindow) -> Mapping[int, Message]:
    """Map `id(item)` to the message each item represents; empty for a window that arc did not build."""
    items = [item for name in _SPOKEN for section in window.sections if section.name == name for item in section.items]
    messages = [message for message in window.messages if message.role is not Role.SYSTEM]
    return dict(zip(map(id, items), messages, strict=True)) if len(items) == len(messages) else {}


def about(item: Item | Omission, message: Message | None = None) -> str:
    """Return an item's kind (a message's role), name, id and scores as one short line."""
    kind = item.kind if message is None else message.role.value
    name = message.name if message else None
    scores = [f"{part} {score:.3g}" for part, score in list(item.score_parts.items())[:_SCORES]]
    return " · ".join(excerpt(part, _NAME_CHARACTERS) for part in (kind, name, item.id, *scores) if part)


def said(item: Item, message: Message | None = None) -> str:
    """Return an item's text as a model reads it; for a message, also its tool calls and non-text parts."""
    lines = [item.text] if item.text else []
    if message is not None:
        if not isinstance(message.content, str):
            lines += [f"[{part.type}]" for part in message.content or () if part.type != "text"]
        lines += [f"→ {call.name}({_arguments(call.arguments)})" for call in message.tool_calls]
    return "\n".join(lines)


def _arguments(arguments: Mapping[str, object] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False, default=str)
