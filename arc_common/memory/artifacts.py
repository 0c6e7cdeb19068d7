"""Stores a session's artifacts, and chooses those shown for a question and the sentences shown of each."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from heapq import merge
from threading import Lock
from typing import TYPE_CHECKING, Any

from cachetools import TTLCache

from arc_common.context import RecalledLine
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.memory.services import Services
from arc_common.messages import check_identifier
from arc_common.protocols import SessionKey
from arc_common.protocols.records import RecordChange
from arc_common.protocols.search_index import IndexEntry, Scope, cached_scope
from arc_common.rag import Chunker
from arc_common.rerankers import BM25Reranker, KeywordWeightedReranker
from arc_common.retrieval import HybridIndex
from arc_common.text import analyze, analyze_query
from arc_common.text.sentences import MAX_SENTENCE, announces, rough_tokens, sentences_of
from arc_common.trust import quoted

if TYPE_CHECKING:
    from arc_common.settings import ArtifactSettings

_EXCERPTS = 3
_LEAST_EXCERPTS = 2
_EXCERPT_TOKENS = 48
"""The approximate length of a tool excerpt: in 200 tokens, three of them and their source leave room to spare."""
_NEARLY_AS_RELEVANT = 0.5
"""Snippets with at least this share of the best relevance may be about the same thing: the newest comes first."""
_MOST_TERMS = 256
"""The most terms of a question that are used; the index searches for no more."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_MOST_CHARACTERS = 1_000_000
_LONGEST_SOURCE = 2_000
_SHOWN_SOURCE = 120
"""Characters: a URL with all its parameters may cost more tokens than the text found there."""
_OWN = ("artifact_id", "chunk_index", "created_at", "memory_type", "session_id")
"""The metadata keys that arc writes."""
_KNOWN = 10_000
_LOOK_AGAIN = 60.0
"""Seconds for which it is cached whether a session has artifacts."""

_log = logging.getLogger("arc.artifacts")


def asks_for_the_newest(question: str, cues: Sequence[str]) -> bool:
    """Return whether the question contains one of the cues as whole words in any inflection ("지금은" has "지금")."""
    asked = f" {' '.join(analyze(question))} "
    return any(f" {' '.join(terms)} " in asked for terms in map(analyze, cues) if terms)


def asked_terms(question: str) -> list[str]:
    """Return a question's distinct terms; none if it has only stop words, which every text would match."""
    asked = analyze_query(f"{question} 0")[:-1]  # with "0", stop words alone are dropped, too
    return list(dict.fromkeys(asked))[:_MOST_TERMS]


def relevance(terms: Sequence[str], text: str) -> float:
    """Return the share of the terms that a text contains, from 0 to 1."""
    if not terms:
        return 0.0
    present = set(analyze(text))
    return sum(term in present for term in terms) / len(terms)


def excerpts_of(text: str, question: str, *, longest: int = MAX_SENTENCE) -> tuple[str, ...]:
    """Return the two or three sentences of a text that match a question best, in order; adjacent ones are joined.

    A sentence that only introduces the next one ("Here are some ideas:") is joined with it.
    """
    sentences = sentences_of(text, longest=longest)
    if not sentences:
        return ()
    found = BM25Reranker(top_k=_EXCERPTS).rerank(
        question, [ScoredDocument(Document(sentence, id=str(place))) for place, sentence in enumerate(sentences)]
    )
    places = sorted(int(one.document.id or 0) for one in found if one.score)
    if len(places) < _LEAST_EXCERPTS:
        first = places[0] if places else 0
        places = sorted({first, first + 1 if first + 1 < len(sentences) else max(first - 1, 0)})
    chosen = set(places)
    for place, sentence in enumerate(sentences[:-1]):  # a heading may follow the introduction
        if place in chosen and announces(sentence):
            chosen.add(place + 1)
    places = sorted(chosen)
    excerpts: list[str] = []
    for before, place in zip([-2, *places], places, strict=False):
        if place == before + 1:
            excerpts[-1] += f" {sentences[place]}"
        else:
            excerpts.append(sentences[place])
    return tuple(excerpts)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a tool's or a search's output, with its relevance for a question and the sentences shown."""

    found: ScoredDocument
    score: float
    excerpts: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id of the part."""
        return self.found.document.id or ""

    @property
    def source(self) -> str:
        """The origin of the output."""
        return self.found.document.source or ""

    @property
    def created_at(self) -> datetime | None:
        """When the output was stored."""
        created_at = self.found.document.metadata.get("created_at")
        return datetime.fromisoformat(created_at) if isinstance(created_at, str) else None

    @property
    def line(self) -> str:
        """The excerpts as a list item in one line: a quotation with source and day."""
        text = " … ".join(" ".join(excerpt.split()) for excerpt in self.excerpts)
        when = f", {self.created_at:%Y-%m-%d}" if self.created_at else ""
        source = " ".join(self.source.split())
        shown = source if len(source) <= _SHOWN_SOURCE else f"{source[:_SHOWN_SOURCE]}…"
        return f"- [{shown}{when}] {quoted(text)}"


