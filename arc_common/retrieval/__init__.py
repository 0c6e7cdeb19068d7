"""Finding: by words, by meaning, and by both."""

from typing import TYPE_CHECKING, Any

from arc_common.retrieval.bm25 import BM25
from arc_common.retrieval.fusion import Ranking, deduplicated, reciprocal_rank_fusion, score_fusion
from arc_common.retrieval.index import Added, Found, HybridIndex

if TYPE_CHECKING:
    from arc_common.retrieval.in_memory import InMemoryIndexStore

__all__ = [
    "BM25",
    "Added",
    "Found",
    "HybridIndex",
    "InMemoryIndexStore",
    "Ranking",
    "deduplicated",
    "reciprocal_rank_fusion",
    "score_fusion",
]


def __getattr__(name: str) -> Any:
    """`InMemoryIndexStore` on first use: numpy takes a tenth of a second to import."""
    if name == "InMemoryIndexStore":
        from arc_common.retrieval.in_memory import InMemoryIndexStore  # noqa: PLC0415 - the reason above

        return InMemoryIndexStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
