"""A metadata filter in terms of what the index knows: labels, and values that have an order. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from secrets import token_bytes
from typing import Any, TypeAlias

from arc_common.filters import AllOf, AnyOf, Comparison, Condition, Exists, Filter, Not, OneOf, Scalar

_BYTES = 8
"""Of a token: among a million terms, two share one with a probability of 3 in 100 million."""


def new_salt() -> bytes:
    """The salt of a new scope."""
    return token_bytes(16)


class Tokens:
    """Makes a scope's tokens, each once: what is stored together shares most of its terms."""

    __slots__ = ("_made", "_salt")

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._made: dict[str, bytes] = {}

    def of(self, term: str) -> bytes:
        """A term's token."""
        token = self._made.get(term)
        if token is None:
            spelt = term.encode(errors="surrogatepass")  # no entry has half a character, but a query may
            token = self._made[term] = blake2b(spelt, digest_size=_BYTES, key=self._salt).digest()
        return token

    def key(self, key: str) -> bytes:
        """The label of entries whose metadata have the key, with another value than null."""
        return self.of(f"\0{key}")  # no term has a NUL character

    def value(self, key: str, value: Scalar) -> bytes:
        """The label of entries whose metadata have the value under the key, by itself or in a list."""
        return self.of(f"\0{key}\0{_canonical(value)}")

    def labels(self, metadata: Mapping[str, Any]) -> list[bytes]:
        """All labels of metadata, each once."""
        labels: dict[bytes, None] = {}
        for key, held in metadata.items():
            if held is not None:
                labels[self.key(key)] = None
            for value in held if isinstance(held, list) else (held,):
                if value is None or isinstance(value, str | int | float):
                    labels[self.value(key, value)] = None
        return list(labels)


def number_of(token: bytes) -> int:
    """A token as a whole number of 64 bits."""
    return int.from_bytes(token, "big", signed=True)


def canonical_number(number: float) -> str:
    """The number as JSON; equal numbers have the same text, as `1` and `1.0`."""
    return str(int(number)) if isinstance(number, int) or number.is_integer() else repr(number)


def _canonical(value: Scalar) -> str:
    """Text that two values share only if a filter takes them for equal."""
    if isinstance(value, str):
        return f"s{value}"
    if value is None or isinstance(value, bool):
        return f"{value}"
    return f"n{canonical_number(value)}"


SIGNS: Mapping[Comparison, str] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
"""The orders in SQL."""


@dataclass(frozen=True, slots=True)
class HasLabel:
    """An entry has at least one of the labels."""

    labels: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """A value of an entry is greater or less than another."""

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
