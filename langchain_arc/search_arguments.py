"""Arguments that the retriever and the vector store share: the documents searched, and the filter."""

from collections.abc import Mapping
from typing import Any

from arc_common.engine.documents import DocumentIndex
from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter, parse_filter
from langchain_arc.engine import checked_engine

MetadataFilter = Mapping[str, Any] | Filter
"""A plain dictionary (see `parse_filter`), or arc's own filter."""


def documents_of(engine: object, *, caller_id: str, user_id: str | None) -> DocumentIndex:
    """Return the documents that an engine keeps for a caller, or for one of its users alone."""
    return checked_engine(engine).documents_of(caller_id, user_id=user_id)


def chosen_filter(filter: MetadataFilter | None, filters: MetadataFilter | None) -> Filter | None:  # noqa: A002 - LangChain's name
    """Return the filter given under either name, LangChain's or arc's."""
    if filter is not None and filters is not None:
        raise InvalidInputError("filters", filters, "one of `filter` and `filters`, which mean the same")
    return parse_filter(filters if filter is None else filter)


def check_k(value: object, *, name: str = "k") -> int:
    """Return the number of documents wanted; raise if it is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(name, value, "a whole number of at least 1")
    return value
