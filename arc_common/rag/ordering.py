"""The order in which chosen documents are shown."""

from collections.abc import Sequence
from typing import Any, Literal

from arc_common.documents import ScoredDocument

__all__ = ["DocumentOrder", "ordered"]

DocumentOrder = Literal["score", "source", "lost-in-the-middle"]


def ordered(documents: Sequence[ScoredDocument], order: DocumentOrder) -> list[int]:
    """The places of documents, given best first, in the order in which they are shown.

    - `score`: best first.
    - `source`: those of one source together, by their places in it; sources in the order of their best document.
    - `lost-in-the-middle`: the best at both ends and the weakest in the middle, where models read least carefully (Liu
      et al. 2023): first, third, fifth … fourth, second.
    """
    places = range(len(documents))
    if order == "lost-in-the-middle":
        return [*places[::2], *reversed(places[1::2])]
    if order == "source":
        first: dict[object, int] = {}
        for place, found in enumerate(documents):
            first.setdefault(_source(found), place)
        return sorted(places, key=lambda place: (first[_source(documents[place])], _position(documents[place]), place))
    return list(places)


def _source(found: ScoredDocument) -> object:
    """What the document is a part of: its document, else its source, else itself."""
    whole = found.document.metadata.get("document_id")
    return whole if isinstance(whole, str) else found.document.source or id(found)


def _position(found: ScoredDocument) -> float:
    start: Any = found.document.metadata.get("chunk_start")
    return start if isinstance(start, int | float) else float("inf")
