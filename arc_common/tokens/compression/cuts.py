"""Where a text may be cut: never inside what a reader sees as one character, nor so that a code fence stays open."""

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

__all__ = ["MARKER", "CuttableText", "is_border"]

MARKER = "... [truncated]"
"""Stands at the end of what was cut."""

_WORD = 80
"""Characters within which a word's end is looked for; what has none (base64) is cut between characters."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Scripts that put no space between words (Thai, Lao, Burmese, Khmer, Chinese, Japanese): any character may be last."""

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})(.*)$", re.MULTILINE)

_JOINED_TO_THE_LEFT = frozenset("\u0e33\u0eb3\uff9e\uff9f")
"""Letters that belong to the one before: Thai and Lao AM, halfwidth sound marks."""
_JOINED_TO_THE_RIGHT = frozenset(
    "\u0d4e\u1cf5\u1cf6\U00011941\U0001193f\U000111c2\U000111c3\U00011a3a\U00011d46\U00011f02"
) | {chr(c) for c in range(0x11A84, 0x11A8A)}
"""Letters that belong to the one behind (Grapheme_Cluster_Break=Prepend)."""
_VIRAMA = 9
"""The combining class of the sign that joins two consonants of an Indic script."""


def is_border(text: str, position: int) -> bool:
    """Whether a text may be cut before `position`.

    - Never within a grapheme cluster (Unicode UAX #29): combining sequences, emoji joined by ZWJ or with a skin tone,
      flags, Hangul jamo, Indic conjuncts, CR LF. Some other places are refused too; none is missed.
    - Never within a surrogate pair, where JSON's escapes left one in two characters.
    """
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if before < "\x7f" and after < "\x7f":
        return not (before == "\r" and after == "\n")
    if _is_joined_to_the_left(after) or before in _JOINED_TO_THE_RIGHT or unicodedata.category(before) == "Cf":
        return False
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return False
    if _is_leading_jamo(before) and ("\uac00" <= after <= "\ud7a3" or _is_leading_jamo(after)):
        return False
    if _is_flag_letter(before) and _is_flag_letter(after):
        start = position
        while start and _is_flag_letter(text[start - 1]):
            start -= 1
        return (position - start) % 2 == 0
    return not _ends_in_virama(text, position)


def _is_joined_to_the_left(character: str) -> bool:
    return (
        character in _JOINED_TO_THE_LEFT
        or unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\u1160" <= character <= "\u11ff"  # vowels and final consonants of Hangul
        or "\ud7b0" <= character <= "\ud7fb"
    )


def _is_leading_jamo(character: str) -> bool:
    return "\u1100" <= character <= "\u115f" or "\ua960" <= character <= "\ua97c"


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _ends_in_virama(text: str, position: int) -> bool:
    """Whether one of the marks right before `position` joins consonants."""
    while position and unicodedata.category(text[position - 1]) in ("Mn", "Mc"):
        position -= 1
        if unicodedata.combining(text[position]) == _VIRAMA:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Fence:
    """A block of code: where its opening line begins, its first line of code, its closing line; and where it ends."""

    start: int
    body: int
    closing: int
    end: int
    closing_line: str


class CuttableText:
    """A text, and heads of it of any length.

    Reading it for code fences is linear in its length and done once.
    """

    __slots__ = ("_fences", "_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._fences = _fences_of(text)
        self._starts = [fence.start for fence in self._fences]

    def head(self, most: int) -> str | None:
        """The beginning of the text with `... [truncated]` behind it, at most `most` characters together.

        - Ends behind a word (in a code fence, behind a line) where there is one within 80 characters, else between two
          characters as readers see them.
        - A code fence that is open at the cut is closed; with none of its code left, it goes too.
        - `None` when nothing but space would be left of the text.
        """
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
        """The last place at or before `position` where the text may be cut."""
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

    def _fence_at(self, position: int) -> _Fence | None:
        """The fence that a cut before `position` would leave open."""
        index = bisect_right(self._starts, position) - 1
        if index < 0:
            return None
        fence = self._fences[index]
        return fence if fence.start < position < fence.end else None


def _fences_of(text: str) -> list[_Fence]:
    """The fenced code blocks of a text (CommonMark 4.5; any indentation, as models write them in lists)."""
    fences: list[_Fence] = []
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


def _fence(opening: re.Match[str], closing: int, end: int) -> _Fence:
    return _Fence(opening.start(), opening.end() + 1, closing, end, opening[1] + opening[2])
