"""Metadata filters as conditions in PostgreSQL. Pure.

The SQL depends on a filter's shape alone: keys and values are parameters.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from arc_common.filters import Comparison
from arc_common.stores.index_filters import All, Either, HasLabel, Neither, Ordered, Wanted
from arc_common.stores.index_tokens import canonical_number

__all__ = ["ORDERED", "PostgresCondition", "condition_for", "number_of", "ordered_values"]

ORDERED = "arc_index_entries.ordered"

_SIGNS: Mapping[Comparison, str] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}

_COMPARING = """EXISTS (
    SELECT 1 FROM jsonb_array_elements({ordered} -> CAST(:{key} AS TEXT)) AS item (value)
    WHERE CASE jsonb_typeof(item.value) WHEN '{kind}' THEN {test} ELSE FALSE END)"""
_NUMBERS = "CAST(item.value AS NUMERIC) {sign} CAST(:{value} AS NUMERIC)"
_TEXTS = "(item.value #>> '{{}}') COLLATE \"C\" {sign} CAST(:{value} AS TEXT)"  # by code points


@dataclass(frozen=True, slots=True)
class PostgresCondition:
    """A condition on the rows of one table.

    Args:
        sql: It, in parentheses.
        parameters: Its parameters.
        needs_entries: Whether it reads `arc_index_entries`, in whatever table the labels are.
    """

    sql: str = "TRUE"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    needs_entries: bool = False


def condition_for(wanted: Wanted | None, *, labels: str) -> PostgresCondition:
    """What a filter asks for.

    Args:
        wanted: The filter; `None` for none.
        labels: The column with an entry's labels, which may hold other tokens too.
    """
    if wanted is None:
        return PostgresCondition()
    parameters: dict[str, Any] = {}
    sql = _sql(wanted, labels, parameters, (f"asked_{n}" for n in count()))
    return PostgresCondition(sql, parameters, ORDERED in sql)


def number_of(token: bytes) -> int:
    """A token as PostgreSQL keeps it."""
    return int.from_bytes(token, "big", signed=True)


def ordered_values(metadata: Mapping[str, Any]) -> str:
    """The values that have an order, as JSON: a list for each key that has some."""
    ordered = {}
    for key, held in metadata.items():
        values = held if isinstance(held, list) else (held,)
        kept = [_plain(one) for one in values if isinstance(one, str | int | float) and not isinstance(one, bool)]
        if kept:
            ordered[key] = kept
    return json.dumps(ordered, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _plain(value: str | float) -> str | float:
    """Whole numbers with all their digits: PostgreSQL compares decimals, Python what a float really is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sql(wanted: Wanted, labels: str, parameters: dict[str, Any], names: Iterator[str]) -> str:
    match wanted:
        case HasLabel(asked):
            return _having([number_of(label) for label in asked], labels, parameters, names)
        case Ordered(condition, label):
            has_key = _having([number_of(label)], labels, parameters, names)
            key, value = next(names), next(names)
            is_text = isinstance(condition.value, str)
            parameters[key] = condition.key
            parameters[value] = condition.value if is_text else canonical_number(_number(condition.value))
            test = (_TEXTS if is_text else _NUMBERS).format(sign=_SIGNS[condition.comparison], value=value)
            kind = "string" if is_text else "number"
            return f"({has_key} AND {_COMPARING.format(ordered=ORDERED, key=key, kind=kind, test=test)})"
        case All(parts):
            return _joined(" AND ", "TRUE", [_sql(part, labels, parameters, names) for part in parts])
        case Either(parts):
            return _joined(" OR ", "FALSE", [_sql(part, labels, parameters, names) for part in parts])
        case Neither(part):
            return f"(NOT {_sql(part, labels, parameters, names)})"


def _having(asked: list[int], labels: str, parameters: dict[str, Any], names: Iterator[str]) -> str:
    name = next(names)
    parameters[name] = asked
    return f"({labels} && CAST(:{name} AS BIGINT[]))"


def _joined(by: str, empty: str, parts: list[str]) -> str:
    return f"({by.join(parts)})" if parts else empty


def _number(value: Any) -> float:
    if isinstance(value, int | float):
        return value
    raise TypeError("only text and numbers have an order")
