"""What a rule is: a pattern whose match says that a clause states something, and how much that weighs."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from arc_common.facts import FactCategory

__all__ = ["Found", "Hinted", "Signal", "find"]


@dataclass(frozen=True, slots=True)
class Hinted:
    """A case-insensitive pattern, searched only in text that contains one of the hints; each match contains one.

    The pattern for reported questions alone took a quarter of the time of all rules, and few clauses contain its hints.
    """

    pattern: re.Pattern[str]
    hints: tuple[str, ...]

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """Search as `re.Pattern.search` does."""
        small = text.lower()
        for hint in self.hints:
            if hint in small:
                return self.pattern.search(text, start, end)
        return None


@dataclass(frozen=True, slots=True)
class Signal:
    """A pattern and what its match means.

    Args:
        name: What it recognises; the key of last resort.
        category: Of the fact.
        weight: How sure it makes that the clause states a fact worth keeping, from 0 to 1.
        pattern: Searched in a clause. Every repetition in it is bounded.
        cased: Whether capitals matter; the other patterns see the clause in small letters, which is much faster than
            `re.IGNORECASE`.
        anchor: Whether the match itself is a value (an amount, a code, a name) that makes any clause specific.
        needs: Matches a character that every match contains. It is searched first, because most clauses have none.
    """

    name: str
    category: FactCategory
    weight: float
    pattern: re.Pattern[str]
    anchor: bool = False
    cased: bool = True
    needs: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A signal and where it was found in the clause."""

    signal: Signal
    start: int
    end: int


def find(signals: Sequence[Signal], clause: str) -> list[Found]:
    """The first match of each signal in a clause, in the signals' order."""
    small = clause.lower()
    if len(small) != len(clause):  # a few capitals (İ) become two characters
        small = clause.translate(_SMALL)
    found = []
    for signal in signals:
        if signal.needs is not None and not signal.needs.search(small):
            continue
        match = signal.pattern.search(clause if signal.cased else small)
        if match:
            found.append(Found(signal, match.start(), match.end()))
    return found


_SMALL = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
