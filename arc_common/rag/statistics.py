"""How common terms are in several scopes together."""

from collections.abc import Sequence
from dataclasses import dataclass

from arc_common.rerankers.bm25 import TermStatistics

__all__ = ["JointStatistics"]


@dataclass(frozen=True, slots=True)
class JointStatistics:
    """The `TermStatistics` of several scopes as if they were one, asked anew each time.

    Args:
        parts: Of each scope.
    """

    parts: Sequence[TermStatistics]

    @property
    def document_count(self) -> int:
        """Documents in all of them."""
        return sum(part.document_count for part in self.parts)

    @property
    def average_length(self) -> float:
        """Terms of a document, on average; 0 where there is none."""
        sizes = [(part.document_count, part.average_length) for part in self.parts]
        count = sum(size for size, _ in sizes)
        return sum(size * length for size, length in sizes) / count if count else 0.0

    def document_frequencies(self, terms: Sequence[str]) -> list[int]:
        """How many documents have each of the terms, in their order."""
        return [sum(one) for one in zip(*(part.document_frequencies(terms) for part in self.parts), strict=True)]
