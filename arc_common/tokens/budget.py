"""How many tokens a request may cost, and how its parts share them. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import TokenCounter

__all__ = ["DEFAULT_SECTIONS", "SectionBudget", "TokenBudget", "stated_error", "usable_tokens"]

_MOST_RESERVED = 4_096
_MOST = 10**12
"""Tokens: far more than any model takes, and small enough for float arithmetic."""


def stated_error(counter: TokenCounter) -> float:
    """Return the `relative_error` that a counter states; 0.0 without one."""
    error: float = getattr(counter, "relative_error", 0.0)
    return error


def usable_tokens(limit: int, counter: TokenCounter) -> int:
    """Return the tokens that may be counted under a limit: less the counter's `relative_error`, if it states one."""
    return _usable(limit, stated_error(counter))


def _usable(limit: int, relative_error: float) -> int:
    return limit if limit > _MOST else int(limit / (1 + relative_error))  # a larger one limits nothing


def _check(name: str, value: object, *, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InvalidInputError(name, value, f"a whole number from {least} to {_MOST:,}")


@dataclass(frozen=True, slots=True)
class SectionBudget:
    """What one section of a request may take.

    Args:
        floor: Tokens that are kept for it before any other section gets more than its own floor.
        ceiling: The most tokens that it takes, however much is free; `None` for no limit.
        share: The most that it takes as a share of the whole input; `None` for no limit.
        priority: Who is served first when not all get what they want: larger comes first.
    """

    floor: int = 0
    ceiling: int | None = None
    share: float | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        _check("floor", self.floor)
        if self.ceiling is not None:
            _check("ceiling", self.ceiling)
            if self.floor > self.ceiling:
                raise InvalidInputError("floor", self.floor, f"at most the ceiling of {self.ceiling}")
        if self.share is not None and (
            isinstance(self.share, bool) or not isinstance(self.share, int | float) or not 0 <= self.share <= 1
        ):
            raise InvalidInputError("share", self.share, "a number from 0 to 1, or None")
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise InvalidInputError("priority", self.priority, "a whole number")

    def most(self, input_tokens: int) -> int:
        """The most tokens that it takes of so many."""
        limits = [input_tokens]
        if self.ceiling is not None:
            limits.append(self.ceiling)
        if self.share is not None:
            limits.append(int(self.share * input_tokens))
        return min(limits)


DEFAULT_SECTIONS: Mapping[str, SectionBudget] = MappingProxyType(
    {
        "facts": SectionBudget(ceiling=1_000, share=0.15, priority=60),
        "narrative": SectionBudget(ceiling=500, share=0.25, priority=50),
        "memory": SectionBudget(ceiling=800, share=0.25, priority=40),
        "running": SectionBudget(priority=30),
        "documents": SectionBudget(ceiling=4_000, priority=20),
        "history": SectionBudget(priority=10),
    }
)
"""The sections that share what system prompt, schemas and user message leave.

`memory` are memories, artifacts and recalled facts and messages together; `running` is what follows the current user
message while tools are at work. The order of trimming is that of the priorities, backwards: turns leave first, then
documents, then older messages of the running turn.
"""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The tokens of one request.

    Args:
        context_window: Tokens that the model takes in and gives out together.
        output_reserve: Tokens kept free for its answer; by default 4,096 or a quarter of the window, whichever is less.
        sections: What sections may take, by name; a whole number is a ceiling. Those not named have their defaults.
        relative_error: The counter's error (see `TokenCounter`), for which part of the input is kept free. An engine
            uses its own counter's if that is larger.
    """

    context_window: int = 128_000
    output_reserve: int | None = None
    sections: Mapping[str, SectionBudget | int] = field(default_factory=lambda: DEFAULT_SECTIONS)
    relative_error: float = 0.0

    def __post_init__(self) -> None:
        _check("context_window", self.context_window, least=1)
        if self.output_reserve is not None:
            _check("output_reserve", self.output_reserve)
            if self.output_reserve >= self.context_window:
                raise InvalidInputError(
                    "output_reserve", self.output_reserve, f"less than the context window of {self.context_window}"
                )
        if not isinstance(self.sections, Mapping):
            raise InvalidInputError("sections", self.sections, "a mapping from names to tokens or SectionBudgets")
        for name, section in self.sections.items():
            if name not in DEFAULT_SECTIONS:
                raise InvalidInputError("sections", name, f"one of {', '.join(DEFAULT_SECTIONS)}")
            if not isinstance(section, SectionBudget):
                _check(f"sections.{name}", section)
        error = self.relative_error
        if isinstance(error, bool) or not isinstance(error, int | float) or not 0 <= error < math.inf:
            raise InvalidInputError("relative_error", error, "a number of at least 0")

    @property
    def input_tokens(self) -> int:
        """The most tokens to count in a request: the input limit, less the counter's error."""
        return _usable(self.input_limit, self.relative_error)

    @property
    def input_limit(self) -> int:
        """The most tokens that a request may really have: the context window, less the output reserve."""
        reserve = self.output_reserve
        if reserve is None:
            reserve = min(_MOST_RESERVED, self.context_window // 4)
        return self.context_window - reserve

    def counted_by(self, counter: TokenCounter) -> Self:
        """Return the budget with the counter's error kept free, unless it keeps more free already."""
        return replace(self, relative_error=max(stated_error(counter), self.relative_error))

    def section(self, name: str) -> SectionBudget:
        """Return a section's share and ceiling."""
        default = DEFAULT_SECTIONS[name]
        given = self.sections.get(name, default)
        return given if isinstance(given, SectionBudget) else SectionBudget(ceiling=given, priority=default.priority)

    def ceiling(self, name: str) -> int:
        """The most tokens that a section takes of this request's input."""
        return self.section(name).most(self.input_tokens)

    def lent_to_facts(self) -> int:
        """The tokens that pinned facts may take of the memory section: half of it, while their own ceiling is not full.

        In a small window their share of the input is less than that ceiling. Facts that matter whatever is asked stand
        better with the pinned ones: there they are sent once at the full price, and then as a prefix that providers
        have cached. Brought back with every question they made up most of what a request cost.
        """
        ceiling = self.section("facts").ceiling
        missing = 0 if ceiling is None else ceiling - self.ceiling("facts")
        return max(min(missing, self.ceiling("memory") // 2), 0)

    def allot(self, wanted: Mapping[str, int], available: int) -> dict[str, int]:
        """Share out what there is.

        - No section gets more than it wants, nor more than its ceiling; together they get at most `available`.
        - Floors are served first, then the rest, each in the order of priority (then of name).
        - Nothing that somebody could use stays free: what one section leaves is lent to the next.

        Args:
            wanted: The tokens that each section could use; sections that are not named get nothing.
            available: The tokens that there are.

        Returns:
            The tokens of each section that is named in `wanted`.
        """
        order = sorted(wanted, key=lambda name: (-self.section(name).priority, name))
        most = {name: min(wanted[name], self.ceiling(name)) for name in order}
        allotted = dict.fromkeys(wanted, 0)
        for limit in ({name: min(most[name], self.section(name).floor) for name in order}, most):
            for name in order:
                more = max(min(limit[name] - allotted[name], available), 0)
                allotted[name] += more
                available -= more
        return allotted
