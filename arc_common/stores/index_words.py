"""SQLite's words: what the FTS5 table holds of an entry, and which entries score best by what it tells. Pure.

An entry's row in the table is its tokens, each with the frequency of its term, so that whoever looks a token up learns
which entries have it how often, without reading them.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arc_common.indexing import IndexEntry
from arc_common.retrieval.lexical import BM25, inverse_document_frequencies
from arc_common.stores.index_tokens import Tokens

__all__ = ["AFTER", "Bounds", "Posting", "bounds_of", "frequencies_in", "frequency_of", "grouped", "words_of"]

AFTER = "y"
"""Sorts behind all forms of a token that it is put behind."""

_WIDTH = 16
_MOST_GROUPS = 16
"""Of the frequencies of one term: each is a statement. Texts have fewer; made-up frequencies may have any number."""

_ROUNDING = 1e-9
"""Relative, far above that of a sum of scores."""


@dataclass(frozen=True, slots=True)
class Posting:
    """Entries that have a term about equally often.

    Args:
        places: Theirs.
        lowest: How often at least.
        highest: How often at most.
    """

    places: NDArray[np.intp]
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """What entries may score: float64 of shape (n,) each; zero for those without any of the terms."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def best(self, limit: int, allowed: NDArray[np.bool_] | None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The places of those that are surely among the `limit` best, and of those that may be.

        Args:
            limit: How many are wanted, at least one.
            allowed: Whether each may be among them: of shape (n,); `None` for all.
        """
        found = np.flatnonzero(self.upper if allowed is None else self.upper * allowed)
        if len(found) <= limit:
            return found, found[:0]
        lower, upper = self.lower[found], self.upper[found]
        last = np.partition(lower, len(found) - limit)[len(found) - limit]
        sure = lower > last * (1 + _ROUNDING)
        return found[sure], found[~sure & (upper >= last * (1 - _ROUNDING))]


def words_of(entry: IndexEntry, tokens: Tokens) -> str:
    """An entry's row in the FTS5 table."""
    terms = (tokens.of(term).hex() + _suffix(float(frequency)) for term, frequency in entry.terms.items())
    return " ".join([*terms, *(label.hex() for label in tokens.labels(entry.metadata))])


def frequency_of(word: str) -> float:
    """How often an entry with this word has the term."""
    suffix = word[_WIDTH:]
    if not suffix:
        return 1.0
    if suffix[1] == "f":
        return float(struct.unpack(">d", bytes.fromhex(suffix[2:]))[0])
    return float(suffix[1:])


def grouped(words: Iterable[str]) -> list[list[str]]:
    """The forms of one token by their frequencies, neighbours together where there are too many."""
    ordered = sorted(words, key=frequency_of)
    size = -(-len(ordered) // _MOST_GROUPS) or 1
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def frequencies_in(words: str, tokens: Sequence[str]) -> list[float]:
    """How often each term occurs, by an entry's row."""
    padded = f" {words} "
    frequencies = []
    for token in tokens:
        start = padded.find(f" {token}") + 1
        frequencies.append(frequency_of(padded[start : padded.index(" ", start)]) if start else 0.0)
    return frequencies


def bounds_of(
    postings: Mapping[str, Sequence[Posting]],
    weights: Mapping[str, float],
    lengths: NDArray[np.float64],
    *,
    bm25: BM25,
    count: int,
    mean: float,
) -> Bounds:
    """What the entries may score.

    Args:
        postings: Of each term.
        weights: What each term weighs.
        lengths: Of all entries: float64 of shape (n,).
        bm25: The formula.
        count: How many entries there are.
        mean: Their mean length.
    """
    norms = bm25.norms(lengths, mean=mean)
    upper = np.zeros(len(lengths))
    lower = upper
    if any(posting.lowest != posting.highest for several in postings.values() for posting in several):
        lower = np.zeros(len(lengths))
    for term, several in postings.items():
        holders = sum(len(posting.places) for posting in several)
        impact = weights[term] * float(inverse_document_frequencies(np.array([holders]), count)[0])
        for posting in several:
            at, norm = posting.places, norms[posting.places]
            upper[at] += impact * posting.highest / (posting.highest + norm)
            if lower is not upper:
                lower[at] += impact * posting.lowest / (posting.lowest + norm)
    return Bounds(lower, upper)


def _suffix(frequency: float) -> str:
    """Letters and digits only, and nothing for what most terms have."""
    if frequency == 1:
        return ""
    if frequency.is_integer() and frequency < 2**53:
        return f"x{int(frequency)}"
    return f"xf{struct.pack('>d', frequency).hex()}"
