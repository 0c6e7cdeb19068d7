"""Splits English, Korean, Japanese and Chinese text into sentences and clauses, by punctuation and endings alone."""

import re
import unicodedata
from collections.abc import Iterator

_MOST = 64
"""The most characters joined into one; a longer sequence is not a character that anybody reads."""

_JOINER = "\u200d"
_JOINED_HANGUL = frozenset(["ll", "lv", "lo", "lc", "vv", "vt", "ov", "ot", "ct", "tt"])


def grapheme_break(text: str, offset: int) -> int:
    """Return the last border between characters, as a reader sees them, at or before `offset`."""
    border = min(offset, len(text))
    lowest = border - _MOST
    while lowest < border and 0 < border < len(text) and _are_one(text, border):
        border -= 1
    return border if border > lowest else min(offset, len(text))


def _are_one(text: str, border: int) -> bool:
    """Return whether the code points on both sides of a border form one character."""
    before, after = text[border - 1], text[border]
    if before == "\r" and after == "\n":
        return True
    if before < "\u0300" and after < "\u0300":  # the common case
        return False
    if after == _JOINER or unicodedata.category(after) in ("Mn", "Mc", "Me") or "\U0001f3fb" <= after <= "\U0001f3ff":
        return unicodedata.category(before) != "Cc"
    if "\U000e0020" <= after <= "\U000e007f":
        return True
    if before == _JOINER:
        return unicodedata.category(after) == "So"
    if _is_flag(before) and _is_flag(after):
        flags = 0
        while flags < _MOST and border - flags > 0 and _is_flag(text[border - flags - 1]):
            flags += 1
        return flags % 2 == 1
    return _hangul(before) + _hangul(after) in _JOINED_HANGUL


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _hangul(character: str) -> str:
    """Return the kind of a Korean letter: leading consonant, vowel, trailing consonant, open or closed syllable."""
    if "\u1100" <= character <= "\u115f":
        return "l"
    if "\u1160" <= character <= "\u11a7":
        return "v"
    if "\u11a8" <= character <= "\u11ff":
        return "t"
    if "가" <= character <= "힣":
        return "o" if (ord(character) - ord("가")) % 28 == 0 else "c"
    return "-"


MAX_SENTENCE = 1_200
"""The most characters of a sentence. Longer runs are cut, so that reading sentences takes linear time."""

_TERMINATOR = re.compile(
    r"""
    (?P<strong>[。！？｡]+[」』”’"')\]）】]{0,3})            # CJK: no space needed
    | (?P<space>[.!?…]{1,8}["'”’)\]]{0,3}(?=\s))           # else a space follows
    | (?P<line>\n+)
    | (?P<polite>(?<=[가-힣])(?:어요|아요|에요|예요|해요|세요|네요|데요|게요|까요|나요|려고요|거든요|고요|지요|죠|니다)
        (?:\s?[ㅋㅎㅠㅜ~^]{1,20})?(?=\s))                   # chats leave the full stop out
    """,
    re.VERBOSE,
)

_ABBREVIATION = re.compile(
    r"(?:(?<![^\s(])[A-Za-z]|\b(?:dr|mr|mrs|ms|prof|st|ave|rd|nr|vs|approx|ca|inc|ltd|jr|sr|e\.g|i\.e|etc|a\.m|p\.m|fig|dept)"
    r"|^\s*\d{1,3})\.$",
    re.IGNORECASE,
)

_BULLET = re.compile(r"^(?:[-*•·▪◦>#|]{1,6}\s+|\(?\d{1,3}[.)]\s+)")

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
        if kind == "polite" and end - start < 8:
            continue
        yield start, end
        start = end
    yield start, len(text)


def _bounded(sentence: str, longest: int) -> Iterator[str]:
    sentence = _BULLET.sub("", sentence.strip(), count=1)
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
