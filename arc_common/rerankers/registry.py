"""The rerankers that `settings.rag.reranker` can name. A new one is one file and one line here."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from arc_common.protocols import Reranker
from arc_common.rerankers.bm25 import BM25Reranker, TermStatistics
from arc_common.rerankers.mmr import DiversityReranker
from arc_common.rerankers.score import KeywordWeightedReranker, SimpleScoreReranker

if TYPE_CHECKING:
    from arc_common.settings import ArcSettings

RERANKERS: Mapping[str, "Callable[[ArcSettings, TermStatistics | None], Reranker]"] = {
    "score": lambda settings, _: SimpleScoreReranker(top_k=settings.rag.rerank_top_k),
    "keyword": lambda settings, _: KeywordWeightedReranker(top_k=settings.rag.rerank_top_k),
    "bm25": lambda settings, statistics: BM25Reranker(statistics=statistics, top_k=settings.rag.rerank_top_k),
    "diversity": lambda settings, _: DiversityReranker(top_k=settings.rag.rerank_top_k),
}
"""Each is made from the settings and, if only the engine's own documents are searched, their term statistics."""
