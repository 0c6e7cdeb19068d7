"""Cuts texts and messages to a length. Pure."""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.messages import ContentPart, Message
from arc_common.text.sentences import is_border

MARKER = "... [truncated]"
"""The end of a truncated text."""

_WORD = 80
"""Characters searched for the end of a word; text without one (base64) is cut between characters."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words (Thai, Lao, Burmese, Khmer, Chinese, Japanese): cut after any character."""

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced code block: the positions of its opening line, first code line, closing line and end."""

    start: int
    body: int
    closing: int
    end: int
    closing_line: str


class CuttableText:
    """A text that can be truncated to any length."""

    __slots__ = ("_fences", "_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._fences = fences_of(text)
        self._starts = [fence.start for fence in self._fences]

    def head(self, most: int) -> str | None:
        """Return the text's beginning in at most `most` characters, including `MARKER`; `None` if nothing is left."""
        end = self._border(most - len(MARKER))
        fence = self._fence_at(end)
        closing = ""
        if fence is not None:
            closing = f"\n{fence.closing_line}\n"
            end = self._border(min(end - len(closing), fence.closing))
            line = self.text.rfind("\n", max(fence.body, end - _WORD), end + 1)
            end = line if line >= 0 else end
            if not self.text[fence.body : end].strip():
                end, closing = fence.start, ""
        kept = self.text[:end].rstrip()
        return f"{kept}{closing}{MARKER}" if kept else None

    def _border(self, position: int) -> int:
        """Return the last position at or before `position` where the text may be cut."""
        text = self.text
        position = min(position, len(text))
        if position <= 0:
            return 0
        for end in range(position, max(0, position - _WORD), -1):
            if text[end - 1].isspace() or text[end : end + 1].isspace():  # `head` strips the space
                return end
            if _UNSPACED.match(text, end - 1) and is_border(text, end):
                return end
        while not is_border(text, position):
            position -= 1
        return position

    def _fence_at(self, position: int) -> Fence | None:
        """Return the fence that a cut before `position` would leave open."""
        index = bisect_right(self._starts, position) - 1
        if index < 0:
            return None
        fence = self._fences[index]
        return fence if fence.start < position < fence.end else None


def fences_of(text: str) -> list[Fence]:
    """Return a text's fenced code blocks (CommonMark 4.5; any indentation, because models indent them in lists)."""
    fences: list[Fence] = []
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        _, marks, rest = match.groups()
        if opening is None:
            if marks[0] == "~" or "`" not in rest:
                opening = match
        elif marks[0] == opening[2][0] and len(marks) >= len(opening[2]) and not rest.strip():
            fences.append(_fence(opening, match.start(), match.end()))
            opening = None
    if opening is not None:
        fences.append(_fence(opening, len(text), len(text) + 1))
    return fences


def _fence(opening: re.Match[str], closing: int, end: int) -> Fence:
    return Fence(opening.start(), opening.end() + 1, closing, end, opening[1] + opening[2])


_Head = TypeVar("_Head")

LEAST = 16 + len(MARKER)
"""Characters of the shortest head in a search by tokens, about three words; a shorter one is useless."""

_FINE_ENOUGH = 8
"""A search ends this many characters (or a 256th of the head) from the best cut, because cuts follow words anyway."""


