"""Whether two memories say the same: what they name must be the same, in the same order. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from rapidfuzz.distance import Indel, Levenshtein

from arc_common.memory.long_term.contradictions import is_negated
from arc_common.text import analyze
from arc_common.text.languages.english import BASE_FORMS
from arc_common.text.languages.korean import strip_particles
from arc_common.text.languages.language import word_set
from arc_common.text.vocabulary import is_common

__all__ = ["folded", "may_be_the_same", "similarity"]

_TOKEN = re.compile(r"(?<![^\s(])[-−]\d+(?:[.,:/-]\d+)*|\d+(?:[.,:/-]\d+)*|[^\W_]+(?:['’][^\W_]+)?[+#]*|[$€£¥₩%°]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_NAME = re.compile(r"(?<=[^\s.!?:;] )(?!I['’])[A-ZÀ-ÖØ-ÞĀ-Ž][\w&-]+")
_FIRST_NAME = re.compile(r"\W{0,8}([A-ZÀ-ÖØ-ÞĀ-Ž][\w&-]+)")
_OTHER_SCRIPT = re.compile(r"[^\W\d_A-Za-z\u00aa-\u024f]")
_SPELLINGS = ((re.compile("(?<=[a-z]{2})our"), "or"), (re.compile("(?<=[a-z]{2})is(?=e|ing|ation)"), "iz"))
_DAYS = word_set(
    """
    monday tuesday wednesday thursday friday saturday sunday 월요일 화요일 수요일 목요일 금요일 토요일 일요일 평일 주말
    """
)
_LIGHT = word_set("the a an also really very")
_SUBJECT = word_set("user i i'm i've 사용자 저 제 나 내")
"""Whom memories are about."""

_BE = word_set("is are am be")
_LEADS_ON = word_set("of in at for by to")
_DIRECTED = word_set("to from than over under before after until instead against without 보다 대신")
"""Words of which the two sides are not the same."""

_SYNONYMS = {
    word: group.split()[0]
    for group in (
        "like love enjoy adore prefer fond 좋아한다 좋아합니다 좋아해요 선호한다",
        "live living reside residing based 산다 삽니다 살아요 거주한다",
        "work working employed 일한다 일합니다 일해요 근무한다",
        "allergy allergic",
        "있다 있습니다 있어요 있음",
    )
    for word in group.split()
}
"""How memories are phrased: words of one line say the same of somebody."""

_SAME_FRAME = 1 / 3
"""Share of the words that two statements have in the same order, from which one is no rephrasing of the other: by
all-MiniLM-L6-v2 "prefers tea to coffee" and "prefers coffee to tea" are as near as .998."""


def folded(text: str) -> str:
    """The text without what makes no difference: case, repeated space, the full stop."""
    return " ".join(text.casefold().split()).rstrip(" .!。")


def similarity(one: str, other: str, *, cutoff: float = 0.0) -> float:
    """The normalised Levenshtein similarity of two folded texts, from 0 to 1; 0 below the cutoff."""
    return float(Levenshtein.normalized_similarity(one, other, score_cutoff=cutoff))


def may_be_the_same(one: str, other: str, *, by_meaning: bool = False) -> bool:
    """Whether two texts that are much alike may stand for each other.

    - Neither denies what the other states, and both have the same numbers, names, codes and days, in the same order:
      "from ICN to GMP" is not "from GMP to ICN".
    - One says what the other says, in the same words and the same order, and nothing but more behind it. "Likes
      coffee" and "likes toffee" are two memories; singular and plural, and spellings, are one word.
    - By meaning the words may be turned ("mountain hikes", "hiking in the mountains"), and others where the statements
      are put together differently, in Latin script: where only a word is exchanged, or the language is one that an
      embedder may not know, vectors say nothing.

    What is doubtful is not the same: a memory too many costs less than one that is lost.
    """
    if is_negated(one) != is_negated(other):
        return False
    names = _names(one) | _names(other) | _opening_names(one, other)
    ours, theirs = _tokens(one), _tokens(other)
    if [word for word in ours if _is_value(word, names)] != [word for word in theirs if _is_value(word, names)]:
        return False
    if by_meaning:
        ours, theirs = _phrased(ours), _phrased(theirs)
        is_rephrased = Indel.normalized_similarity(ours, theirs) < _SAME_FRAME
        if is_rephrased and not _OTHER_SCRIPT.search(one + other):
            return True
    short, long = sorted((ours, theirs), key=lambda words: (len(words), words))
    return long[: len(short)] == short or (by_meaning and _is_turned(short, long))


def _is_turned(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether one says of the same what the other says, in other forms and another order."""
    if short[:1] != long[:1] or any(word in _DIRECTED for word in (*short, *long)):
        return False
    ours, theirs = (Counter(_stem(word) for word in words if word not in _LEADS_ON) for words in (short, long))
    return ours <= theirs


def _stem(word: str) -> str:
    """A word as it is looked for; with its tense, which makes a difference."""
    return word if word.endswith("ed") or word in BASE_FORMS or not word.isalpha() else "".join(analyze(word))


def _is_value(word: str, names: frozenset[str]) -> bool:
    return word in names or word in _DAYS or any(map(str.isdigit, word))


def _phrased(words: Sequence[str]) -> tuple[str, ...]:
    """The words without whom they are about, and of a phrase that has synonyms ("is fond of") the first of them."""
    said: list[str] = []
    before = ""
    for word in words:
        synonym = _SYNONYMS.get(word, "")
        if synonym and said and said[-1] in _BE:
            said.pop()
        if word not in _SUBJECT and not (before in _SYNONYMS and word in _LEADS_ON):
            said.append(synonym or word)
        before = word
    return tuple(said)


@lru_cache(4096)
def _tokens(text: str) -> tuple[str, ...]:
    """The words and numbers in order, each in one form; Korean words without their particles."""
    words = _TOKEN.findall(_THOUSANDS.sub("", text.casefold()))
    return tuple(_form(word) for word in words if word not in _LIGHT)


@lru_cache(4096)
def _names(text: str) -> frozenset[str]:
    """The capitalised words behind the first one of a sentence."""
    return frozenset(_form(name.casefold()) for name in _NAME.findall(text))


def _opening_names(one: str, other: str) -> frozenset[str]:
    """The capitalised words with which both texts begin, unless one of them is a word of any conversation."""
    first = [match[1].casefold() for text in (one, other) if (match := _FIRST_NAME.match(text))]
    names = frozenset(_form(word) for word in first if not is_common(word) and word not in _SUBJECT)
    return names if len(names) > 1 else frozenset()


def _form(word: str) -> str:
    """A word in its singular, without "'s", in American spelling; a Korean one without its particles."""
    if not word.isascii():
        word = word.replace("’", "'")
    word = strip_particles(word.removesuffix("'s"))
    for spelling, other in _SPELLINGS:
        word = spelling.sub(other, word)
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("ches", "shes", "xes", "sses", "zes")) else word[:-1]
