"""English clauses: who does what, in words and values."""

import re
from itertools import pairwise

from arc_common.memory.long_term.claims_english_phrases import CHANGES
from arc_common.memory.long_term.claims_english_tokens import Word
from arc_common.memory.long_term.claims_english_words import (
    AUXILIARIES,
    ENGAGES,
    FILLERS,
    JOINS,
    LIKES,
    PEOPLE,
    PREPOSITIONS,
    PRONOUNS,
    SUBJECTS,
    VERBS,
)
from arc_common.text.languages.english import BASE_FORMS

__all__ = [
    "ROLES",
    "Clause",
    "clause_of",
    "given",
    "modifiers_of",
    "names_of",
    "plain_of",
    "stems_of",
    "tokens_of",
    "until",
]

ROLES = dict.fromkeys(("in", "at", "on", "by", "near", "next", "under", "behind"), "at")
ROLES |= {word: word for word in ("to", "with", "from", "as")}
"""What a preposition says of the words behind it."""


_PASTS = frozenset({"quit", "let", "cost", "gave", "got", "did"})
"""Pasts that the table of irregular ones lacks: those like their base (and seldom anything else), and stop words'."""


class Clause:
    """A clause in words.

    Args:
        subject: Who or what it is about; nothing for the user.
        predicate: What it says.
        before: The subject of the clause before.
        following: The text of the clauses behind it.
    """

    def __init__(self, subject: list[Word], predicate: list[Word], before: list[Word], following: list[str]) -> None:
        self.predicate = predicate
        self.low = " ".join(word.low for word in predicate)
        self.names = subject
        self.subject = frozenset({*stems_of(subject), *({word.low for word in subject} & {"from", "back", "without"})})
        self.before = frozenset(stems_of(before))
        self.following = following
        owners = {
            word.stem
            for word in subject
            if word.low.removesuffix("'s") in PEOPLE or (word.is_name and word.low.endswith("'s"))
        }
        self.people = " ".join(sorted(owners)) if not re.search(r"\b(?:my|our)\b", self.low) else ""

    def is_past(self) -> bool:
        """Whether it is told in the past, and so happened; only a result of it may be so now."""
        for word in self.predicate:
            if word.low in ("is", "are", "am", "be", "been", "has", "have", "will"):
                return False
            if word.low in ("was", "were", "had", "did"):
                return True
            if word.stem in VERBS | JOINS and not word.value:
                has_ending = word.low.endswith("ed") and word.stem != word.low  # "need" has none
                return has_ending or (word.low in BASE_FORMS and not word.low.endswith("s"))
        return False

    def is_event(self) -> bool:
        """Whether it happened, and says nothing of what is so now."""
        verb = next((word for word in self.predicate if word.stem in VERBS | JOINS and not word.value), None)
        return self.is_past() and (verb is None or verb.stem not in JOINS or self.predicate[0].low in ("was", "were"))

    def within(self, text: str) -> list[Word]:
        """The words of the predicate that a part of it has."""
        start = len(self.low[: self.low.index(text)].split())
        return self.predicate[start : start + len(text.split())]

    def after(self, position: int) -> list[Word]:
        """The words of the predicate from a place in its text."""
        return self.predicate[len(self.low[:position].split()) :]

    def has_verb(self) -> bool:
        """Whether it has another verb than an auxiliary."""
        return any(
            word.stem in VERBS for word in self.predicate if word.low not in ("have", "has", "had", "do", "does")
        )

    def roles(self) -> dict[str, set[str]]:
        """What stands behind each preposition, other than times and values of a kind."""
        found: dict[str, set[str]] = {}
        for place, word in enumerate(self.predicate):
            if role := ROLES.get(word.low):
                complement = until(self.predicate[place + 1 :], PREPOSITIONS)
                if stems := plain_of(complement, verbs=True):
                    found.setdefault(role, {f"{role}={stem}" for stem in stems})
        return found


def clause_of(words: list[Word], before: list[Word], following: list[str]) -> Clause:
    """A clause from its words; one without a subject has that of the clause before."""
    subject, predicate = _split(words, before)
    return Clause(subject, predicate, before, following)


