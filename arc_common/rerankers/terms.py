"""The analyzer's terms of candidates."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Self

from arc_common.text import analyze, analyze_query

__all__ = ["Analyses", "query_terms"]

_MAX_TEXT = 4_000
"""Characters of what is remembered: longer texts are no chunks."""


class Analyses:
    """What `analyze` says of texts. It belongs to one reranker, whose candidates come again from turn to turn.

    - The last 1,024 texts of ordinary length are remembered, as long as the reranker lives: nothing that was erased
      stays behind in a module.
    - Safe to share between threads. A copy, pickled or not, begins with none.
    """

    def __init__(self) -> None:
        self._remembered = lru_cache(maxsize=1 << 10)(analyze)

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()

    def terms(self, text: str) -> Sequence[str]:
        """The text's terms, in its order."""
        return self._remembered(text) if len(text) <= _MAX_TEXT else analyze(text)


def query_terms(query: str) -> list[str]:
    """The terms that a query asks for, each once, without the words that only make it a question."""
    return list(dict.fromkeys(analyze_query(query)))
