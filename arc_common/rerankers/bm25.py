"""BM25Reranker: ranks by the words of the query, weighted by their rarity."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from arc_common.documents import ScoredDocument, finite_score
from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import Candidates
from arc_common.rerankers.base import (
    DEFAULT_TOP_K,
    BaseReranker,
    best_first,
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

    def term_statistics(self, terms: Sequence[str]) -> tuple[int, float, Sequence[int]]:
        """Return the number of documents, their average number of terms, and how many of them contain each term."""


class BM25Reranker(BaseReranker):
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
        if statistics is not None and not callable(getattr(statistics, "term_statistics", None)):
            raise InvalidInputError("statistics", statistics, "an object with term_statistics(terms), or None")
        super().__init__(top_k=top_k, min_score=min_score)
        self._statistics = statistics

    def _ranked(self, query: str, candidates: Sequence[ScoredDocument], most: int) -> list[ScoredDocument]:
        places = best_first([found.score for found in candidates], top_k=len(candidates))
        texts = [candidates[place].document.text for place in places]
        scores = bm25_scores(query, texts, statistics=self._statistics)
        return [
            rescored(candidates[places[rank]], scores[rank], {"bm25": scores[rank]})
            for rank in best_first(scores, top_k=most, min_score=self.min_score)
        ]


def bm25_scores(query: str, texts: Sequence[str], *, statistics: TermStatistics | None = None) -> list[float]:
    """Return the BM25 score of each text, 0 or more."""
    terms = query_terms(query)
    is_wanted = frozenset(terms).__contains__
    found = list(map(analyze, texts))
    held = [Counter(filter(is_wanted, own)) for own in found]
    if not any(held):
        return [0.0] * len(texts)
    frequencies = np.array([[own[term] for term in terms] for own in held], dtype=np.float64)
    lengths = np.array(list(map(len, found)), dtype=np.float64)
    count, total, texts_with = len(texts), float(lengths.sum()), (frequencies > 0).sum(axis=0)
    if statistics is not None:
        size, average, given = statistics.term_statistics(terms)
        mean = _checked_count("average length", average) or total / count
        if not isinstance(given, Sequence) or len(given) != len(terms):
            raise InvalidInputError("document frequencies", given, f"{len(terms)} numbers: one for each term")
        texts_with = np.array([_checked_count("document frequencies", one) for one in given])
        # Counts may be out of date: a scope has at least its candidates, and N >= df keeps every idf above zero.
        count = math.ceil(max(_checked_count("document count", size), count, texts_with.max()))
        total = mean * count
    candidates = Candidates(tuple(map(str, range(len(texts)))), frequencies, lengths, texts_with, count, total)
    scores: list[float] = _BM25.scores(candidates, [1.0] * len(terms)).tolist()
    return scores


def _checked_count(field: str, value: object) -> float:
    count = finite_score(value)
    if count is None or count < 0:
        raise InvalidInputError(field, value, "a finite number from 0 on")
    return count
