"""Splits documents at sentence ends into overlapping chunks, each within a number of tokens."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from arc_common.documents import Document
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.protocols import TokenCounter
from arc_common.protocols.search_index import DOCUMENT_ID, chunk_prefix
from arc_common.rag.context_builder import furthest
from arc_common.text.sentences import grapheme_break, sentence_spans
from arc_common.tokens.compression.truncation import fences_of

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_SOFT_BREAK = re.compile(r"\s+|(?<=[，、；：。！？])")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text that is split only if necessary."""

    start: int
    end: int
    is_code: bool = False
    ends_paragraph: bool = False


def passages_of(text: str, *, fits: Callable[[str], bool]) -> list[Passage]:
    """Return a text's sentences and fenced code blocks, in order; a block that doesn't fit is split into lines."""
    spans: list[tuple[int, int, bool]] = []
    place = 0
    for fence in fences_of(text):
        start, end = fence.start, fence.end
        if end > len(text):  # not closed
            break
        start += len(text[start:end]) - len(text[start:end].lstrip())
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
    """Return the places, in order, to cut a sentence: at whitespace, and after the marks of unspaced scripts."""
    return [match.start() for match in _SOFT_BREAK.finditer(text, start, end)]


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for line in re.finditer(r"[^\n]+", text[start:end]):
        stripped = line[0].strip()
        if stripped:
            first = start + line.start() + line[0].index(stripped)
            yield first, first + len(stripped)


_LEAST_FULL = 2 / 3
_OVERLAP_RANGE = (0.6, 1.2)
_CHARACTERS = 32
"""The most characters read for each token; words have fewer, and longer runs have to be cut somewhere."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text between two offsets, and its tokens."""

    text: str
    start: int
    end: int
    tokens: int


