"""Language: all of arc's data on one language. A new language is one file with one such object."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from arc_common.facts import FactCategory


class Pattern:
    """A regular expression that ignores case unless `cased`; compiled on first use, as compiling all takes 0.5 s."""

    search: Callable[..., re.Match[str] | None]
    match: Callable[..., re.Match[str] | None]
    fullmatch: Callable[..., re.Match[str] | None]
    finditer: Callable[..., Iterator[re.Match[str]]]
    split: Callable[[str], list[str]]
    sub: Callable[..., str]

    def __init__(self, text: str, *, cased: bool = False) -> None:
        self._text = text
        self._flags = 0 if cased else re.IGNORECASE

    def __getattr__(self, name: str) -> Any:
        if name not in Pattern.__annotations__:
            raise AttributeError(name)
        compiled = re.compile(self._text, self._flags)
        for method in Pattern.__annotations__:
            setattr(self, method, getattr(compiled, method))
        return getattr(self, name)


NEVER = Pattern(r"(?!)")
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
class Signal:
    """A pattern whose match indicates that a clause states something, and its weight."""

    name: str
    category: FactCategory
    weight: float
    pattern: Pattern
    anchor: bool = False
    cased: bool = False


def signals(table: Mapping[tuple[str, FactCategory, float], str], *, anchor: bool = False) -> tuple[Signal, ...]:
    """Return the signals of a table; patterns with a capital are matched as they stand, others in lower case."""
    return tuple(
        Signal(name, category, weight, Pattern(text, cased=True), anchor, _CAPITAL.search(text) is not None)
        for (name, category, weight), text in table.items()
    )


_CAPITAL = re.compile(r"(?<!\\)[A-Z]")


@dataclass(frozen=True, slots=True)
class Found:
    """A signal and its place in the clause."""

    signal: Signal
    start: int
    end: int


def find(sought: Sequence[Signal], clause: str) -> list[Found]:
    """Return the first match of each signal in a clause, in the signals' order."""
    small = clause.lower()  # takes less than half as long as ignoring case
    if len(small) != len(clause):  # a few capitals (İ) become two characters
        small = clause.translate(_SMALL)
    matches = [(signal, signal.pattern.search(clause if signal.cased else small)) for signal in sought]
    return [Found(signal, match.start(), match.end()) for signal, match in matches if match]


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
    pattern: Pattern
    is_change: bool = False