_Placed = tuple[float, Snippet | RecalledLine]


def choose(
    question: str, tools: Sequence[ScoredDocument], facts: Sequence[RecalledLine], settings: "ArtifactSettings"
) -> list[Snippet | RecalledLine]:
    """Choose the snippets and facts to show for a question, the most relevant first."""
    terms = asked_terms(question)
    shown: dict[tuple[str, ...], Snippet] = {}
    for one in _admitted(question, _reranked(question, tools, terms), settings):
        text = one.found.document.text
        longest = _EXCERPT_TOKENS * len(text) // rough_tokens(text)  # lower where a character takes more tokens
        excerpts = excerpts_of(text, question, longest=max(longest, 1))
        shown.setdefault(excerpts, replace(one, excerpts=excerpts))
    stated: list[_Placed] = [(relevance(terms, fact.line), fact) for fact in facts[: settings.max_facts]]
    snippets: list[_Placed] = [(one.score, one) for one in list(shown.values())[: settings.max_tool_snippets]]
    ranked = merge(stated, snippets, key=lambda placed: -placed[0])  # keeps the order within each
    return [one for _, one in ranked][: min(settings.top_k, settings.final_top_k)]


def _reranked(question: str, tools: Sequence[ScoredDocument], terms: Sequence[str]) -> list[Snippet]:
    """Rank the documents by their scores and the question's words; each snippet's score is its relevance."""
    ranked = KeywordWeightedReranker(top_k=len(tools)).rerank(question, tools) if tools else []
    cosines = (min(max(one.score_parts.get("vector", 0.0), 0.0), 1.0) for one in ranked)
    return [
        Snippet(one, max(relevance(terms, one.document.text), cosine))
        for one, cosine in zip(ranked, cosines, strict=True)
    ]


def _admitted(question: str, tools: Sequence[Snippet], settings: "ArtifactSettings") -> list[Snippet]:
    if not asks_for_the_newest(question, settings.recency_cues):
        return [one for one in tools if one.score >= settings.tool_relevance and one.score > 0]
    least = _NEARLY_AS_RELEVANT * max((one.score for one in tools), default=0.0)
    about = [one for one in tools if one.score >= least and one.score > 0]
    return sorted(about, key=lambda one: one.created_at or _LONG_AGO, reverse=True)


