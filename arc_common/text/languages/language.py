"""Language: all of arc's data on one language. A new language is one file with one such object."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from arc_common.facts import FactCategory

NEVER = re.compile(r"(?!)")
"""Matches nothing: the default of a form that a language does not describe."""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text."""
    return frozenset(text.split())


def synonyms(text: str) -> dict[str, str]:
    """Map each word to the first of its group; bars separate the groups."""
    return {word: group.split()[0] for group in text.split("|") for word in group.split()}


def kinds_of_words(**kinds: str) -> dict[str, str]:
    """Map each word to its kind and value; bars separate the values of a kind, spaces their words."""
    return {
        word: f"{kind}={words.split()[0]}"
        for kind, values in kinds.items()
        for words in values.split("|")
        for word in words.split()
    }


@dataclass(frozen=True, slots=True)
class Hinted:
    """A case-insensitive pattern, searched only in text that contains one of the hints; each match contains one."""

    pattern: re.Pattern[str]
    hints: tuple[str, ...]

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """Search as `re.Pattern.search` does."""
        small = text.lower()
        for hint in self.hints:
            if hint in small:
                return self.pattern.search(text, start, end)
        return None


@dataclass(frozen=True, slots=True)
class Signal:
    """A pattern whose match indicates that a clause states something, and its weight."""

    name: str
    category: FactCategory
    weight: float
    pattern: re.Pattern[str]
    anchor: bool = False
    cased: bool = True
    needs: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A signal and its place in the clause."""

    signal: Signal
    start: int
    end: int


def find(signals: Sequence[Signal], clause: str) -> list[Found]:
    """Return the first match of each signal in a clause, in the signals' order."""
    small = clause.lower()
    if len(small) != len(clause):  # a few capitals (İ) become two characters
        small = clause.translate(_SMALL)
    found = []
    for signal in signals:
        if signal.needs is not None and not signal.needs.search(small):
            continue
        match = signal.pattern.search(clause if signal.cased else small)
        if match:
            found.append(Found(signal, match.start(), match.end()))
    return found


_SMALL = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


@dataclass(frozen=True, slots=True)
class AnswerForms:
    """Two patterns: how a question asks for one kind of answer, and what a text with such an answer looks like."""

    asked: str
    answers: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A sentence that states the one value of somebody's attribute."""

    attribute: str
    pattern: re.Pattern[str]
    is_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """How one statement supersedes another in a language: by an attribute's one value, or by words of change."""

    rewrites: Sequence[tuple[re.Pattern[str], str]] = ()
    breaks: re.Pattern[str] = re.compile(r"[,;]\s+|[，；。]")
    unsure: re.Pattern[str] = NEVER
    vague: re.Pattern[str] = NEVER
    subject: re.Pattern[str] = re.compile(".*")
    negated: re.Pattern[str] = NEVER
    ended: re.Pattern[str] = NEVER
    swapped: re.Pattern[str] = NEVER
    changed: re.Pattern[str] = NEVER
    added: re.Pattern[str] = NEVER
    relations: Sequence[Relation] = ()
    named: Sequence[re.Pattern[str]] = ()
    attributes: re.Pattern[str] = NEVER
    several: re.Pattern[str] = NEVER
    indefinite: re.Pattern[str] = NEVER
    light: frozenset[str] = frozenset()
    engaging: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    months: Mapping[str, int] = field(default_factory=dict)
    chosen: re.Pattern[str] = NEVER
    regions: Mapping[str, str] = field(default_factory=dict)


Script = Literal["latin", "hangul", "han and kana"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language:
    """All of arc's data on one language."""

    name: str
    script: Script
    markers: frozenset[str] = frozenset()
    is_spaced: bool = True

    stop_words: frozenset[str] = frozenset()
    stop_word: re.Pattern[str] = NEVER
    particles: re.Pattern[str] = NEVER
    common_words: frozenset[str] = frozenset()
    base_forms: Mapping[str, str] = field(default_factory=dict)
    stemmer: str | None = None
    stem_of: Callable[[str], str] | None = None
    general_nouns: frozenset[str] = frozenset()
    thesaurus: str | None = None

    lead_ins: re.Pattern[str] = NEVER
    question: re.Pattern[str] = NEVER
    request: re.Pattern[str] = NEVER
    task: re.Pattern[str] = NEVER
    asking: re.Pattern[str] = NEVER
    seeking: re.Pattern[str] = NEVER
    tag: re.Pattern[str] = NEVER
    given: re.Pattern[str] = NEVER
    reported: re.Pattern[str] | Hinted = NEVER
    supposition: re.Pattern[str] | Hinted = NEVER
    condition: re.Pattern[str] = NEVER
    chit_chat: re.Pattern[str] = NEVER
    joiner: re.Pattern[str] = NEVER
    answers: Mapping[str, AnswerForms] = field(default_factory=dict)

    forget: re.Pattern[str] = NEVER
    said_instead: re.Pattern[str] = NEVER
    text_task: re.Pattern[str] = NEVER
    text_in_task: re.Pattern[str] = NEVER

    signals: Sequence[Signal] = ()
    assistant: Sequence[Signal] = ()
    names: re.Pattern[str] = NEVER
    first_name: re.Pattern[str] = NEVER
    topic: re.Pattern[str] = NEVER
    listener: re.Pattern[str] = NEVER
    joins_short: bool = True
    statements: Statements = Statements()
