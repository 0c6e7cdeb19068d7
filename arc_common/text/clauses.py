"""Finds the parts of a sentence that are stated, as opposed to asked, reported as asked or only supposed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from arc_common.text.languages import fallback
from arc_common.text.languages.language import Language
from arc_common.text.languages.registry import detect
from arc_common.text.sentences import clauses_of, sentences_of

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
    if _MARK.search(sentence) or _UNKNOWN_LETTER.search(sentence) or fallback.SEEKING_LATIN.search(sentence):
        return True
    if _CYRILLIC_LETTER.search(sentence):
        return fallback.SEEKING_CYRILLIC.search(sentence) is not None
    seeking = detect(sentence).seeking
    return any(seeking.search(sentence[start:end]) for start, end in clauses_of(sentence))
