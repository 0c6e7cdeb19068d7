"""Documents and their scores: plain values, shared by retrieval, reranking and the context window."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from arc_common.exceptions import InvalidInputError

__all__ = ["Document", "ScoredDocument"]


@dataclass(frozen=True, slots=True)
class Document:
    """A piece of text that can be shown to a model.

    Args:
        text: What the model would read.
        id: Its identity in the index it came from, if it has one.
        source: Where it comes from, as a reader would name it (a title, an address).
        metadata: Anything else; JSON values.
    """

    text: str
    id: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidInputError("document.text", self.text, "text")
        if self.id is not None and not isinstance(self.id, str):
            raise InvalidInputError("document.id", self.id, "text or None")
        if self.source is not None and not isinstance(self.source, str):
            raise InvalidInputError("document.source", self.source, "text or None")
        if not isinstance(self.metadata, Mapping):
            raise InvalidInputError("document.metadata", self.metadata, "a mapping")


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document with its score and the parts that the score was made from.

    Args:
        document: The document.
        score: Higher is better; `None` when whoever found it gave no score.
        score_parts: What the score was made from ("bm25": 7.1, "vector": 0.62).
    """

    document: Document
    score: float | None = None
    score_parts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            finite = self.score is None or abs(self.score) < float("inf")
        except TypeError:  # text, for one
            finite = False
        if not finite:
            raise InvalidInputError("score", self.score, "a finite number or None")
