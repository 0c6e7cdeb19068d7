"""Claims: what a statement says that another one can contradict, and whether two of them can both be so. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from arc_common.memory.long_term.claims_kinds import COUNTRIES, are_near, kind_of

__all__ = ["Claim", "Mark", "are_compatible", "changed", "ended", "owned", "placed", "said", "valued"]


_SIGNS = frozenset({"~", "#", "+"})
"""That somebody has to do with a thing, in whatever way; that they have it; that they do it already."""

_OPPOSITES = {"said": "over", "over": "said", "owns": "lack", "lack": "owns"}
_NEVER_ENDED = frozenset({"name", "is", "at", "to", "with", "from", "as", "object"})
"""Kinds of tokens that only a change is compared by."""


class Mark(Enum):
    """What a claim does with its value."""

    VALUE = "value"
    """Names the one value of its slot."""
    SAID = "said"
    """Says something that may be over later."""
    ENDED = "ended"
    """Says that something is over, or never was."""
    CHANGED = "changed"
    """Says that something has another value than before."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a statement says, by tokens: stems, and values with their kind ("weekday=tue").

    Args:
        slot: Under which it is looked up: what of whom, for one word of it.
        value: Of a value or a change the values; of what is said or over all its words.
        mark: What it does with them.
        topic: Of a change, what has changed.
        subject: Of what is said or over, who or what does so; empty for the user.
        of_many: Whether a value may belong to another one of several, such as sisters or cats.
    """

    slot: str
    value: frozenset[str]
    mark: Mark = Mark.VALUE
    topic: frozenset[str] = frozenset()
    subject: frozenset[str] = frozenset()
    of_many: bool = False

    @property
    def opposed(self) -> tuple[str, ...]:
        """The slots in which a claim that contradicts this one can be: values meet values, the said what is over."""
        if self.mark is Mark.VALUE:
            return (self.slot,)
        return (f"{_OPPOSITES[self.slot[:4]]}{self.slot[4:]}",)


def valued(rest: Iterable[str], kind: str, value: Iterable[str]) -> Iterator[Claim]:
    """That something has this value, if there is one: two statements that differ in nothing else exclude each other."""
    if values := frozenset(value):
        yield Claim(f"{kind} of {' '.join(sorted(set(rest) - {''}))}", values)


def placed(rest: Iterable[str], kind: str, value: Iterable[str]) -> Iterator[Claim]:
    """That something is at this place; one within a country is no other place than the country."""
    values = frozenset(value)
    yield from valued(rest, f"{kind} in a country" if values & COUNTRIES else kind, values)


def said(subject: frozenset[str], people: str, words: Iterable[str]) -> Iterator[Claim]:
    """That something is so; it is looked up by each of its words."""
    value = frozenset(words)
    for word in sorted(value - _SIGNS):
        if kind_of(word) not in _NEVER_ENDED and not word.startswith("of "):
            yield Claim(f"said {people}|{word}", value, Mark.SAID, subject=subject)


def owned(words: Iterable[str]) -> Iterator[Claim]:
    """That the user has a thing of this name."""
    value = frozenset(words)
    for word in sorted(value):
        yield Claim(f"owns |{word}", value | {"#", "+"}, Mark.SAID)


def ended(subject: frozenset[str], people: str, words: Iterable[str]) -> Iterator[Claim]:
    """That something is over; what is said with all its words, of the same subject, was so before."""
    value = frozenset(words)
    if value - _SIGNS:
        for slot in ("over", "lack") if "#" in value else ("over",):
            yield Claim(f"{slot} {people}|{_anchor(value)}", value, Mark.ENDED, subject=subject)


def changed(people: str, topic: Iterable[str], value: Iterable[str]) -> Iterator[Claim]:
    """That something has a new value; what is said of it with another value of the kind was so before."""
    about, values = frozenset(topic), frozenset(value)
    if about - _SIGNS and values:
        yield Claim(f"over {people}|{_anchor(about)}", values, Mark.CHANGED, about)


def are_compatible(one: Claim, other: Claim) -> bool:
    """Return whether two claims can both hold, one of which is in a slot that the other opposes.

    - One value may be a more exact or a rounded form of the other, or they may belong to two sisters.
    - A general end rules out the particular case, but not the reverse: "no tennis" rules out "tennis on Saturdays", but
      "no coffee in the evening" does not rule out "coffee".
    """
    if one.mark is Mark.VALUE or other.mark is Mark.VALUE:
        is_one_thing = one.mark is other.mark and one.slot == other.slot and not (one.of_many and other.of_many)
        return not is_one_thing or _agree(one.value, other.value)
    if (one.mark is Mark.SAID) is (other.mark is Mark.SAID):
        return True
    told, over = (one, other) if one.mark is Mark.SAID else (other, one)
    if over.mark is Mark.ENDED:
        return not over.value <= told.value or not _is_about(over, told)
    if not over.topic <= told.value:
        return True
    kinds = {kind_of(token) for token in over.value}
    named = {f"{kind}={word}" for kind in kinds for word in over.topic}
    return all(_agree(_of_kind(over.value, kind), _of_kind(told.value, kind) - named) for kind in kinds)


def _is_about(over: Claim, told: Claim) -> bool:
    """Whether what is over is what was told: of the same, or a thing that the user is done with.

    Who "quit the gym" has not closed it: of the thing itself more must be over than that there is one.
    """
    if over.subject or not told.subject:
        return over.subject == told.subject
    words = over.value - _SIGNS
    is_the_thing = bool(words & told.subject) or any(f"name={word}" in told.value for word in words)
    return not words <= told.subject and (is_the_thing or "~" in over.value)


def _agree(one: frozenset[str], other: frozenset[str]) -> bool:
    return one <= other or other <= one or are_near(one, other)


def _of_kind(tokens: frozenset[str], kind: str) -> frozenset[str]:
    return frozenset(token for token in tokens if kind_of(token) == kind)


def _anchor(words: frozenset[str]) -> str:
    """The word under which something is looked up: the longest, which few others have."""
    return max(words, key=lambda word: (len(word), word))
