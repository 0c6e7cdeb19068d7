"""The analyzer's terms of candidates: each word, and each text of ordinary length, is analysed once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from arc_common.text import analyze, analyze_query

__all__ = ["AnalysedText", "analysed", "query_terms"]

_MAX_WORD = 32
_MAX_TEXT = 4_000
"""Characters of what is remembered: longer words seldom come again, and longer texts are no chunks."""


@dataclass(frozen=True, slots=True)
class AnalysedText:
    """How often a text has each of its terms, and how many terms it has in all."""

    counts: Mapping[str, int]
    length: int


def query_terms(query: str) -> list[str]:
    """The terms that a query asks for, each once, without the words that only make it a question."""
    return list(dict.fromkeys(analyze_query(query)))


def analysed(text: str) -> AnalysedText:
    """What `analyze` says of the text.

    The last 1,024 texts are remembered (some 10 KB each at most): rerankers in a chain, and the turns of a
    conversation, see the same candidates again and again.
    """
    return _remembered_text(text) if len(text) <= _MAX_TEXT else _analysed(text)


def forget() -> None:
    """Forget the texts that are remembered."""
    _remembered_text.cache_clear()


def _analysed(text: str) -> AnalysedText:
    # No term reaches over white space, so each word can be looked up by itself: a third of the time of `analyze`.
    words = text.lower().split() if text.isascii() else text.split()
    terms_of = _terms_of if max(map(len, words), default=0) > _MAX_WORD else _remembered_terms
    counts = Counter(chain.from_iterable(map(terms_of, words)))
    return AnalysedText(counts, counts.total())


_remembered_text = lru_cache(maxsize=1 << 10)(_analysed)


def _terms_of(word: str) -> Sequence[str]:
    return _remembered_terms(word) if len(word) <= _MAX_WORD else analyze(word)


@lru_cache(maxsize=1 << 15)
def _remembered_terms(word: str) -> Sequence[str]:
    return tuple(analyze(word))
