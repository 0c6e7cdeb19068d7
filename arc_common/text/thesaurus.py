"""Words related to those of a question: it says "job" or "the chickens", and the answer says "nurse" or "hens".

The thesaurus beside this module covers everyday English and Korean, by field of life. Each line is one concept: its
names, which are interchangeable, a colon, and related words: kinds, parts, and words commonly used about it. A line
that begins with a space continues the previous one; a line that begins with # is a note.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from arc_common.caches import cached_text
from arc_common.text.analyzer import analyze, query_words
from arc_common.text.languages.language import entries
from arc_common.text.languages.registry import LANGUAGES

# Measured with benchmarks/session_recall.py: values from 0.2 to 0.4 differ little.
_SAME = 0.35
"""The weight of another name of the same concept, relative to the word itself."""
_BELONGS = 0.25
"""The weight of a related word for the concept's name, and of the name for the word."""
_TRANSLATED = 0.5
"""The factor for a word in the other language: questions about Korean text are mostly asked in Korean."""

_HANGUL = re.compile("[가-힣]+")
_PARTICLE = re.compile("(?:에서는|에서|에게|한테|까지|부터|으로|처럼|이랑|하고|께서|[은는이가을를에로와과랑도만의])$")
_MAX_WORD = 24


@dataclass(frozen=True, slots=True)
class Alternative:
    """A word that an answer may use in place of the question's.

    Args:
        terms: The word's terms, as `analyze` returns them; a text has the word if it has all of these.
        weight: Above 0 and below 1, the weight of the question's own word.
    """

    terms: tuple[str, ...]
    weight: float


def alternatives(query: str) -> list[tuple[Alternative, ...]]:
    """Return, for each word of a query in the thesaurus, the words that may replace it, the closest first.

    Deterministic. Korean words are looked up without their particles, and by their beginning, whatever their ending.
    """
    found = [_of_word(word) for word in dict.fromkeys(query_words(query)) if len(word) <= _MAX_WORD]
    return [words for words in found if words]


@dataclass(frozen=True, slots=True)
class _Thesaurus:
    """The concepts, each with the keys of its names and of its related words, indexed by both."""

    concepts: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    named: dict[str, list[int]]
    belonging: dict[str, list[int]]


@lru_cache(maxsize=1)
def _thesaurus() -> _Thesaurus:
    concepts: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    named: dict[str, list[int]] = {}
    belonging: dict[str, list[int]] = {}
    for line in _lines():
        names, _, members = line.partition(":")
        keys = tuple(dict.fromkeys(_key(word) for word in names.split()))
        others = tuple(key for key in dict.fromkeys(_key(word) for word in members.split()) if key not in keys)
        for key in keys:
            named.setdefault(key, []).append(len(concepts))
        for key in others:
            belonging.setdefault(key, []).append(len(concepts))
        concepts.append((keys, others))
    return _Thesaurus(tuple(concepts), named, belonging)


def _lines() -> Iterator[str]:
    for name in dict.fromkeys(language.thesaurus for language in LANGUAGES if language.thesaurus):
        folder = files("arc_common.text.languages").joinpath(name)
        for file in sorted(folder.iterdir(), key=lambda file: file.name):
            yield from entries(name, file.name)


def _key(word: str) -> str:
    """Return the lookup key of a word: the stem of an English word, a Korean word as it stands."""
    return word if _HANGUL.fullmatch(word) else analyze(word)[-1]


def _forms(word: str) -> Iterator[set[str]]:
    """Yield the keys under which a query's word may be found, most likely first."""
    if not _HANGUL.fullmatch(word):
        yield set(analyze(word)[-1:])
        return
    yield {word, _PARTICLE.sub("", word)}
    for end in range(len(word) - 1, 1, -1):
        yield {word[:end]}


@cached_text(1 << 12)
def _of_word(word: str) -> tuple[Alternative, ...]:
    thesaurus = _thesaurus()
    korean = bool(_HANGUL.fullmatch(word))
    for forms in _forms(word):
        named = [thesaurus.concepts[i] for form in forms for i in thesaurus.named.get(form, ())]
        belonging = [thesaurus.concepts[i] for form in forms for i in thesaurus.belonging.get(form, ())]
        weights = dict.fromkeys([key for _, others in named for key in others], _BELONGS)
        weights |= dict.fromkeys([key for names, _ in belonging for key in names], _BELONGS)
        weights |= dict.fromkeys([key for names, _ in named for key in names], _SAME)
        words = {
            _terms(key): weight if bool(_HANGUL.fullmatch(key)) == korean else weight * _TRANSLATED
            for key, weight in weights.items()
            if key not in forms
        }
        words.pop((), None)
        if words:
            ranked = sorted(words.items(), key=lambda word: -word[1])
            return tuple([Alternative(terms, weight) for terms, weight in ranked])
    return ()


@cache  # for the thesaurus's own words: analysing them took most of a new word's look-up
def _terms(key: str) -> tuple[str, ...]:
    """Return the terms that show a key's word in a text: the stem in English, syllable pairs in Korean."""
    if not _HANGUL.fullmatch(key):
        return (key,)
    return tuple([term for term in dict.fromkeys(analyze(key)) if len(term) > 1])
