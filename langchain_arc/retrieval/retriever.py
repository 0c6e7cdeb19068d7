"""ArcRetriever: arc's search as a LangChain retriever."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import Field

from arc_common.documents import ScoredDocument, usable_documents
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.documents import DocumentIndex
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.filters import AllOf, Filter
from arc_common.protocols import Retriever
from arc_common.rag import RagPipeline, RagQuery
from arc_common.rerankers.base import best_first
from arc_common.retrieval.index import HybridIndex, SearchMode, check_search
from langchain_arc.retrieval.documents import scored_from_arc
from langchain_arc.retrieval.filters import MetadataFilter, chosen_filter

Source: TypeAlias = HybridIndex | DocumentIndex | RagPipeline | Retriever

_CANDIDATES = 10
"""The fewest documents that a pipeline retrieves, so that its reranker has a choice even for a small `k`."""


class ArcRetriever(BaseRetriever):
    """Finds documents in an engine, a hybrid index, a RAG pipeline (`engine.rag()`), or any arc `Retriever`.

        retriever = ArcRetriever(engine=engine, k=4)
        documents = retriever.invoke("How long is the warranty?", filter={"lang": "en"})

    - Documents come best first (those of a pipeline in the order of its settings, as many as its context has room for),
      as copies, with `relevance_score` and `score_parts` in their metadata if there is a score.
    - Each call accepts `k`, `filter` and `filters` as well. A call's filter is combined with the retriever's own: it
      narrows the results and never widens them.
    - Creating one does no I/O. `ainvoke` never blocks the event loop.

    Args:
        engine: The engine whose documents are searched, in place of a source: those of `caller_id`, or of one
            `user_id`.
        caller_id, user_id: As in `ContextEngine.documents_of`.
        filter, filters: Restrict documents by their metadata, under LangChain's name or arc's: a plain dictionary or
            arc's `Filter`.
        threshold: The least cosine similarity at which a text counts as found by its vector; for an index only.
        mode: "hybrid", "lexical" or "dense"; for an index only.
        name, tags, metadata: As in LangChain.

    Raises:
        InvalidInputError: There is not exactly one of source and engine, a value is invalid, or an option for an index
            is given with another kind of source.
    """

    source: Any = Field(repr=False)
    k: int
    filters: Any
    threshold: float | None
    mode: SearchMode

    def __init__(
        self,
        source: Source | None = None,
        *,
        engine: ContextEngine | None = None,
        caller_id: str = "default",
        user_id: str | None = None,
        k: int = 10,
        filter: MetadataFilter | None = None,  # noqa: A002 - LangChain's name
        filters: MetadataFilter | None = None,
        threshold: float | None = None,
        mode: SearchMode = "hybrid",
        name: str | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        if isinstance(source, ContextEngine):
            raise InvalidInputError("source", source, "a source; an engine is given by name: ArcRetriever(engine=…)")
        if (source is None) == (engine is None):
            raise InvalidInputError("source", source, "a source, or an engine in its place")
        if source is None:
            source = checked_engine(engine).documents_of(caller_id, user_id=user_id)
        elif not isinstance(source, HybridIndex | RagPipeline | Retriever):
            raise InvalidInputError("source", source, "a HybridIndex, a RagPipeline or an arc Retriever")
        check_search("", check_whole("k", k), threshold, mode)
        if not isinstance(source, HybridIndex | DocumentIndex):
            if threshold is not None:
                raise InvalidInputError("threshold", threshold, "None: the source has its own")
            if mode != "hybrid":
                raise InvalidInputError("mode", mode, '"hybrid": the source has its own')
        fields: dict[str, Any] = {
            "source": source,
            "k": k,
            "filters": chosen_filter(filter, filters),
            "threshold": threshold,
            "mode": mode,
        }
        super().__init__(name=name, tags=tags, metadata=metadata, **fields)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain reports the run itself
        k: int | None = None,
        filter: MetadataFilter | None = None,  # noqa: A002
        filters: MetadataFilter | None = None,
    ) -> list[Document]:
        most = self.k if k is None else check_whole("k", k)
        return [scored_from_arc(found) for found in self._found(query, most, self._narrowed(filter, filters))]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002
        k: int | None = None,
        filter: MetadataFilter | None = None,  # noqa: A002
        filters: MetadataFilter | None = None,
    ) -> list[Document]:
        most = self.k if k is None else check_whole("k", k)
        found = await asyncio.to_thread(self._found, query, most, self._narrowed(filter, filters))
        return [scored_from_arc(document) for document in found]

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """Return the parameters of a run for LangSmith."""
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = type(self.source).__name__
        return params

    def _found(self, query: str, most: int, filters: Filter | None) -> list[ScoredDocument]:
        source = self.source.index if isinstance(self.source, DocumentIndex) else self.source
        if isinstance(source, HybridIndex):
            return source.search(query, top_k=most, filters=filters, threshold=self.threshold, mode=self.mode)
        if isinstance(source, RagPipeline):
            asked = RagQuery(query, filters, top_k=max(most, _CANDIDATES), rerank_top_k=most)
            return _best(source.retrieve(asked).documents, most)
        return usable_documents("retrieved", source.retrieve(query, top_k=most, filters=filters))[:most]

    def _narrowed(self, filter: MetadataFilter | None, filters: MetadataFilter | None) -> Filter | None:  # noqa: A002
        parts = tuple(part for part in (self.filters, chosen_filter(filter, filters)) if part is not None)
        return AllOf(parts) if len(parts) > 1 else next(iter(parts), None)


def _best(documents: Sequence[ScoredDocument], most: int) -> list[ScoredDocument]:
    """Return the documents with the best scores, in the order given."""
    places = best_first([found.score for found in documents], top_k=most)
    return [documents[place] for place in sorted(places)]
