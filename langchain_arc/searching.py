"""What the retriever and the vector store share: where they search, and the filter that they are given."""

from collections.abc import Mapping
from typing import Any

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter, parse_filter
from arc_common.retrieval import HybridIndex
from langchain_arc.storing import checked_engine

__all__ = ["MetadataFilter", "check_k", "chosen_filter", "index_of"]

MetadataFilter = Mapping[str, Any] | Filter
"""A plain dictionary (see `parse_filter`), or arc's own filter."""


def index_of(engine: object) -> HybridIndex:
    """The index of an engine's documents. Opens the engine's store, if nothing did so before.

    Raises:
        InvalidInputError: It is no engine, or has no documents.
    """
    documents = getattr(checked_engine(engine), "documents", None)
    index = getattr(documents, "index", None)
    if not isinstance(index, HybridIndex):
        raise InvalidInputError("engine", engine, "an engine with documents")
    return index


def chosen_filter(filter: MetadataFilter | None, filters: MetadataFilter | None) -> Filter | None:  # noqa: A002 - LangChain's name
    """The filter that was given under either name, LangChain's or arc's.

    Raises:
        InvalidInputError: Both were given, or it is none (see `parse_filter`).
    """
    if filter is not None and filters is not None:
        raise InvalidInputError("filters", filters, "one of `filter` and `filters`, which mean the same")
    return parse_filter(filters if filter is None else filter)


def check_k(value: object) -> int:
    """The number of documents wanted, if it is one.

    Raises:
        InvalidInputError: It isn't.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError("k", value, "a whole number of at least 1")
    return value
