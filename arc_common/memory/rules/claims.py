"""Claims, and when two values of one slot can both be so. Pure."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Claim", "are_compatible", "plain", "value_of"]

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a statement puts into a slot that holds one value at a time.

    Args:
        slot: Whose, and what of theirs ("user|residence").
        value: Its words, folded; a value with more words than another may only be more exact ("seoul", "mapo").
    """

    slot: str
    value: frozenset[str]


def are_compatible(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether one value may be the other, said more exactly; an empty one says nothing."""
    return one <= other or other <= one


def plain(text: str) -> str:
    """A sentence in one form of its characters, folded, without what ends it."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("‘", "'")
    return _THOUSANDS.sub("", _SPACE.sub(" ", text)).strip(" \t.!。,;")


def value_of(words: Iterable[str]) -> frozenset[str]:
    """A value of these words."""
    return frozenset(words)