class SessionArtifacts:
    """Stores the artifacts of sessions in the hybrid index, and finds them for a question."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._settings = services.settings.artifacts
        self._lock = Lock()
        self._known: TTLCache[Scope, bool] = TTLCache(_KNOWN, ttl=_LOOK_AGAIN)  # by session: it has artifacts

    def add(
        self, key: SessionKey | None, content: str, *, source: str, kind: str, metadata: Mapping[str, Any] | None
    ) -> str:
        """Store the output of a tool or a search: see `Session.add_artifact`."""
        text = check_identifier("content", content, longest=_MOST_CHARACTERS)
        origin = check_identifier("source", source, longest=_LONGEST_SOURCE)
        if kind != "tools":
            raise InvalidInputError("kind", kind, "'tools': facts and summary are kept by the conversation's memory")
        given = {} if metadata is None else metadata
        if not isinstance(given, Mapping):
            raise InvalidInputError("metadata", metadata, "a mapping, or None")
        if taken := [name for name in _OWN if name in given]:
            raise InvalidInputError("metadata", taken[0], f"a name other than {', '.join(_OWN)}: arc writes these")
        if key is None:
            raise InvalidInputError("session_id", None, "an id, to keep artifacts under")
        services = self._services
        services.store.get(key)  # raises for another user's session
        origin = " ".join(origin.split())
        artifact_id = sha256(f"{origin}\x00{text}".encode()).hexdigest()[:32]
        chunks = Chunker(services.token_counter, size=services.settings.rag.chunk_size, overlap=0).split(text)
        now = services.clock().isoformat()
        own = {"session_id": key.session_id, "memory_type": kind, "artifact_id": artifact_id, "created_at": now}
        entries = [
            IndexEntry(f"{artifact_id}#{place}", chunk.text, {}, {**given, **own, "chunk_index": place}, origin)
            for place, chunk in enumerate(chunks)
        ]  # refuse the metadata before anything is written
        services.store.records.commit(_scope(key), RecordChange(points={artifact_id: key}), version=None)
        self._index(key).add(entries)
        self._know(key, True)
        return artifact_id

    def of_turn(
        self, key: SessionKey, query: str, *, facts: Sequence[RecalledLine]
    ) -> tuple[list[Snippet], list[RecalledLine]]:
        """Return the snippets and the facts to show on a turn; no snippets if artifacts are off. Never raises."""
        settings = self._settings
        if not settings.enabled:
            return [], list(facts)
        shown: Sequence[Snippet | RecalledLine] = facts[: min(settings.max_facts, settings.top_k, settings.final_top_k)]
        try:
            if settings.final_top_k and (tools := self._found(key, query)):
                shown = choose(query, tools, facts, settings)
        except Exception as error:  # noqa: BLE001 - a reply must not fail for want of artifacts
            _log.warning("a turn continues without tool snippets: %s", error, exc_info=error)
            self._services.observer.count("artifacts.errors")
        chosen = {one.id for one in shown if isinstance(one, RecalledLine)}
        return [one for one in shown if isinstance(one, Snippet)], [one for one in facts if one.id in chosen]

    def forget(self, key: SessionKey) -> None:
        """Drop the cache of a session; `Records.forget` removes its artifacts."""
        self._know(key, None)

    def _index(self, key: SessionKey) -> HybridIndex:
        return self._services.index(_scope(key), "artifact")

    def _found(self, key: SessionKey, query: str) -> list[ScoredDocument]:
        """Return the session's artifacts that match the question."""
        if not self._settings.max_tool_snippets:
            return []
        with self._lock:
            known = self._known.get(_scope(key))
        if known is None:
            known = self._index(key).count() > 0
            self._know(key, known)
        if not known:
            return []
        most = top_k = self._settings.rerank_top_n
        while True:
            found = self._index(key).search(query, top_k=top_k)
            ids = {str(one.document.metadata["artifact_id"]) for one in found}
            shown = set(self._services.store.records.shown(_scope(key), sorted(ids), key)) if found else ()
            here = [one for one in found if one.document.metadata["artifact_id"] in shown]
            if len(here) == len(found) or len(here) >= most or len(found) < top_k:
                return here[:most]
            top_k *= 2  # other branches' entries have taken their places

    def _know(self, key: SessionKey, has_artifacts: bool | None) -> None:
        """Cache whether a session has artifacts; `None` clears the entry. Cachetools' caches require a lock."""
        with self._lock:
            self._known.pop(_scope(key), None)
            if has_artifacts is not None:
                self._known[_scope(key)] = has_artifacts


def _scope(key: SessionKey) -> Scope:
    return cached_scope(key.caller_id, key.user_id, key.session_id)
