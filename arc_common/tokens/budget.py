"""How many tokens a request may cost, and which of its parts may take how many. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from arc_common.exceptions import InvalidInputError

__all__ = ["DEFAULT_SECTIONS", "TokenBudget"]

DEFAULT_SECTIONS: Mapping[str, int] = MappingProxyType({"documents": 4_000})
"""The ceilings of sections that have one, in tokens."""

_MOST_RESERVED = 4_096


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The tokens of one request.

    Args:
        context_window: Tokens that the model takes in and gives out together.
        output_reserve: Tokens kept free for its answer; by default 4,096 or a quarter of the window, whichever is less.
        sections: The most that a section may take, by name, in tokens; what a section leaves goes to the history.
    """

    context_window: int = 128_000
    output_reserve: int | None = None
    sections: Mapping[str, int] = field(default_factory=lambda: DEFAULT_SECTIONS)

    def __post_init__(self) -> None:
        _check("context_window", self.context_window, least=1)
        if self.output_reserve is not None:
            _check("output_reserve", self.output_reserve)
            if self.output_reserve >= self.context_window:
                raise InvalidInputError(
                    "output_reserve", self.output_reserve, f"less than the context window of {self.context_window}"
                )
        for name, ceiling in self.sections.items():
            if name not in DEFAULT_SECTIONS:
                raise InvalidInputError("sections", name, f"one of {', '.join(DEFAULT_SECTIONS)}")
            _check(f"sections.{name}", ceiling)

    @property
    def input_tokens(self) -> int:
        """What is left for the request itself."""
        reserve = self.output_reserve
        if reserve is None:
            reserve = min(_MOST_RESERVED, self.context_window // 4)
        return self.context_window - reserve

    def ceiling(self, section: str) -> int:
        """The most that a section may take."""
        return self.sections.get(section, DEFAULT_SECTIONS[section])


def _check(name: str, value: object, *, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInputError(name, value, f"a whole number of at least {least}")
