"""ArcVectorStore: arc's hybrid index as a LangChain vector store."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import repeat
from types import NoneType
from typing import Any

from arc_common.documents import Document as ArcDocument
from arc_common.documents import ScoredDocument, checked_items
from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.documents import DocumentIndex
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.protocols import Embedder
from arc_common.protocols.search_index import IndexEntry, IndexStore, Scope, unit_vector
from arc_common.rerankers import DiversityReranker, vector_mmr
from arc_common.retrieval.index import HybridIndex, SearchMode
from langchain_arc.documents import document_from_arc, document_to_arc
from langchain_arc.models import LangChainEmbedder
from langchain_arc.search_arguments import MetadataFilter, check_k, chosen_filter, documents_of

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
except ImportError as error:
    raise MissingDependencyError("ArcVectorStore", package="langchain-core", extra="langchain") from error


class ArcVectorStore(VectorStore):
    """A LangChain vector store whose texts are found by their words and by their meaning.

    - Searches are hybrid unless `mode` says otherwise, at each call too. Scores are between 0 and 1 in the mode
      "hybrid", cosines in "dense", BM25 sums in "lexical"; higher is better.
    - A document takes the place of the one with its id. One without an id gets one that its text and metadata
      determine: added again, it is the same one, and two that differ in metadata stay two.
    - Filters are plain dictionaries (see `parse_filter`) or arc's `Filter`. An option that a method doesn't know is
      refused, never passed over.
    - A failing embedder loses nothing: what is added is found by its words.
    - Making one does no I/O, and the async methods work on threads. Documents handed in are not changed.

    Args:
        embedding: Makes the vectors of an index of its own; without one, texts are found by their words.
        index: The index, in place of an own one.
        engine: The engine whose documents they are, in place of an own index.
        caller_id: The application whose documents an engine's are.
        user_id: Its user whose own documents they are; `None` for those that belong to no user.
        store: Where an own index is kept; by default in this process's memory.
        scope: Whose documents an own index holds.
        mode: How is searched where a call doesn't say.

    Raises:
        InvalidInputError: An index or an engine is given beside another one, or beside what is for an own index; or
            an argument is of the wrong kind.
    """

    def __init__(
        self,
        embedding: Embeddings | Embedder | None = None,
        *,
        index: HybridIndex | None = None,
        engine: ContextEngine | None = None,
        caller_id: str = "default",
        user_id: str | None = None,
        store: IndexStore | None = None,
        scope: Scope | None = None,
        mode: SearchMode = "hybrid",
    ) -> None:
        if index is not None and not isinstance(index, HybridIndex):
            raise InvalidInputError("index", index, "a HybridIndex")
        if index is not None and engine is not None:
            raise InvalidInputError("index", index, "an index or an engine, not both")
        if index is not None or engine is not None:
            for name, value in (("embedding", embedding), ("store", store), ("scope", scope)):
                if value is not None:
                    raise InvalidInputError(name, value, "None beside an index or an engine, which has its own")
        self._documents: DocumentIndex | HybridIndex
        if engine is not None:
            self._documents = documents_of(engine, caller_id=caller_id, user_id=user_id)
        else:
            self._documents = _own_index(embedding, store, scope) if index is None else index
        self._embeddings = embedding if isinstance(embedding, Embeddings) else None
        self._mode: SearchMode = mode

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | Embedder | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> "ArcVectorStore":
        """A store with these texts in it.

        Args:
            texts: The texts.
            embedding: As the constructor's.
            metadatas: The metadata of each text.
            ids: The id of each text.
            **kwargs: The constructor's other arguments.
        """
        made = cls(embedding, **kwargs)
        made.add_texts(texts, metadatas, ids=ids)
        return made

    @property
    def index(self) -> HybridIndex:
        """The index under it."""
        return self._documents.index if isinstance(self._documents, DocumentIndex) else self._documents

    @property
    def embeddings(self) -> Embeddings | None:
        """The LangChain embeddings that it was made with."""
        return self._embeddings

    # --- writing ----------------------------------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts, each in the place of the one with its id; all of their ids, in order.

        Args:
            texts: The texts.
            metadatas: The metadata of each; JSON values.
            ids: The id of each; `None` for one that text and metadata determine.
            **kwargs: `batch_size`, which LangChain's indexing hands on and arc has no use for.

        Raises:
            InvalidInputError: There are more or fewer ids or metadata than texts, or one of them can't be stored;
                nothing was written.
        """
        given = checked_items("texts", texts, str, expected="several texts")
        own = repeat({}) if not metadatas else _as_many("metadatas", metadatas, given, kind=Mapping)
        documents = [Document(text, metadata=metadata or {}) for text, metadata in zip(given, own, strict=False)]
        return self.add_documents(documents, ids=[None] * len(given) if ids is None else ids, **kwargs)

    def add_documents(
        self, documents: list[Document], *, ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """Store documents, each in the place of the one with its id; all of their ids, in order.

        Args:
            documents: The documents.
            ids: The id of each, in place of its own.
            **kwargs: As those of `add_texts`.

        Raises:
            InvalidInputError: As `add_texts`.
        """
        _refuse_unknown({name: value for name, value in kwargs.items() if name != "batch_size"})
        own = checked_items("documents", documents, Document, expected="LangChain Documents")
        wanted = [document.id for document in own] if ids is None else _as_many("ids", ids, own, kind=str)
        given = [_with_id(document, entry_id) for document, entry_id in zip(own, wanted, strict=True)]
        if isinstance(self._documents, DocumentIndex):  # which notes that there are documents for a session's turns
            return self._documents.add(given)
        return list(self._documents.add(given).ids)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents by their ids; ids that are not there are no error.

        Raises:
            InvalidInputError: No ids are given: arc empties no index by accident.
        """
        _refuse_unknown(kwargs)
        if ids is None:
            raise InvalidInputError("ids", ids, "a list of ids")
        self.index.delete(ids)
        return True

    # --- reading ----------------------------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Those of the documents that are there, in the order of the ids."""
        return [document_from_arc(document) for document in self.index.get(ids)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: MetadataFilter | None = None,  # noqa: A002 - LangChain's name
        *,
        filters: MetadataFilter | None = None,
        mode: SearchMode | None = None,
        threshold: float | None = None,
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """The documents that answer the query best, with their scores; the best first.

        Args:
            query: What is asked.
            k: How many at most.
            filter: Which documents may be found, by their metadata.
            filters: The same, under arc's name.
            mode: "hybrid", "lexical" or "dense"; by default the store's own.
            threshold: The least cosine with which a text counts as found by its vector.
            **kwargs: None; they are refused.
        """
        _refuse_unknown(kwargs)
        found = self._found(query, check_k(k), filter, filters, mode=mode, threshold=threshold)
        return [(document_from_arc(each.document), each.score or 0.0) for each in found]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The documents of `similarity_search_with_score`, which has the same arguments."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """The documents whose vectors are nearest to this one; otherwise as `similarity_search`."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, **kwargs)]

    def similarity_search_with_score_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: MetadataFilter | None = None,  # noqa: A002
        *,
        filters: MetadataFilter | None = None,
        threshold: float | None = None,
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """The documents whose vectors are nearest to this one, with their cosines."""
        _refuse_unknown(kwargs)
        vector = _checked(embedding)
        found = self._found("", check_k(k), filter, filters, mode="dense", threshold=threshold, vector=vector)
        return [(document_from_arc(each.document), each.score or 0.0) for each in found]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: MetadataFilter | None = None,  # noqa: A002
        *,
        filters: MetadataFilter | None = None,
        mode: SearchMode | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Documents that answer the query and differ from each other, the best first (Carbonell & Goldstein 1998).

        Relevance is a document's score, likeness the cosine of vectors; in the mode "dense" these are LangChain's own
        picks. Where nothing has a vector, likeness is Jaccard's of the terms.

        Args:
            query: What is asked.
            k: How many at most.
            fetch_k: Among how many they are chosen.
            lambda_mult: 1 is relevance alone, 0 is diversity alone.
            filter: As in `similarity_search_with_score`, and so are the others.
            filters: The same, under arc's name.
            mode: How the candidates are found.
            **kwargs: None; they are refused.
        """
        _refuse_unknown(kwargs)
        most = max(check_k(k), check_k(fetch_k, name="fetch_k"))
        candidates = self._found(query, most, filter, filters, mode=mode)
        return self._diverse(query, candidates, k, lambda_mult)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: MetadataFilter | None = None,  # noqa: A002
        *,
        filters: MetadataFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """As `max_marginal_relevance_search` in the mode "dense", for a query's vector."""
        _refuse_unknown(kwargs)
        most = max(check_k(k), check_k(fetch_k, name="fetch_k"))
        candidates = self._found("", most, filter, filters, mode="dense", vector=_checked(embedding))
        return self._diverse("", candidates, k, lambda_mult)

    # --- relevance: what search_type="similarity_score_threshold" compares -------------------------------------------

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return _share

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        if (kwargs.get("mode") or self._mode) == "lexical":
            raise InvalidInputError("mode", "lexical", '"hybrid" or "dense": sums of BM25 have no highest score')
        return [(document, _share(score)) for document, score in self.similarity_search_with_score(query, k, **kwargs)]

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return await asyncio.to_thread(self._similarity_search_with_relevance_scores, query, k, **kwargs)

    # ----------------------------------------------------------------------------------------------------------------

    def _found(
        self,
        query: str,
        k: int,
        filter: MetadataFilter | None,  # noqa: A002
        filters: MetadataFilter | None,
        *,
        mode: SearchMode | None = None,
        threshold: float | None = None,
        vector: Sequence[float] | None = None,
    ) -> list[ScoredDocument]:
        return self.index.search(
            query,
            top_k=k,
            filters=chosen_filter(filter, filters),
            threshold=threshold,
            mode=mode or self._mode,
            vector=vector,
        )

    def _diverse(self, query: str, candidates: Sequence[ScoredDocument], k: int, lambda_mult: float) -> list[Document]:
        ids = [found.document.id or "" for found in candidates]
        vectors = self.index.vectors(ids)
        if not vectors:
            taken = DiversityReranker(trade_off=lambda_mult).rerank(query, candidates, top_k=k)
            return [document_from_arc(found.document) for found in taken]
        zero = [0.0] * len(next(iter(vectors.values())))
        rows = [vectors.get(entry_id, zero) for entry_id in ids]
        relevance = [found.score or 0.0 for found in candidates]
        places = vector_mmr(relevance, rows, top_k=k, trade_off=lambda_mult)
        return [document_from_arc(candidates[place].document) for place, _ in places]


def _own_index(embedding: Embeddings | Embedder | None, store: IndexStore | None, scope: Scope | None) -> HybridIndex:
    from arc_common.stores import SqlIndexStore  # noqa: PLC0415 - SQLAlchemy and numpy take 0.3 s to import

    embedder = LangChainEmbedder(embedding) if isinstance(embedding, Embeddings) else embedding
    if embedding is not None and not isinstance(embedding, Embeddings | Embedder):
        raise InvalidInputError("embedding", embedding, "LangChain's Embeddings, an arc Embedder, or None")
    if store is not None and not isinstance(store, IndexStore):
        raise InvalidInputError("store", store, "an IndexStore, or None")
    if scope is not None and not isinstance(scope, Scope):
        raise InvalidInputError("scope", scope, "a Scope, or None")
    return HybridIndex(SqlIndexStore.open() if store is None else store, scope=scope, embedder=embedder)


def _with_id(document: Document, document_id: str | None) -> ArcDocument:
    given = document_to_arc(document)
    if not document_id:
        metadata = IndexEntry("-", given.text, metadata=given.metadata).metadata  # as it will be stored, or refused
        told = json.dumps([given.text, metadata], sort_keys=True)
        document_id = sha256(told.encode()).hexdigest()[:32]
    return ArcDocument(given.text, document_id, given.source, given.metadata)


def _as_many(field: str, given: Sequence[Any], texts: Sequence[Any], *, kind: type) -> list[Any]:
    expected = f"a list of {len(texts)}: one for each text"
    items = checked_items(field, given, (kind, NoneType), expected=expected)
    if len(items) != len(texts):
        raise InvalidInputError(field, given, expected)
    return items


def _checked(embedding: Sequence[float]) -> list[float]:
    vector: list[float] = unit_vector("embedding", embedding).tolist()
    return vector


def _refuse_unknown(options: dict[str, Any]) -> None:
    for name, value in options.items():
        raise InvalidInputError(name, value, "no such argument")


def _share(score: float) -> float:
    """A score as LangChain compares it: from 0 to 1; a cosine below zero is no likeness."""
    return min(1.0, max(0.0, score))
