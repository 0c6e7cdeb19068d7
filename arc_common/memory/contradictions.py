"""Whether a memory takes another's place: what has one value at a time, and what is stated and then over. Pure.

A statement makes claims (see `rules.claims`). Two statements contradict each other if they differ in one value of which
a thing has one at a time (an amount, a time, a place of work) and in nothing else, or if one says that what the other
says is over, or has changed. What can be many at once (pets, languages, journeys, hobbies) only ends.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from arc_common.memory.rules import claims_english, claims_korean
from arc_common.memory.rules.claims import Claim, Mark, are_compatible
from arc_common.text.sentences import sentences_of

__all__ = ["Claim", "claims_of", "conflict", "contradicts", "is_negated"]

_HANGUL = re.compile("[가-힣]")

_SENTENCES = 4
"""A memory has one or two; what is longer is read no further."""

_LONGEST = 300
"""Characters of a sentence that is read: longer ones are told in too many ways to be compared."""


@lru_cache(256)  # a new memory's are asked for twice
def claims_of(text: str) -> tuple[Claim, ...]:
    """What a text claims, each slot once; deterministic, linear in the text.

    What a text says and denies is over: it tells what was before.
    """
    claims: dict[str, Claim] = {}
    for sentence in sentences_of(text)[:_SENTENCES]:
        for claim in _claims(sentence) if len(sentence) <= _LONGEST else ():
            if claim.slot not in claims or (claims[claim.slot].subject and not claim.subject):
                claims[claim.slot] = claim
    opposed = {
        slot
        for slot, claim in claims.items()
        if claim.mark is Mark.SAID
        and any(other in claims and not are_compatible(claim, claims[other]) for other in claim.opposed)
    }
    return tuple(claim for slot, claim in claims.items() if slot not in opposed)


def conflict(one: Iterable[Claim], other: Iterable[Claim]) -> bool:
    """Whether two texts' claims can't both be so."""
    held = {claim.slot: claim for claim in other}
    return any(slot in held and not are_compatible(claim, held[slot]) for claim in one for slot in claim.opposed)


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
    if not _HANGUL.search(sentence):
        yield from claims_english.claims_of(sentence)
        return
    for claim in claims_korean.claims_of(sentence):
        yield replace(claim, slot=f"{claim.slot} (ko)")  # words are compared within a language
