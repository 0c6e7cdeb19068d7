"""Translates metadata filters to the index's labels and ordered values, to SQL and to masks. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from hashlib import blake2b
from itertools import count
from secrets import token_bytes
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from arc_common.filters import AllOf, AnyOf, Comparison, Condition, Exists, Filter, Not, OneOf, Scalar
from arc_common.stores.database.schema import PREFIX
from arc_common.stores.statements.compiler import Statement, compiler_for

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

    def values(self, key: str, values: Iterable[Scalar]) -> list[bytes]:
        """Return the labels of some values under a key, each once."""
        return list(dict.fromkeys(self.value(key, value) for value in values))

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


def ordered_text(filters: Filter) -> Condition | None:
    """Return a condition that compares the order of texts, if there is one."""
    match filters:
        case Condition(_, comparison, str()) if comparison in SIGNS:
            return filters
        case AllOf(parts) | AnyOf(parts):
            return next(filter(None, map(ordered_text, parts)), None)
        case Not(part):
            return ordered_text(part)
    return None


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


_SQLITE_NUMBERS = """
    SELECT group_concat(id) FROM arc_index_values
    WHERE label = :label AND scope = :scope AND caller_id = :caller_id AND number {sign} :value"""

_SQLITE_TEXTS = """
    SELECT group_concat(id) FROM arc_index_values
    WHERE label = :label AND scope = :scope AND caller_id = :caller_id
      AND prefix {loosely} :prefix AND coalesce(text, prefix) {sign} :value"""


@cache
def comparing_statement(comparison: Comparison, *, text_value: bool) -> Statement:
    """Return SQLite's statement for the rows of entries with a value under a key that satisfies a comparison."""
    template = _SQLITE_TEXTS if text_value else _SQLITE_NUMBERS
    sign = SIGNS[comparison]
    return compiler_for("sqlite")(text(template.format(sign=sign, loosely=sign.rstrip("=") + "=")))


_COMPARING = """EXISTS (
    SELECT 1 FROM arc_index_values AS asked
    WHERE asked.scope = :scope AND asked.caller_id = :caller_id
      AND asked.id = {row} AND asked.label = {label} AND {test})"""
# The planner can't estimate the number of matches, as its statistics cover all keys together. Gathering them first
# takes 1 ms for 1,000 of 100,000; otherwise it reads all 100,000 in 60 ms. The outer statement checks the caller.
_GATHERED = """{row} = ANY (ARRAY(
    SELECT asked.id FROM arc_index_values AS asked
    WHERE asked.scope = :scope AND asked.label = {label} AND {test}))"""
_NUMBERS = "asked.number {sign} {value}"
_TEXTS = "asked.prefix {loosely} left({value}, {width}) AND coalesce(asked.text, asked.prefix) {sign} {value}"


def filter_mask(
    filters: Filter,
    tokens: Tokens,
    there: NDArray[np.bool_],
    *,
    having: Callable[[Sequence[bytes]], NDArray[np.bool_]],
    comparing: Callable[[Condition], NDArray[np.bool_]],
) -> NDArray[np.bool_]:
    """Return which of the entries that are `there` match, given those with one of some labels or with an order."""

    def mask(part: Filter) -> NDArray[np.bool_]:
        match part:
            case Condition(key, "eq", value):
                return mask(OneOf(key, (value,)))
            case OneOf(key, values):
                has = having(tokens.values(key, values))
                return has | ~mask(Exists(key)) if None in values else has  # a key that is missing counts as null
            case Exists(key):
                return having([tokens.key(key)])
            case Condition():
                return comparing(part)
            case AllOf(parts):
                return reduce(np.logical_and, map(mask, parts), there)
            case AnyOf(parts):
                return reduce(np.logical_or, map(mask, parts), np.zeros_like(there))
            case Not(inner):
                return ~mask(inner)

    return mask(filters) & there


