"""Helpers that all rerankers share: normalised scores, ordering, argument checks, and the chain of rerankers."""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real

from arc_common.documents import ScoredDocument, checked_documents
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.protocols import Reranker
from arc_common.text import analyze_query

DEFAULT_TOP_K = 5
"""The number of documents that a reranker returns by default."""

RETRIEVAL = "retrieval"
"""The score part under which a document keeps its retrieval score."""


def min_max(scores: Sequence[float | None]) -> list[float]:
    """Scale scores linearly to between 0 (the worst or missing) and 1 (the best); equal scores all become 1."""
    known = [score for score in scores if score is not None]
    if not known:
        return [0.0] * len(scores)
    low, high = min(known) / 2, max(known) / 2  # halved: the difference of the largest floats overflows
    span = high - low
    return [
        0.0 if score is None else (min(1.0, max(0.0, (score / 2 - low) / span)) if span > 0 else 1.0)
        for score in scores
    ]


def best_first(scores: Sequence[float | None], *, top_k: int, min_score: float | None = None) -> list[int]:
    """Return the places of the best scores, none below `min_score`; `None` comes last, equal ones stay in order."""
    worst = float("-inf")
    values = [worst if score is None else score for score in scores]
    lowest = worst if min_score is None else min_score
    places = sorted((place for place, value in enumerate(values) if value >= lowest), key=lambda place: -values[place])
    return places[:top_k]


def rescored(document: ScoredDocument, score: float, parts: Mapping[str, float]) -> ScoredDocument:
    """Return the document with another score and more score parts; "retrieval" keeps its first score."""
    before = {} if document.score is None else {RETRIEVAL: document.score}
    return replace(document, score=score, score_parts={**before, **document.score_parts, **parts})


def checked_request(
    query: object, documents: object, top_k: int | None, *, usual: int
) -> tuple[list[ScoredDocument], int]:
    """Return the checked candidates of a reranker's call and the maximum number of documents to return."""
    if not isinstance(query, str):
        raise InvalidInputError("query", query, "text")
    return checked_documents("documents", documents), usual if top_k is None else check_whole("top_k", top_k)


def check_min_score(value: float | None) -> float | None:
    """Return `value` if it is a finite number or `None`."""
    if value is not None and not (_is_number(value) and abs(value) < float("inf")):
        raise InvalidInputError("min_score", value, "a finite number or None")
    return value


def check_share(field: str, value: float) -> float:
    """Return `value` if it is a number from 0 to 1."""
    if not (_is_number(value) and 0 <= value <= 1):
        raise InvalidInputError(field, value, "a share from 0 to 1")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


class BaseReranker(ABC):
    """Base of the rerankers: checks what they are given."""

    def __init__(self, *, top_k: int = DEFAULT_TOP_K, min_score: float | None = None) -> None:
        self.top_k = check_whole("top_k", top_k)
        self.min_score = check_min_score(min_score)

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """Return the best of the documents, best first (see `Reranker`)."""
        candidates, most = checked_request(query, documents, top_k, usual=self.top_k)
        return self._ranked(query, candidates, most) if candidates else []

    @abstractmethod
    def _ranked(self, query: str, candidates: Sequence[ScoredDocument], most: int) -> list[ScoredDocument]:
        """Return at most `most` of the candidates, of which there is at least one."""


class RerankerChain:
    """Runs rerankers in sequence, each on the result of the one before.

    - Only the last reranker truncates to its number of documents.
    - Thresholds apply at every step; once no document is left, the remaining steps are skipped.
    - A step that returns anything other than documents raises an error.

    Raises:
        InvalidInputError: `rerankers` is empty or holds something else.
    """

    def __init__(self, rerankers: Sequence[Reranker]) -> None:
        self._rerankers = tuple(rerankers) if isinstance(rerankers, Iterable) else ()
        if not self._rerankers or not all(isinstance(reranker, Reranker) for reranker in self._rerankers):
            raise InvalidInputError("rerankers", rerankers, "rerankers, at least one")

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """Return the last reranker's result, best first (see `Reranker`)."""
        left, _ = checked_request(query, documents, top_k, usual=DEFAULT_TOP_K)
        *before, last = self._rerankers
        for reranker in before:
            if not left:
                return []
            left = checked_documents("reranked", reranker.rerank(query, left, top_k=len(left)))
        return checked_documents("reranked", last.rerank(query, left, top_k=top_k)) if left else []


def query_terms(query: str) -> list[str]:
    """Return the terms of a query, each once, without stop words and question words."""
    return list(dict.fromkeys(analyze_query(query)))


_log = logging.getLogger("arc.rag")


def reranked(
    reranker: Reranker,
    query: str,
    documents: Sequence[ScoredDocument],
    *,
    top_k: int | None,
    on_bad: Callable[[str], None],
) -> list[ScoredDocument]:
    """Rerank documents; report and drop results that were not given, by id, by text, or by source and metadata."""
    answer = checked_documents("reranked", reranker.rerank(query, list(documents), top_k=top_k))
    ids = {one.document.id for one in documents} - {None}
    texts = {one.document.text for one in documents}
    marks = [(one.document.source, one.document.metadata) for one in documents if one.document.id is None]

    def was_given(found: ScoredDocument) -> bool:
        document = found.document
        if (document.id is not None and document.id in ids) or document.text in texts:
            return True
        is_marked = document.id is None and bool(document.source or document.metadata)
        return is_marked and (document.source, document.metadata) in marks

    # Keep each document as often as it was given: documents without ids may have the same text.
    room = Counter(map(_name, documents))
    kept = []
    for found in answer:
        name = _name(found)
        if was_given(found) and room.setdefault(name, 1):
            room[name] -= 1
            kept.append(found)
    if answer and not kept:
        raise InvalidInputError("reranked", answer[0], "documents that the reranker was given")
    if len(kept) < len(answer):
        on_bad(f"rerank: {len(answer) - len(kept)} of {len(answer)} documents were left out: they were not given to it")
    return kept


def reranked_if_possible(
    reranker: Reranker, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None
) -> list[ScoredDocument]:
    """Rerank documents as `reranked` does; if that fails, log it and return the first `top_k` in the order given."""
    try:
        return reranked(reranker, query, documents, top_k=top_k, on_bad=_log.warning)
    except Exception as error:  # noqa: BLE001 - a query continues, whatever a reranker raises
        _log.warning("documents keep their order: the reranker failed: %s", error, exc_info=True)
        most = getattr(reranker, "top_k", None) if top_k is None else top_k
        return list(documents[: most if isinstance(most, int) else None])


def _name(found: ScoredDocument) -> tuple[str | None, str | None, str]:
    return found.document.id, found.document.source, found.document.text
