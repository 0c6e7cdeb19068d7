"""Splits text into sentences and clauses, and finds the parts that are stated as opposed to asked or supposed."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import LANGUAGES, SEEKING_CYRILLIC, SEEKING_LATIN, detect

_LONGEST_CHARACTER = 64
"""Code points searched for the beginning of a character; only runs of flags and of accents are longer."""


@cache
def _characters() -> Any:
    return import_module("regex").compile(r"\X")  # it has no types


def is_border(text: str, position: int) -> bool:
    """Return whether a text may be cut before `position`: between two characters as readers see them (UAX #29)."""
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if before < "\x7f" and after < "\x7f":
        return not (before == "\r" and after == "\n")
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return False
    start = position - 1
    while start and text[start] >= "\x7f" and position - start < _LONGEST_CHARACTER:
        start -= 1
    return any(found.end() == position for found in _characters().finditer(text, start, position + 1))


def grapheme_break(text: str, offset: int) -> int:
    """Return the last border between characters at or before `offset`; `offset` if there is none nearby."""
    offset = min(offset, len(text))
    near = range(offset, max(offset - _LONGEST_CHARACTER, -1), -1)
    return next((place for place in near if is_border(text, place)), offset)


MAX_SENTENCE = 1_200
"""The most characters of a sentence. Longer runs are cut, so that reading sentences takes linear time."""

_TERMINATOR = re.compile(
    r"""
    (?P<strong>[。！？｡]+[」』”’"')\]）】]{0,3})            # CJK: no space needed
    | (?P<space>[.!?…]{1,8}["'”’)\]]{0,3}(?=\s))           # else a space follows
    | (?P<line>\n+)
    | (?P<polite>(?<=[가-힣])(?:어요|아요|에요|예요|해요|세요|네요|데요|게요|까요|나요|려고요|거든요|고요|지요|죠|니다)
        (?:\s?[ㅋㅎㅠㅜ~^]{1,20})?(?=\s+[^가-힣\n]{0,80}[가-힣]))   # chats leave the full stop out, also before a value
    """,
    re.VERBOSE,
)

_ABBREVIATION = re.compile(
    r"(?:(?<![^\s(])[A-Za-z]|\b(?:dr|mr|mrs|ms|prof|st|ave|rd|nr|vs|approx|ca|inc|ltd|jr|sr|e\.g|i\.e|etc|a\.m|p\.m|fig|dept)"
    r")\.$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[\s*_#]*\d{1,2}\.(?=\s+\**[^\Wa-z\d_])")
"""The number of a list's item, also behind another item in one line or in a heading: "2. Walk", "**3. Storage:**"; not
the answer in "180. the hall"."""

_LONGEST_ORDINAL = 16
"""The characters on each side of its full stop that tell an ordinal number."""

_AROUND = 48
"""The characters on each side of a number that tell the language."""

_BULLET = re.compile(r"^(?:[-*+•·▪◦>#|]{1,6}\s+|\(?\d{1,3}[.)]\s+)")

_CLAUSE_BREAK = re.compile(r"[,;:](?=\s)|\s[-–—]{1,2}(?=\s)|—|[，、；：](?!\d)|[()（）]")

_CJK = re.compile(r"[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def rough_tokens(text: str) -> int:
    """Estimate the tokens of a short text: one for every 4.2 Latin or 1.6 CJK characters."""
    wide = len(_CJK.findall(text))
    return int(wide / 1.6 + (len(text) - wide) / 4.2) + 1


def sentences_of(text: str, *, longest: int = MAX_SENTENCE) -> list[str]:
    """Return the sentences of a text, trimmed, in order, each a verbatim part of it."""
    return [sentence for start, end in _spans(text) for sentence in _bounded(text[start:end], longest)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence of a text, in order, without surrounding whitespace."""
    return [_trimmed(text, start, end) for start, end in _spans(text) if text[start:end].strip()]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _TERMINATOR.finditer(text):
        end = match.end()
        kind = match.lastgroup
        if kind == "space" and _ABBREVIATION.search(text, max(start, end - 12), end):
            continue
        if kind == "space" and (number := _NUMBER.match(text, start)) and number.end() == end:
            continue
        if kind == "space" and text[match.start() - 1 : match.start()].isdigit() and _is_ordinal(text, start, end):
            continue
        if kind == "polite" and end - start < 8:
            continue
        yield start, end
        start = end
    yield start, len(text)


_NEXT = re.compile(r"\s+(\w+)")
_WORD = re.compile(r"[^\W\d_]+")


def _is_ordinal(text: str, start: int, end: int) -> bool:
    """Return whether the number that ends here belongs to the next word: "am 25. April", not "am 25. Wir"."""
    following, near = _NEXT.match(text, end), max(start, end - _LONGEST_ORDINAL)
    return following is not None and any(
        found.end() == end
        and (following[1].islower() or following[1].lower() not in language.stop_words)
        and _may_be(language, text[max(start, end - _AROUND) : end + _AROUND])
        for language in LANGUAGES
        for found in language.ordinal.finditer(text, near, end + _LONGEST_ORDINAL)
    )


def _may_be(language: Language, text: str) -> bool:
    """Return whether a text has a frequent word of a language or, as "25. April", of none."""
    words = set(_WORD.findall(text.lower()))
    return not words.isdisjoint(language.markers) or all(words.isdisjoint(one.markers) for one in LANGUAGES)


def _bounded(sentence: str, longest: int) -> Iterator[str]:
    sentence = sentence.strip()
    bullet = _BULLET.match(sentence)
    if bullet is not None and not _is_ordinal(sentence, 0, len(bullet[0].rstrip())):
        sentence = sentence[bullet.end() :]
    while len(sentence) > longest:
        cut = sentence.rfind(" ", longest // 2, longest)
        cut = cut if cut > 0 else longest
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    if sentence:
        yield sentence


def clauses_of(sentence: str) -> list[tuple[int, int]]:
    """Return the spans of a sentence's clauses, split at commas, semicolons, colons, dashes and brackets."""
    spans = []
    start = 0
    for match in _CLAUSE_BREAK.finditer(sentence):
        if sentence[start : match.start()].strip():
            spans.append((start, match.start()))
        start = match.end()
    if sentence[start:].strip():
        spans.append((start, len(sentence)))
    return [_trimmed(sentence, *span) for span in spans]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))


_MARK = re.compile(r"\?(?!\w)|[？؟]")
_CYRILLIC_LETTER = re.compile(r"[\u0400-\u04ff]")
_UNKNOWN_LETTER = re.compile(
    r"(?![\u3005\u3040-\u30ff\u3130-\u318f\u3400-\u9fff가-힣\uff21-\uff9f])[^\W\d_\u0000-\u024f\u0400-\u04ff\u1e00-\u1eff]"
)


def is_question(sentence: str) -> bool:
    """Return whether a sentence has a question mark."""
    return _MARK.search(sentence) is not None


def announces(sentence: str) -> bool:
    """Return whether a sentence only introduces the next one: "Here are some ideas:"."""
    return sentence.rstrip("*_ ").endswith((":", "："))


def seeks(text: str) -> bool:
    """Return whether a text seeks information: by a question, even without a mark, a request, or a lapse of memory."""
    return any(map(_seeks, sentences_of(text)))


def _seeks(sentence: str) -> bool:
    if is_question(sentence) or _UNKNOWN_LETTER.search(sentence) or SEEKING_LATIN.search(sentence):
        return True
    if _CYRILLIC_LETTER.search(sentence):
        return SEEKING_CYRILLIC.search(sentence) is not None
    seeking = detect(sentence).seeking
    return any(seeking.search(sentence[start:end]) for start, end in clauses_of(sentence))
