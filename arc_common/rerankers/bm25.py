"""BM25Reranker: ranks by the words of the query, weighted by their rarity."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from typing import Protocol

import numpy as np

from arc_common.documents import ScoredDocument, checked_items, finite_score
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.protocols.search_index import Candidates
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    Analyses,
    best_first,
    check_min_score,
    checked_request,
    query_terms,
    rescored,
)
from arc_common.retrieval.bm25 import BM25
from arc_common.text import analyze

_BM25 = BM25(k1=1.5, b=0.75)
"""Penalises length more than the index does: on a search's best 100, nDCG@10 of abstracts is .516, and .495 with the
index's constants."""


class TermStatistics(Protocol):
    """Term statistics of the scope in which the candidates were found; terms are those of `arc_common.text.analyze`."""

    @property
    def document_count(self) -> int:
        """The number of documents in the scope."""

    @property
    def average_length(self) -> float:
        """The average number of terms in a document."""

    def document_frequencies(self, terms: Sequence[str]) -> Sequence[int]:
        """Return the number of documents that contain each term, in the order of the terms."""


@dataclass(frozen=True, slots=True)
class JointStatistics:
    """The `TermStatistics` of several scopes as if they were one, computed anew each time."""

    parts: Sequence[TermStatistics]

    @property
    def document_count(self) -> int:
        """Number of documents in all scopes."""
        return sum(part.document_count for part in self.parts)

    @property
    def average_length(self) -> float:
        """Mean number of terms of a document; 0 if there are none."""
        sizes = [(part.document_count, part.average_length) for part in self.parts]
        count = sum(size for size, _ in sizes)
        return sum(size * length for size, length in sizes) / count if count else 0.0

    def document_frequencies(self, terms: Sequence[str]) -> list[int]:
        """Return the number of documents with each of the terms, in their order."""
        return [sum(one) for one in zip(*(part.document_frequencies(terms) for part in self.parts), strict=True)]


class BM25Reranker:
    """Ranks by BM25 alone ("bm25" in the score parts); the previous score only breaks ties.

    - Takes the rarity of terms from `statistics` if given, otherwise from the candidates themselves.
    - Scores are never negative: a term that occurs in every document still adds a little. A document that shares no
      term with the query scores 0.

    Args:
        statistics: The term statistics of the scope from which the candidates come.
        top_k: The most documents returned.
        min_score: The lowest BM25 score accepted; `None` accepts all.

    Raises:
        InvalidInputError: An argument is invalid; the error names it.
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
        self.top_k = check_whole("top_k", top_k)
        self.min_score = check_min_score(min_score)

    def rerank(
        self, query: str, documents: Sequence[ScoredDocument], *, top_k: int | None = None
    ) -> list[ScoredDocument]:
        """Return the documents that match the query's words best, best first (see `Reranker`)."""
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
    """Return the BM25 score of each text, 0 or more."""
    terms = query_terms(query)
    is_wanted = frozenset(terms).__contains__
    found = list(map(terms_of, texts))
    held = [Counter(filter(is_wanted, own)) for own in found]
    if not any(held):
        return [0.0] * len(texts)
    frequencies = np.array([[own[term] for term in terms] for own in held], dtype=np.float64)
    lengths = np.array(list(map(len, found)), dtype=np.float64)
    count, total, texts_with = len(texts), float(lengths.sum()), (frequencies > 0).sum(axis=0)
    if statistics is not None:
        mean = _checked_count("average_length", statistics.average_length) or total / count
        expected = f"{len(terms)} numbers: one for each term"
        given = checked_items("document_frequencies", statistics.document_frequencies(terms), object, expected=expected)
        if len(given) != len(terms):
            raise InvalidInputError("document_frequencies", given, expected)
        texts_with = np.array([_checked_count("document_frequencies", one) for one in given])
        # Counts may be out of date: a scope has at least its candidates, and N >= df keeps every idf above zero.
        count = math.ceil(max(_checked_count("document_count", statistics.document_count), count, texts_with.max()))
        total = mean * count
    candidates = Candidates(tuple(map(str, range(len(texts)))), frequencies, lengths, texts_with, count, total)
    scores: list[float] = _BM25.scores(candidates, [1.0] * len(terms)).tolist()
    return scores


def _checked_statistics(statistics: TermStatistics | None) -> TermStatistics | None:
    """Check for the required attributes without evaluating them: an index would count its entries."""
    parts = ("document_count", "average_length", "document_frequencies")
    if statistics is not None and not all(getattr_static(statistics, name, None) is not None for name in parts):
        raise InvalidInputError("statistics", statistics, f"an object with {', '.join(parts)}, or None")
    return statistics


def _checked_count(field: str, value: object) -> float:
    count = finite_score(value)
    if count is None or count < 0:
        raise InvalidInputError(field, value, "a finite number from 0 on")
    return count
