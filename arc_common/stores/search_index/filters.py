"""Translates metadata filters to the index's labels and ordered values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from secrets import token_bytes
from typing import Any, TypeAlias

from arc_common.filters import AllOf, AnyOf, Comparison, Condition, Exists, Filter, Not, OneOf, Scalar

_BYTES = 8
"""The size of a token: among a million terms, two share one with a probability of 3 in 100 million."""


def new_salt() -> bytes:
    """Return the salt of a new scope."""
    return token_bytes(16)


class Tokens:
    """Makes a scope's tokens, caching each: entries stored together share most of their terms."""

    __slots__ = ("_made", "_salt")

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._made: dict[str, bytes] = {}

    def of(self, term: str) -> bytes:
        """Return a term's token."""
        token = self._made.get(term)
        if token is None:
            spelt = term.encode(errors="surrogatepass")  # no entry has half a character, but a query may
            token = self._made[term] = blake2b(spelt, digest_size=_BYTES, key=self._salt).digest()
        return token

    def key(self, key: str) -> bytes:
        """Return the label of entries whose metadata have a value other than null under the key."""
        return self.of(f"\0{key}")  # no term has a NUL character

    def value(self, key: str, value: Scalar) -> bytes:
        """Return the label of entries whose metadata have the value under the key, alone or in a list."""
        return self.of(f"\0{key}\0{_canonical(value)}")

    def labels(self, metadata: Mapping[str, Any]) -> list[bytes]:
        """Return all labels of metadata, each once."""
        labels: dict[bytes, None] = {}
        for key, held in metadata.items():
            if held is not None:
                labels[self.key(key)] = None
            for value in held if isinstance(held, list) else (held,):
                if value is None or isinstance(value, str | int | float):
                    labels[self.value(key, value)] = None
        return list(labels)


def number_of(token: bytes) -> int:
    """Return a token as a signed 64-bit integer."""
    return int.from_bytes(token, "big", signed=True)


def canonical_number(number: float) -> str:
    """Return the number as JSON; equal numbers, such as `1` and `1.0`, have the same text."""
    return str(int(number)) if isinstance(number, int) or number.is_integer() else repr(number)


def _canonical(value: Scalar) -> str:
    """Return a text that two values share only if a filter treats them as equal."""
    if isinstance(value, str):
        return f"s{value}"
    if value is None or isinstance(value, bool):
        return f"{value}"
    return f"n{canonical_number(value)}"


SIGNS: Mapping[Comparison, str] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
"""The SQL operators of the order comparisons."""


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
    """Translate a filter for a scope's labels."""
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
