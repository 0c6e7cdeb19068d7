"""The documents of a turn: where they come from, and the pipeline that finds them by the settings."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from arc_common.engine.documents import Corpus, beside_each_other
from arc_common.messages import Message
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope
from arc_common.rag import ContextBuilder, Fusion, RagContext, RagPipeline, RagQuery
from arc_common.rag.statistics import JointStatistics
from arc_common.rerankers import BM25Reranker, DiversityReranker, KeywordWeightedReranker, SimpleScoreReranker
from arc_common.retrieval import reciprocal_rank_fusion, score_fusion
from arc_common.retrieval.fusion import raw_score_fusion
from arc_common.retrieval.query_transformers import RuleBasedConversationTransformer
from arc_common.text.languages.coreference import last_turns

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime
    from arc_common.protocols import QueryTransformer, Reranker, Retriever

__all__ = ["can_retrieve", "documents_of_turn", "rag_pipeline"]

_log = logging.getLogger("arc.rag")


def rag_pipeline(
    runtime: "Runtime",
    sources: "Retriever | Mapping[str, Retriever]",
    *,
    transformers: "Sequence[QueryTransformer] | None" = None,
    reranker: "Reranker | None" = None,
    citations: bool = False,
    fusion: Fusion | None = None,
) -> RagPipeline:
    """A pipeline by the settings: see `ContextEngine.rag`; `fusion` in place of the one that they name."""
    rag = runtime.settings.rag
    if transformers is None:
        transformers = (RuleBasedConversationTransformer(max_history_turns=rag.max_history_turns),)
    if not rag.rerank_enabled:
        reranker = None
    elif reranker is None:
        reranker = _reranker(runtime, list(sources.values()) if isinstance(sources, Mapping) else [sources])
    if fusion is None:
        fusion = score_fusion if rag.fusion == "scores" else partial(reciprocal_rank_fusion, k=rag.rrf_k)
    return RagPipeline(
        sources,
        ContextBuilder.from_settings(runtime.context_counter, runtime.settings, citations=citations),
        transformers=transformers,
        reranker=reranker,
        rerank_top_k=rag.rerank_top_k,
        fusion=fusion,
        similarity_threshold=rag.similarity_threshold,
        timeout_seconds=runtime.settings.model_calls.timeout_seconds,
        observer=runtime.observer,
        workers=runtime.workers,
    )


def _reranker(runtime: "Runtime", sources: "Sequence[Retriever]") -> "Reranker":
    """The reranker that the settings name; what is rare is judged by all that an engine's own documents say."""
    rag = runtime.settings.rag
    if rag.reranker == "keyword":
        return KeywordWeightedReranker(weight=rag.keyword_weight, top_k=rag.rerank_top_k)
    if rag.reranker == "bm25":
        own = [source.index for source in sources if isinstance(source, Corpus)]
        statistics = JointStatistics(own) if len(own) == len(sources) else None
        return BM25Reranker(statistics=statistics, top_k=rag.rerank_top_k)
    if rag.reranker == "diversity":
        return DiversityReranker(trade_off=rag.diversity_lambda, top_k=rag.rerank_top_k)
    return SimpleScoreReranker(top_k=rag.rerank_top_k)


def documents_of_turn(
    runtime: "Runtime", key: SessionKey | None, query: str, *, history: Callable[[], Sequence[Message]]
) -> RagContext:
    """What is retrieved for a turn: nothing where retrieval is off or there are no documents; never raises.

    - From the engine's own retriever, if it was opened with one; else from the caller's documents and the user's.
    - What fails leaves the turn without documents, counted (`rag.errors`) and noted.

    Args:
        runtime: What the engine's parts share.
        key: Whose turn it is; `None` for a session without history.
        query: What the user says.
        history: Gives the messages before it; called only if something is retrieved.
    """
    settings = runtime.settings.rag
    if settings.enabled is False or not query.strip():
        return RagContext.EMPTY
    try:
        pipeline = _pipeline_of(runtime, key)
        if pipeline is None:
            return RagContext.EMPTY
        said = last_turns(history(), settings.max_history_turns) if settings.max_history_turns else ()
        return pipeline.retrieve(RagQuery(query, top_k=settings.top_k, rerank=settings.rerank_enabled, history=said))
    except Exception as error:  # noqa: BLE001 - the turn goes on without documents; receipt and counter say so
        _log.warning("a turn goes on without documents: %s", error, exc_info=error)
        runtime.observer.count("rag.errors")
        return replace(RagContext.EMPTY, notes=(f"no documents were retrieved: {type(error).__name__}",))


def can_retrieve(runtime: "Runtime", key: SessionKey | None) -> bool:
    """Whether there may be documents for a turn of this session; never raises."""
    if runtime.settings.rag.enabled is False:
        return False
    try:
        return runtime.retriever is not None or _pipeline_of(runtime, key) is not None
    except Exception:  # noqa: BLE001 - the turn's own retrieval says what is wrong
        return True


def _pipeline_of(runtime: "Runtime", key: SessionKey | None) -> RagPipeline | None:
    """What this turn's documents come from; `None` for nothing."""
    given = runtime.retriever
    if isinstance(given, RagPipeline):
        return given
    if given is not None:
        return rag_pipeline(runtime, given)
    caller_id, user_id = (key.caller_id, key.user_id) if key else ("default", None)
    scopes = {"caller": Scope(caller_id)} | ({"user": Scope(caller_id, user_id)} if user_id else {})
    filled = {name: scope for name, scope in scopes.items() if _has_documents(runtime, scope)}
    return rag_pipeline(runtime, beside_each_other(runtime, filled), fusion=raw_score_fusion) if filled else None


def _has_documents(runtime: "Runtime", scope: Scope) -> bool:
    """Whether there are any. Only that there are is remembered: another process may add the first one at any time.

    Where there are none, it costs a turn one statement that reads one row.
    """
    if runtime.settings.rag.enabled or runtime.has_documents.get(scope):
        return True
    if Corpus(runtime, scope).count() == 0:
        return False
    runtime.has_documents[scope] = True
    return True
