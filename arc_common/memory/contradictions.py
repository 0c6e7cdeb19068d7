"""Whether a memory takes another's place: what has one value at a time, and what is stated and then denied. Pure.

A statement makes claims. A claim has a slot that can hold one value at a time: where somebody lives, how old they are,
whether they like coffee. Two statements contradict each other when they fill one slot with values that can't both be
so. What can be many at once (pets, languages, journeys, hobbies) fills no slot but its own denial.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from arc_common.memory.rules import claims_english, claims_korean
from arc_common.memory.rules.claims import Claim, are_compatible
from arc_common.text.sentences import sentences_of

__all__ = ["Claim", "claims_of", "conflict", "contradicts", "is_negated"]

_SENTENCES = 4
"""A memory has one or two; what is longer is read no further."""

_LONGEST = 300
"""Characters of a sentence that is read: longer ones are told in too many ways to be compared."""


@lru_cache(256)  # a new memory's are asked for twice
def claims_of(text: str) -> tuple[Claim, ...]:
    """What a text claims, each slot once; deterministic, linear in the text."""
    claims: dict[str, Claim] = {}
    for sentence in sentences_of(text)[:_SENTENCES]:
        for claim in _claims(sentence) if len(sentence) <= _LONGEST else ():
            claims.setdefault(claim.slot, claim)
    return tuple(claims.values())


def conflict(one: Iterable[Claim], other: Iterable[Claim]) -> bool:
    """Whether two texts' claims can't both be so."""
    held = {claim.slot: claim for claim in other}
    return any(claim.slot in held and not are_compatible(claim, held[claim.slot]) for claim in one)


def contradicts(one: str, other: str) -> bool:
    """Whether two texts can't both be so at a time.

    By rules, in English and Korean; of other languages nothing is said. What is doubtful is no contradiction: two
    memories that stand beside each other do less harm than one that is lost.
    """
    return conflict(claims_of(one), claims_of(other))


def is_negated(text: str) -> bool:
    """Whether a text denies something, as far as its words show."""
    return claims_english.is_negated(text) or claims_korean.is_negated(text)


def _claims(sentence: str) -> Iterator[Claim]:
    is_korean = any("가" <= character <= "힣" for character in sentence)
    yield from (claims_korean if is_korean else claims_english).claims_of(sentence)