@dataclass(frozen=True, slots=True)
class PostgresCondition:
    """A condition on the rows of one table; it needs the parameters `scope` and `caller_id` in addition to its own."""

    sql: str = "TRUE"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    finds: bool = False
    """An index finds the matching rows by itself; labels are salted, so they belong to one scope."""


def condition_for(
    filters: Filter | None, tokens: Tokens, columns: tuple[str, str], *, planned_once: bool = False
) -> PostgresCondition:
    """Return a filter as SQL on the columns of row and labels; `planned_once` suits one plan for all its values."""
    if filters is None:
        return PostgresCondition()
    writer = _Writer(tokens, *columns)
    sql = writer.sql(filters, planned_once=planned_once)
    return PostgresCondition(sql, writer.parameters, finds=planned_once and _finds(filters))


def _finds(filters: Filter) -> bool:
    match filters:
        case Condition(_, "eq", None) | Not():
            return False
        case Condition() | Exists():
            return True
        case OneOf(_, values):
            return None not in values
        case AllOf(parts):
            return any(map(_finds, parts))
        case AnyOf(parts):
            return all(map(_finds, parts))


class _Writer:
    def __init__(self, tokens: Tokens, row: str, labels: str) -> None:
        self._tokens = tokens
        self._row = row
        self._labels = labels
        self._names: Iterator[str] = (f"asked_{n}" for n in count())
        self.parameters: dict[str, Any] = {}

    def sql(self, filters: Filter, *, planned_once: bool = False) -> str:
        match filters:
            case Condition(key, "eq", value):
                return self.sql(OneOf(key, (value,)), planned_once=planned_once)
            case OneOf(key, values):
                has = self._having(self._tokens.values(key, values), planned_once=planned_once)
                # a key that is missing counts as null
                return f"({has} OR {self.sql(Not(Exists(key)))})" if None in values else has
            case Exists(key):
                return self._having([self._tokens.key(key)], planned_once=planned_once)
            case Condition():
                return self._comparing(filters, planned_once=planned_once)
            case AllOf(parts):
                return _joined(" AND ", "TRUE", [self.sql(part, planned_once=planned_once) for part in parts])
            case AnyOf(parts):
                return _joined(" OR ", "FALSE", [self.sql(part, planned_once=planned_once) for part in parts])
            case Not(part):
                return f"(NOT {self.sql(part)})"

    def _having(self, labels: Sequence[bytes], *, planned_once: bool) -> str:
        # As text: psycopg examines the types in a list each time, a third of the time that sending takes.
        numbers = ",".join(str(number_of(label)) for label in labels)
        return f"({self._labels} && {self._given(f'{{{numbers}}}', 'BIGINT[]', hidden=planned_once)})"

    def _comparing(self, condition: Condition, *, planned_once: bool) -> str:
        value, sign = condition.value, SIGNS[condition.comparison]
        if isinstance(value, int | float):
            test = _NUMBERS.format(
                sign=sign, value=self._given(canonical_number(value), "NUMERIC", hidden=planned_once)
            )
        else:
            loosely = sign.rstrip("=") + "="
            asked = self._given(value, "TEXT", hidden=planned_once)
            test = _TEXTS.format(sign=sign, loosely=loosely, value=asked, width=PREFIX)
        label = self._given(number_of(self._tokens.key(condition.key)), "BIGINT", hidden=planned_once)
        return (_GATHERED if planned_once else _COMPARING).format(row=self._row, label=label, test=test)

    def _given(self, value: Any, kind: str, *, hidden: bool) -> str:
        name = next(self._names)
        self.parameters[name] = value
        # If the planner sees the value, it plans each search anew, which takes 0.1 ms.
        return f"(SELECT CAST(:{name} AS {kind}))" if hidden else f"CAST(:{name} AS {kind})"


def _joined(by: str, empty: str, parts: list[str]) -> str:
    return f"({by.join(parts)})" if parts else empty
