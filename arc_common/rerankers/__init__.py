"""Rerankers: choose and order the retrieved documents to show."""

from arc_common.rerankers.base import RerankerChain
from arc_common.rerankers.bm25 import BM25Reranker, TermStatistics
from arc_common.rerankers.mmr import DiversityReranker, jaccard_mmr, query_mmr, vector_mmr
from arc_common.rerankers.registry import RERANKERS
from arc_common.rerankers.score import KeywordWeightedReranker, SimpleScoreReranker

__all__ = [
    "RERANKERS",
    "BM25Reranker",
    "DiversityReranker",
    "KeywordWeightedReranker",
    "RerankerChain",
    "SimpleScoreReranker",
    "TermStatistics",
    "jaccard_mmr",
    "query_mmr",
    "vector_mmr",
]
