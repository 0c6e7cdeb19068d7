"""LlamaIndex's indexes and retrievers as sources of arc's retrieval."""

from collections.abc import Mapping
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.schema import NodeWithScore

from arc_common.documents import ScoredDocument, finite_score, usable_items
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.filters import Filter, matcher, parse_filter
from llamaindex_arc.retrieval.documents import node_to_arc
from llamaindex_arc.retrieval.filters import from_filter


class LlamaIndexRetriever:
    """A LlamaIndex vector store index, or any of its retrievers, as arc's `Retriever`.

    - An index is asked for `top_k` nodes, with the filters in its own form; nodes that its store returns although arc's
      filters exclude them are left out.
    - A retriever returns as many nodes as it was configured for, and takes no filters.
    - Documents are made by `node_to_arc`: in a LlamaIndex engine, the original nodes come back.

    Raises:
        InvalidInputError: It is neither.
    """

    def __init__(self, source: VectorStoreIndex | BaseRetriever) -> None:
        if not isinstance(source, VectorStoreIndex | BaseRetriever):
            raise InvalidInputError("source", source, "a VectorStoreIndex or a BaseRetriever")
        self._source = source

    def retrieve(
        self, query: str, *, top_k: int, filters: Mapping[str, Any] | Filter | None = None
    ) -> list[ScoredDocument]:
        """Return the documents that answer the query best (see `Retriever`). Raises whatever LlamaIndex raises.

        Raises:
            InvalidInputError: LlamaIndex can't apply these filters, another value is invalid, or the source returns
                something other than scored nodes.
        """
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        most = check_whole("top_k", top_k)
        asked = parse_filter(filters)
        if not query.strip():
            return []
        lets_through = matcher(asked)
        found = self._retriever(most, asked).retrieve(query)
        documents = [
            ScoredDocument(node_to_arc(item.node), finite_score(item.score))
            for item in usable_items("retrieved", found, NodeWithScore, expected="scored nodes")
            if lets_through(item.node.metadata)
        ]
        return documents[:most]

    def _retriever(self, top_k: int, filters: Filter | None) -> BaseRetriever:
        if isinstance(self._source, VectorStoreIndex):
            return self._source.as_retriever(similarity_top_k=top_k, filters=from_filter(filters))
        if filters is not None:
            raise InvalidInputError("filters", filters, "None: only an index takes filters, a retriever does not")
        return self._source
