"""JSON that restores values exactly."""

import json
import math
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.serialization import Extension, dumps, loads

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.text(st.characters(categories=["Cs", "Cc"]), max_size=4)
    | st.binary(max_size=8)
    | st.binary(max_size=8).map(bytearray)
    | st.complex_numbers(allow_nan=False)
    | st.datetimes(timezones=st.sampled_from([None, UTC]))
    | st.dates()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
keys = st.text(max_size=4) | st.sampled_from(["__arc__", "value"]) | st.integers() | st.none() | st.binary(max_size=2)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.integers() | st.text(max_size=3), max_size=3)
        | st.frozensets(st.booleans() | st.dates(), max_size=3)
    ),
    max_leaves=8,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4).filter(lambda key: key != "__arc__"), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Return whether two values and all their types are equal; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(a, b) for pair in zip(one.items(), other.items(), strict=True) for a, b in zip(*pair, strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other) or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


@given(values)
@example("\ud83d\ude00")
@example({"\ud83d\ude00": "\x00"})
@example({"__arc__": "tuple", "value": [1]})
@example({"__arc__": "unknown"})
@example(2**100_000)
@example(-(2**100_000))
def test_every_value_comes_back(value: Any) -> None:
    """Values, types and the order of keys survive, and the text is UTF-8 without NUL."""
    text = dumps(value, field="value")
    assert b"\x00" not in text.encode()
    assert same(loads(text), value)


@given(json_values)
def test_what_json_has_is_written_as_json(value: Any) -> None:
    assert same(json.loads(dumps(value, field="value")), value)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


PLAIN: list[tuple[Any, Any]] = [
    (Colour.RED, "red"),
    (Level.LOW, 1),
    (np.float64(0.5), 0.5),
    (OrderedDict(a=1), {"a": 1}),
    (defaultdict(list, a=[1]), {"a": [1]}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    ({Colour.RED: 1}, {"red": 1}),
]


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=[type(value).__name__ for value, _ in PLAIN])
def test_a_subclass_comes_back_as_the_plain_value_that_it_equals(value: Any, plain: Any) -> None:
    """Enumerations, numpy's float64 and other mappings lose only their class."""
    assert same(loads(dumps(value, field="value")), plain)


def _too_deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(150):
        value = [value]
    return value


def _circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("object", object, "field"),
    ("function", lambda: [1, print], "field[1]"),
    ("path", lambda: {"a": {"b": PurePosixPath("x")}}, "field.a.b"),
    ("array", lambda: {"a": np.zeros(2)}, "field.a"),
    ("in a tuple", lambda: {"a": (1, {"b": object()})}, "field.a[1].b"),
    ("beside other keys", lambda: {1: object()}, "field[1]"),
    ("key", lambda: {object: 1}, "field key"),
    ("class", lambda: {"a": int}, "field.a"),
]


@pytest.mark.parametrize(("make", "path"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_has_no_reversible_form_is_refused_by_its_path(make: Callable[[], Any], path: str) -> None:
    with pytest.raises(InvalidInputError, match="a value that can be stored") as refused:
        dumps(make(), field="field")
    assert refused.value.field == path


@pytest.mark.parametrize("make", [_too_deep, _circular], ids=["deep", "circular"])
def test_endless_nesting_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInputError, match="at most 100 levels of nesting"):
        dumps(make(), field="field")


NESTS: list[tuple[str, Callable[[Any], Any]]] = [
    ("list", lambda inner: [inner]),
    ("tuple", lambda inner: (inner,)),
    ("dictionary", lambda inner: {"a": inner}),
    ("other keys", lambda inner: {1: inner}),
]


@pytest.mark.parametrize("nest", [nest for _, nest in NESTS], ids=[name for name, _ in NESTS])
def test_the_deepest_value_is_read_back_also_from_deep_in_a_program(nest: Callable[[Any], Any]) -> None:
    """A hundred levels stay within Python's recursion limit below 400 other frames."""
    value: Any = None
    for _ in range(100):
        value = nest(value)

    def below(frames: int) -> Any:
        return below(frames - 1) if frames else loads(dumps(value, field="value"))

    assert sys.getrecursionlimit() >= 1000
    assert same(below(400), value)


def _path_text(value: Any) -> str | None:
    return str(value) if isinstance(value, PurePosixPath) else None


PATHS: tuple[Extension, ...] = (("path", _path_text, PurePosixPath),)


def test_an_extension_adds_a_kind_of_value() -> None:
    """It is called for values unknown to the codec, at any depth, and is needed to read them, too."""
    value = {"a": [PurePosixPath("x/y")], "b": (PurePosixPath("z"), b"1")}
    assert same(loads(dumps(value, field="value", extensions=PATHS), extensions=PATHS), value)
    with pytest.raises(InvalidInputError):
        dumps(value, field="value")


def test_a_users_text_is_never_taken_for_a_wrapper() -> None:
    forged = {"__arc__": "path", "value": "x"}
    assert loads(dumps(forged, field="value", extensions=PATHS), extensions=PATHS) == forged


def test_the_value_is_left_alone() -> None:
    """The value is not modified and shares nothing with the result."""
    value = {"a": [1, {"b": (2,)}], 3: {4}, "when": date(2026, 1, 1), "id": UUID(int=1), "sum": Decimal("1.0")}
    before = repr(value)
    back = loads(dumps(value, field="value"))
    back["a"][1]["c"] = back[3].add(5)
    assert repr(value) == before


def test_the_same_value_gives_the_same_text() -> None:
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other), "these two collide in a small set, so that it keeps the order of filling"
    assert dumps(one, field="value") == dumps(other, field="value")
    assert (
        dumps(datetime(2026, 1, 1, tzinfo=UTC), field="v")
        == '{"__arc__":"datetime","value":"2026-01-01T00:00:00+00:00"}'
    )
