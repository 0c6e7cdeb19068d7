"""Stores a caller's documents in the hybrid index, whole or in chunks, and finds them for a question."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from arc_common.caches import forget_texts
from arc_common.concurrency import async_form
from arc_common.context import as_documents
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError, converter_of
from arc_common.filters import Filter
from arc_common.messages import Message, check_identifier
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope, cached_scope
from arc_common.rag import Chunker, ContextBuilder, RagContext, RagPipeline, RagQuery
from arc_common.rerankers import RERANKERS
from arc_common.retrieval import HybridIndex, SearchResult, reciprocal_rank_fusion, score_fusion
from arc_common.retrieval.index import OTHER_EMBEDDER, checked_ids
from arc_common.retrieval.query_transformers import RuleBasedConversationTransformer, last_turns

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime
    from arc_common.protocols import QueryTransformer, Reranker, Retriever


class DocumentIndex:
    """The documents of one caller, or of one of its users, searched by words and, with an embedder, by meaning.

        engine.documents.add("Returns are free for 30 days.")
        found = engine.documents.search("How long can I return it?")

    Each method has an async form, and raises `StoreError` if the store fails. Scopes are isolated from each other.
    """

    def __init__(self, runtime: "Runtime", scope: Scope, *others: Scope) -> None:
        self._runtime = runtime
        self._workers = runtime.workers
        self._scope = scope
        self._others = others

    def __repr__(self) -> str:
        """Name the owner of the documents."""
        return f"<DocumentIndex of {self._scope}>"

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that are searched: the owner's, and in a turn also the caller's."""
        return self._scope, *self._others

    @property
    def index(self) -> HybridIndex:
        """The underlying hybrid index."""
        self._runtime.check_open()
        return self._runtime.services.index(self._scope, "document", others=self._others)

    def add(self, documents: Document | str | Sequence[Document | str], *, chunk: bool = False) -> list[str]:
        """Store documents, whole or in chunks, replacing stored documents with the same ids.

        - A document without an id gets one derived from its text and source, so adding it again replaces it.
        - With `chunk`, long documents are split at sentences into chunks of `settings.rag.chunk_size` tokens, each a
          document with its own id (`<id>#<index>`). If two given documents have the same id, the later one is stored.
        - Each replacement is atomic: searches always find one complete version.
        - If the embedder fails, nothing is lost: texts without a vector are found by their words.

        Returns:
            The ids of the stored documents or chunks, in the order given.

        Raises:
            InvalidInputError: An item is not a document or can't be stored. Nothing was written.
        """
        given = _plain(documents)
        added = self.index.replace(self._chunks(given) if chunk else ((one.id, [one]) for one in given))
        self._runtime.has_documents[self._scope] = True
        return list(added.ids)

    aadd = async_form(add)

    def delete(self, ids: Collection[str]) -> int:
        """Delete documents and their chunks atomically; return the number of deleted entries, counting each chunk."""
        deleted = self.index.delete(_checked_ids(ids))
        forget_texts()
        return deleted

    adelete = async_form(delete)

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the stored documents with these ids, in their order; unknown ids are skipped, chunks have ids too."""
        return self.index.get(_checked_ids(ids))

    aget = async_form(get)

    def count(self) -> int:
        """Return the number of stored documents, counting each chunk."""
        return self.index.count()

    acount = async_form(count)

    def search(
        self, query: str, *, top_k: int | None = None, filters: Mapping[str, Any] | Filter | None = None
    ) -> list[ScoredDocument]:
        """Return at most `top_k` (by default `settings.rag.top_k`) documents that match a question, best first.

        `filters` restricts them by their metadata: `{"lang": "ko", "year": {"$gte": 2020}}` (see `parse_filter`).

        Raises:
            InvalidInputError: `top_k` or a filter is invalid.
        """
        most = self._runtime.settings.rag.top_k if top_k is None else top_k
        return list(self.index.search(query, top_k=most, filters=filters))

    asearch = async_form(search)

    def _chunks(self, documents: Sequence[Document]) -> Iterator[tuple[str | None, list[Document]]]:
        """Split each document into chunks; if two have the same id, only the later one."""
        rag = self._runtime.settings.rag
        chunker = Chunker(self._runtime.token_counter, size=rag.chunk_size, overlap=rag.chunk_overlap)
        last = {document.id: place for place, document in enumerate(documents) if document.id is not None}
        kept = [one for place, one in enumerate(documents) if one.id is None or last[one.id] == place]
        return ((document.id, chunker.split_document(document)) for document in kept)

    def retrieve(
        self, query: str, *, top_k: int, filters: Mapping[str, Any] | Filter | None = None
    ) -> list[ScoredDocument]:
        """Call `search`; this method makes the index a `Retriever`."""
        return self.search(query, top_k=top_k, filters=filters)

    def retrieve_with_notes(
        self,
        query: str,
        *,
        top_k: int,
        filters: Mapping[str, Any] | Filter | None = None,
        cosines: bool = False,
    ) -> SearchResult:
        """Call `retrieve` and also return notes on its limitations (see `NotingRetriever`)."""
        found = self.index.find(query, top_k=top_k, filters=filters, cosines=cosines)
        if OTHER_EMBEDDER in found.notes:
            self._runtime.vectors.schedule()
        return found


def _checked_ids(ids: object) -> list[str]:
    """Return the ids as a list, refusing a plain string, whose letters might be ids too."""
    return [check_identifier("ids", one) for one in checked_ids(ids)]


def _plain(documents: Document | str | Iterable[Document | str]) -> list[Document]:
    """Return the given documents and texts as documents."""
    given: Any = [documents] if isinstance(documents, Document | str) or converter_of(documents) else documents
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInputError("documents", documents, "a document, text, or a sequence of them")
    plain = as_documents(list(given))
    if any(isinstance(document, ScoredDocument) for document in plain):
        raise InvalidInputError("documents", documents, "documents without scores, or text")
    return [document for document in plain if isinstance(document, Document)]


_log = logging.getLogger("arc.rag")


def rag_pipeline(
    runtime: "Runtime",
    sources: "Retriever | Mapping[str, Retriever]",
    *,
    transformers: "Sequence[QueryTransformer] | None" = None,
    reranker: "Reranker | None" = None,
    citations: bool = False,
) -> RagPipeline:
    """Return a pipeline with the settings' values: see `ContextEngine.rag`."""
    rag = runtime.settings.rag
    if transformers is None:
        transformers = (RuleBasedConversationTransformer(max_history_turns=rag.max_history_turns),)
    if not rag.rerank_enabled:
        reranker = None
    elif reranker is None:
        reranker = _reranker(runtime, list(sources.values()) if isinstance(sources, Mapping) else [sources])
    return RagPipeline(
        sources,
        ContextBuilder.from_settings(runtime.context_counter, runtime.settings, citations=citations),
        transformers=transformers,
        reranker=reranker,
        rerank_top_k=rag.rerank_top_k,
        fusion=score_fusion if rag.fusion == "scores" else reciprocal_rank_fusion,
        similarity_threshold=rag.similarity_threshold,
        timeout_seconds=runtime.settings.model_calls.timeout_seconds,
        observer=runtime.observer,
        workers=runtime.workers,
    )


