"""Converts LlamaIndex's metadata filters to arc's, and back. Pure."""

from collections.abc import Mapping
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from arc_common.exceptions import InvalidInputError
from arc_common.filters import AllOf, AnyOf, Comparison, Condition, Filter, Not, OneOf, parse_filter

# The comparisons that both sides have: one more is one more row here.
_COMPARISONS: dict[FilterOperator, Comparison] = {
    FilterOperator.EQ: "eq",
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
}
_OPERATORS = {comparison: operator for operator, comparison in _COMPARISONS.items()}


def to_filter(filters: MetadataFilters | Mapping[str, Any] | Filter | None) -> Filter | None:
    """Convert LlamaIndex's filters to arc's; `parse_filter` reads a plain dictionary, a filter stays as it is."""
    if not isinstance(filters, MetadataFilters):
        return parse_filter(filters)
    return _group(filters) if filters.filters else None


def from_filter(filters: Mapping[str, Any] | Filter | None) -> MetadataFilters | None:
    """Convert arc's filters to LlamaIndex's, as flat as possible, because few of its stores take nested ones."""
    parsed = parse_filter(filters)
    if parsed is None or parsed == AllOf(()):
        return None
    said = _said(parsed)
    return said if isinstance(said, MetadataFilters) else MetadataFilters(filters=[said])


def _group(filters: MetadataFilters) -> Filter:
    parts = tuple(
        _group(part) if isinstance(part, MetadataFilters) else _single(part)
        for part in filters.filters
        if not isinstance(part, MetadataFilters) or part.filters
    )
    if not parts:
        return AllOf(())
    match filters.condition:
        case FilterCondition.OR:
            return AnyOf(parts)
        case FilterCondition.NOT:
            return Not(AnyOf(parts))
    return AllOf(parts)


def _single(asked: MetadataFilter) -> Filter:
    key, value, operator = asked.key, asked.value, asked.operator
    if (comparison := _COMPARISONS.get(operator)) is not None:
        return Condition(key, comparison, _one(asked))
    match operator:
        case FilterOperator.NE:
            return Not(Condition(key, "eq", _one(asked)))
        case FilterOperator.CONTAINS:
            return Condition(key, "eq", _one(asked))
        case FilterOperator.IN | FilterOperator.ANY if isinstance(value, list):
            return OneOf(key, tuple(value))
        case FilterOperator.NIN if isinstance(value, list):
            return Not(OneOf(key, tuple(value)))
        case FilterOperator.ALL if isinstance(value, list):
            return AllOf(tuple(Condition(key, "eq", one) for one in value))
        case FilterOperator.IN | FilterOperator.ANY | FilterOperator.NIN | FilterOperator.ALL:
            raise InvalidInputError(f"filters[{key!r}]", value, f"a list of values for {operator.value!r}")
    known = "==, !=, >, >=, <, <=, in, nin, any, all, contains"
    raise InvalidInputError(f"filters[{key!r}]", operator.value, f"one of the operators {known}")


def _one(asked: MetadataFilter) -> str | int | float | None:
    if isinstance(asked.value, list):
        raise InvalidInputError(f"filters[{asked.key!r}]", asked.value, f"one value for {asked.operator.value!r}")
    return asked.value


def _said(parsed: Filter) -> MetadataFilter | MetadataFilters:
    match parsed:
        case Condition(key, comparison, value) if comparison in _OPERATORS:
            return MetadataFilter(key=key, value=_plain(key, value), operator=_OPERATORS[comparison])
        case OneOf(key, values):
            return MetadataFilter(key=key, value=_alike(key, values), operator=FilterOperator.IN)
        case AllOf(parts) if parts:
            return _joined(parts, FilterCondition.AND)
        case AnyOf(parts) if parts:
            return _joined(parts, FilterCondition.OR)
        case Not(Condition(key, "eq", value)):
            return MetadataFilter(key=key, value=_plain(key, value), operator=FilterOperator.NE)
        case Not(OneOf(key, values)):
            return MetadataFilter(key=key, value=_alike(key, values), operator=FilterOperator.NIN)
        case Not(Not(part)):
            return _said(part)
        case Not(AllOf(parts)) if parts:
            return _joined([Not(part) for part in parts], FilterCondition.OR)
        case Not(AnyOf(parts)) if parts:
            return _joined(parts, FilterCondition.NOT)
        case Not(Condition() as part):
            return _joined([part], FilterCondition.NOT)
    raise InvalidInputError("filters", parsed, "conditions and groups of them that LlamaIndex can express")


def _joined(parts: "tuple[Filter, ...] | list[Filter]", condition: FilterCondition) -> MetadataFilter | MetadataFilters:
    """Join the parts of a group; parts that are groups of the same kind are merged into it."""
    joined: list[MetadataFilter | MetadataFilters] = []
    within = FilterCondition.OR if condition is FilterCondition.NOT else condition
    for part in map(_said, parts):
        if isinstance(part, MetadataFilters) and part.condition is within:
            joined += part.filters
        else:
            joined.append(part)
    if len(joined) == 1 and condition is not FilterCondition.NOT:
        return joined[0]
    return MetadataFilters(filters=joined, condition=condition)


def _plain(key: str, value: object) -> Any:
    if value is None or isinstance(value, bool):
        raise InvalidInputError(f"filters[{key!r}]", value, "text or a number: LlamaIndex can't compare other values")
    return value


def _alike(key: str, values: tuple[Any, ...]) -> list[Any]:
    kinds = {type(_plain(key, value)) for value in values}
    if len(kinds) > 1:
        raise InvalidInputError(f"filters[{key!r}]", values, "values of one type, as LlamaIndex compares them")
    return list(values)