_ANYTHING = Pattern(".*")
_PUNCTUATION = Pattern(r"[,;]\s+|[，；。]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """How one statement supersedes another in a language: by an attribute's one value, or by words of change."""

    rewrites: Sequence[tuple[Pattern, str]] = ()
    """Replacements that give statements of the same content the same words: "isn't" by "is not"."""
    breaks: Pattern = _PUNCTUATION
    """The borders of clauses: ", and"."""
    unsure: Pattern = NEVER
    """Words of plans, the past, parts and guesses, after which a clause claims nothing: "might"."""
    vague: Pattern = NEVER
    """A subject that only the conversation explains: "it", "that"."""
    subject: Pattern = _ANYTHING
    """The subject before a negation."""
    negated: Pattern = NEVER
    """A denial: "no longer"."""
    ended: Pattern = NEVER
    """A verb of giving up: "cancelled"."""
    swapped: Pattern = NEVER
    """What was given up for something else: "switched from tea to coffee"."""
    changed: Pattern = NEVER
    """Words of change: "now", "was moved"."""
    added: Pattern = NEVER
    """Words for another value: "new"."""
    relations: Sequence[Relation] = ()
    named: Sequence[Pattern] = ()
    """A sentence that names an attribute and its value: "my email is …"."""
    attributes: Pattern = NEVER
    """Attributes with one value: "email"."""
    several: Pattern = NEVER
    """Things of which people have several: "sister"."""
    indefinite: Pattern = NEVER
    """Signs of a thing among others: "a", "bought"."""
    light: frozenset[str] = frozenset()
    """Words that make no difference between two statements."""
    engaging: frozenset[str] = frozenset()
    """Verbs of doing or having something, which giving it up does not repeat: "play"."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Words that exclude each other: "monday" and "tuesday"."""
    units: Mapping[str, str] = field(default_factory=dict)
    months: Mapping[str, int] = field(default_factory=dict)
    chosen: Pattern = NEVER
    """Attributes whose value may be any word: "favourite"."""
    regions: Mapping[str, str] = field(default_factory=dict)
    """Countries, which towns do not contradict; larger regions map to nothing."""


Script = Literal["latin", "hangul", "han and kana"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language:
    """All of arc's data on one language."""

    name: str
    script: Script
    markers: frozenset[str] = frozenset()
    """Frequent words that no other language of its script shares."""
    is_spaced: bool = True

    stop_words: frozenset[str] = frozenset()
    """Words that say nothing about what is asked for: "the", "which"."""
    stop_word: Pattern = NEVER
    """A whole word of that kind, in languages with too many forms for a list."""
    particles: Pattern = NEVER
    """Endings after a noun that are not part of it."""
    common_words: frozenset[str] = frozenset()
    """Words that occur in most conversations, and so are specific to none."""
    base_forms: Mapping[str, str] = field(default_factory=dict)
    """Irregular forms that no suffix rule reduces: "grew" to "grow"."""
    stemmer: str | None = None
    """The name of its Snowball stemmer."""
    stem_of: Callable[[str], str] | None = None
    general_nouns: frozenset[str] = frozenset()
    """Nouns that stand for another as a pronoun does: "the place" (Halliday & Hasan 1976, 6.1)."""
    thesaurus: str | None = None
    """The folder of its thesaurus."""

    lead_ins: Pattern = NEVER
    """Openings that a sentence can lose without losing meaning: "By the way,"."""
    question: Pattern = NEVER
    """A sentence that ends as a question."""
    request: Pattern = NEVER
    """A question that requests an action, which it states: "Can you deliver it on Friday?"."""
    task: Pattern = NEVER
    """A request for information or a text, whose topic is not stated as fact: "Can you explain …"."""
    asking: Pattern = NEVER
    """The beginning of a question's clause: "is it", "what"."""
    seeking: Pattern = NEVER
    """A clause that seeks information: a question, even without a mark, a request, or a lapse of memory."""
    tag: Pattern = NEVER
    """A question after a statement that only asks for agreement: ", isn't it?"."""
    given: Pattern = NEVER
    """The beginning of the reason for a question, which is stated: ", since I …"."""
    reported: Pattern = NEVER
    """A reported question: "she asked if …"."""
    supposition: Pattern = NEVER
    """A supposition, a wish, or a condition contrary to fact: "what if", "I wish"."""
    condition: Pattern = NEVER
    """The mark of a clause that states the condition of the question after it: "if", "면"."""
    chit_chat: Pattern = NEVER
    """Courtesies, and comments on the conversation itself: "thanks for your help"."""
    joiner: Pattern = NEVER
    """The places where a long clause may be divided: before "because"."""
    answers: Mapping[str, AnswerForms] = field(default_factory=dict)

    follow_up: Pattern = NEVER
    """The beginning of a question that continues another: "And what about …"."""
    pointer: Pattern = NEVER
    """Words that refer to something said before: "that one"."""
    personal: frozenset[str] = frozenset()
    """Pointers that mostly refer to a name, if one precedes them in the question: "her"."""
    expletive: Pattern = NEVER
    """A pronoun that refers to nothing: "is it possible"."""
    ellipsis: Pattern = NEVER
    """A whole question that names its topic and asks nothing: "부산은요?"."""
    defining: Pattern = NEVER
    """A question that needs only one topic word of its own: "What is …"."""
    definite: Pattern = NEVER
    """A reference to something as known: "the harbour"."""
    asking_words: frozenset[str] = frozenset()
    """Words of questions that say nothing about the topic: "explain"."""

    labels: frozenset[str] = frozenset()
    """Words that label and rephrase facts, which their source need not contain: "allergy", "works"."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Words for numbers: "twelve" and "dozen" are "12"."""
    rules_out: Pattern = NEVER
    """Words that rule something out without a negation: "forbidden"."""
    preference: Pattern = NEVER
    """A statement of what the user likes, or how they want to be answered: "I love …"."""
    attitudes: frozenset[str] = frozenset()
    """Words that express an attitude but not its object: "like", "really"."""
    phrasings: Mapping[str, str] = field(default_factory=dict)
    """Words of memories that mean the same: "adore" is "like"."""
    subordinate: Pattern = NEVER
    """The beginning of a clause that the next one completes: "when"."""
    continues: Pattern = NEVER
    """The beginning of a clause that completes the one before: "which"."""

    speaker: frozenset[str] = frozenset()
    """Words for the user, whom memories are about: "user", "i"."""
    directed: frozenset[str] = frozenset()
    """Words whose two sides can't be swapped: "than"."""
    oneself: str = "(?!)"
    """The beginning of a sentence about its speaker: "I am"; titles are capitalised ("I Will Survive")."""
    forget: Pattern = NEVER
    """A request to forget the content of its sentence: "Forget that …"."""
    said_instead: Pattern = NEVER
    """The text up to the statement after the content to be forgotten: ", I …"."""
    text_task: Pattern = NEVER
    """A request for work on a text, up to the start of that text: "Translate this: "."""
    text_in_task: Pattern = NEVER
    """A quoted text before a request for work on it."""

    signals: Sequence[Signal] = ()
    """Signals of statements in a user's clause; weights below 0.33 need another signal, or specific words."""
    assistant: Sequence[Signal] = ()
    """What an assistant's clause may state: commitments, labels of ids, and the listener's affairs."""
    names: Pattern = NEVER
    """A name that is not the first word of its clause."""
    first_name: Pattern = NEVER
    """A name with which a clause begins."""
    topic: Pattern = NEVER
    """The subject of a statement, as its first group: "my kiln" in "my kiln is …"."""
    listener: Pattern = NEVER
    """Words for the listener; remarks about them are mostly encouragement."""
    joins_short: bool = True
    statements: Statements = Statements()
