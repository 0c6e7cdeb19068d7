"""One factor between what a counter estimates and what a provider reports, learned slowly and adopted on purpose."""

import math
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, runtime_checkable

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import TokenCounter

__all__ = ["Correcting", "Correction", "UsageCorrection", "corrected"]

_PRIOR_TOKENS = 2_000
"""How many tokens of agreement are assumed at the start: one short request moves the factor little."""

_LOWEST, _HIGHEST = 0.5, 2.0
"""No tokenizer in use is further from the calibrated one on a whole conversation; beyond them the report is wrong."""


@dataclass(frozen=True, slots=True)
class Correction:
    """Reported tokens per estimated token.

    Args:
        version: 0 at first, one more each time another factor is adopted.
        factor: 1.0 until something was learned; from 0.5 to 2.
    """

    version: int = 0
    factor: float = 1.0


@runtime_checkable
class Correcting(Protocol):
    """A token counter that learns from reported usage. Its counts stay raw: whoever budgets applies `corrected`."""

    @property
    def correction(self) -> Correction:
        """The correction in use."""

    def observe(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Note what a request was estimated at (raw) and what the provider reported for it."""

    def adopt_correction(self) -> Correction:
        """Put what was learned to use."""


class UsageCorrection:
    """Learns a correction from pairs of estimated and reported tokens. Thread-safe.

    - The factor is the ratio of the sums, drawn towards 1 as by 2,000 tokens of perfect agreement, and kept within
      0.5 to 2; it is rounded to three decimals.
    - `current` changes only in `adopt`, so that between two adoptions the same prompt costs the same.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._estimated = 0
        self._reported = 0
        self._current = Correction()

    @property
    def current(self) -> Correction:
        """The correction in use."""
        return self._current

    def observe(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Note one request; a pair with a zero in it says nothing and is passed over.

        Raises:
            InvalidInputError: A count is not a whole number, or is negative.
        """
        for field, value in (("estimated_tokens", estimated_tokens), ("reported_tokens", reported_tokens)):
            if type(value) is not int or value < 0:
                raise InvalidInputError(field, value, "a whole number, 0 or more")
        if estimated_tokens and reported_tokens:
            with self._lock:
                self._estimated += estimated_tokens
                self._reported += reported_tokens

    def adopt(self) -> Correction:
        """Put what was learned to use: a new version if the factor changed, else the one in use."""
        with self._lock:
            ratio = (_PRIOR_TOKENS + self._reported) / (_PRIOR_TOKENS + self._estimated)
            factor = round(min(max(ratio, _LOWEST), _HIGHEST), 3)
            if factor != self._current.factor:
                self._current = Correction(self._current.version + 1, factor)
            return self._current


def corrected(counter: TokenCounter, raw_total: int) -> int:
    """A sum of a counter's raw counts under its current correction, rounded up; as it is for a counter without one."""
    correction = getattr(counter, "correction", None)  # asking a protocol by isinstance takes 45 µs, for each message
    if not isinstance(correction, Correction):
        return raw_total
    return math.ceil(round(raw_total * correction.factor, 3))
