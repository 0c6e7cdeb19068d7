"""Token budgets: the limit of a request, and its allocation to sections. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Self

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import TokenCounter

_MOST_RESERVED = 4_096
_MOST = 10**12
"""Tokens: far above any model's limit, and small enough for float arithmetic."""


def stated_error(counter: TokenCounter) -> float:
    """Return a counter's `relative_error`; 0.0 if it has none."""
    error: float = getattr(counter, "relative_error", 0.0)
    return error


def usable_tokens(limit: int, counter: TokenCounter) -> int:
    """Return the tokens that may be counted under a limit, reduced by the counter's `relative_error`."""
    return _usable(limit, stated_error(counter))


def _usable(limit: int, relative_error: float) -> int:
    return limit if limit > _MOST else int(limit / (1 + relative_error))  # a larger one limits nothing


def _check(name: str, value: object, *, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InvalidInputError(name, value, f"a whole number from {least} to {_MOST:,}")


@dataclass(frozen=True, slots=True)
class SectionBudget:
    """The limits and priority of one section of a request.

    Args:
        min_tokens: Tokens reserved for the section before any other section gets more than its own `min_tokens`.
        max_tokens: The most tokens for the section, however many are free; `None` for no limit.
        share: The largest share of the whole input for the section, from 0 to 1; `None` for no limit.
        priority: The order in which sections are served if not all fit: higher priorities come first.
    """

    min_tokens: int = 0
    max_tokens: int | None = None
    share: float | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        _check("min_tokens", self.min_tokens)
        if self.max_tokens is not None:
            _check("max_tokens", self.max_tokens)
            if self.min_tokens > self.max_tokens:
                raise InvalidInputError("min_tokens", self.min_tokens, f"at most the max_tokens of {self.max_tokens}")
        if self.share is not None and (
            isinstance(self.share, bool) or not isinstance(self.share, int | float) or not 0 <= self.share <= 1
        ):
            raise InvalidInputError("share", self.share, "a number from 0 to 1, or None")
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise InvalidInputError("priority", self.priority, "a whole number")

    def most(self, input_tokens: int) -> int:
        """Return the most tokens for the section in a request of `input_tokens`."""
        limits = [input_tokens]
        if self.max_tokens is not None:
            limits.append(self.max_tokens)
        if self.share is not None:
            limits.append(int(self.share * input_tokens))
        return min(limits)


DEFAULT_SECTIONS: Mapping[str, SectionBudget] = MappingProxyType(
    {
        "facts": SectionBudget(max_tokens=1_000, share=0.15, priority=60),
        "summary": SectionBudget(max_tokens=500, share=0.25, priority=50),
        "recalled": SectionBudget(max_tokens=800, share=0.25, priority=40),
        "current_turn": SectionBudget(priority=30),
        "documents": SectionBudget(max_tokens=4_000, priority=20),
        "history": SectionBudget(priority=10),
    }
)
"""The sections that share the tokens left by system prompt, schemas and user message.

`recalled` holds memories, artifacts, and recalled facts and messages together; `current_turn` holds the messages after
the current user message while tools are being called. Trimming begins with the lowest priority: turns are dropped
first, then documents, then older messages of the current turn.
"""


@dataclass(frozen=True)
class TokenBudget:
    """The token budget of one request.

    Args:
        context_window: The model's context window in tokens, input and output together.
        output_reserve: Tokens kept free for the answer; by default 4,096 or a quarter of the window, whichever is less.
        sections: The sections' limits by name; a number sets `max_tokens`. Other sections keep their defaults.
        relative_error: The counter's error (see `TokenCounter`); a matching part of the input is kept free. An engine
            uses its own counter's error if that is larger.
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

    @cached_property
    def input_tokens(self) -> int:
        """The most tokens that may be counted in a request: the input limit less the counter's error."""
        return _usable(self.input_limit, self.relative_error)

    @property
    def input_limit(self) -> int:
        """The most actual tokens in a request: the context window less the output reserve."""
        reserve = self.output_reserve
        if reserve is None:
            reserve = min(_MOST_RESERVED, self.context_window // 4)
        return self.context_window - reserve

    def counted_by(self, counter: TokenCounter) -> Self:
        """Return the budget with the larger of its own and the counter's relative error."""
        return replace(self, relative_error=max(stated_error(counter), self.relative_error))

    def section(self, name: str) -> SectionBudget:
        """Return a section's limits and priority."""
        default = DEFAULT_SECTIONS[name]
        given = self.sections.get(name, default)
        return given if isinstance(given, SectionBudget) else SectionBudget(max_tokens=given, priority=default.priority)

    def max_tokens(self, name: str) -> int:
        """Return the most tokens for a section in this budget."""
        return self._limits[name][1]

    @cached_property
    def _limits(self) -> Mapping[str, tuple[int, int]]:
        """The least and the most tokens of each section, in the order in which they are served."""
        sections = {name: self.section(name) for name in DEFAULT_SECTIONS}
        order = sorted(sections, key=lambda name: (-sections[name].priority, name))
        return {name: (sections[name].min_tokens, sections[name].most(self.input_tokens)) for name in order}

    def lent_to_facts(self) -> int:
        """Return the tokens that adopted facts may borrow from the recalled section, at most half of it.

        In a small window the facts' share of the input is less than their `max_tokens`; they may borrow up to that
        limit. Facts that matter for any question are cheaper when adopted: they are sent once at full price, then as
        part of the prefix that providers cache. Recalled for each question, they made up most of a request's cost.
        """
        most = self.section("facts").max_tokens
        missing = 0 if most is None else most - self.max_tokens("facts")
        return max(min(missing, self.max_tokens("recalled") // 2), 0)

    def allot(self, wanted: Mapping[str, int], available: int) -> dict[str, int]:
        """Allocate the available tokens to sections.

        - No section gets more than it wants or more than its `max_tokens`; the total is at most `available`.
        - All `min_tokens` are served first, then the rest, each in the order of priority, then of name.
        - No usable token stays free: tokens that one section leaves go to the next.
        """
        asked = [(name, *limits, wanted[name]) for name, limits in self._limits.items() if name in wanted]
        allotted = dict.fromkeys(wanted, 0)
        for name, least, most, tokens in asked:
            allotted[name] = max(min(tokens, most, least, available), 0)
            available -= allotted[name]
        for name, _, most, tokens in asked:
            more = max(min(min(tokens, most) - allotted[name], available), 0)
            allotted[name] += more
            available -= more
        return allotted
