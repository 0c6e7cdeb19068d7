"""The compression strategies by name, for settings."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any

from arc_common.exceptions import InvalidInputError
from arc_common.tokens.compression.base import BaseStrategy, CompressionStrategy
from arc_common.tokens.compression.dropping import (
    DropToolResults,
    PruneSystem,
    RollingWindow,
    ScorePruning,
    TokenPruning,
)
from arc_common.tokens.compression.shortening import ClearToolResults, Truncate
from arc_common.tokens.compression.summary import Summarize

_CLASSES: tuple[type[BaseStrategy], ...] = (
    RollingWindow,
    TokenPruning,
    ScorePruning,
    ClearToolResults,
    DropToolResults,
    Truncate,
    PruneSystem,
    Summarize,
)

STRATEGIES: Mapping[str, type[BaseStrategy]] = MappingProxyType({str(kind.name): kind for kind in _CLASSES})
"""The strategy classes by name."""


def strategy(name: str, **options: Any) -> CompressionStrategy:
    """Return the strategy with this name.

    Args:
        name: One of `STRATEGIES`.
        options: The keyword arguments of the strategy's class (`keep_last=2`).

    Raises:
        InvalidInputError: The name or an option is unknown, or a required option is missing.
    """
    kind = STRATEGIES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidInputError("strategy", name, f"one of {', '.join(STRATEGIES)}")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for option, value in options.items():
        if option not in known:
            raise InvalidInputError(f"{name}.{option}", value, f"one of {', '.join(known) or 'no options'}")
    for option, field in known.items():
        if option not in options and field.default is MISSING:
            raise InvalidInputError(f"{name}.{option}", None, "a value: it has no default")
    return kind(**options)