def _split(words: list[Word], before: list[Word]) -> tuple[list[Word], list[Word]]:
    """The subject of a clause and what is said of it; a clause without a subject has that of the one before."""
    for place, (word, follower) in enumerate(pairwise(words[:6])):
        if word.low == "and" and follower.low in SUBJECTS:
            return [], [*words[place + 2 :], *words[:place]]
    for place, word in enumerate(words):
        if word.low in SUBJECTS:
            return [], words[place + 1 :]
        if word.low in ("the", "now") or (word.low in FILLERS and not place):
            continue
        break
    else:
        return [], words
    if words[0].low in AUXILIARIES or _is_finite(words[0]):
        return before, words
    has_plural = False
    negated = ("no", "longer", "not", "never", "now", "also", "still", "currently")
    for place, word in enumerate(words):
        follows = place > 0 and words[place - 1].low not in PRONOUNS
        is_verb = follows and (_is_finite(word) or (has_plural and word.stem in VERBS) or _is_likely(words, place))
        if is_verb or (place and word.low in AUXILIARIES):
            start = next(i for i in range(place, 0, -1) if i == 1 or words[i - 1].low not in negated)
            return words[:start], words[start:]
        has_plural = has_plural or (word.low.endswith("s") and not word.low.endswith("'s"))
    return [], words


def _is_likely(words: list[Word], place: int) -> bool:
    """Whether a word stands like a verb in the third person: behind a noun, before what completes it."""
    word, follower = words[place], words[place + 1] if place + 1 < len(words) else None
    ends = word.low.endswith("s") and "'" not in word.low and not word.is_name and not word.value
    completes = follower is not None and (
        follower.value or follower.low in PREPOSITIONS | {"the", "a", "an", "my", "our"}
    )
    return ends and bool(completes) and not any(later.low in AUXILIARIES for later in words[place:])


def _is_finite(word: Word) -> bool:
    if word.is_name or "-" in word.low:
        return False
    is_form = word.low.endswith(("s", "ed")) or word.low in BASE_FORMS or word.low in _PASTS
    return (word.stem in VERBS and is_form) or word.low.endswith("ed") or CHANGES.fullmatch(word.low) is not None


def until(words: list[Word], stops: frozenset[str]) -> list[Word]:
    """The words up to the first of these that is not the first."""
    for place, word in enumerate(words):
        if place and word.low in stops:
            return words[:place]
    return words


def given(words: list[Word]) -> list[Word]:
    """What is over, without why and who has it now; a name says which one it is."""
    for place, word in enumerate(words):
        is_whom = word.low in ("to", "with", "for") and not any(w.is_name for w in words[place + 1 : place + 2])
        if place and (is_whom or word.low == "because"):
            return words[:place]
    return words


def plain_of(words: list[Word], *, verbs: bool = False) -> list[str]:
    """The stems of words that say something; of verbs by which somebody has to do with a thing a sign for all."""
    found = []
    for word in words:
        if word.value or not word.stem or word.low in FILLERS or word.low in PRONOUNS or word.low in AUXILIARIES:
            continue
        found.append("~" if word.stem in ENGAGES and not word.is_name and not verbs else word.stem)
    return found


def tokens_of(words: list[Word], *, verbs: bool = False) -> set[str]:
    """The stems and values of words, and the signs of having to do with a thing and of having it."""
    tokens = {*plain_of(words, verbs=verbs), *(word.value for word in words if word.value)}
    if any(word.low in ("have", "has", "had", "smoke", "smokes", "smoking") for word in words) and not verbs:
        tokens.add("~")
    if "~" in tokens and not any(word.stem in LIKES for word in words):
        tokens.add("#")
    return tokens


def stems_of(words: list[Word]) -> set[str]:
    """The stems and values of words, verbs among them."""
    return {*plain_of(words, verbs=True), *(word.value for word in words if word.value)}


def names_of(words: list[Word]) -> set[str]:
    """The tokens of names."""
    return {f"name={word.stem}" for word in words if word.is_name}


def modifiers_of(words: list[Word]) -> set[str]:
    """What tells a thing from others of its kind: "pro" of a plan."""
    found = set()
    for one, other in pairwise(words):
        is_modified = one.is_name or plain_of([one]) not in ([], ["~"])
        if is_modified and not other.is_name and plain_of([other], verbs=True):
            found.add(f"of {other.stem}={one.stem}")
    return found
