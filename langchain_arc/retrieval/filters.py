"""Translates arc's metadata filters into the forms that LangChain's vector stores take. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from arc_common.exceptions import InvalidInputError
from arc_common.filters import AllOf, AnyOf, Condition, Exists, Filter, Not, OneOf, Scalar, matcher, parse_filter

FilterStyle: TypeAlias = Literal["arc", "equality", "function", "operators", "operators with $exists"]
"""The form of filters that a store takes.

- "arc": arc's own.
- "equality": `{"lang": "ko", "year": 2024}`, all of which must be equal.
- "function": a function over a LangChain document.
- "operators": `{"$and": [{"lang": {"$eq": "ko"}}, {"year": {"$gte": 2020}}]}`, with `$eq $ne $gt $gte $lt $lte $in $nin
  $and $or`.
- "operators with $exists": the same, with `$exists`.
"""

MetadataFilter: TypeAlias = Mapping[str, Any] | Filter
"""A plain dictionary (see `parse_filter`), or arc's own filter."""

Translator: TypeAlias = Callable[[Filter], Any]
"""Translates arc's filter into a store's own form."""

_STYLES: dict[str, FilterStyle] = {
    "ArcRetriever": "arc",
    "ArcVectorStore": "arc",
    "Chroma": "operators",
    "InMemoryVectorStore": "function",
    "MongoDBAtlasVectorSearch": "operators with $exists",
    "PGVector": "operators with $exists",
    "PGVectorStore": "operators with $exists",
    "Pinecone": "operators with $exists",
    "PineconeVectorStore": "operators with $exists",
}
"""The styles of known classes, by class name, so that none of their packages need be installed."""


def chosen_filter(filter: MetadataFilter | None, filters: MetadataFilter | None) -> Filter | None:  # noqa: A002 - LangChain's name
    """Return the filter given under either name, LangChain's or arc's."""
    if filter is not None and filters is not None:
        raise InvalidInputError("filters", filters, "one of `filter` and `filters`, which mean the same")
    return parse_filter(filters if filter is None else filter)


def style_of(source: VectorStore | BaseRetriever) -> FilterStyle | None:
    """Return how a store or retriever takes filters, if known; a subclass takes them as its parent does."""
    return next((_STYLES[parent.__name__] for parent in type(source).__mro__ if parent.__name__ in _STYLES), None)


def translator_of(style: FilterStyle | Translator) -> Translator:
    """Return the function that translates filters into a style."""
    match style:
        case "arc":
            return lambda filters: filters
        case "equality":
            return _equalities
        case "function":
            return _function
        case "operators":
            return lambda filters: _operators(_positive(filters), exists=False)
        case "operators with $exists":
            return lambda filters: _operators(_positive(filters), exists=True)
    if not callable(style):
        raise InvalidInputError("filter_style", style, f"one of {', '.join(get_args(FilterStyle))}, or a function")
    return style


def _function(filters: Filter) -> Callable[[Document], bool]:
    is_match = matcher(filters)
    return lambda document: is_match(document.metadata)


def _equalities(filters: Filter) -> dict[str, Scalar]:
    match filters:
        case Condition(key, "eq", value) if value is not None:
            return {key: value}
        case AllOf(parts):
            wanted: dict[str, Scalar] = {}
            for part in parts:
                for key, value in _equalities(part).items():
                    if key in wanted:
                        raise InvalidInputError(
                            "filters", filters, "each key at most once: the source supports only equality filters"
                        )
                    wanted[key] = value
            return wanted
    raise InvalidInputError("filters", filters, "equalities joined by AND: the source supports no other filters")


def _positive(filters: Filter, *, negated: bool = False) -> Filter:
    """Push every negation inwards until it applies to a single condition (De Morgan)."""
    match filters:
        case Not(part):
            return _positive(part, negated=not negated)
        case AllOf(parts):
            inner = tuple(_positive(part, negated=negated) for part in parts)
            return AnyOf(inner) if negated else AllOf(inner)
        case AnyOf(parts):
            inner = tuple(_positive(part, negated=negated) for part in parts)
            return AllOf(inner) if negated else AnyOf(inner)
    return Not(filters) if negated else filters


def _operators(filters: Filter, *, exists: bool) -> dict[str, Any]:
    match filters:
        case Condition(key, comparison, value) if value is not None:
            return {key: {f"${comparison}": value}}
        case Not(Condition(key, "eq", value)) if value is not None:
            return {key: {"$ne": value}}
        case OneOf(key, values) if values and None not in values:
            return {key: {"$in": list(values)}}
        case Not(OneOf(key, values)) if values and None not in values:
            return {key: {"$nin": list(values)}}
        case Exists(key) if exists:
            return {key: {"$exists": True}}
        case Not(Exists(key)) if exists:
            return {key: {"$exists": False}}
        case AllOf(parts) if parts:
            return _joined("$and", parts, exists=exists)
        case AnyOf(parts) if parts:
            return _joined("$or", parts, exists=exists)
    raise InvalidInputError("filters", filters, "a filter that the source's operators can express (see FilterStyle)")


def _joined(operator: str, parts: Sequence[Filter], *, exists: bool) -> dict[str, Any]:
    """Join several filters; a single one stays as it is, since stores refuse an `$and` of one."""
    told = [_operators(part, exists=exists) for part in parts]
    return told[0] if len(told) == 1 else {operator: told}
