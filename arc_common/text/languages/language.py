"""Language: all of arc's data on one language. A new language is one file with one such object."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal


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


NEVER = Pattern(r"\0(?!)")
"""Matches nothing, and skips a text at once: the default of a form that a language does not describe."""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text."""
    return frozenset(text.split())


def synonyms(text: str) -> dict[str, str]:
    """Map each word to the first of its group; bars separate the groups."""
    return {word: group.split()[0] for group in text.split("|") for word in group.split()}


def entries(*path: str) -> Iterator[str]:
    """Yield the entries of a file beside this module: a line with a space continues the last, one with # is a note."""
    text = files("arc_common.text.languages").joinpath(*path).read_text(encoding="utf-8")
    return (line for line in text.replace("\n ", " ").splitlines() if line and not line.startswith("#"))


def vocabulary(language: str, *, whole_words: bool = True) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the lists of a language's text file: those of `Language`, by its fields, and phrases for use in patterns.

    In the file, bars separate synonyms, and commas separate phrases; "*" in a phrase is any ending of a word. Phrases
    under the name of a pattern of `Language` are that pattern; with `whole_words` they match between borders of words.
    """
    fields: dict[str, Any] = {}
    phrases: dict[str, str] = {}
    for entry in entries(f"{language}.txt"):
        name, _, text = entry.partition(": ")
        if "," in text:
            phrases[name] = f"(?:{'|'.join(text.split(', '))})".replace("*", r"\w*")
            if Language.__annotations__.get(name) is Pattern:
                fields[name] = Pattern(rf"\b{phrases[name]}\b" if whole_words else phrases[name])
        else:
            fields[name] = synonyms(text) if "|" in text else word_set(text)
    return fields, phrases


Script = Literal["latin", "hangul", "han and kana"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language:
    """All of arc's data on one language."""

    name: str
    script: Script
    markers: frozenset[str] = frozenset()
    """Frequent words that no other language of its script shares."""
    is_spaced: bool = True
    capitalises_nouns: bool = False
    """All nouns begin with a capital letter, as names do."""

    stop_words: frozenset[str] = frozenset()
    """Words that say nothing about what is asked for: "the", "which"."""
    stop_word: Pattern = NEVER
    """A whole word of that kind, in languages with too many forms for a list."""
    particles: Pattern = NEVER
    """Endings after a noun that are not part of it."""
    common_words: frozenset[str] = frozenset()
    """Further words that occur in most conversations, and so are specific to none."""
    common_word: Pattern = NEVER
    """Any of these, and a small number with its unit, in languages that put no spaces between words."""
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
    lead_outs: Pattern = NEVER
    """Closings that a sentence can lose without losing meaning: ", by the way"."""
    seeking: Pattern = NEVER
    """A clause that asks (as the group `asked`, surely) or requests: "what is …", "book …", "let me know"."""
    confirming: Pattern = NEVER
    """A tag, with or without a question mark, that asks about the clause before it: ", right", "isn't it"."""
    relating: Pattern = NEVER
    """A clause behind a comma that begins as a question does and asks nothing: "which cost $40", "where I live"."""
    chit_chat: Pattern = NEVER
    """Courtesies, feelings and praise, which state nothing alone: "thanks for your help", "amazing"."""
    supposition: Pattern = NEVER
    """A supposition, a guess or a wish: "what if", "maybe", "I wish"."""
    condition: Pattern = NEVER
    """The beginning, or the end, of a clause that only states a condition: "if", "면"."""
    joining: Pattern = NEVER
    """A link between two statements in one sentence: ", and I", "; "."""
    oneself: Pattern = NEVER
    """Words for the speaker and their people: "I", "my", "our"."""
    listener: Pattern = NEVER
    """Words for the listener; remarks about them are mostly encouragement."""
    lasting: Pattern = NEVER
    """A lasting statement about oneself: one's name, belongings, work, likes, plans or needs."""
    asserting: Pattern = NEVER
    """The verb of a statement about anything: "is"; a list of values has none."""
    bare: Pattern = NEVER
    """A value with no more than the verb "to be", which says nothing alone: "180만 원이에요"."""
    wanting: Pattern = NEVER
    """A request, a wish or an offer in the form of a statement: "I'm looking for", "I need", "You can take"."""
    forbidding: Pattern = NEVER
    """A prohibition or a condition, also as an imperative: "never", "only if"; a limit alone, as the group `limit`."""
    deciding: Pattern = NEVER
    """A choice, a promise, or a deed that follows from it: "decided", "booked", "let's go with"."""
    agreeing: Pattern = NEVER
    """An agreement, which may need what it agrees to: "Deal", "let's take the train"."""
    undecided: Pattern = NEVER
    """A decision or an answer that is put off: "we still have to decide", "I'll ask"."""
    unknowing: Pattern = NEVER
    """An answer that is none: "I don't know"."""
    preferring: Pattern = NEVER
    """A preference, also for a way to be answered: "I prefer"."""
    vague: Pattern = NEVER
    """A word for something that another one names, which says nothing before it is named: "it", "something"."""
    denying: Pattern = NEVER
    """A denial, or a verb of giving up: "no longer", "cancelled"."""
    changing: Pattern = NEVER
    """Words of change: "now", "instead", "was moved"."""
    adding: Pattern = NEVER
    """Words that put one thing beside another or into the past, so that it ends nothing: "also", "used to"."""
    leaving: Pattern = NEVER
    """A verb that ends what its object names: "quit", "cancelled"; also "no longer"."""
    having: Pattern = NEVER
    """What the speaker has or does, as the only group: "Honda Civic" in "I drive a Honda Civic to work"."""
    replacing: Pattern = NEVER
    """What something replaces, as the only group: "instead of 4,000"."""
    parting: Pattern = NEVER
    """A link between two statements about one subject: "and now", "; "."""
    pronouns: frozenset[str] = frozenset()
    """Words for the speaker as a subject: "i", "we"."""
    relatives: Pattern = NEVER
    """Words for the speaker's people where no possessive stands before them."""
    subject: Pattern = NEVER
    """The subject at a sentence's beginning that is not the speaker, where sentences need none: "동생은"."""
    naming: Pattern = NEVER
    """A subject and its name, as the groups `name` and `value` ("my boss is Anna") or, the other way round, `name2` and
    `value2`. The group `place` matches if the name is that of a place."""
    relations: Mapping[str, Pattern] = field(default_factory=dict)
    """Sentences that give somebody's attribute its one value, as the pattern's last group, by attribute."""
    attribute: Pattern = NEVER
    """A subject with one value, as the group `name`, and its value: "my email is …", "the meeting was moved to …"."""
    ordinal: Pattern = NEVER
    """A number, up to its full stop, that ends no sentence: "am 25." before "April"."""
    dates: Mapping[str, str] = field(default_factory=dict)
    """Names of days and months, each with its kind and value: "mondays" is "weekday monday"."""

    follow_up: Pattern = NEVER
    """The beginning of a question that continues another: "And what about …"."""
    pointer: Pattern = NEVER
    """Words that refer to something said before: "that one"; "her", in the group `personal`, also to a name before."""
    expletive: Pattern = NEVER
    """A pronoun that refers to nothing: "is it possible"."""
    ellipsis: Pattern = NEVER
    """A whole question that names its topic and asks nothing: "부산은요?"."""
    defining: Pattern = NEVER
    """A question that needs only one topic word of its own, "What is …", without something known: "the harbour"."""
    asking_words: frozenset[str] = frozenset()
    """Words of questions that say nothing about the topic: "explain"."""

    labels: frozenset[str] = frozenset()
    """Words that label and rephrase facts, which their source need not contain: "allergy", "works"."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Words for numbers: "twelve" and "dozen" are "12"."""
    phrasings: Mapping[str, str] = field(default_factory=dict)
    """Words of memories that mean the same: "adore" is "like"."""

    speaker: frozenset[str] = frozenset()
    """Words for the user in memories: "user", "i"."""
    others: frozenset[str] = frozenset()
    """Words for the user among others, and for others by the user: "user", "his"."""
    restated: frozenset[str] = frozenset()
    """Further words that change or go when somebody else restates what one said: "my", "am", "the"."""
    negations: frozenset[str] = frozenset()
    """Words for "not" that stand for each other where somebody else restates what one said: "don't", "doesn't"."""
    verb_ending: Pattern = NEVER
    """The ending that a verb's stem has for some persons only: "wohne" and "wohnt"."""
    forgetting: frozenset[str] = frozenset()
    """Words of a request to forget that don't name its content: "memory"."""
    directed: frozenset[str] = frozenset()
    """Words whose two sides can't be swapped: "than"."""
    forget: Pattern = NEVER
    """A request to forget the content of its sentence: "Forget that …"."""
    said_instead: Pattern = NEVER
    """The text up to the statement after the content to be forgotten: ", I …"."""
    self_quoted: str = "(?!)"
    """The beginning of a quoted sentence about its speaker: "I am"; titles are capitalised ("I Will Survive")."""
    text_task: Pattern = NEVER
    """A request for work on a text, up to that text: "Translate this: "; it begins a line or a sentence."""
    text_in_task: Pattern = NEVER
    """A quoted text before a request for work on it."""
