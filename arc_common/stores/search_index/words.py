"""SQLite's words: what the FTS5 table holds of an entry, and which entries score best by what it tells. Pure.

An entry's row in the table is its tokens, each with the frequency of its term, so that whoever looks a token up learns
which entries have it how often, without reading them.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arc_common.protocols.search_index import IndexEntry
from arc_common.retrieval.bm25 import BM25, inverse_document_frequencies
from arc_common.stores.search_index.tokens import Tokens

__all__ = ["Posting", "best_by", "frequencies_at", "posted", "scores_of", "words_of"]

_ROUNDING = 1e-9
"""Relative, far above that of a sum of scores."""


@dataclass(frozen=True, slots=True)
class Posting:
    """The entries that have a term.

    Args:
        places: Theirs: of shape (m,), each once.
        frequencies: How often each has it: float64 of shape (m,).
    """

    places: NDArray[np.intp]
    frequencies: NDArray[np.float64]


def words_of(entry: IndexEntry, tokens: Tokens) -> str:
    """An entry's row in the FTS5 table."""
    terms = (tokens.of(term).hex() + _suffix(float(frequency)) for term, frequency in entry.terms.items())
    return " ".join([*terms, *(label.hex() for label in tokens.labels(entry.metadata))])


def posted(plain: str | None, forms: str | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows of entries that have a token and how often each has it: int64 and float64 of shape (m,).

    Args:
        plain: The rows with its plain form, with commas between them; `None` for none.
        forms: Its other forms and in how many rows each is ("x2:17,x3:4"), a semicolon, and these rows in that order.
    """
    once = _numbers(plain or "")
    if forms is None:
        return once, np.ones(len(once))
    counted, _, rows = forms.partition(";")
    pairs = [form.partition(":") for form in counted.split(",")]
    several = np.repeat([_frequency(form) for form, _, _ in pairs], [int(many) for _, _, many in pairs])
    return np.concatenate([once, _numbers(rows)]), np.concatenate([np.ones(len(once)), several])


def scores_of(
    postings: Mapping[str, Posting],
    weights: Mapping[str, float],
    lengths: NDArray[np.float64],
    *,
    bm25: BM25,
    count: int,
    mean: float,
) -> NDArray[np.float64]:
    """What the entries score, but for rounding: float64 of shape (n,); zero for those without any of the terms.

    Args:
        postings: Of each term.
        weights: What each term weighs.
        lengths: Of all entries: float64 of shape (n,).
        bm25: The formula.
        count: How many entries there are.
        mean: Their mean length.
    """
    norms = bm25.norms(lengths, mean=mean)
    scores = np.zeros(len(lengths))
    rarities = inverse_document_frequencies(np.array([len(posting.places) for posting in postings.values()]), count)
    for (term, posting), rarity in zip(postings.items(), rarities.tolist(), strict=True):
        often = posting.frequencies
        scores[posting.places] += weights[term] * rarity * often / (often + norms[posting.places])
    return scores


def best_by(
    scores: NDArray[np.float64], limit: int, allowed: NDArray[np.bool_] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The places of those that are surely among the `limit` best, and of those that may be, since they score alike.

    Args:
        scores: Float64 of shape (n,); those of zero are not among them.
        limit: How many are wanted, at least one.
        allowed: Whether each may be among them: of shape (n,); `None` for all.
    """
    found = np.flatnonzero(scores if allowed is None else scores * allowed)
    if len(found) <= limit:
        return found, found[:0]
    reached = scores[found]
    last = np.partition(reached, len(found) - limit)[len(found) - limit]
    sure = reached > last * (1 + _ROUNDING)
    return found[sure], found[~sure & (reached >= last * (1 - _ROUNDING))]


def frequencies_at(places: NDArray[np.intp], postings: Sequence[Posting], count: int) -> NDArray[np.float64]:
    """How often each of the terms occurs in each of some entries: float64 of shape (places, terms).

    Args:
        places: Those entries'.
        postings: Of each term.
        count: How many places there are.
    """
    table = np.zeros((len(places), len(postings)))
    often = np.zeros(count)
    for column, posting in enumerate(postings):
        often[posting.places] = posting.frequencies
        table[:, column] = often[places]
        often[posting.places] = 0.0
    return table


def _numbers(joined: str) -> NDArray[np.int64]:
    return np.fromstring(joined, dtype=np.int64, sep=",")


def _frequency(suffix: str) -> float:
    """How often an entry with a form has the term, by what stands behind the token."""
    if suffix[1] == "f":
        return float(struct.unpack(">d", bytes.fromhex(suffix[2:]))[0])
    return float(suffix[1:])


def _suffix(frequency: float) -> str:
    """Letters and digits only, an "x" first; nothing for what most terms have."""
    if frequency == 1:
        return ""
    if frequency.is_integer() and frequency < 2**53:
        return f"x{int(frequency)}"
    return f"xf{struct.pack('>d', frequency).hex()}"
