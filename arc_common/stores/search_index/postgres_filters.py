"""Metadata filters as conditions in PostgreSQL. Pure.

The SQL depends on a filter's shape alone: keys and values are parameters.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from arc_common.stores.index_schema import PREFIX
from arc_common.stores.search_index.filters import SIGNS, All, Either, HasLabel, Neither, Ordered, Wanted
from arc_common.stores.search_index.tokens import canonical_number, number_of

__all__ = ["PostgresCondition", "condition_for"]

_COMPARING = """EXISTS (
    SELECT 1 FROM arc_index_values AS asked
    WHERE asked.scope = :scope AND asked.caller_id = :caller_id
      AND asked.id = {row} AND asked.label = {label} AND {test})"""
# Estimating how many there are is beyond the database, which knows the numbers of all keys together: told to gather
# them first it takes 1 ms for 1,000 of 100,000; left alone it reads all 100,000, in 60. The label is under the scope's
# own salt, and the rows are asked for scope and caller: asked here too, they had to be read beside the index, which
# takes half as long again.
_GATHERED = """{row} = ANY (ARRAY(
    SELECT asked.id FROM arc_index_values AS asked WHERE asked.label = {label} AND {test}))"""
_NUMBERS = "asked.number {sign} {value}"
_TEXTS = "asked.prefix {loosely} left({value}, {width}) AND coalesce(asked.text, asked.prefix) {sign} {value}"


@dataclass(frozen=True, slots=True)
class PostgresCondition:
    """A condition on the rows of one table.

    Args:
        sql: It, in parentheses. It takes the parameters `scope` and `caller_id` too.
        parameters: Its own parameters.
        finds: Whether an index of its own finds what passes, which is of one scope, as labels are under its salt.
    """

    sql: str = "TRUE"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    finds: bool = False


def condition_for(wanted: Wanted | None, *, row: str, labels: str, planned_once: bool = False) -> PostgresCondition:
    """What a filter asks for.

    Args:
        wanted: The filter; `None` for none.
        row: The column with an entry's row.
        labels: The column with its labels, which may hold other tokens too.
        planned_once: Whether one plan does for all values. It looks up first, not row by row, what rows are to pass.
    """
    if wanted is None:
        return PostgresCondition()
    writer = _Writer(row, labels)
    sql = writer.sql(wanted, planned_once=planned_once)
    return PostgresCondition(sql, writer.parameters, finds=planned_once and _finds(wanted))


def _finds(wanted: Wanted) -> bool:
    match wanted:
        case HasLabel() | Ordered():
            return True
        case All(parts):
            return any(map(_finds, parts))
        case Either(parts):
            return all(map(_finds, parts))
        case Neither():
            return False


class _Writer:
    def __init__(self, row: str, labels: str) -> None:
        self._row = row
        self._labels = labels
        self._names: Iterator[str] = (f"asked_{n}" for n in count())
        self.parameters: dict[str, Any] = {}

    def sql(self, wanted: Wanted, *, planned_once: bool = False) -> str:
        match wanted:
            case HasLabel(labels):
                # spelt out: psycopg looks for a list's types anew each time, a third of what sending a search takes
                numbers = ",".join(str(number_of(label)) for label in labels)
                asked = self._given(f"{{{numbers}}}", "BIGINT[]", hidden=planned_once)
                return f"({self._labels} && {asked})"
            case Ordered():
                return self._comparing(wanted, planned_once=planned_once)
            case All(parts):
                return _joined(" AND ", "TRUE", [self.sql(part, planned_once=planned_once) for part in parts])
            case Either(parts):
                return _joined(" OR ", "FALSE", [self.sql(part, planned_once=planned_once) for part in parts])
            case Neither(part):
                return f"(NOT {self.sql(part)})"

    def _comparing(self, wanted: Ordered, *, planned_once: bool) -> str:
        value = wanted.condition.value
        sign = SIGNS[wanted.condition.comparison]
        if isinstance(value, int | float):
            test = _NUMBERS.format(
                sign=sign, value=self._given(canonical_number(value), "NUMERIC", hidden=planned_once)
            )
        else:
            loosely = sign.rstrip("=") + "="
            asked = self._given(value, "TEXT", hidden=planned_once)
            test = _TEXTS.format(sign=sign, loosely=loosely, value=asked, width=PREFIX)
        label = self._given(number_of(wanted.label), "BIGINT", hidden=planned_once)
        return (_GATHERED if planned_once else _COMPARING).format(row=self._row, label=label, test=test)

    def _given(self, value: Any, kind: str, *, hidden: bool) -> str:
        name = next(self._names)
        self.parameters[name] = value
        # As long as it sees a value, the database plans each search anew, for that value: 0.1 ms.
        return f"(SELECT CAST(:{name} AS {kind}))" if hidden else f"CAST(:{name} AS {kind})"


def _joined(by: str, empty: str, parts: list[str]) -> str:
    return f"({by.join(parts)})" if parts else empty
