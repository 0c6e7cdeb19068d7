"""Converts LangChain's documents to arc's, and back."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from langchain_core.documents import Document as LangChainDocument

from arc_common.documents import Document, ScoredDocument, finite_score
from arc_common.exceptions import InvalidInputError, or_converted

SCORE = "relevance_score"
"""The metadata key under which LangChain's rerankers note a score."""

PARTS = "score_parts"

_SOURCE = "source"


def document_to_arc(document: LangChainDocument) -> Document:
    """Convert a LangChain document to arc's; `document_from_arc` restores it."""
    if not isinstance(document, LangChainDocument):
        raise InvalidInputError("document", document, "a LangChain Document")
    source = document.metadata.get(_SOURCE)
    return Document(
        document.page_content, document.id, source if isinstance(source, str) and source else None, document.metadata
    )


def document_from_arc(document: Document) -> LangChainDocument:
    """Convert an arc document to LangChain's, with its own copy of the metadata."""
    if not isinstance(document, Document):
        raise InvalidInputError("document", document, or_converted("an arc Document", document))
    metadata = deepcopy(dict(document.metadata))
    if document.source is not None:
        metadata.setdefault(_SOURCE, document.source)
    return LangChainDocument(document.text, id=document.id, metadata=metadata)


def scored_from_arc(found: ScoredDocument) -> LangChainDocument:
    """Convert a search result to a LangChain document with its score in the metadata (see `score_metadata`)."""
    document = document_from_arc(found.document)
    document.metadata |= score_metadata(found)
    return document


def score_metadata(found: ScoredDocument) -> dict[str, Any]:
    """Return the metadata for a score: `relevance_score` and, if it has several parts, `score_parts`."""
    metadata: dict[str, Any] = {} if found.score is None else {SCORE: found.score}
    return {**metadata, PARTS: dict(found.score_parts)} if found.score_parts else metadata


def known_score(metadata: Mapping[str, Any]) -> float | None:
    """Return the score in the metadata if it is a finite number, numpy's types included; else `None`."""
    return finite_score(metadata.get(SCORE))


def known_parts(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Return the parts of the score that the metadata give."""
    parts = metadata.get(PARTS)
    if not isinstance(parts, Mapping):
        return {}
    numbers = {name: finite_score(value) for name, value in parts.items() if isinstance(name, str)}
    return {name: number for name, number in numbers.items() if number is not None}