class Chunker:
    """Cuts texts into chunks for models, embedders and readers.

    - Each chunk is a verbatim part of the text with at most `size` tokens; together they cover all of it except the
      whitespace around them.
    - A chunk ends with a sentence (or a line of a list, a table or code), or with a paragraph if that leaves it at
      least two thirds full; it ends within a sentence, at whitespace, only if it would be emptier than that. A fenced
      code block that fits a chunk is not divided.
    - The next chunk begins about `overlap` tokens before the end of the last one, at a sentence if one begins within
      0.6 to 1.2 times that. A code block is never repeated.
    - The same text always gives the same chunks, in time linear in its length.

    Args:
        size: The most tokens of a chunk.
        overlap: Tokens shared by neighbours; fewer than `size`, and at most half of it is used.
    """

    def __init__(self, token_counter: TokenCounter, *, size: int = 300, overlap: int = 50) -> None:
        if not isinstance(token_counter, TokenCounter):
            raise InvalidInputError("token_counter", token_counter, "an object with name, count and count_batch")
        if check_whole("overlap", overlap, least=0) >= check_whole("size", size):
            raise InvalidInputError("overlap", overlap, f"fewer tokens than the size of {size}")
        self._counter = token_counter
        self._size = size
        self._overlap = min(overlap, size // 2)

    def split(self, text: str) -> list[Chunk]:
        """Return the chunks of a text, in order; an empty list for whitespace alone.

        Raises:
            InvalidInputError: `size` is too small for a single character of the text, or the argument is not text.
        """
        if not isinstance(text, str):
            raise InvalidInputError("text", text, "text")
        return list(_Cutter(text, self._counter, self._size, self._overlap).chunks())

    def split_document(self, document: Document) -> list[Document]:
        """Return the chunks of a document, each as a document that records its position.

        Source and metadata are the document's. Each chunk adds `chunk_index` (from 0), `chunk_start` and `chunk_end`
        (characters), and, if the document has an id, `document_id`; the chunk's own id is then `<id>#<index>`.

        Raises:
            InvalidInputError: As in `split`, or the argument is not a document.
        """
        if not isinstance(document, Document):
            raise InvalidInputError("document", document, "a Document")
        known = {} if document.id is None else {DOCUMENT_ID: document.id}
        return [
            replace(
                document,
                text=chunk.text,
                id=None if document.id is None else f"{chunk_prefix(document.id)}{index}",
                metadata={
                    **document.metadata,
                    **known,
                    "chunk_index": index,
                    "chunk_start": chunk.start,
                    "chunk_end": chunk.end,
                },
            )
            for index, chunk in enumerate(self.split(document.text))
        ]


class _Cutter:
    """Splits one text into chunks."""

    def __init__(self, text: str, counter: TokenCounter, size: int, overlap: int) -> None:
        self._text = text
        self._count = counter.count
        self._size = size
        self._overlap = overlap
        self._passages = passages_of(text, fits=lambda block: counter.count(block) <= size)
        self._starts = [passage.start for passage in self._passages]
        self._ends = [passage.end for passage in self._passages]
        counts = counter.count_batch([text[passage.start : passage.end] for passage in self._passages])
        self._sums = [0, *accumulate(counts)]

    def chunks(self) -> Iterator[Chunk]:
        """Yield all chunks, in order."""
        if not self._passages:
            return
        start, last = self._starts[0], self._ends[-1]
        covered = start
        while covered < last:
            end = self._end(start)
            if end <= covered:  # all of it is overlap
                start = self._next_word(covered)
                continue
            yield Chunk(self._text[start:end], start, end, self._tokens(start, end))
            covered = end
            start = self._start_before(start, end)

    def _tokens(self, start: int, end: int) -> int:
        return self._count(self._text[start:end])

    def _fits(self, start: int, end: int) -> bool:
        return end - start <= _CHARACTERS * self._size and self._tokens(start, end) <= self._size

    def _next_word(self, place: int) -> int:
        """Return the place where the text continues after whitespace."""
        following = bisect_right(self._ends, place)
        start = max(place, self._starts[following])
        while self._text[start].isspace():
            start += 1
        return start

    def _end(self, start: int) -> int:
        """Return the end of the chunk that begins at `start`."""
        first = bisect_right(self._ends, start)
        guess = bisect_right(self._sums, self._sums[first] + self._size) - 2
        last = furthest(first, len(self._ends), guess, fits=lambda place: self._fits(start, self._ends[place]))
        if last is None:
            return self._break_within(start, start, self._ends[first]) or self._characters_end(start, self._ends[first])
        end = self._ends[last]
        if last + 1 == len(self._ends):
            return end
        if self._tokens(start, end) >= _LEAST_FULL * self._size:
            return self._paragraph_end(start, first, last) or end
        following = self._passages[last + 1]
        return end if following.is_code else self._break_within(start, following.start, following.end) or end

    def _paragraph_end(self, start: int, first: int, last: int) -> int | None:
        """Return the end of the last paragraph that leaves the chunk full enough, if there is one."""
        for place in range(last, first - 1, -1):
            if self._passages[place].ends_paragraph:
                end = self._ends[place]
                return end if _LEAST_FULL * self._size <= self._tokens(start, end) <= self._size else None
        return None

    def _break_within(self, start: int, sentence_start: int, sentence_end: int) -> int | None:
        """Return the furthest whitespace in a sentence at which the chunk fits, if there is one."""
        limit = min(sentence_end, start + _CHARACTERS * self._size)
        breaks = soft_breaks(self._text, sentence_start + 1, limit)
        guess = bisect_left(breaks, start + 4 * self._size)
        last = furthest(0, len(breaks), guess, fits=lambda i: self._fits(start, breaks[i]))
        return None if last is None else breaks[last]

    def _characters_end(self, start: int, end: int) -> int:
        """Return the furthest border between two characters at which the chunk fits."""
        longest = min(end - start, _CHARACTERS * self._size)
        length = furthest(1, longest + 1, self._size, fits=lambda length: self._fits(start, start + length))
        if length is None:
            raise InvalidInputError("size", self._size, f"enough tokens for {self._text[start]!r}")
        border = grapheme_break(self._text, start + length)
        # A character is divided only if it needs more tokens than a chunk may have.
        return border if border > start and self._tokens(start, border) <= self._size else start + length

    def _start_before(self, start: int, end: int) -> int:
        """Return the start of the chunk that follows the given one."""
        if end == self._ends[-1]:
            return end
        if not self._overlap:
            return self._next_word(end)
        least, most = (share * self._overlap for share in _OVERLAP_RANGE)
        near: list[tuple[int, int]] = []
        for place in range(bisect_left(self._starts, end) - 1, -1, -1):
            passage = self._passages[place]
            if passage.end <= start:
                break
            if passage.is_code:
                near = near or [(0, self._next_word(end))]
                return min(near, key=lambda found: abs(found[0] - self._overlap))[1]
            if passage.start <= start or (tokens := self._tokens(passage.start, end)) > most:
                break
            near.append((tokens, passage.start))
        fitting = [(abs(tokens - self._overlap), place) for tokens, place in near if tokens >= least]
        return min(fitting)[1] if fitting else self._start_within(start, end)

    def _start_within(self, start: int, end: int) -> int:
        """Return the earliest start within a sentence, at whitespace if possible, that respects the overlap."""
        lowest = max(start, end - _CHARACTERS * self._overlap) + 1
        words = [self._next_word(place) for place in reversed(soft_breaks(self._text, lowest, end - 1))]
        last = furthest(0, len(words), len(words) // 2, fits=lambda i: self._tokens(words[i], end) <= self._overlap)
        if last is not None:
            return words[last]
        length = furthest(
            1, end - lowest + 1, self._overlap, fits=lambda length: self._tokens(end - length, end) <= self._overlap
        )
        return self._next_word(end) if length is None else grapheme_break(self._text, end - length)
