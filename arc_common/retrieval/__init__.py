"""Retrieval by words, by vectors, and by both."""

from arc_common.retrieval.bm25 import BM25
from arc_common.retrieval.fusion import Ranking, deduplicated, reciprocal_rank_fusion, score_fusion
from arc_common.retrieval.index import HybridIndex, SearchResult, WriteResult

__all__ = [
    "BM25",
    "HybridIndex",
    "Ranking",
    "SearchResult",
    "WriteResult",
    "deduplicated",
    "reciprocal_rank_fusion",
    "score_fusion",
]
