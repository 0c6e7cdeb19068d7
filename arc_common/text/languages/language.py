"""Language: everything that arc knows of one language, as data. A new language is one file with one such object."""

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
    """Return for each word the first of its group; the groups stand between bars."""
    return {word: group.split()[0] for group in text.split("|") for word in group.split()}


def kinds_of_words(**kinds: str) -> dict[str, str]:
    """Return for each word its kind and value: of a kind the values stand between bars, words between spaces."""
    return {
        word: f"{kind}={words.split()[0]}"
        for kind, values in kinds.items()
        for words in values.split("|")
        for word in words.split()
    }


@dataclass(frozen=True, slots=True)
class Hinted:
    """A case-insensitive pattern, searched only in text that contains one of the hints; each match contains one.

    The pattern for reported questions alone took a quarter of the time of all rules, and few clauses contain its hints.
    """

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
    """A pattern whose match says that a clause states something, and how much that weighs.

    Args:
        name: What it recognises; the key of last resort.
        category: Of the fact.
        weight: How sure it makes that the clause states a fact worth keeping, from 0 to 1.
        pattern: Searched in a clause. Every repetition in it is bounded.
        cased: Whether capitals matter; the other patterns see the clause in small letters, which is much faster than
            `re.IGNORECASE`.
        anchor: Whether the match itself is a value (an amount, a code, a name) that makes any clause specific.
        needs: Matches a character that every match contains. It is searched first, because most clauses have none.
    """

    name: str
    category: FactCategory
    weight: float
    pattern: re.Pattern[str]
    anchor: bool = False
    cased: bool = True
    needs: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A signal and where it was found in the clause."""

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
    """How a question asks for one kind of answer, and what a text with such an answer looks like; both are patterns."""

    asked: str
    answers: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A sentence that gives somebody the one value of an attribute.

    Args:
        attribute: What it gives.
        pattern: Captures the `value`; in front of it stands whose it is. Of a comparison it captures the `other` too.
        is_change: Whether the sentence itself says that the value was another before ("moved to Busan").
    """

    attribute: str
    pattern: re.Pattern[str]
    is_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """How one statement ends another in a language: by the one value of an attribute, or by words of change.

    What is doubtful belongs in none of the tables: a missed contradiction costs less than a lost memory.

    Args:
        rewrites: What is said in other words before anything is looked at, in order.
        breaks: Matches what stands between two clauses.
        unsure: Matches a clause that says nothing for certain of now: asked, imagined, meant, past, roughly, besides.
        vague: Matches the beginning of a clause about something that only its context names.
        subject: Matches whom a denial is about, in what stands in front of its words.
        negated: Matches words of denial; all that is denied was so before.
        ended: Matches words that say that something is over.
        swapped: Captures in a clause what is `old` in favour of something else.
        changed: Matches words that say that something is otherwise than before.
        added: Matches words like "new" that add another one to things of which somebody can have several.
        relations: Sentences that give the value of an attribute.
        named: Captures on the `left` what has a value, and the `value`; `changed`, if the verb says so.
        attributes: Matches nouns for what has one value, whatever the value is.
        several: Matches nouns for things of which somebody can have several at a time.
        indefinite: Matches what names one of several things.
        light: Words that a statement says the same without.
        engaging: Verbs by which somebody has to do with a thing: who gives the thing up does none of them.
        kinds: Words that exclude each other, with their kind and value ("weekday=tue").
        units: Units and currencies, with one name for each.
        months: Names of months, with their numbers.
        chosen: Matches nouns for attributes whose value may be any word, such as favourites.
        regions: Countries, in which somebody lives as well as in a town of theirs, with one name for each; none for
            what is larger.
    """

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
    """Everything that arc knows of one language. Whatever is left out matches nothing.

    Args:
        name: In English.
        script: In which it is written.
        markers: Frequent words that no other language of the script has; the detector counts them.
        is_spaced: Whether there is a space between two words.

        stop_words: Words that say nothing about what a query asks for, question words among them.
        stop_word: Matches a whole word that says nothing of the kind, where words change their form.
        particles: Matches what stands behind a noun and does not belong to it, in a word of a text.
        common_words: Words that occur in most conversations, so that they say nothing about one of them.
        base_forms: Irregular forms, and the word that each is a form of.
        stemmer: The name of the language in `snowballstemmer`.
        stem_of: Returns the stem of a word, where there is no such stemmer.
        general_nouns: Nouns that stand for another as a pronoun does.
        thesaurus: The folder beside this module that has words for other words.

        lead_ins: What a sentence may begin with and lose nothing without.
        question: Matches a sentence that asks.
        request: Matches a question that asks for something to be done.
        task: Matches a request that states nothing: for information, for a text.
        asking: Matches the beginning of a clause that asks.
        seeking: Matches a clause that looks for something: a question with or without its mark, a request.
        tag: Matches a question that only asks to agree with what is stated.
        given: Matches where a question ends and the reason for it begins.
        reported: Matches a question that somebody tells of, from the verb of asking to the word that asks.
        supposition: Matches a sentence of what is only imagined.
        condition: Matches a clause that says in which case a question is asked.
        chit_chat: Matches courtesies and comments on the conversation itself.
        joiner: Matches the words in front of which a long clause may be divided.
        answers: Kinds of answers by name, with how they are asked for and given.

        forget: Matches a request to forget what its sentence says.
        said_instead: Matches, from the end of such a request, up to where something begins that is stated.
        text_task: Matches what asks for work on a text, to where that text begins.
        text_in_task: Matches a text in quotation marks in front of what asks for work on it.

        signals: What a user's clause may state.
        assistant: What an assistant's clause may state.
        names: Matches names within a clause.
        first_name: Matches a name at the beginning of a clause.
        topic: Captures what a clause is about.
        listener: Matches words for the listener; what is said of them is mostly encouragement.
        joins_short: Whether a short clause belongs to the one before it.

        statements: How one statement ends another.
    """

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
