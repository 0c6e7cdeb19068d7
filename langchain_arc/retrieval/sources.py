"""LangChain's vector stores and retrievers as sources of arc's retrieval."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore, VectorStoreRetriever

from arc_common.documents import ScoredDocument, finite_score, usable_items
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.filters import AllOf, AnyOf, Filter, matcher, parse_filter
from langchain_arc.retrieval.documents import document_to_arc, known_score
from langchain_arc.retrieval.filters import FilterStyle, Translator, style_of, translator_of

_EXPECTED = "LangChain documents"


class LangChainRetriever:
    """A LangChain vector store or retriever as arc's `Retriever`: a source for a `RagPipeline`, or for fusion.

    - Filters are translated into the source's own form (see `FilterStyle`). Since a source may ignore an operator that
      it doesn't know, its results are filtered again: nothing that the filters exclude comes back. A filter that can't
      be translated raises.
    - A store's relevance scores are the documents' scores. A store without them, or a retriever, gives only the order
      (score `None`), unless a document has a `relevance_score`.
    - A retriever is asked for `top_k` documents if it accepts a number; anything beyond is left out. Filters are passed
      to a retriever over a vector store, or to one that accepts `filter_argument`.

    Args:
        filter_style: How the source takes filters; known for LangChain's own stores, Chroma, Pinecone, PGVector and
            MongoDB. For any other, pass a function that translates them.
        filter_argument: The name of the source's filter argument.

    Raises:
        InvalidInputError: The source is of the wrong kind, or there is no such style.
    """

    def __init__(
        self,
        source: VectorStore | BaseRetriever,
        *,
        filter_style: FilterStyle | Translator | None = None,
        filter_argument: str = "filter",
    ) -> None:
        if not isinstance(source, VectorStore | BaseRetriever):
            raise InvalidInputError("source", source, "a LangChain VectorStore or BaseRetriever")
        self._source = source
        self._takes = _arguments(source)
        asked = source.vectorstore if isinstance(source, VectorStoreRetriever) else source
        style = style_of(asked) if filter_style is None else filter_style
        self._translate = None if style is None else translator_of(style)
        self._filter_argument = filter_argument

    def retrieve(
        self, query: str, *, top_k: int, filters: Mapping[str, Any] | Filter | None = None
    ) -> list[ScoredDocument]:
        """Return the documents that answer the query best (see `Retriever`). Raises whatever the source raises.

        Raises:
            InvalidInputError: The source can't apply the filters, another value is invalid, or the source returns
                something other than documents.
        """
        if not isinstance(query, str):
            raise InvalidInputError("query", query, "text")
        most = check_whole("top_k", top_k)
        asked = parse_filter(filters)
        if not query.strip() or asked == AnyOf(()):
            return []
        options = {} if asked is None or asked == AllOf(()) else self._said(asked)
        if isinstance(self._source, VectorStore):
            found = _searched(self._source, query, most, options)
        else:
            if "k" in self._takes:
                options["k"] = most
            answer = usable_items("retrieved", self._source.invoke(query, **options), Document, expected=_EXPECTED)
            found = [(document, None) for document in answer]
        is_match = matcher(asked)
        matching = [(document, score) for document, score in found if is_match(document.metadata)]
        return [_scored(document, score) for document, score in matching[:most]]

    def _said(self, filters: Filter) -> dict[str, Any]:
        source, name = self._source, self._filter_argument
        kind = type(source).__name__
        if self._translate is None:
            expected = f"None: how {kind} takes filters is not known; filter_style tells it"
            raise InvalidInputError("filters", filters, expected)
        if isinstance(source, VectorStoreRetriever):
            if name in source.search_kwargs:  # ours would replace a filter that may keep tenants apart
                raise InvalidInputError("filters", filters, f"None: the retriever's search_kwargs have {name!r}")
        elif isinstance(source, BaseRetriever) and name not in self._takes:
            raise InvalidInputError("filters", filters, f"None: {kind} takes no {name!r}")
        return {name: self._translate(filters)}


def _arguments(source: VectorStore | BaseRetriever) -> frozenset[str]:
    """Return the names of the arguments that a retriever takes at each call in addition to the question."""
    if isinstance(source, VectorStoreRetriever):
        return frozenset({"k"})
    if isinstance(source, BaseRetriever):
        parameters = inspect.signature(source._get_relevant_documents).parameters  # noqa: SLF001 - LangChain looks too
        return frozenset(parameters)
    return frozenset()


def _searched(
    store: VectorStore, query: str, most: int, options: Mapping[str, Any]
) -> Sequence[tuple[Document, float | None]]:
    """Search the store; include scores only if they are similarities, since many stores give distances."""
    if isinstance(store, InMemoryVectorStore):
        return store.similarity_search_with_score(query, k=most, **options)  # cosines
    try:
        return store.similarity_search_with_relevance_scores(query, k=most, **options)
    except NotImplementedError:
        return [(document, None) for document in store.similarity_search(query, k=most, **options)]


def _scored(document: Document, score: float | None) -> ScoredDocument:
    told = known_score(document.metadata) if score is None else finite_score(score)
    return ScoredDocument(document_to_arc(document), told)
