"""RagPipeline: from a question to the documents that a model gets to see, whatever fails on the way."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any

from arc_common.concurrency import Workers, async_form, started
from arc_common.documents import ScoredDocument, checked_documents, checked_items
from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter
from arc_common.messages import Message
from arc_common.observability import Observer, SilentObserver, timed
from arc_common.protocols import QueryTransformer, Reranker, Retriever
from arc_common.rag.context_builder import (
    ContextBuilder,
    NotingRetriever,
    RagContext,
    checked_queries,
    found_by,
    in_order,
)
from arc_common.rerankers.base import check_top_k, reranked
from arc_common.rerankers.bm25 import TermStatistics
from arc_common.retrieval.fusion import deduplicated, score_fusion
from arc_common.retrieval.index import SearchResult


@dataclass(frozen=True, slots=True)
class JointStatistics:
    """The `TermStatistics` of several scopes as if they were one, asked anew each time."""

    parts: Sequence[TermStatistics]

    @property
    def document_count(self) -> int:
        """Documents in all of them."""
        return sum(part.document_count for part in self.parts)

    @property
    def average_length(self) -> float:
        """Terms of a document, on average; 0 where there is none."""
        sizes = [(part.document_count, part.average_length) for part in self.parts]
        count = sum(size for size, _ in sizes)
        return sum(size * length for size, length in sizes) / count if count else 0.0

    def document_frequencies(self, terms: Sequence[str]) -> list[int]:
        """How many documents have each of the terms, in their order."""
        return [sum(one) for one in zip(*(part.document_frequencies(terms) for part in self.parts), strict=True)]


_log = logging.getLogger("arc.rag")

Fusion = Callable[[Mapping[str, Sequence[ScoredDocument]]], list[ScoredDocument]]
"""One ranking from those of several sources, each under its name; `score_fusion` is one."""

_VECTOR = "vector"
"""The score part that is a cosine."""


@dataclass(frozen=True, slots=True)
class RagQuery:
    """What is asked, and of which documents.

    Args:
        query: The question.
        filters: Which documents may be found at all, by their metadata; handed to the sources as they are.
        top_k: How many documents are retrieved at most.
        rerank: Whether they are re-ranked.
        history: The conversation before the question, oldest first.
        rerank_top_k: How many the reranker leaves at most; `None`: as many as the pipeline says.
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
        check_top_k(self.top_k)
        if self.rerank_top_k is not None and (type(self.rerank_top_k) is not int or self.rerank_top_k < 1):
            raise InvalidInputError("rerank_top_k", self.rerank_top_k, "1 or more, or None")


