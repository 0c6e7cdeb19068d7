"""Whether two memories say the same: by their letters, as long as their words, numbers and negations agree. Pure."""

import re
from functools import lru_cache

from rapidfuzz.distance import Levenshtein

from arc_common.memory.contradictions import is_negated
from arc_common.memory.rules.vocabulary import strip_particles

__all__ = ["folded", "lengths_within", "may_be_the_same", "similarity"]

_SPACE_AND_MARKS = re.compile(r"[\s.!。]+$")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NAME = re.compile(r"(?<=[^\s.!?:;] )[A-ZÀ-ÖØ-ÞĀ-Ž][\w'’&-]+")
_SAME_WORD = 0.85
"""Edit similarity from which two words with one initial are spellings of one ("favourite", "favorite")."""


def folded(text: str) -> str:
    """The text without what makes no difference: case, repeated space, the full stop."""
    return _SPACE_AND_MARKS.sub("", " ".join(text.casefold().split()))


def similarity(one: str, other: str, *, cutoff: float = 0.0) -> float:
    """The normalised Levenshtein similarity of two folded texts, from 0 to 1; 0 below the cutoff."""
    return float(Levenshtein.normalized_similarity(one, other, score_cutoff=cutoff))


def lengths_within(length: int, cutoff: float) -> tuple[int, int]:
    """The least and the greatest length of a text that can be as similar to one of this length as the cutoff."""
    return int(length * cutoff), int(length / cutoff) + 1 if cutoff else 2**31


def may_be_the_same(one: str, other: str, *, by_meaning: bool = False) -> bool:
    """Whether two texts that are much alike may stand for each other.

    - Neither denies what the other states, and neither has numbers that the other lacks while lacking some itself.
    - By letters: a word that only one of them has stands for none that only the other has, unless they are spellings or
      forms of one word. "Likes coffee" and "likes toffee" are two memories.
    - By meaning the words may differ, but not the names.
    """
    if is_negated(one) != is_negated(other):
        return False
    for values in (_numbers, _names) if by_meaning else (_numbers,):
        if values(one) - values(other) and values(other) - values(one):
            return False
    return by_meaning or _has_no_substitute(_words(one), _words(other))


def _has_no_substitute(one: frozenset[str], other: frozenset[str]) -> bool:
    ours, theirs = one - other, other - one
    if not ours or not theirs:
        return True
    return all(any(_is_form(word, match) for match in theirs) for word in ours) or all(
        any(_is_form(word, match) for match in ours) for word in theirs
    )


def _is_form(one: str, other: str) -> bool:
    if one[0] != other[0]:
        return False
    short, long = sorted((one, other), key=len)
    is_inside = len(long) - len(short) <= 2 and _is_subsequence(short, long)
    return (is_inside and len(short) > 2) or similarity(one, other) >= _SAME_WORD


def _is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(letter in rest for letter in short)


@lru_cache(4096)
def _numbers(text: str) -> frozenset[str]:
    return frozenset(re.sub(r"(?<=\d),(?=\d{3})", "", number) for number in _NUMBER.findall(text))


def _names(text: str) -> frozenset[str]:
    return frozenset(name.casefold() for name in _NAME.findall(text))


def _words(text: str) -> frozenset[str]:
    """The words that are no numbers, Korean ones without their particles."""
    return frozenset(strip_particles(word) for word in _WORD.findall(text.casefold()) if not word[0].isdigit())
