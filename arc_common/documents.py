"""Documents and scored documents: the values shared by retrieval, reranking and the context window."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arc_common.exceptions import InvalidInputError, converter_of, or_converted

_log = logging.getLogger("arc.rag")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Document:
    """A piece of text that can be shown to a model.

    Args:
        text: The text shown to the model.
        id: The document's id in its index, if it has one.
        source: The origin for readers (a title, a URL).
        metadata: Further JSON values.
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
    """A document with its score and the parts of the score.

    Args:
        document: The document.
        score: Higher is better; `None` for a document without a score. NaN and infinity become `None`.
        score_parts: The scores it was computed from ("bm25": 7.1, "vector": 0.62).
    """

    document: Document
    score: float | None = None
    score_parts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.document, Document):
            raise InvalidInputError("document", self.document, "a Document")
        if not isinstance(self.score_parts, Mapping):
            raise InvalidInputError("score_parts", self.score_parts, "a mapping from names to numbers")
        try:
            finite = self.score is None or math.isfinite(self.score)
        except (TypeError, OverflowError) as error:  # such as text, or an int beyond the largest float
            raise InvalidInputError("score", self.score, "a finite number or None") from error
        if not finite:
            object.__setattr__(self, "score", None)


def checked_documents(name: str, given: object) -> list[ScoredDocument]:
    """Return an iterable's scored documents as a list; raise `InvalidInputError` for anything else."""
    return checked_items(name, given, ScoredDocument, expected="documents with scores")


def checked_items(name: str, given: object, kind: type[_T] | tuple[type[_T], ...], *, expected: str) -> list[_T]:
    """Return an iterable's items as a list; raise `InvalidInputError` for an item of another kind."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable) or converter_of(given):
        raise InvalidInputError(name, given, expected if isinstance(given, kind) else or_converted(expected, given))
    items = []
    for item in given:
        if not isinstance(item, kind):
            raise InvalidInputError(name, item, or_converted(expected, item))
        items.append(item)
    return items


def usable_documents(name: str, given: object, *, on_bad: Callable[[str], None] = _log.warning) -> list[ScoredDocument]:
    """Return a source's scored documents; report and omit its other items. See `usable_items`."""
    return usable_items(name, given, ScoredDocument, expected="documents with scores", on_bad=on_bad)


def usable_items(
    name: str, given: object, kind: type[_T], *, expected: str, on_bad: Callable[[str], None] = _log.warning
) -> list[_T]:
    """Return third-party code's items of a kind; report and omit the rest. Raises only if none is usable."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidInputError(name, given, expected)
    items: list[_T] = []
    bad: list[object] = []
    try:
        for item in given:
            if isinstance(item, kind):
                items.append(item)
            else:
                bad.append(item)
    except Exception as error:
        if not items:
            raise
        on_bad(f"{name}: stopped after {len(items)} answers: {type(error).__name__}: {error}"[:300])
    if bad and not items:
        raise InvalidInputError(name, bad[0], expected)
    if bad:
        on_bad(f"{name}: {len(bad)} of {len(items) + len(bad)} answers were left out because they are not {expected}")
    return items


def finite_score(value: Any) -> float | None:
    """Return third-party code's score as a float if it is a finite number, including numpy's; otherwise `None`."""
    if value is None or isinstance(value, bool | str | bytes) or getattr(value, "ndim", 0) != 0:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
