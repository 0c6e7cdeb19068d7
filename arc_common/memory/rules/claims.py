"""Claims: what a statement says that another one can contradict, and whether two of them can both be so. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from arc_common.memory.rules.claims_kinds import are_near, kind_of

__all__ = ["Claim", "Mark", "are_compatible", "changed", "ended", "said", "valued"]


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
    """

    slot: str
    value: frozenset[str]
    mark: Mark = Mark.VALUE
    topic: frozenset[str] = frozenset()
    subject: frozenset[str] = frozenset()

    @property
    def opposed(self) -> tuple[str, ...]:
        """The slots in which a claim that contradicts this one can be: values meet values, the said what is over."""
        if self.mark is Mark.VALUE:
            return (self.slot,)
        return (f"over {self.slot[5:]}",) if self.mark is Mark.SAID else (f"said {self.slot[5:]}",)


def valued(rest: Iterable[str], kind: str, value: Iterable[str]) -> Iterator[Claim]:
    """That something has this value, if there is one: two statements that differ in nothing else exclude each other."""
    if values := frozenset(value):
        yield Claim(f"{kind} of {' '.join(sorted(set(rest) - {''}))}", values)


def said(subject: frozenset[str], people: str, words: Iterable[str]) -> Iterator[Claim]:
    """That something is so; it is looked up by each of its words."""
    value = frozenset(words)
    for word in sorted(word for word in value if not word.startswith(("of ", "name=", "is=", "at=", "to=", "+"))):
        yield Claim(f"said {people}|{word}", value, Mark.SAID, subject=subject)


def ended(subject: frozenset[str], people: str, words: Iterable[str]) -> Iterator[Claim]:
    """That something is over; what is said with all its words, of the same subject, was so before."""
    value = frozenset(words)
    if value - {"~", "+"}:
        yield Claim(f"over {people}|{_anchor(value)}", value, Mark.ENDED, subject=subject)


def changed(people: str, topic: Iterable[str], value: Iterable[str]) -> Iterator[Claim]:
    """That something has a new value; what is said of it with another value of the kind was so before."""
    about, values = frozenset(topic), frozenset(value)
    if about - {"~"} and values:
        yield Claim(f"over {people}|{_anchor(about)}", values, Mark.CHANGED, about)


def are_compatible(one: Claim, other: Claim) -> bool:
    """Whether two claims, of which one is in a slot that the other opposes, can both be so.

    - Of two values one may be the other, said more exactly, or in round numbers.
    - What is over in general is not so in particular; what is over in particular may be so otherwise: "no tennis"
      rules out "tennis on Saturdays", but "no coffee in the evening" does not rule out "coffee".
    """
    if one.mark is Mark.VALUE or other.mark is Mark.VALUE:
        return one.mark is not other.mark or one.slot != other.slot or _agree(one.value, other.value)
    if (one.mark is Mark.SAID) is (other.mark is Mark.SAID):
        return True
    told, over = (one, other) if one.mark is Mark.SAID else (other, one)
    if over.mark is Mark.ENDED:
        return over.subject != told.subject or not over.value <= told.value
    if not over.topic <= told.value:
        return True
    kinds = {kind_of(token) for token in over.value}
    return all(_agree(_of_kind(over.value, kind), _of_kind(told.value, kind)) for kind in kinds)


def _agree(one: frozenset[str], other: frozenset[str]) -> bool:
    return one <= other or other <= one or are_near(one, other)


def _of_kind(tokens: frozenset[str], kind: str) -> frozenset[str]:
    return frozenset(token for token in tokens if kind_of(token) == kind)


def _anchor(words: frozenset[str]) -> str:
    """The word under which something is looked up: the longest, which few others have."""
    return max(words, key=lambda word: (len(word), word))
