"""ArcRetriever: arc's index as a LlamaIndex retriever."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from arc_common.documents import ScoredDocument, checked_items, usable_documents
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.documents import DocumentIndex
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.filters import Filter
from arc_common.protocols import Retriever
from arc_common.retrieval.fusion import score_fusion
from arc_common.retrieval.index import HybridIndex, SearchMode
from llamaindex_arc.retrieval.documents import node_from_arc
from llamaindex_arc.retrieval.filters import to_filter


class ArcRetriever(BaseRetriever):
    """Arc's hybrid index, or any arc `Retriever`, as a LlamaIndex retriever.

        retriever = ArcRetriever(engine=engine, similarity_top_k=5)
        nodes = retriever.retrieve("How long is the warranty?")

    - It returns the nodes from which `node_to_arc` made the documents, with the index's scores, best first.
    - Each of a bundle's embedding strings is a query of its own, by words and by meaning; without any, the query itself
      is. Results of several queries are fused by normalised scores, each node once.
    - A bundle's embedding is ignored, because its model is unknown, and LlamaIndex's own retrievers leave theirs in a
      bundle that several share. With `use_embedding`, an index searches by that vector, and by the query's words;
      embedding strings are then not searched for. Sources other than an index don't take a vector.
    - The bundle is not changed. The async form runs on a thread.

    Args:
        index: An index, an engine's documents (`engine.documents_of(caller_id)`), or another source.
        engine: The engine whose default caller's documents are searched, in place of an index.
        filters: Restricts nodes by their metadata: LlamaIndex's filters, a plain dictionary (see `parse_filter`), or
            arc's.
        mode: "hybrid", or only one of its parts: "lexical", "dense".
        similarity_threshold: The least cosine similarity at which a node counts as found by its vector.
        use_embedding: Use a bundle's embedding; set it only if the index's model made the embedding.
        callback_manager, object_map, objects, verbose: As in LlamaIndex's retrievers.

    Raises:
        InvalidInputError: There is not exactly one source, an argument is of the wrong kind, or the filters can't be
            expressed as arc's.
    """

    def __init__(
        self,
        index: HybridIndex | DocumentIndex | Retriever | None = None,
        *,
        engine: ContextEngine | None = None,
        similarity_top_k: int = 10,
        filters: MetadataFilters | Mapping[str, Any] | Filter | None = None,
        mode: SearchMode = "hybrid",
        similarity_threshold: float | None = None,
        use_embedding: bool = False,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        if isinstance(index, ContextEngine):
            raise InvalidInputError("index", index, "an index; an engine is given by name: ArcRetriever(engine=…)")
        if (index is None) == (engine is None):
            raise InvalidInputError("index", index, "either an index (or another source) or an engine")
        if index is None:
            index = checked_engine(engine).documents
        elif not isinstance(index, HybridIndex | Retriever):
            raise InvalidInputError("index", index, "a HybridIndex, an engine's documents, or a Retriever")
        check_whole("similarity_top_k", similarity_top_k)
        if mode not in get_args(SearchMode):
            raise InvalidInputError("mode", mode, f"one of {', '.join(get_args(SearchMode))}")
        if similarity_threshold is not None and not (
            isinstance(similarity_threshold, int | float) and -1 <= similarity_threshold <= 1
        ):
            raise InvalidInputError("similarity_threshold", similarity_threshold, "a cosine from -1 to 1, or None")
        if not isinstance(index, HybridIndex | DocumentIndex):
            if mode != "hybrid":
                raise InvalidInputError("mode", mode, '"hybrid": only an index has modes')
            if similarity_threshold is not None:
                raise InvalidInputError("similarity_threshold", similarity_threshold, "None: only an index has one")
        if objects is not None:
            objects = checked_items("objects", objects, IndexNode, expected="index nodes, or None")
        self._index = index
        self._filters = to_filter(filters)
        self._mode: SearchMode = mode
        self._threshold = similarity_threshold
        self._use_embedding = use_embedding
        self.similarity_top_k = similarity_top_k
        super().__init__(callback_manager=callback_manager, object_map=object_map, objects=objects, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        source = self._index.index if isinstance(self._index, DocumentIndex) else self._index
        takes_vector = self._use_embedding and self._mode != "lexical" and isinstance(source, HybridIndex)
        vector = query_bundle.embedding if takes_vector else None
        queries = [text for text in dict.fromkeys(query_bundle.embedding_strs) if text.strip()]
        if vector is not None or not queries:
            queries = [query_bundle.query_str]
        found = {f"query {place}": self._search(source, query, vector) for place, query in enumerate(queries)}
        best = next(iter(found.values())) if len(found) == 1 else score_fusion(found, top_k=self.similarity_top_k)
        return [NodeWithScore(node=node_from_arc(scored.document), score=scored.score) for scored in best]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def _search(
        self, source: HybridIndex | Retriever, query: str, vector: list[float] | None
    ) -> Sequence[ScoredDocument]:
        top_k = self.similarity_top_k
        if not isinstance(source, HybridIndex):
            found = source.retrieve(query, top_k=top_k, filters=self._filters) if query.strip() else []
            return usable_documents("retrieved", found)
        return source.search(
            query, top_k=top_k, filters=self._filters, threshold=self._threshold, mode=self._mode, vector=vector
        )