def _reranker(runtime: "Runtime", sources: "Sequence[Retriever]") -> "Reranker":
    """Return the settings' reranker; BM25 takes its term statistics from the engine's own documents."""
    own = [source for source in sources if isinstance(source, DocumentIndex)]
    scopes = [scope for source in own for scope in source.scopes]
    statistics = DocumentIndex(runtime, *scopes).index if scopes and len(own) == len(sources) else None
    return RERANKERS[runtime.settings.rag.reranker](runtime.settings, statistics)


def documents_of_turn(
    runtime: "Runtime",
    key: SessionKey | None,
    ask: Callable[[], tuple[str, Sequence[Message]]],
    *,
    empty: Collection[Scope] = (),
) -> RagContext:
    """Retrieve documents for the question and the earlier messages that `ask` returns. Never raises.

    The scopes in `empty` are known to have none.
    """
    settings = runtime.settings.rag
    if settings.enabled is False:
        return RagContext.EMPTY
    try:
        pipeline = _pipeline_of(runtime, key, empty)
        if pipeline is None:
            return RagContext.EMPTY
        query, history = ask()
        said = last_turns(history, settings.max_history_turns) if settings.max_history_turns else ()
        return pipeline.retrieve(RagQuery(query, top_k=settings.top_k, rerank=settings.rerank_enabled, history=said))
    except Exception as error:  # noqa: BLE001 - the turn continues without documents; receipt and counter say so
        _log.warning("a turn continues without documents: %s", error, exc_info=error)
        runtime.observer.count("rag.errors")
        return replace(RagContext.EMPTY, notes=(f"no documents were retrieved: {type(error).__name__}",))


def _scopes_of(key: SessionKey | None) -> list[Scope]:
    """Return the scopes of a turn's documents: the caller's and the user's."""
    caller_id, user_id = (key.caller_id, key.user_id) if key else ("default", None)
    return [cached_scope(caller_id), *([cached_scope(caller_id, user_id)] if user_id else [])]


def unknown_scopes(runtime: "Runtime", key: SessionKey) -> list[Scope]:
    """Return the scopes that may be without documents, if that decides whether the turn retrieves any."""
    if runtime.settings.rag.enabled is not None or runtime.retriever is not None:
        return []
    return [scope for scope in _scopes_of(key) if not runtime.has_documents.get(scope)]


def _pipeline_of(runtime: "Runtime", key: SessionKey | None, empty: Collection[Scope]) -> RagPipeline | None:
    """Return the pipeline for this turn's documents; `None` if there are no documents."""
    given = runtime.retriever
    if isinstance(given, RagPipeline):
        return given
    if given is not None:
        return rag_pipeline(runtime, given)
    filled = [scope for scope in _scopes_of(key) if scope not in empty and _has_documents(runtime, scope)]
    return rag_pipeline(runtime, DocumentIndex(runtime, *filled)) if filled else None


def _has_documents(runtime: "Runtime", scope: Scope) -> bool:
    """Return whether the scope has documents, caching a positive result."""
    if runtime.settings.rag.enabled or runtime.has_documents.get(scope):
        return True
    if DocumentIndex(runtime, scope).count() == 0:
        return False
    runtime.has_documents[scope] = True
    return True
