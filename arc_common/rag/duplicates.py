"""Texts that say the same: copies, and near copies."""

import re
import unicodedata
from dataclasses import dataclass

from arc_common.exceptions import InvalidInputError
from arc_common.text import analyze

__all__ = ["SeenTexts"]

_SHINGLE = 3
"""Terms in a row (Broder 1997)."""

_LONGEST = 50_000
"""Characters: longer texts are compared as a whole only."""

_WORD = re.compile(
    r"""(?:(?<!\w)[-−](?=\d))?             # a number below zero
    \w+(?:['’]\w+|(?<=\d)[^\w\s](?=\d)\w+)*  # 3.5 is neither 3-5 nor 3:5
    (?:[#−-](?!\w))?                      # C# is not C, and a rating of A- is not A
    |[^\w\s]""",
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_EMPTY_WORDS = frozenset(["a", "an", "the", "and", "also", "that", "which", "please", "`"])
"""Words that a sentence may have or lack and say the same. No list of stop words is short enough: "not", "may" and
"must", "before" and "after", "you" and "we" are on most of them."""


@dataclass(frozen=True, slots=True)
class _Outline:
    shingles: frozenset[tuple[str, ...]]
    content: tuple[str, ...]


class SeenTexts:
    """Knows the texts that were added, and tells which of the next ones say the same.

    - Copies are texts that differ in case, white space and forms of characters at most.
    - Near copies are those whose shingles of three terms have a Jaccard similarity of `threshold` or more, and which
      hold the same words, numbers and signs in the same order, but for articles and the like and for punctuation
      between words: two invoices, two names, two doses, "may be kept" and "may not be kept" differ in nothing else, and
      are no copies.

    Args:
        threshold: From 0 (exclusive) to 1; `None` compares whole texts only.
    """

    def __init__(self, *, threshold: float | None) -> None:
        if threshold is not None and not (isinstance(threshold, int | float) and 0 < threshold <= 1):
            raise InvalidInputError("threshold", threshold, "a share above 0, up to 1, or None")
        self._threshold = threshold
        self._texts: set[str] = set()
        self._outlines: list[_Outline] = []

    def has(self, text: str) -> bool:
        """Whether a text that was added says the same."""
        if _normalised(text) in self._texts:
            return True
        if self._threshold is None or not self._outlines or len(text) > _LONGEST:
            return False
        own = _outline(text)
        return any(self._is_near(own, other) for other in self._outlines)

    def add(self, text: str) -> None:
        """Remember a text."""
        self._texts.add(_normalised(text))
        if self._threshold is not None and len(text) <= _LONGEST:
            self._outlines.append(_outline(text))

    def _is_near(self, one: _Outline, other: _Outline) -> bool:
        fewer, more = sorted((len(one.shingles), len(other.shingles)))
        if self._threshold is None or not fewer or fewer < self._threshold * more or one.content != other.content:
            return False
        shared = len(one.shingles & other.shingles)
        return shared >= self._threshold * (fewer + more - shared)


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _outline(text: str) -> _Outline:
    terms = analyze(text)
    rows = max(1, len(terms) - _SHINGLE + 1) if terms else 0
    return _Outline(
        frozenset(tuple(terms[place : place + _SHINGLE]) for place in range(rows)),
        _content(text),
    )


def _content(text: str) -> tuple[str, ...]:
    """All that a text says, in its order: words and numbers, and what is no punctuation (currencies, arrows)."""
    words = _WORD.findall(_THOUSANDS.sub("", _normalised(text)))
    return tuple(word for word in words if word not in _EMPTY_WORDS and not _is_punctuation(word))


def _is_punctuation(word: str) -> bool:
    return len(word) == 1 and word != "%" and unicodedata.category(word)[0] == "P"
