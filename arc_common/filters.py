"""Metadata filters: their types, their parser for plain dictionaries, and their matching rules. Pure.

`matches` defines the semantics; a backend that filters in its database must give the same results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from arc_common.exceptions import InvalidInputError
from arc_common.messages import is_storable
from arc_common.serialization import json_copy

Scalar: TypeAlias = str | int | float | bool | None
"""A value to compare metadata with."""

Comparison: TypeAlias = Literal["eq", "gt", "gte", "lt", "lte"]

_COMPARISONS = frozenset(get_args(Comparison))
_MAX_KEY = 255
_MAX_VALUES = 10_000
_MAX_DEPTH = 16
_MAX_CONDITIONS = 256


@dataclass(frozen=True, slots=True)
class Condition:
    """Compares one metadata value with a given value.

    - Text compares with text (by code points), numbers with numbers (`1` equals `1.0`), booleans with booleans, null
      with null; values of different kinds are neither equal nor ordered.
    - A missing key counts as null. A list matches if one of its elements matches; deeper values never match.

    Args:
        key: The metadata key, taken literally (a dot is a dot).
        comparison: `eq`, or one of the order comparisons `gt`, `gte`, `lt` and `lte`.
        value: The value to compare with; text or a number for an order comparison.
    """

    key: str
    comparison: Comparison
    value: Scalar

    def __post_init__(self) -> None:
        _check_key(self.key)
        if self.comparison not in _COMPARISONS:
            raise InvalidInputError("filter.comparison", self.comparison, f"one of {', '.join(sorted(_COMPARISONS))}")
        _check_scalar(self.key, self.value)
        if self.comparison != "eq" and (self.value is None or isinstance(self.value, bool)):
            raise InvalidInputError(f"filter[{self.key!r}]", self.value, "text or a number, which have an order")


@dataclass(frozen=True, slots=True)
class OneOf:
    """Matches if the metadata value equals (as in `Condition`) one of several values; without values, never."""

    key: str
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        _check_key(self.key)
        if not isinstance(self.values, tuple):
            raise InvalidInputError(f"filter[{self.key!r}]", self.values, "a tuple of values")
        if len(self.values) > _MAX_VALUES:
            raise InvalidInputError(f"filter[{self.key!r}]", len(self.values), f"at most {_MAX_VALUES:,} values")
        for value in self.values:
            _check_scalar(self.key, value)


@dataclass(frozen=True, slots=True)
class Exists:
    """Matches if the key exists with a value other than null."""

    key: str

    def __post_init__(self) -> None:
        _check_key(self.key)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Matches if all of the filters match; without filters, always."""

    filters: tuple["Filter", ...]

    def __post_init__(self) -> None:
        _check_parts(self.filters)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Matches if at least one of the filters matches; without filters, never."""

    filters: tuple["Filter", ...]

    def __post_init__(self) -> None:
        _check_parts(self.filters)


@dataclass(frozen=True, slots=True)
class Not:
    """Matches if the filter does not match. There is no third value: metadata without the key may match here."""

    filter: "Filter"

    def __post_init__(self) -> None:
        _check_parts((self.filter,))


Filter: TypeAlias = Condition | OneOf | Exists | AllOf | AnyOf | Not


def matches(filters: Filter | None, metadata: Mapping[str, Any]) -> bool:
    """Return whether the metadata matches the filter; without a filter, True."""
    return matcher(filters)(metadata)


def matcher(filters: Filter | None) -> Callable[[Mapping[str, Any]], bool]:
    """Compile a filter into a function for many metadata mappings."""
    match filters:
        case None:
            return lambda _: True
        case Condition(key, comparison, value):
            test = _COMPARE[comparison]
            return lambda metadata: any(test(one, value) for one in _values(metadata, key))
        case OneOf(key, values):
            wanted = frozenset(map(_typed, values))
            return lambda metadata: any(_typed(one) in wanted for one in _values(metadata, key) if _is_scalar(one))
        case Exists(key):
            return lambda metadata: metadata.get(key) is not None
        case AllOf(parts):
            all_of = [matcher(part) for part in parts]
            return lambda metadata: all(part(metadata) for part in all_of)
        case AnyOf(parts):
            any_of = [matcher(part) for part in parts]
            return lambda metadata: any(part(metadata) for part in any_of)
        case Not(part):
            inner = matcher(part)
            return lambda metadata: not inner(metadata)
    raise InvalidInputError("filters", filters, "a Filter, or None")


def parse_filter(plain: "Mapping[str, Any] | Filter | None") -> Filter | None:
    """Parse a plain dictionary into a filter; return a filter or `None` unchanged.

    `{"lang": "ko", "year": {"$gte": 2020, "$lt": 2024}, "$or": [{"tag": "a"}, {"tag": {"$in": ["b", "c"]}}]}`

    - A key with a plain value means equality; several keys, and several operators of a key, must all match.
    - Operators for a key: `$eq $ne $gt $gte $lt $lte $in $nin $exists $not`; for filters: `$and $or $not`.
    - `$ne`, `$nin` and `$not` match whatever their positive forms don't, including missing keys.

    Raises:
        InvalidInputError: An operator is unknown, a key is invalid, a value can't be compared, or the filter has more
            than 16 levels or 256 conditions.
    """
    if plain is None or isinstance(plain, Filter):
        return plain
    parsed = _parse(plain, 1)
    if (count := _count(parsed)) > _MAX_CONDITIONS:
        raise InvalidInputError("filters", f"{count} conditions", f"at most {_MAX_CONDITIONS} conditions")
    return parsed


def _parse(plain: Any, depth: int) -> Filter:
    if not isinstance(plain, Mapping):
        raise InvalidInputError("filters", plain, "a mapping of keys to values or operators")
    if depth > _MAX_DEPTH:
        raise InvalidInputError("filters", plain, f"at most {_MAX_DEPTH} levels of nesting")
    return _all_of([_parse_item(key, value, depth) for key, value in plain.items()])


def _parse_item(key: Any, value: Any, depth: int) -> Filter:
    if key in ("$and", "$or"):
        if isinstance(value, str | Mapping) or not isinstance(value, Sequence) or not value:
            raise InvalidInputError(f"filters[{key!r}]", value, "a list of one or more filters")
        parts = tuple(_parse(part, depth + 1) for part in value)
        return AllOf(parts) if key == "$and" else AnyOf(parts)
    if key == "$not":
        return Not(_parse(value, depth + 1))
    if isinstance(key, str) and key.startswith("$"):
        raise InvalidInputError("filters", key, "a metadata key, or one of $and, $or, $not")
    if isinstance(value, Mapping):
        return _parse_operators(key, value, depth + 1)
    if isinstance(value, list | tuple | set | frozenset):
        raise InvalidInputError(f"filters[{key!r}]", value, 'one value; for one of several, {"$in": [...]}')
    return Condition(key, "eq", value)


def _parse_operators(key: Any, operators: Mapping[Any, Any], depth: int) -> Filter:
    if depth > _MAX_DEPTH:
        raise InvalidInputError("filters", operators, f"at most {_MAX_DEPTH} levels of nesting")
    if not operators:
        raise InvalidInputError(f"filters[{key!r}]", operators, 'a value, or operators such as {"$gte": 1}')
    return _all_of([_parse_operator(key, operator, value, depth) for operator, value in operators.items()])


def _parse_operator(key: Any, operator: Any, value: Any, depth: int) -> Filter:
    match operator:
        case "$eq" | "$gt" | "$gte" | "$lt" | "$lte":
            return Condition(key, operator[1:], value)
        case "$ne":
            return Not(Condition(key, "eq", value))
        case "$in":
            return OneOf(key, _several(key, operator, value))
        case "$nin":
            return Not(OneOf(key, _several(key, operator, value)))
        case "$exists":
            if not isinstance(value, bool):
                raise InvalidInputError(f"filters[{key!r}]['$exists']", value, "True or False")
            return Exists(key) if value else Not(Exists(key))
        case "$not":
            if not isinstance(value, Mapping):
                raise InvalidInputError(f"filters[{key!r}]['$not']", value, "operators to negate; for a value, $ne")
            return Not(_parse_operators(key, value, depth + 1))
    known = "$eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $not"
    raise InvalidInputError(f"filters[{key!r}]", operator, f"one of the operators {known}")


def _several(key: Any, operator: str, values: Any) -> tuple[Scalar, ...]:
    if not isinstance(values, list | tuple | set | frozenset):
        raise InvalidInputError(f"filters[{key!r}][{operator!r}]", values, "a list of values")
    return tuple(values) if isinstance(values, list | tuple) else tuple(sorted(values, key=repr))


def _all_of(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _count(filters: Filter) -> int:
    return sum(map(_count, _parts_of(filters))) if isinstance(filters, AllOf | AnyOf | Not) else 1


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not key or len(key) > _MAX_KEY or key.startswith("$") or not is_storable(key):
        raise InvalidInputError("filter.key", key, f"a metadata key: text of 1 to {_MAX_KEY} characters, no $ in front")


def _check_scalar(key: str, value: object) -> None:
    if not _is_scalar(value):
        raise InvalidInputError(f"filter[{key!r}]", value, "text, a finite number, a boolean or None")
    json_copy(f"filter[{key!r}]", value)


def _check_parts(parts: object) -> None:
    if not isinstance(parts, tuple) or not all(isinstance(part, Filter) for part in parts):
        raise InvalidInputError("filters", parts, "a tuple of filters")
    inner: Sequence[Filter] = parts
    for _ in range(_MAX_DEPTH):
        inner = [one for part in inner for one in _parts_of(part)]
    if inner:
        raise InvalidInputError("filters", parts, f"at most {_MAX_DEPTH} levels of nesting")


def _parts_of(whole: Filter) -> tuple[Filter, ...]:
    if isinstance(whole, Not):
        return (whole.filter,)
    return whole.filters if isinstance(whole, AllOf | AnyOf) else ()


def _values(metadata: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = metadata.get(key)
    return value if isinstance(value, list | tuple) else (value,)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _typed(value: Scalar) -> tuple[bool, Scalar]:
    """Return the value as a set member: in Python `True == 1`, but not in filters."""
    return isinstance(value, bool), value


def _kind(value: object) -> str | None:
    """Return the kind of a value; `None` for values without an order."""
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else None


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, value: (kind := _kind(one)) is not None and kind == _kind(value) and test(one, value)


_COMPARE: dict[Comparison, Callable[[Any, Any], bool]] = {
    "eq": lambda one, value: _is_scalar(one) and _typed(one) == _typed(value),
    "gt": _ordered(lambda one, value: one > value),
    "gte": _ordered(lambda one, value: one >= value),
    "lt": _ordered(lambda one, value: one < value),
    "lte": _ordered(lambda one, value: one <= value),
}
