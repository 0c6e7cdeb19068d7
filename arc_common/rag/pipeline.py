"""RagPipeline: from a question to the documents that a model sees, whatever fails on the way."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Protocol, runtime_checkable

from arc_common.concurrency import Workers, async_form, started
from arc_common.documents import ScoredDocument, checked_documents, checked_items, usable_documents
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.filters import Filter
from arc_common.messages import Message
from arc_common.observability import Observer, guarded_observer, timed
from arc_common.protocols import QueryTransformer, Reranker, Retriever
from arc_common.rag.context_builder import ContextBuilder, RagContext
from arc_common.rerankers.base import best_first, reranked, rescored
from arc_common.retrieval.fusion import deduplicated, score_fusion
from arc_common.retrieval.index import SearchResult

_log = logging.getLogger("arc.rag")


@runtime_checkable
class NotingRetriever(Protocol):
    """A source that also reports the parts that failed in a search, and each document's similarity to the query."""

    def retrieve_with_notes(
        self,
        query: str,
        *,
        top_k: int,
        filters: Mapping[str, Any] | Filter | None = None,
        cosines: bool = False,
    ) -> SearchResult:
        """Retrieve as `Retriever.retrieve` does; `cosines` adds each vector's cosine as score part "vector"."""


Fusion = Callable[[Mapping[str, Sequence[ScoredDocument]]], list[ScoredDocument]]
"""Merges the rankings of several sources, each under its name, into one; `score_fusion` is one."""

_VECTOR = "vector"
"""The name of the score part that is a cosine."""


@dataclass(frozen=True, slots=True)
class RagQuery:
    """A question, and the documents to search for it.

    Args:
        filters: Restricts documents by their metadata; passed to the sources unchanged.
        top_k: The most documents retrieved.
        rerank: Re-rank the documents.
        history: The conversation before the question, oldest first.
        rerank_top_k: The most documents that the reranker keeps; `None` uses the pipeline's number.
    """

    query: str
    filters: Mapping[str, Any] | Filter | None = None
    top_k: int = 10
    rerank: bool = True
    history: Sequence[Message] = ()
    rerank_top_k: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise InvalidInputError("query", self.query, "text")
        check_whole("top_k", self.top_k)
        if self.rerank_top_k is not None:
            check_whole("rerank_top_k", self.rerank_top_k)


