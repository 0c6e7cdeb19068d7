"""The rerankers that `settings.rag.reranker` can name. A new one is one file, one line here, and its name there."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from arc_common.protocols import Reranker
from arc_common.rerankers.bm25 import BM25Reranker, TermStatistics
from arc_common.rerankers.mmr import DiversityReranker
from arc_common.rerankers.score import KeywordWeightedReranker, SimpleScoreReranker

if TYPE_CHECKING:
    from arc_common.settings.groups import RagSettings

RERANKERS: Mapping[str, "Callable[[RagSettings, TermStatistics | None], Reranker]"] = {
    "score": lambda rag, _: SimpleScoreReranker(top_k=rag.rerank_top_k),
    "keyword": lambda rag, _: KeywordWeightedReranker(weight=rag.keyword_weight, top_k=rag.rerank_top_k),
    "bm25": lambda rag, statistics: BM25Reranker(statistics=statistics, top_k=rag.rerank_top_k),
    "diversity": lambda rag, _: DiversityReranker(trade_off=rag.diversity_lambda, top_k=rag.rerank_top_k),
}
"""Each is made from the settings and, if only the engine's own documents are searched, their term statistics."""
