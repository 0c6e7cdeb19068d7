"""The head of a message that is too long."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message
from arc_common.tokens.compression.base import check_whole_number
from arc_common.tokens.compression.cuts import MARKER, CuttableText

__all__ = ["longest_head", "truncated"]

_Head = TypeVar("_Head")

LEAST = 16 + len(MARKER)
"""Characters of the shortest head looked for by tokens: some three words; less of a text says nothing."""

_FINE_ENOUGH = 8
"""A search ends within so many characters of the best cut, or a 256th of the head: a cut falls behind a word anyway."""


def truncated(
    message: Message,
    *,
    max_characters: int | None = None,
    max_tokens: int | None = None,
    count: Callable[[Message], int] | None = None,
) -> Message | None:
    """A message that fits the limits: itself, or a copy that keeps the head of its text.

    - The copy's text ends in `... [truncated]`, which counts. It is cut behind a word, or between two characters as
      readers see them; an open code fence is closed.
    - Only text is cut: tool calls, images and thinking stay. Text parts behind the cut go.
    - The copy has no `origin`, for that says the whole text; everything else it keeps.
    - With `max_tokens`, fills it to about 99 %. Counts the message, then some heads: their number grows with the
      logarithm of what fits (22 for 30,000 tokens), and none is more than about twice as long as that.

    Args:
        message: The message.
        max_characters: Characters of text.
        max_tokens: Tokens of the whole message.
        count: The tokens of a message; needed with `max_tokens`.

    Returns:
        `None` when no head worth keeping fits: nothing but space, or with `max_tokens` less than some 16 characters.

    Raises:
        InvalidInputError: No limit is given, one is negative or no whole number, or `count` is missing.
    """
    if max_characters is None and max_tokens is None:
        raise InvalidInputError("max_tokens", None, "a limit: max_tokens, max_characters or both")
    for name, limit in (("max_characters", max_characters), ("max_tokens", max_tokens)):
        if limit is not None:
            check_whole_number(name, limit)
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
    """The longest head of a text that fits, as `truncated` cuts it, or the text itself; `None` when none does."""
    if fits(text):
        return text
    return _longest(CuttableText(text).head, fits, most=len(text))


def _longest(head: Callable[[int], _Head | None], fits: Callable[[_Head], bool], *, most: int) -> _Head | None:
    """The longest head below `most` characters that fits: doubles while it does, then halves the difference."""
    best: _Head | None = None
    low, high, size = 0, most, LEAST
    while high - low > max(_FINE_ENOUGH, low >> 8):
        if size >= high:
            size = (low + high) // 2
        if size < LEAST:
            break
        found = head(size)
        if found is None or fits(found):  # nothing yet, as where a fence begins: a longer head may say something
            best, low = found if found is not None else best, size
            size *= 2
        else:
            high = size
            size = (low + high) // 2
    return best


class _CuttableMessage:
    """A message, and copies with heads of its text."""

    def __init__(self, message: Message) -> None:
        self._message = message
        content = message.content
        self._parts = (ContentPart("text", content),) if isinstance(content, str) else content or ()
        self._texts = [CuttableText(part.text or "") if part.type == "text" else None for part in self._parts]
        self.length = len(message.text)

    def head(self, most: int) -> Message | None:
        """A copy with at most `most` characters of text; `None` when nothing worth keeping is left."""
        parts: list[ContentPart] = []
        room = most
        kept_text = False
        for part, text in zip(self._parts, self._texts, strict=True):
            if text is None:
                parts.append(part)
            elif room and len(text.text) <= room - len(MARKER):  # the marker must still find room behind it
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
