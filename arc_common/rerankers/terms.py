"""The analyzer's terms of candidates."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Self

from arc_common.text import analyze, analyze_query

__all__ = ["Analyses", "counts_among", "query_terms"]

_MAX_TEXT = 4_000
"""Characters of what is remembered: longer texts are no chunks."""

_FEW = 8


class Analyses:
    """What `analyze` says of texts. It belongs to one reranker, whose candidates come again from turn to turn.

    - The last 1,024 texts of ordinary length are remembered, as long as the reranker lives: nothing that was erased
      stays behind in a module.
    - Safe to share between threads. A copy, pickled or not, begins with none.
    """

    def __init__(self) -> None:
        self._remembered = lru_cache(maxsize=1 << 10)(_terms)

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()

    def terms(self, text: str) -> Sequence[str]:
        """The text's terms, in its order."""
        return self._remembered(text) if len(text) <= _MAX_TEXT else _terms(text)


def query_terms(query: str) -> list[str]:
    """The terms that a query asks for, each once, without the words that only make it a question."""
    return list(dict.fromkeys(analyze_query(query)))


def counts_among(wanted: frozenset[str], terms: Sequence[str]) -> Mapping[str, int]:
    """How often each of the terms wanted occurs, for those that do."""
    found = wanted.intersection(terms)
    if len(found) <= _FEW:  # a walk for each, which is quicker than one that looks at every term
        return {term: terms.count(term) for term in found}
    counts = dict.fromkeys(found, 0)
    for term in terms:
        if term in found:
            counts[term] += 1
    return counts


def _terms(text: str) -> Sequence[str]:
    return tuple(analyze(text))
