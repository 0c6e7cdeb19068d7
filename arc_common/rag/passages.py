"""What chunks are made of: sentences, lines and blocks of code, with their places in a text."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from arc_common.text.sentences import sentence_spans

__all__ = ["Passage", "passages_of", "soft_breaks"]

_FENCE = re.compile(r"^[ ]{0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_SOFT_BREAK = re.compile(r"\s+|(?<=[，、；：。！？])")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text that is not divided without need.

    Args:
        start: Where it begins.
        end: Where it ends; no white space at either side.
        is_code: Whether it is a whole block of code.
        ends_paragraph: Whether an empty line follows.
    """

    start: int
    end: int
    is_code: bool = False
    ends_paragraph: bool = False


def passages_of(text: str, *, fits: Callable[[str], bool]) -> list[Passage]:
    """The sentences of a text and its fenced blocks of code, in order; a block that doesn't fit comes line by line."""
    spans: list[tuple[int, int, bool]] = []
    place = 0
    for start, end in _fenced_blocks(text):
        spans += [(place + s, place + e, False) for s, e in sentence_spans(text[place:start])]
        if fits(text[start:end]):
            spans.append((start, end, True))
        else:
            spans += [(s, e, False) for s, e in _lines(text, start, end)]
        place = end
    spans += [(place + s, place + e, False) for s, e in sentence_spans(text[place:])]
    following = [*(start for start, _, _ in spans[1:]), len(text)]
    return [
        Passage(start, end, is_code, _BLANK_LINE.search(text, end, after) is not None)
        for (start, end, is_code), after in zip(spans, following, strict=False)
    ]


def soft_breaks(text: str, start: int, end: int) -> list[int]:
    """Where a sentence may be cut: at white space, and behind the marks of a script that has none; in order."""
    return [match.start() for match in _SOFT_BREAK.finditer(text, start, end)]


def _fenced_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Blocks of code between fences, as CommonMark has them; one that is never closed is none."""
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        mark = fence["mark"]
        if opening is None:
            if not (mark[0] == "`" and "`" in fence["info"]):
                opening = fence
        elif mark[0] == opening["mark"][0] and len(mark) >= len(opening["mark"]) and not fence["info"].strip():
            yield opening.start(), fence.end()
            opening = None


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for line in re.finditer(r"[^\n]+", text[start:end]):
        stripped = line[0].strip()
        if stripped:
            first = start + line.start() + line[0].index(stripped)
            yield first, first + len(stripped)
