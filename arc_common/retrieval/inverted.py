"""An inverted index in memory: which rows hold a term, how often, and what that adds to their score."""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arc_common.retrieval.bm25 import BM25, inverse_document_frequencies

__all__ = ["InvertedIndex"]

_ROUNDING = 1e-5
"""Relative, far above that of a float32 sum: rows so close to the last place may belong before it."""


@dataclass(frozen=True, slots=True)
class _Impact:
    """A term's rows and what it adds to the score of each, under the statistics of one moment."""

    rows: NDArray[np.intp]
    frequencies: NDArray[np.float64]
    added: NDArray[np.float32]


class _Posting:
    """The rows that hold a term, ascending, and how often each does."""

    __slots__ = ("frequencies", "rows", "term")

    def __init__(self, term: str) -> None:
        self.term = term
        self.rows = array("i")
        self.frequencies = array("d")

    def put(self, row: int, frequency: float) -> None:
        if not self.rows or row > self.rows[-1]:
            self.rows.append(row)
            self.frequencies.append(frequency)
        else:
            at = bisect_left(self.rows, row)
            self.rows.insert(at, row)
            self.frequencies.insert(at, frequency)

    def remove(self, row: int) -> None:
        at = bisect_left(self.rows, row)
        del self.rows[at]
        del self.frequencies[at]

    def frequency(self, row: int) -> float:
        return self.frequencies[bisect_left(self.rows, row)]


class InvertedIndex:
    """Rows of terms, searched by BM25. Not thread-safe.

    - What a term adds to the score of its rows is worked out once (eager scores, as in BM25S: Lù 2024) and kept until
      a row changes: searching is adding up.
    - Changing a row costs what its own terms cost, whatever else is there.

    Args:
        bm25: The formula.
    """

    def __init__(self, bm25: BM25) -> None:
        self._bm25 = bm25
        self._postings: dict[str, _Posting] = {}
        self._terms_of: list[tuple[str, ...] | None] = []
        self._count = 0
        self._lengths = np.zeros(16)
        self._size = 0
        self._norms: NDArray[np.float32] | None = None
        self._impacts: dict[str, _Impact] = {}

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._count

    @property
    def total_length(self) -> float:
        """The sum of their lengths."""
        return float(self._lengths[: self._size].sum())

    def put(self, row: int, terms: Mapping[str, float], length: float) -> None:
        """Let a row have these terms, and no others."""
        self.remove(row)
        names = []
        for term, frequency in terms.items():
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = _Posting(term)
            posting.put(row, frequency)
            names.append(posting.term)  # one string for all rows that have the term
        self._terms_of += [None] * (row + 1 - len(self._terms_of))
        self._terms_of[row] = tuple(names)
        self._count += 1
        if row >= len(self._lengths):
            more = row + 1 - len(self._lengths) + max(16, row // 8)
            self._lengths = np.concatenate([self._lengths, np.zeros(more)])
        self._lengths[row] = length
        self._size = max(self._size, row + 1)
        self._changed()

    def remove(self, row: int) -> None:
        """Remove a row, if it is there."""
        if row >= len(self._terms_of) or (terms := self._terms_of[row]) is None:
            return
        for term in terms:
            posting = self._postings[term]
            posting.remove(row)
            if not posting.rows:
                del self._postings[term]
        self._terms_of[row] = None
        self._count -= 1
        self._lengths[row] = 0
        self._changed()

    def terms(self, row: int) -> dict[str, float]:
        """A row's terms."""
        return {term: self._postings[term].frequency(row) for term in self._terms_of[row] or ()}

    def lengths(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The lengths of rows."""
        lengths: NDArray[np.float64] = self._lengths[rows]
        return lengths

    def document_frequencies(self, terms: Collection[str]) -> NDArray[np.int64]:
        """In how many rows each term occurs."""
        postings = map(self._postings.get, terms)
        return np.array([len(posting.rows) if posting else 0 for posting in postings], dtype=np.int64)

    def frequencies(self, terms: Collection[str], rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """How often each term occurs in each row: of shape (rows, terms)."""
        table = np.zeros((len(rows), len(terms)))
        for column, term in enumerate(terms):
            if (impact := self._impact(term)) is not None:
                at = np.minimum(np.searchsorted(impact.rows, rows), len(impact.rows) - 1)
                table[:, column] = np.where(impact.rows[at] == rows, impact.frequencies[at], 0.0)
        return table

    def best(self, weights: Mapping[str, float], limit: int, *, allowed: NDArray[np.bool_] | None) -> NDArray[np.intp]:
        """The rows that have a term: all of them, or the `limit` best with those that score almost as the last.

        Args:
            weights: What each term weighs, above zero.
            limit: How many rows are wanted, at least one.
            allowed: Whether each row may be among them: of shape (highest row + 1,); `None` for all.
        """
        scores = np.zeros(self._size, dtype=np.float32)
        for term, weight in weights.items():
            if (impact := self._impact(term)) is not None:
                scores[impact.rows] += impact.added if weight == 1 else impact.added * np.float32(weight)
        if allowed is not None:
            scores[~allowed] = 0
        if limit < len(scores):
            last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            if last > 0:
                return np.flatnonzero(scores >= last * (1 - _ROUNDING))
        return np.flatnonzero(scores)

    def _impact(self, term: str) -> _Impact | None:
        impact = self._impacts.get(term)
        if impact is None and (posting := self._postings.get(term)) is not None:
            if self._norms is None:
                lengths = self._lengths[: self._size]
                self._norms = self._bm25.norms(lengths, mean=self.total_length / self.count).astype(np.float32)
            rows = np.array(posting.rows, dtype=np.intp)
            frequencies = np.array(posting.frequencies)
            rarity = inverse_document_frequencies(np.array([len(rows)]), self.count)[0]
            tf = frequencies.astype(np.float32)
            impact = _Impact(rows, frequencies, np.float32(rarity) * tf / (tf + self._norms[rows]))
            self._impacts[term] = impact
        return impact

    def _changed(self) -> None:
        if self._impacts:
            self._impacts = {}
        self._norms = None
