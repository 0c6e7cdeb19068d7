"""Checks the answers of a pipeline's parts, which are others' code."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from arc_common.documents import ScoredDocument, checked_items, usable_documents
from arc_common.filters import Filter
from arc_common.protocols import Retriever
from arc_common.rerankers.base import best_first, rescored
from arc_common.retrieval.index import Found

__all__ = ["NotingRetriever", "checked_queries", "found_by", "in_order"]


@runtime_checkable
class NotingRetriever(Protocol):
    """A source that also says what a search had to do without, and how near to the question each document is."""

    def retrieve_with_notes(
        self,
        query: str,
        *,
        top_k: int,
        filters: Mapping[str, Any] | Filter | None = None,
        cosines: bool = False,
    ) -> Found:
        """As `Retriever.retrieve`; with `cosines`, each document that has a vector has its cosine ("vector")."""


def found_by(
    source: Retriever,
    query: str,
    *,
    top_k: int,
    filters: Mapping[str, Any] | Filter | None,
    cosines: bool,
    on_bad: Callable[[str], None],
) -> Found:
    """Ask a source for a query; report and leave out answers that are not documents with scores.

    Raises:
        InvalidInputError: None of its answers is one. Its own exceptions pass through.
    """
    if isinstance(source, NotingRetriever):
        return source.retrieve_with_notes(query, top_k=top_k, filters=filters, cosines=cosines)
    answer = source.retrieve(query, top_k=top_k, filters=filters)
    return Found(tuple(usable_documents("retrieved", answer, on_bad=on_bad)))


def checked_queries(given: object) -> list[str]:
    """Several texts. One text is none of that: its letters would be asked for.

    Raises:
        InvalidInputError: It isn't that.
    """
    return checked_items("queries", given, str, expected="a list of texts")


def in_order(ranked: Sequence[ScoredDocument]) -> list[ScoredDocument]:
    """The documents with scores that fall from first to last: their own, if these do; else made from their places.

    A reranker says by its order what is best, and may leave the scores as they were. Those made are from 1 for the
    first in equal steps towards 0; the former one stays in the parts.
    """
    if best_first([found.score for found in ranked], top_k=len(ranked)) == list(range(len(ranked))):
        return list(ranked)
    return [rescored(found, 1 - place / len(ranked), {}) for place, found in enumerate(ranked)]
