"""A metadata filter in terms of what the index knows: labels, and values that have an order. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from arc_common.filters import AllOf, AnyOf, Comparison, Condition, Exists, Filter, Not, OneOf, Scalar
from arc_common.stores.search_index.tokens import Tokens

__all__ = ["SIGNS", "All", "Either", "HasLabel", "Neither", "Ordered", "Wanted", "wanted_for"]

SIGNS: Mapping[Comparison, str] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
"""The orders in SQL."""


@dataclass(frozen=True, slots=True)
class HasLabel:
    """An entry has at least one of the labels."""

    labels: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """A value of an entry is greater or less than another.

    Args:
        condition: Which, and how.
        label: Of the key.
    """

    condition: Condition
    label: bytes


@dataclass(frozen=True, slots=True)
class All:
    """All of the parts are true."""

    parts: tuple["Wanted", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of the parts is true."""

    parts: tuple["Wanted", ...]


@dataclass(frozen=True, slots=True)
class Neither:
    """The part is not true."""

    part: "Wanted"


Wanted: TypeAlias = HasLabel | Ordered | All | Either | Neither


def wanted_for(filters: Filter, tokens: Tokens) -> Wanted:
    """What the filter asks for in a scope."""
    match filters:
        case Condition(key, "eq", value):
            return _one_of(key, (value,), tokens)
        case Condition(key):
            return Ordered(filters, tokens.key(key))
        case OneOf(key, values):
            return _one_of(key, values, tokens)
        case Exists(key):
            return HasLabel((tokens.key(key),))
        case AllOf(parts):
            return All(tuple(wanted_for(part, tokens) for part in parts))
        case AnyOf(parts):
            return Either(tuple(wanted_for(part, tokens) for part in parts))
        case Not(part):
            return Neither(wanted_for(part, tokens))


def _one_of(key: str, values: tuple[Scalar, ...], tokens: Tokens) -> Wanted:
    has = HasLabel(tuple(dict.fromkeys(tokens.value(key, value) for value in values)))
    if None not in values:
        return has
    return Either((has, Neither(HasLabel((tokens.key(key),)))))  # a key that is missing counts as null
