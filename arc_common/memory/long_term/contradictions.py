"""Whether a memory takes another's place: what has one value at a time, and what is stated and then over. Pure.

A statement makes claims (see `rules.claims`). Two statements contradict each other if they differ only in a value that
is single at a time (an amount, a time, a place of work), or if one says that the other is over or has changed. Things
that somebody can have several of (pets, sisters, languages, hobbies) are ended only by such words.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from arc_common.memory.long_term import claims_english, claims_korean
from arc_common.memory.long_term import claims_english_phrases as english
from arc_common.memory.long_term import claims_english_words as english_words
from arc_common.memory.long_term import claims_korean_words as korean
from arc_common.memory.long_term.claims import Claim, Mark, are_compatible
from arc_common.memory.long_term.claims_english_tokens import stem_of
from arc_common.memory.long_term.claims_kinds import kind_of
from arc_common.text.sentences import sentences_of

__all__ = ["Claim", "claims_of", "conflict", "contradicts", "is_negated", "may_end"]

_MORE_OF_MANY = "grandchild grandson granddaughter stepson stepdaughter twin roommate flatmate car"
_HANGUL = re.compile("[가-힣]")

_SEVERAL = frozenset({*map(stem_of, english_words.MANY), *map(stem_of, _MORE_OF_MANY.split()), "transport=car"})
"""Stems of words for things of which somebody can have several: "my sister" may be said of two sisters."""
_TELLS_NOTHING = frozenset({"name", "이름"})

_SENTENCES = 4
"""A memory has one or two; further sentences are not read."""

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


def may_end(text: str) -> bool:
    """Return whether a text can contradict an earlier one: it names a single value, or ends or changes something."""
    return any(claim.mark is not Mark.SAID and not claim.of_many for claim in claims_of(text))


def is_negated(text: str) -> bool:
    """Return whether a text denies something, as far as its words show."""
    return claims_english.is_negated(text) or claims_korean.is_negated(text)


def _is_of_many(claim: Claim) -> bool:
    """Return whether a value may belong to another sister, cat or car, because nothing tells which one is meant."""
    if claim.mark is not Mark.VALUE:
        return False
    kind, _, about = claim.slot.partition(" of ")
    words = about.split()
    many = [word for word in words if word in _SEVERAL or korean.MANY.search(word)]
    others = (word for word in words if word not in many and word not in _TELLS_NOTHING)
    return kind.startswith("car") or (bool(many) and all(kind_of(word).startswith("amount") for word in others))


def _claims(sentence: str) -> Iterator[Claim]:
    is_korean = _HANGUL.search(sentence) is not None
    read, now = (claims_korean.claims_of, korean.NOW) if is_korean else (claims_english.claims_of, english.NOW)
    is_change = now.search(sentence.casefold()) is not None
    for claim in read(sentence):
        of_many = not is_change and _is_of_many(claim)
        slot = f"{claim.slot} (ko)" if is_korean else claim.slot  # words are compared within a language
        yield replace(claim, slot=slot, of_many=of_many) if is_korean or of_many else claim
