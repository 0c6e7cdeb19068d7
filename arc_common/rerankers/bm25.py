"""BM25Reranker: the words of the question, each by how rare it is."""

import math
from collections.abc import Callable, Sequence
from inspect import getattr_static
from typing import Protocol

from arc_common.documents import ScoredDocument, checked_items, finite_score
from arc_common.exceptions import InvalidInputError
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    Analyses,
    best_first,
    check_min_score,
    check_top_k,
    checked_request,
    query_terms,
    rescored,
)
from arc_common.text import analyze

__all__ = ["BM25Reranker", "TermStatistics"]

_K1 = 1.5
_B = 0.75


class TermStatistics(Protocol):
    """How common terms are in the scope that candidates were found in; terms are those of `arc_common.text.analyze`."""

    @property
    def document_count(self) -> int:
        """Documents in the scope."""

    @property
    def average_length(self) -> float:
        """Terms of a document, on average."""

    def document_frequencies(self, terms: Sequence[str]) -> Sequence[int]:
        """How many documents have each of the terms, in their order."""


class BM25Reranker:
    """Ranks by BM25 alone (Robertson & Zaragoza 2009), computed by rank-bm25; the score so far only settles ties.

    - Which terms are rare is judged by `statistics` where they are given, else by the candidates themselves.
    - Scores are never negative: a term that every document has still counts a little.
    - A document that shares no term with the query scores 0; any `min_score` above 0 leaves it out.
    - BM25 stands under "bm25" in the parts, in place of what an index put there.

    Args:
        statistics: Of the scope that the candidates come from.
        top_k: Documents left at most.
        min_score: The lowest BM25 score that is let through; `None` lets all through.

    Raises:
        InvalidInputError: An argument is not acceptable; the error names it.
    """

    def __init__(
        self,
        *,
        statistics: TermStatistics | None = None,
        top_k: int = DEFAULT_TOP_K,
        min_score: float | None = None,
    ) -> None:
        self._statistics = _checked_statistics(statistics)
        self._analyses = Analyses()
        self.top_k = check_top_k(top_k)
        self.min_score = check_min_score(min_score)

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """The documents that match the query's words best, best first (see `Reranker`)."""
        candidates, most = checked_request(query, documents, top_k, usual=self.top_k)
        places = best_first([found.score for found in candidates], top_k=len(candidates))
        texts = [candidates[place].document.text for place in places]
        scores = bm25_scores(query, texts, statistics=self._statistics, terms_of=self._analyses.terms)
        return [
            rescored(candidates[places[rank]], scores[rank], {"bm25": scores[rank]})
            for rank in best_first(scores, top_k=most, min_score=self.min_score)
        ]


def bm25_scores(
    query: str,
    texts: Sequence[str],
    *,
    statistics: TermStatistics | None = None,
    terms_of: Callable[[str], Sequence[str]] = analyze,
) -> list[float]:
    """The BM25 score of each text, 0 or more; k1 is 1.5 and b 0.75."""
    from rank_bm25 import BM25Plus  # noqa: PLC0415 - brings numpy, which importing arc must not cost

    terms = query_terms(query)
    is_wanted = frozenset(terms).__contains__
    found = list(map(terms_of, texts))
    wanted = [list(filter(is_wanted, own)) for own in found]
    if not any(wanted):
        return [0.0] * len(texts)
    lengths = list(map(len, found))
    # BM25Plus with delta 0 is Okapi's BM25 with an idf above zero. It is given only the terms asked for, and told the
    # rest: building it from whole texts would take most of the time.
    bm25 = BM25Plus(wanted, k1=_K1, b=_B, delta=0)
    bm25.doc_len = lengths
    bm25.avgdl = sum(lengths) / len(lengths)
    if statistics is not None:
        size = _checked_count("document_count", statistics.document_count)
        bm25.avgdl = _checked_count("average_length", statistics.average_length) or bm25.avgdl
        expected = f"{len(terms)} numbers: one for each term"
        frequencies = checked_items(
            "document_frequencies", statistics.document_frequencies(terms), object, expected=expected
        )
        if len(frequencies) != len(terms):
            raise InvalidInputError("document_frequencies", frequencies, expected)
        bm25.idf = {
            term: _rarity(_checked_count("document_frequencies", frequency), size)
            for term, frequency in zip(terms, frequencies, strict=True)
        }
    scores: list[float] = bm25.get_scores(terms).tolist()
    return scores


def _checked_statistics(statistics: TermStatistics | None) -> TermStatistics | None:
    """Statistics that have all that is asked of them; looked at, not asked: an index would count its entries."""
    parts = ("document_count", "average_length", "document_frequencies")
    if statistics is not None and not all(getattr_static(statistics, name, None) is not None for name in parts):
        raise InvalidInputError("statistics", statistics, f"an object with {', '.join(parts)}, or None")
    return statistics


def _checked_count(field: str, value: object) -> float:
    count = finite_score(value)
    if count is None or count < 0:
        raise InvalidInputError(field, value, "a finite number from 0 on")
    return count


def _rarity(frequency: float, size: float) -> float:
    """Lucene's idf, as an index has it; above zero also where a count is out of date."""
    return math.log1p((max(size - frequency, 0) + 0.5) / (frequency + 0.5))