def truncated(
    message: Message,
    *,
    max_characters: int | None = None,
    max_tokens: int | None = None,
    count: Callable[[Message], int] | None = None,
) -> Message | None:
    """Return the message if it fits the limits, or a copy with a truncated text.

    - The copy's text ends in `... [truncated]`, which counts towards the limits. It is cut after a word, or between two
      grapheme clusters; an open code fence is closed.
    - Only text is cut: tool calls, images and thinking are kept. Text parts after the cut are dropped.
    - The copy has no `origin`, because that contains the whole text; all other fields are kept.
    - `max_characters` limits the text, `max_tokens` the whole message as `count` counts it. The copy then fills about
      99 % of the limit, after a number of counts that grows with the logarithm of its length (22 for 30,000 tokens).
    - Returns `None` if no useful head fits: nothing but space, or with `max_tokens` fewer than about 16 characters.
    """
    if max_characters is None and max_tokens is None:
        raise InvalidInputError("max_tokens", None, "a limit: max_tokens, max_characters or both")
    for name, limit in (("max_characters", max_characters), ("max_tokens", max_tokens)):
        if limit is not None:
            check_whole(name, limit, least=0)
    text = _CuttableMessage(message)
    most = text.length if max_characters is None else max_characters
    whole: Message | None = message if text.length <= most else text.head(most)
    if max_tokens is None:
        return whole
    if count is None:
        raise InvalidInputError("count", count, "a function that counts a message, when max_tokens is given")
    if whole is not None and count(whole) <= max_tokens:
        return whole
    return _longest(text.head, lambda head: count(head) <= max_tokens, most=min(most, text.length))


def longest_head(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return the text if it fits, or its longest head that fits, cut as by `truncated`; `None` if none fits."""
    if fits(text):
        return text
    return _longest(CuttableText(text).head, fits, most=len(text))


def _longest(head: Callable[[int], _Head | None], fits: Callable[[_Head], bool], *, most: int) -> _Head | None:
    """Return the longest head below `most` characters that fits: double the size while it fits, then bisect."""
    best: _Head | None = None
    low, high, size = 0, most, LEAST
    while high - low > max(_FINE_ENOUGH, low >> 8):
        if size >= high:
            size = (low + high) // 2
        if size < LEAST:
            break
        found = head(size)
        if found is None or fits(found):  # None where a fence begins: a longer head may have content
            best, low = found if found is not None else best, size
            size *= 2
        else:
            high = size
            size = (low + high) // 2
    return best


class _CuttableMessage:
    """A message whose text can be truncated to any length."""

    def __init__(self, message: Message) -> None:
        self._message = message
        content = message.content
        self._parts = (ContentPart("text", content),) if isinstance(content, str) else content or ()
        self._texts = [CuttableText(part.text or "") if part.type == "text" else None for part in self._parts]
        self.length = len(message.text)

    def head(self, most: int) -> Message | None:
        """Return a copy with at most `most` characters of text; `None` if nothing useful is left."""
        parts: list[ContentPart] = []
        room = most
        kept_text = False
        for part, text in zip(self._parts, self._texts, strict=True):
            if text is None:
                parts.append(part)
            elif room and len(text.text) <= room - len(MARKER):  # the marker must still fit after it
                parts.append(part)
                room -= len(text.text)
                kept_text = kept_text or bool(text.text.strip())
            elif room:
                head = text.head(room)
                parts.append(replace(part, text=head or MARKER))
                kept_text = kept_text or head is not None
                room = 0
        if not kept_text:
            return None
        content = parts[0].text if isinstance(self._message.content, str) else tuple(parts)
        return replace(self._message, content=content, origin=None)


_MEDIA = frozenset({"image", "audio", "file"})


def shortened(message: Message, *, max_tokens: int, count: Callable[[Message], int]) -> Message | None:
    """Return the message if it fits, or a truncated copy (see `truncated`), without media if necessary."""
    found = truncated(message, max_tokens=max_tokens, count=count)
    if found is None and (bare := _without_media(message)) is not message:
        found = truncated(bare, max_tokens=max_tokens, count=count)
    return found


def _without_media(message: Message) -> Message:
    """Return the message with text placeholders for images, audio and files, and without its `origin`."""
    content = message.content
    if content is None or isinstance(content, str) or not any(part.type in _MEDIA for part in content):
        return message
    parts = (ContentPart("text", f"[cleared: {part.type}]") if part.type in _MEDIA else part for part in content)
    return replace(message, content=tuple(parts), origin=None)
