"""Splits text into sentences and clauses, and finds the parts that are stated as opposed to asked or supposed."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import SEEKING_CYRILLIC, SEEKING_LATIN, detect

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


_MARK = re.compile(r"\?(?!\w)|[？؟]")
_CYRILLIC_LETTER = re.compile(r"[\u0400-\u04ff]")
_UNKNOWN_LETTER = re.compile(
    r"(?![\u3005\u3040-\u30ff\u3130-\u318f\u3400-\u9fff가-힣\uff21-\uff9f])[^\W\d_\u0000-\u024f\u0400-\u04ff\u1e00-\u1eff]"
)

_FEWEST_WORDS = 2
"""The fewest words before a reported question that count as a statement; fewer ("Hi") only lead to it."""


class Mood(StrEnum):
    """The way in which a part of a sentence is meant."""

    STATED = "stated"
    CONFIRMED = "confirmed"
    """Stated with a question behind it: "it's on Friday, isn't it?"."""
    REQUESTED = "requested"
    """Asked to be done: "could you deliver it on Friday?"."""


@dataclass(frozen=True, slots=True)
class Part:
    """A verbatim part of a sentence that may hold a fact, and how it is meant."""

    text: str
    mood: Mood


def parts_of(sentence: str, language: Language) -> list[Part]:
    """Return the parts of a sentence that state or request something, in order; often the whole sentence."""
    if language.supposition.search(sentence):
        return []
    if not language.question.search(sentence) and not _asks_in_case(sentence, language):
        return [Part(text, Mood.STATED) for text in _without_reported(sentence, language)]
    if language.tag.search(sentence):
        return [Part(text, Mood.CONFIRMED) for text in _without_reported(sentence, language)]
    start = _start_of_question(sentence, language)
    asked = sentence[start:]
    given = language.given.search(asked)
    behind = asked[given.start() :].rstrip(" ?") if given else ""
    asked = asked[: given.start()] if given else asked
    is_request = language.request.search(asked) is not None and not language.task.search(asked)
    before = [sentence[:start]] if is_request else _without_conditions(sentence[:start], language)
    parts = [Part(text, Mood.STATED) for stated in before for text in _without_reported(stated, language)]
    if is_request:
        parts.append(Part(asked, Mood.REQUESTED))
    return [part for part in (*parts, Part(behind, Mood.STATED)) if part.text.strip()]


def _asks_in_case(sentence: str, language: Language) -> bool:
    """Return whether a sentence asks a question after a condition; the question mark may be missing."""
    clauses = clauses_of(sentence)
    return any(language.condition.search(sentence[start:end]) for start, end in clauses[:-1]) and any(
        language.asking.match(sentence, start) for start, _ in clauses[1:]
    )


def _without_conditions(text: str, language: Language) -> list[str]:
    """Return the parts of a text between the clauses that state the condition of a question."""
    parts, rest = [], 0
    for start, end in clauses_of(text):
        if language.condition.search(text[start:end]):
            parts.append(text[rest:start])
            rest = end
    return [part for part in (*parts, text[rest:]) if part.strip(" ,;:，；：、") or not parts]


def _start_of_question(sentence: str, language: Language) -> int:
    """Return where a question begins: at the first clause in question order, else at the last clause."""
    starts = [start for start, _ in clauses_of(sentence)] + [
        match.end() for match in language.joiner.finditer(sentence)
    ]
    for start in sorted(starts):
        if language.asking.match(sentence, start):
            return start
    return max(starts, default=0)


def _without_reported(text: str, language: Language) -> Iterator[str]:
    """Yield the parts of a text outside its reported questions, which extend to the end of their clause."""
    rest = 0
    for start, end in clauses_of(text):
        reported = language.reported.search(text, start, end)
        if reported is not None and reported.start() >= rest:
            before = text[rest : reported.start()].strip(" ,;:")
            if len(before.split()) >= _FEWEST_WORDS:
                yield before
            rest = end
    if (behind := text[rest:].strip(" ,;:")) or not rest:
        yield behind if rest else text


def seeks(text: str) -> bool:
    """Return whether a text seeks information: by a question, even without a mark, a request, or a lapse of memory."""
    return any(map(_seeks, sentences_of(text)))


def _seeks(sentence: str) -> bool:
    if _MARK.search(sentence) or _UNKNOWN_LETTER.search(sentence) or SEEKING_LATIN.search(sentence):
        return True
    if _CYRILLIC_LETTER.search(sentence):
        return SEEKING_CYRILLIC.search(sentence) is not None
    seeking = detect(sentence).seeking
    return any(seeking.search(sentence[start:end]) for start, end in clauses_of(sentence))
