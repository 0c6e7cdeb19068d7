"""Compares two requests: the items added and removed, and the length of the shared beginning. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Prefix

from arc_common.context import ContextWindow, Item
from arc_common.context.display import LOOKS, messages_by_item, said, shown_sections, title
from arc_common.messages import Message
from arc_common.prompts.context import without_fences

OTHER = "other"
"""The name of the colour that sections without one of their own share."""
_AROUND = 160
"""Characters shown before and after the place where two requests part."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A section in a bar: its name, title, tokens, and its place and width in percent of the bar."""

    name: str
    title: str
    tokens: int
    start: float
    width: float


def segments(window: ContextWindow, whole: int) -> list[Segment]:
    """Return a request's sections as parts of a bar that stands for `whole` tokens."""
    found, start = [], 0.0
    for section in shown_sections(window):
        width = 100 * section.tokens / max(whole, 1)
        if section.tokens:
            found.append(Segment(known(section.name), title(section), section.tokens, start, width))
            start += width
    return found


def known(name: str) -> str:
    """Return a section's name if it has a colour of its own, otherwise "other"."""
    return name if name in LOOKS else OTHER


@dataclass(frozen=True, slots=True)
class Change:
    """An item that only one of two requests shows: its section's title, its text, and its tokens."""

    section: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Break:
    """The message (or "tools", number 0) where the shared beginning of two requests ends, and both texts there."""

    where: str
    number: int
    shared: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two requests side by side; `place` is `None` if the later one repeats or continues the earlier one."""

    sections: tuple[tuple[str, str, int, int], ...]
    """For each section its name, title, tokens before and tokens now."""
    tokens: tuple[int, int]
    added: tuple[Change, ...]
    removed: tuple[Change, ...]
    shared: int
    """About how many of the later request's first tokens both share, and what percentage of it."""
    percent: int
    place: Break | None


def compare(before: ContextWindow, now: ContextWindow) -> Comparison:
    """Compare a request with an earlier one, or with another form of the same one."""
    titles = {section.name: title(section) for window in (before, now) for section in shown_sections(window)}
    was, becomes = [{section.name: section.tokens for section in window.sections} for window in (before, now)]
    order = [*LOOKS, *sorted(titles.keys() - LOOKS.keys())]
    rows = [(known(one), titles[one], was.get(one, 0), becomes.get(one, 0)) for one in order if one in titles]
    share, place = _shared_beginning(before, now)
    return Comparison(
        sections=tuple(rows),
        tokens=(before.total_tokens, now.total_tokens),
        added=_only_in(now, before),
        removed=_only_in(before, now),
        shared=int(share * now.total_tokens),
        percent=int(100 * share),
        place=place,
    )


def _only_in(one: ContextWindow, other: ContextWindow) -> tuple[Change, ...]:
    seen = {_identity(item) for section in other.sections for item in section.items}
    messages = messages_by_item(one)
    return tuple(
        Change(title(section), _text(item, messages.get(id(item))), item.tokens or 0)
        for section in one.sections
        for item in section.items
        if _identity(item) not in seen
    )


def _identity(item: Item) -> tuple[str, str]:
    """Return a key by which two requests share an item: a message may have got its id only when it was stored."""
    text = without_fences(item.text).strip()
    return item.kind, (text if item.kind == "message" and text else item.id) or text


def _text(item: Item, message: Message | None) -> str:
    return without_fences(said(item, message)).strip().removeprefix("- ") or item.id or item.kind


def _shared_beginning(before: ContextWindow, now: ContextWindow) -> tuple[float, Break | None]:
    """Return the shared beginning's part of the later request's characters, and the place where it ends.

    Providers read tools first, then the messages in order.
    """
    if _tools(before) != _tools(now):
        names = [", ".join(name for name, _ in _tools(window)) or "none" for window in (before, now)]
        return 0.0, Break("tools", 0, "", *names)
    ours, theirs = [list(map(_as_sent, window.messages)) for window in (now, before)]
    whole = sum(map(len, ours)) or 1
    same = 0
    for number, (text, message) in enumerate(zip(ours, now.messages, strict=True), 1):
        earlier = theirs[number - 1] if number <= len(theirs) else None
        if earlier is None:  # it continues after the earlier request
            return same / whole, None
        if earlier != text:
            common = Prefix.similarity(earlier, text)
            place = Break(
                message.role.value,
                number,
                text[max(common - _AROUND, 0) : common],
                earlier[common : common + _AROUND],
                text[common : common + _AROUND],
            )
            return (same + common) / whole, place
        same += len(text)
    return 1.0, None


def _tools(window: ContextWindow) -> list[tuple[str, int | None]]:
    found = [section for section in window.sections if section.name == "tools"]
    return [(item.id or item.kind, item.tokens) for section in found for item in section.items]


def _as_sent(message: Message) -> str:
    """Return all that a provider is sent of a message, as one text."""
    calls = [f"\n→ {call.name}({_json(call.arguments)})" for call in message.tool_calls]
    others: Sequence[str] = ()
    if not isinstance(message.content, str | None):
        others = [f"\n[{part.type} {part.url or part.name or ''}]" for part in message.content if part.type != "text"]
    speaker = f"{message.role.value}{f' {message.name}' if message.name else ''}: "
    return "".join([speaker, message.text, *others, *calls])


def _json(arguments: Mapping[str, object] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False, default=str)
