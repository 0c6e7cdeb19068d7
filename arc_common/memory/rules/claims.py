"""Claims, and when two values of one slot can both be so. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Claim", "are_compatible", "plain", "polar", "value_of"]

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a statement puts into a slot that holds one value at a time.

    Args:
        slot: Whose, and what of theirs ("user|residence").
        value: Its words, folded; a value with more words than another may only be more exact ("seoul", "mapo").
        denied: For what is so or is not, which of the two; `None` for a value.
    """

    slot: str
    value: frozenset[str]
    denied: bool | None = None


def are_compatible(one: Claim, other: Claim) -> bool:
    """Whether two claims on one slot can both be so.

    - Of two values one may be the other, said more exactly; an empty one says nothing.
    - What is denied in general is not so in particular; what is denied in particular may be so otherwise: "no tennis"
      rules out "tennis on Saturdays", but "no coffee in the evening" does not rule out "coffee".
    """
    if one.denied is None or other.denied is None or one.denied == other.denied:
        return one.denied is not None or one.value <= other.value or other.value <= one.value
    denial, statement = (one, other) if one.denied else (other, one)
    return not denial.value <= statement.value


def plain(text: str) -> str:
    """A sentence in one form of its characters, folded, without what ends it."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("‘", "'")
    return _THOUSANDS.sub("", _SPACE.sub(" ", text)).strip(" \t.!。,;")


def value_of(words: Iterable[str]) -> frozenset[str]:
    """A value of these words."""
    return frozenset(words)


def polar(slot: str, words: Sequence[str], *, denied: bool) -> Iterator[Claim]:
    """That something is so, or is not: a denial has the slot of its first word, a statement those of all its words."""
    for word in dict.fromkeys(words[:1] if denied else words):
        yield Claim(f"{slot} {word}", frozenset(words), denied)
