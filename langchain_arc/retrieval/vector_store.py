"""ArcVectorStore: arc's hybrid index as a LangChain vector store."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import repeat
from types import NoneType
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from arc_common.documents import Document as ArcDocument
from arc_common.documents import ScoredDocument, checked_items
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.engine.documents import DocumentIndex
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.protocols import Embedder
from arc_common.protocols.search_index import IndexEntry, unit_vector
from arc_common.rerankers import DiversityReranker, vector_mmr
from arc_common.retrieval.index import HybridIndex, SearchMode, check_search
from langchain_arc.models import LangChainEmbedder
from langchain_arc.retrieval.documents import document_from_arc, document_to_arc
from langchain_arc.retrieval.filters import MetadataFilter, chosen_filter


class ArcVectorStore(VectorStore):
    """A LangChain vector store that finds texts by their words and by their meaning.

        store = ArcVectorStore(OpenAIEmbeddings())
        store.add_texts(["Returns are free for 30 days."])

    - Searches are hybrid unless `mode` says otherwise, for the store or for one call. Scores are between 0 and 1 in
      mode "hybrid", cosines in "dense" and BM25 sums in "lexical"; higher is better.
    - A document replaces the one with the same id. A document without an id gets one derived from its text and
      metadata: adding it again replaces it, and two documents that differ in metadata stay separate.
    - Filters are plain dictionaries (see `parse_filter`) or arc's `Filter`. A method refuses an unknown option and
      never ignores it.
    - A failing embedder loses nothing: added texts are found by their words.
    - Creating one does no I/O, and the async methods run on threads. Documents given are not changed.

    Args:
        embedding: Embeds texts for the store's own index, which is in this process's memory; without it, texts are
            found by their words only.
        index: An existing index, in place of the store's own.
        engine: The engine whose documents are used, in place of an own index: those of `caller_id`, or of one
            `user_id`.
        caller_id, user_id: As in `ContextEngine.documents_of`.
        mode: The search mode where a call names none.

    Raises:
        InvalidInputError: More than one of embedding, index and engine is given, or an argument is of the wrong kind.
    """

    def __init__(
        self,
        embedding: Embeddings | Embedder | None = None,
        *,
        index: HybridIndex | None = None,
        engine: ContextEngine | None = None,
        caller_id: str = "default",
        user_id: str | None = None,
        mode: SearchMode = "hybrid",
    ) -> None:
        if index is not None and not isinstance(index, HybridIndex):
            raise InvalidInputError("index", index, "a HybridIndex")
        if index is not None and engine is not None:
            raise InvalidInputError("index", index, "an index or an engine, not both")
        if embedding is not None and (index is not None or engine is not None):
            raise InvalidInputError("embedding", embedding, "None: the index or engine has its own embedder")
        check_search("", 1, None, mode)
        self._documents: DocumentIndex | HybridIndex
        if engine is not None:
            self._documents = checked_engine(engine).documents_of(caller_id, user_id=user_id)
        else:
            self._documents = _own_index(embedding) if index is None else index
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
        """Create a store that holds these texts, with the constructor's other arguments as `kwargs`."""
        made = cls(embedding, **kwargs)
        made.add_texts(texts, metadatas, ids=ids)
        return made

    @property
    def index(self) -> HybridIndex:
        """The underlying index."""
        return self._documents.index if isinstance(self._documents, DocumentIndex) else self._documents

    @property
    def embeddings(self) -> Embeddings | None:
        """The LangChain embeddings given to the constructor."""
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
        """Store texts, each replacing the one with the same id; return all of their ids, in order.

        An id of `None` is derived from text and metadata. `kwargs` may hold `batch_size`, which LangChain's indexing
        passes and arc ignores.

        Raises:
            InvalidInputError: There are more or fewer ids or metadata than texts, or one of them can't be stored.
                Nothing was written.
        """
        given = checked_items("texts", texts, str, expected="several texts")
        own = repeat({}) if not metadatas else _as_many("metadatas", metadatas, given, kind=Mapping)
        documents = [Document(text, metadata=metadata or {}) for text, metadata in zip(given, own, strict=False)]
        return self.add_documents(documents, ids=[None] * len(given) if ids is None else ids, **kwargs)

    def add_documents(
        self, documents: list[Document], *, ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """Store documents like `add_texts`; `ids` take the place of their own."""
        _refuse_unknown({name: value for name, value in kwargs.items() if name != "batch_size"})
        own = checked_items("documents", documents, Document, expected="LangChain Documents")
        wanted = [document.id for document in own] if ids is None else _as_many("ids", ids, own, kind=str)
        given = [_with_id(document, entry_id) for document, entry_id in zip(own, wanted, strict=True)]
        if isinstance(self._documents, DocumentIndex):  # it records that documents exist for a session's turns
            return self._documents.add(given)
        return list(self._documents.add(given).ids)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents by their ids; unknown ids are ignored.

        Raises:
            InvalidInputError: No ids are given: an index is never emptied by accident.
        """
        _refuse_unknown(kwargs)
        if ids is None:
            raise InvalidInputError("ids", ids, "a list of ids")
        self.index.delete(ids)
        return True

    # --- reading ----------------------------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents that exist, in the order of the ids."""
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
        """Return the `k` documents that answer the query best, with their scores, best first.

        `filter` (or `filters`) restricts documents by their metadata; `mode` is by default the store's own; `threshold`
        is the least cosine similarity at which a text counts as found by its vector.
        """
        _refuse_unknown(kwargs)
        found = self._found(query, check_whole("k", k), filter, filters, mode=mode, threshold=threshold)
        return [(document_from_arc(each.document), each.score or 0.0) for each in found]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents of `similarity_search_with_score`, which takes the same arguments."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents with the nearest vectors; otherwise like `similarity_search`."""
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
        """Return the documents with the nearest vectors, and their cosines."""
        _refuse_unknown(kwargs)
        vector = _checked(embedding)
        found = self._found("", check_whole("k", k), filter, filters, mode="dense", threshold=threshold, vector=vector)
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
        """Return `k` documents that answer the query and differ from each other (MMR: Carbonell & Goldstein 1998).

        Relevance is a document's score, and similarity the cosine of vectors; in mode "dense" the choice is the same as
        LangChain's own. If nothing has a vector, similarity is the Jaccard index of the terms. They are chosen from
        `fetch_k` candidates; `lambda_mult` is 1 for relevance alone and 0 for diversity alone. The other arguments are
        as in `similarity_search_with_score`.
        """
        _refuse_unknown(kwargs)
        most = max(check_whole("k", k), check_whole("fetch_k", fetch_k))
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
        """Like `max_marginal_relevance_search` in mode "dense", for a query's vector."""
        _refuse_unknown(kwargs)
        most = max(check_whole("k", k), check_whole("fetch_k", fetch_k))
        candidates = self._found("", most, filter, filters, mode="dense", vector=_checked(embedding))
        return self._diverse("", candidates, k, lambda_mult)

    # --- relevance: what search_type="similarity_score_threshold" compares -------------------------------------------

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return _share

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        if (kwargs.get("mode") or self._mode) == "lexical":
            raise InvalidInputError("mode", "lexical", '"hybrid" or "dense": BM25 sums have no maximum')
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


def _own_index(embedding: Embeddings | Embedder | None) -> HybridIndex:
    from arc_common.stores import SqlIndexStore  # noqa: PLC0415 - SQLAlchemy and numpy take 0.3 s to import

    embedder = LangChainEmbedder(embedding) if isinstance(embedding, Embeddings) else embedding
    if embedding is not None and not isinstance(embedding, Embeddings | Embedder):
        raise InvalidInputError("embedding", embedding, "LangChain's Embeddings, an arc Embedder, or None")
    return HybridIndex(SqlIndexStore.open(), embedder=embedder)


def _with_id(document: Document, document_id: str | None) -> ArcDocument:
    given = document_to_arc(document)
    if not document_id:
        metadata = IndexEntry("-", given.text, metadata=given.metadata).metadata  # in its stored form, or refused
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
    """Return a score as LangChain compares it, from 0 to 1; a negative cosine counts as 0."""
    return min(1.0, max(0.0, score))