class RagPipeline:
    """Transforms a question, retrieves documents for it, re-ranks them, and builds the context.

    - Documents stand in the order that the reranker gives them, or else the fusion; where their scores say otherwise,
      they get scores from their places.
    - Each query that the transformers make is asked of every source. What one source finds for several queries is put
      together by document, each with its best score; what several sources find is fused.
    - No stage ends the turn: a transformer that fails leaves the queries as they are, a source that fails finds
      nothing, a reranker that fails leaves the retrieved order, and a context that can't be built is empty. A source's
      answers that are not documents are left out, and so are documents that a reranker was not given. The context's
      `notes` say so, a warning is logged, and `rag.<stage>.errors` is counted (transform, retrieve, fuse, rerank,
      build).
    - Documents are re-ranked by the first query: the question, or what a transformer made of a follow-up.
    - Filters are the sources' to apply, and are never dropped: a source that can't apply them finds nothing.
    - Each stage's time goes to the observer as `rag.<stage>`.
    - Safe to share between threads, if its parts are.

    Args:
        sources: What is asked: a retriever, or several under their names.
        builder: Packs what is shown.
        transformers: In order, each applied to every query that the one before it made.
        reranker: Puts the retrieved documents in order; `None`: they stay in the order of their scores.
        rerank_top_k: Documents left by the reranker, and shown at most where none is asked for.
        fusion: One ranking from those of several sources; by default by their normalised scores.
        similarity_threshold: The lowest cosine at which a document is shown. It is the score part "vector"; of a
            document without parts it is the score. Documents without a cosine (from a source that searches by words,
            or never embedded) pass.
        timeout_seconds: The longest wait for a source other than arc's own, which is asked on a thread of its own.
        observer: Receives counts and times.
        workers: Threads for `aretrieve`; its own, if not given.
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
            if not isinstance(source, Retriever | NotingRetriever):
                raise InvalidInputError("sources", source, "a Retriever, or several under their names")
        if not callable(getattr(builder, "build", None)):
            raise InvalidInputError("builder", builder, "a ContextBuilder")
        if reranker is not None and not isinstance(reranker, Reranker):
            raise InvalidInputError("reranker", reranker, "a Reranker, or None")
        if type(rerank_top_k) is not int or rerank_top_k < 1:
            raise InvalidInputError("rerank_top_k", rerank_top_k, "1 or more")
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
        self._rerank_top_k = rerank_top_k
        self._fusion = fusion
        self._threshold = similarity_threshold
        self._timeout = timeout_seconds
        self._observer = observer or SilentObserver()
        self._workers = workers or Workers(4, name="arc-rag")

    def retrieve(self, query: RagQuery | str, *, max_tokens: int | None = None) -> RagContext:
        """The context for a question; one equal to `RagContext.EMPTY` where there is nothing to show.

        Args:
            query: The question, with what goes with it.
            max_tokens: Tokens of the context at most, instead of the builder's number.

        Raises:
            InvalidInputError: `query` or `max_tokens` is no such thing. Nothing else is raised.
        """
        asked = query if isinstance(query, RagQuery) else RagQuery(query)
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 0):
            raise InvalidInputError("max_tokens", max_tokens, "0 tokens or more")
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
            context = _checked_context(self._builder.build(documents, max_tokens=max_tokens))
        return replace(context, notes=tuple(run.notes)) if run.notes else context

    aretrieve = async_form(retrieve)

    def _transformed(self, asked: RagQuery, run: "_Run") -> list[str]:
        """The queries to search for, each once; the question itself, if there is nothing better."""
        queries = [asked.query]
        for transformer in self._transformers:
            with run.stage("transform"):
                answers = [transformer.transform(query, history=asked.history) for query in queries]
                made = [query for answer in answers for query in checked_queries(answer)]
                queries = [query for query in dict.fromkeys(made) if query.strip()] or queries
        return queries

    def _retrieved(self, asked: RagQuery, queries: Sequence[str], run: "_Run") -> list[ScoredDocument]:
        """Ask the sources; return their documents best first, each once."""
        rankings: dict[str, list[ScoredDocument]] = {}
        for name, source in self._sources.items():
            found: list[ScoredDocument] = []
            deadline = monotonic() + self._timeout
            for query in queries:
                ask = partial(
                    found_by,
                    source,
                    query,
                    top_k=asked.top_k,
                    filters=asked.filters,
                    cosines=self._threshold is not None,
                    on_bad=run.problem("retrieve"),
                )
                with run.stage("retrieve"):
                    answer = ask() if isinstance(source, NotingRetriever) else _within(deadline - monotonic(), ask)
                    run.note(answer.notes)
                    found += [document for document in answer.documents if self._is_similar(document)]
                if monotonic() >= deadline:
                    break
            if found:
                rankings[name] = deduplicated(found)
        documents = next(iter(rankings.values()), [])
        if len(rankings) > 1:
            with run.stage("fuse"):
                documents = in_order(checked_documents("fused", self._fusion(_copied(rankings))))
        return documents[: asked.top_k]

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


def _within(seconds: float, ask: Callable[[], SearchResult]) -> SearchResult:
    """Return a source's answer; a thread that is late can't be stopped, and its answer is ignored."""
    answer = started(ask, name="arc-rag-source")
    if not wait([answer], seconds).done:
        raise TimeoutError(f"the source did not answer within {seconds:.3g} s")
    return answer.result()


def _copied(rankings: Mapping[str, Sequence[ScoredDocument]]) -> dict[str, list[ScoredDocument]]:
    """Copy the rankings for a fusion, which may be a user's and change them before it fails."""
    return {name: list(documents) for name, documents in rankings.items()}


def _checked_context(built: object) -> RagContext:
    if not isinstance(built, RagContext):
        raise InvalidInputError("built", built, "a RagContext")
    return built


class _Run:
    """One question on its way: what went wrong so far."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.notes: list[str] = []

    def note(self, notes: Iterable[str]) -> None:
        """Keep what a stage says, each note once."""
        self.notes += [note for note in dict.fromkeys(notes) if note not in self.notes]

    def problem(self, stage: str) -> Callable[[str], None]:
        """Return a function that notes, counts and logs that a stage left out a part of an answer."""

        def report(note: str) -> None:
            self._observer.count(f"rag.{stage}.errors")
            self.note([note])
            _log.warning("A question goes on; its stage %s left out part of an answer: %s", stage, note)

        return report

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; what it raises ends it, and nothing else."""
        try:
            with timed(self._observer, f"rag.{name}"):
                yield
        except Exception as error:  # noqa: BLE001 - the turn goes on, whatever a stage's parts raise
            self._observer.count(f"rag.{name}.errors")
            self.notes.append(f"{name} failed: {type(error).__name__}: {error}"[:300])
            _log.warning("A question goes on without its stage %s: %s", name, error, exc_info=True)
