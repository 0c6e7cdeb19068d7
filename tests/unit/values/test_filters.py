"""Filters: the meaning of dictionaries, and rejected ones. The index contract tests their use by backends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.filters import AllOf, AnyOf, Condition, Exists, Filter, Not, OneOf, matches, parse_filter
from tests.contracts.index_filters_contract import filters, metadata

YEAR = Condition("year", "gte", 2020)


def test_dictionaries_are_read() -> None:
    cases: list[tuple[object, Filter | None]] = [
        ({}, AllOf(())),
        ({"a": 1}, Condition("a", "eq", 1)),
        ({"a": None}, Condition("a", "eq", None)),
        ({"a": {"$eq": "x"}}, Condition("a", "eq", "x")),
        ({"a": {"$ne": 1}}, Not(Condition("a", "eq", 1))),
        ({"year": {"$gte": 2020}}, YEAR),
        ({"year": {"$gte": 2020, "$lt": 2024}}, AllOf((YEAR, Condition("year", "lt", 2024)))),
        ({"a": {"$in": [1, "b", None]}}, OneOf("a", (1, "b", None))),
        ({"a": {"$in": []}}, OneOf("a", ())),
        ({"a": {"$nin": ["b"]}}, Not(OneOf("a", ("b",)))),
        ({"a": {"$in": {"c", "b"}}}, OneOf("a", ("b", "c"))),
        ({"a": {"$exists": True}}, Exists("a")),
        ({"a": {"$exists": False}}, Not(Exists("a"))),
        ({"year": {"$not": {"$gte": 2020}}}, Not(YEAR)),
        ({"$not": {"year": {"$gte": 2020}}}, Not(YEAR)),
        ({"a": 1, "year": {"$gte": 2020}}, AllOf((Condition("a", "eq", 1), YEAR))),
        ({"$or": [{"a": 1}, {"year": {"$gte": 2020}}]}, AnyOf((Condition("a", "eq", 1), YEAR))),
        ({"$and": [{"a": 1}]}, AllOf((Condition("a", "eq", 1),))),
        ({"a.b": 1}, Condition("a.b", "eq", 1)),
        (YEAR, YEAR),
        (None, None),
    ]
    for plain, expected in cases:
        assert parse_filter(plain) == expected, plain  # type: ignore[arg-type]


def test_what_is_no_filter_is_refused() -> None:
    """The error states the part, the value and the accepted ones."""
    cases: list[tuple[object, str]] = [
        ({"a": {"$regex": "x"}}, r"filters\['a'\]: got '\$regex', expected one of the operators \$eq"),
        ({"a": {"gte": 1}}, "'gte'"),
        ({"$where": "1=1"}, r"'\$where', expected a metadata key"),
        ({"a": {"$gt": None}}, "which have an order"),
        ({"a": {"$gt": True}}, "which have an order"),
        ({"a": float("nan")}, "finite"),
        ({"a": {"$lt": float("inf")}}, "finite"),
        ({"a": 2**63}, "64 bits"),
        ({"a": "x\x00"}, "NUL"),
        ({"a": "\ud800"}, "surrogates"),
        ({"a\x00": 1}, "metadata key"),
        ({"": 1}, "metadata key"),
        ({"k" * 256: 1}, "255"),
        ({7: 1}, "metadata key"),
        ({"a": ["x", "y"]}, r"\$in"),
        ({"a": {}}, "operators"),
        ({"a": {"$in": "abc"}}, "a list of values"),
        ({"a": {"$in": [[1]]}}, "text, a finite number"),
        ({"a": {"$in": list(range(10_001))}}, "10,000"),
        ({"a": {"$exists": 1}}, "True or False"),
        ({"a": {"$not": 1}}, r"\$ne"),
        ({"a": object()}, "text, a finite number"),
        ({"$or": []}, "one or more"),
        ({"$or": {"a": 1}}, "one or more"),
        ({"$and": "ab"}, "one or more"),
        ({"$not": 1}, "mapping"),
        ("lang = 'ko'", "mapping"),
        ([("a", 1)], "mapping"),
        ({"$or": [{"a": n} for n in range(257)]}, "256"),
    ]
    for plain, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            parse_filter(plain)  # type: ignore[arg-type]


def test_filters_built_by_hand_are_checked_too() -> None:
    """Parts that are no filters, lists instead of tuples and unknown operators are rejected."""
    for wrong in (
        lambda: AllOf(({"a": 1},)),  # type: ignore[arg-type]
        lambda: AnyOf([YEAR]),  # type: ignore[arg-type]
        lambda: Not(None),  # type: ignore[arg-type]
        lambda: OneOf("a", [1]),  # type: ignore[arg-type]
        lambda: Condition("a", "like", "x%"),  # type: ignore[arg-type]
        lambda: matches("a", {}),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError):
            wrong()


@given(held=metadata, asked=filters)
def test_not_is_the_complement(held: dict[str, object], asked: Filter) -> None:
    """A negation matches exactly what its filter does not."""
    assert matches(Not(asked), held) is not matches(asked, held)


@given(held=metadata, left=filters, right=filters)
def test_and_and_or_are_what_they_are_called(held: dict[str, object], left: Filter, right: Filter) -> None:
    both = [matches(left, held), matches(right, held)]
    assert matches(AllOf((left, right)), held) is all(both)
    assert matches(AnyOf((left, right)), held) is any(both)


@given(held=metadata, values=st.lists(st.sampled_from([1, True, "1", None, 0.5]), max_size=3))
def test_one_of_is_equality_with_any(held: dict[str, object], values: list[object]) -> None:
    asked = OneOf("a", tuple(values))  # type: ignore[arg-type]
    assert matches(asked, held) is any(matches(Condition("a", "eq", value), held) for value in values)  # type: ignore[arg-type]


def test_without_a_filter_everything_matches() -> None:
    assert matches(None, {})
    assert matches(parse_filter({}), {"a": 1})


TABLE: list[tuple[Filter, set[str]]] = [
    (Condition("v", "eq", value=True), {"true", "list"}),
    (Condition("v", "eq", 1), {"one", "float"}),
    (Condition("v", "eq", "1"), {"text"}),
    (Condition("v", "eq", None), {"null", "missing"}),
    (Condition("v", "gt", 0), {"one", "float", "half", "numbers"}),
    (Condition("v", "gte", ""), {"text", "list"}),
    (Condition("v", "lt", 1), {"half", "zero"}),
    (OneOf("v", (1, "x", None)), {"one", "float", "list", "null", "missing"}),
    (OneOf("v", ()), set()),
    (Exists("v"), {"true", "false", "one", "float", "half", "zero", "text", "list", "numbers", "deep", "empty"}),
    (Not(Exists("v")), {"null", "missing"}),
    (Not(Condition("v", "gt", 0)), {"true", "false", "zero", "text", "list", "null", "missing", "deep", "empty"}),
    (AnyOf(()), set()),
]
STORED: dict[str, dict[str, Any]] = {
    "true": {"v": True}, "false": {"v": False}, "one": {"v": 1}, "float": {"v": 1.0}, "half": {"v": 0.5},
    "zero": {"v": 0}, "text": {"v": "1"}, "list": {"v": ["x", True]}, "numbers": {"v": [5, 7]}, "null": {"v": None},
    "missing": {"w": 1}, "deep": {"v": {"v": 1}}, "empty": {"v": []},
}  # fmt: skip


def test_kinds_of_values_are_kept_apart() -> None:
    """True is not 1, "1" is not 1, 1.0 is 1; a missing key is null; lists match by their elements."""
    for asked, expected in TABLE:
        assert {key for key, held in STORED.items() if matches(asked, held)} == expected, asked