class RagPipeline:
    """Transforms a question, retrieves documents for it, re-ranks them, and builds the context.

    - Every query that the transformers make is sent to every source. One source's results for several queries are
      merged by document, each with its best score; the results of several sources are fused. Documents are re-ranked
      by the first query, and keep the order of the reranker, or else of the fusion.
    - No stage stops the turn: a transformer that fails leaves the queries unchanged, a source that fails finds nothing,
      a reranker that fails leaves the retrieved order, and a context that can't be built is empty. Answers that are not
      documents, or that a reranker was not given, are left out. The context's `notes` say so, a warning is logged, and
      `rag.<stage>.errors` is counted (transform, retrieve, fuse, rerank, build).
    - Filters are applied by the sources and never dropped: a source that can't apply them finds nothing.
    - The observer gets the time of each stage as `rag.<stage>`. Safe to share between threads, if its parts are.

    Args:
        sources: A retriever, or several under their names.
        builder: Packs the documents shown.
        transformers: Applied in order, each to every query that the previous one made.
        reranker: Ranks the retrieved documents; with `None`, they stay in the order of their scores.
        rerank_top_k: The most documents that the reranker keeps if the query doesn't say.
        fusion: Merges the rankings of several sources; by default by their normalised scores.
        similarity_threshold: The lowest cosine (score part "vector", or the score of a document without parts) at which
            a document is shown; documents without a cosine pass.
        timeout_seconds: The longest wait, in seconds, for a source other than arc's own.
        workers: Threads for `aretrieve`; by default the pipeline's own.
    """

    def __init__(
        self,
        sources: Retriever | Mapping[str, Retriever],
        builder: ContextBuilder,
        *,
        transformers: Sequence[QueryTransformer] = (),
        reranker: Reranker | None = None,
        rerank_top_k: int = 5,
        fusion: Fusion = score_fusion,
        similarity_threshold: float | None = None,
        timeout_seconds: float = 30.0,
        observer: Observer | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._sources = dict(sources) if isinstance(sources, Mapping) else {"retrieval": sources}
        if not self._sources:
            raise InvalidInputError("sources", sources, "at least one retriever")
        for source in self._sources.values():
            if not isinstance(source, Retriever):
                raise InvalidInputError("sources", source, "a Retriever, or several under their names")
        if not callable(getattr(builder, "build", None)):
            raise InvalidInputError("builder", builder, "a ContextBuilder")
        if reranker is not None and not isinstance(reranker, Reranker):
            raise InvalidInputError("reranker", reranker, "a Reranker, or None")
        if not callable(fusion):
            raise InvalidInputError("fusion", fusion, "a function: from rankings by name to one")
        if similarity_threshold is not None and not (
            isinstance(similarity_threshold, int | float) and -1 <= similarity_threshold <= 1
        ):
            raise InvalidInputError("similarity_threshold", similarity_threshold, "a cosine from -1 to 1, or None")
        self._builder = builder
        self._transformers = tuple(
            checked_items("transformers", transformers, QueryTransformer, expected="QueryTransformers")
        )
        self._reranker = reranker
        self._rerank_top_k = check_whole("rerank_top_k", rerank_top_k)
        self._fusion = fusion
        self._threshold = similarity_threshold
        self._timeout = timeout_seconds
        self._observer = guarded_observer(observer)
        self._workers = workers or Workers(4, name="arc-rag")

    def retrieve(self, query: RagQuery | str, *, max_tokens: int | None = None) -> RagContext:
        """Return the context for a question; one equal to `RagContext.EMPTY` if there is nothing to show.

        `max_tokens` takes the place of the builder's limit.

        Raises:
            InvalidInputError: `query` or `max_tokens` is invalid. Nothing else is raised.
        """
        asked = query if isinstance(query, RagQuery) else RagQuery(query)
        if max_tokens is not None:
            check_whole("max_tokens", max_tokens, least=0)
        if not asked.query.strip():
            return RagContext.EMPTY
        run = _Run(self._observer)
        queries = self._transformed(asked, run)
        documents = self._retrieved(asked, queries, run)
        if asked.rerank and self._reranker is not None and documents:
            most = asked.rerank_top_k or self._rerank_top_k
            documents = self._reranked(self._reranker, queries[0], documents, most, run)
        context = RagContext.EMPTY
        with run.stage("build"):
            built: object = self._builder.build(documents, max_tokens=max_tokens)
            if not isinstance(built, RagContext):
                raise InvalidInputError("built", built, "a RagContext")
            context = built
        return replace(context, notes=tuple(run.notes)) if run.notes else context

    aretrieve = async_form(retrieve)

    def _transformed(self, asked: RagQuery, run: "_Run") -> list[str]:
        """Return the queries to search for, each once; at least the question itself."""
        queries = [asked.query]
        for transformer in self._transformers:
            with run.stage("transform"):
                answers = [transformer.transform(query, history=asked.history) for query in queries]
                made = [
                    query
                    for answer in answers
                    for query in checked_items("queries", answer, str, expected="a list of texts")
                ]
                queries = [query for query in dict.fromkeys(made) if query.strip()] or queries
        return queries

    def _retrieved(self, asked: RagQuery, queries: Sequence[str], run: "_Run") -> list[ScoredDocument]:
        """Ask the sources; return their documents best first, each once."""
        rankings: dict[str, list[ScoredDocument]] = {}
        for name, source in self._sources.items():
            found: list[ScoredDocument] = []
            deadline = monotonic() + self._timeout
            for query in queries:
                with run.stage("retrieve"):
                    answer = self._found(source, query, asked, run, deadline - monotonic())
                    found += [document for document in answer if self._is_similar(document)]
                if monotonic() >= deadline:
                    break
            if found:
                rankings[name] = deduplicated(found)
        documents = next(iter(rankings.values()), [])
        if len(rankings) > 1:
            with run.stage("fuse"):
                copies = {name: list(found) for name, found in rankings.items()}  # a user's fusion may change them
                documents = in_order(checked_documents("fused", self._fusion(copies)))
        return documents[: asked.top_k]

    def _found(
        self, source: Retriever, query: str, asked: RagQuery, run: "_Run", seconds: float
    ) -> Sequence[ScoredDocument]:
        if isinstance(source, NotingRetriever):
            found = source.retrieve_with_notes(
                query, top_k=asked.top_k, filters=asked.filters, cosines=self._threshold is not None
            )
            run.note(found.notes)
            return found.documents

        def ask() -> list[ScoredDocument]:
            answer = source.retrieve(query, top_k=asked.top_k, filters=asked.filters)
            return usable_documents("retrieved", answer, on_bad=run.problem("retrieve"))

        return _within(seconds, ask)

    def _reranked(
        self, reranker: Reranker, query: str, documents: list[ScoredDocument], most: int, run: "_Run"
    ) -> list[ScoredDocument]:
        most = min(most, len(documents))
        ranked = documents
        with run.stage("rerank"):
            ranked = in_order(reranked(reranker, query, documents, top_k=most, on_bad=run.problem("rerank")))
        return ranked[:most]

    def _is_similar(self, found: ScoredDocument) -> bool:
        if self._threshold is None:
            return True
        cosine = found.score_parts.get(_VECTOR) if found.score_parts else found.score
        return cosine is None or cosine >= self._threshold


def in_order(ranked: Sequence[ScoredDocument]) -> list[ScoredDocument]:
    """Return the documents with descending scores: their own if these descend, else scores by place."""
    if best_first([found.score for found in ranked], top_k=len(ranked)) == list(range(len(ranked))):
        return list(ranked)
    return [rescored(found, 1 - place / len(ranked), {}) for place, found in enumerate(ranked)]


def _within(seconds: float, ask: Callable[[], list[ScoredDocument]]) -> list[ScoredDocument]:
    """Return a source's answer; a thread that is late can't be stopped, and its answer is ignored."""
    answer = started(ask, name="arc-rag-source")
    if not wait([answer], seconds).done:
        raise TimeoutError(f"the source did not answer within {seconds:.3g} s")
    return answer.result()


class _Run:
    """One retrieval, with the failures noted so far."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.notes: list[str] = []

    def note(self, notes: Iterable[str]) -> None:
        """Keep the notes of a stage, each once."""
        self.notes += [note for note in dict.fromkeys(notes) if note not in self.notes]

    def problem(self, stage: str) -> Callable[[str], None]:
        """Return a function that notes, counts and logs that a stage left out a part of an answer."""

        def report(note: str) -> None:
            self._observer.count(f"rag.{stage}.errors")
            self.note([note])
            _log.warning("Stage %s left out part of an answer; the retrieval continues: %s", stage, note)

        return report

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; an exception ends this stage only."""
        try:
            with timed(self._observer, f"rag.{name}"):
                yield
        except Exception as error:  # noqa: BLE001 - the turn continues, whatever a stage's parts raise
            self._observer.count(f"rag.{name}.errors")
            self.notes.append(f"{name} failed: {type(error).__name__}: {error}"[:300])
            _log.warning("The retrieval continues without its stage %s: %s", name, error, exc_info=True)
