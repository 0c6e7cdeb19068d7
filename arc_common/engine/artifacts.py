"""Stores a session's artifacts in the hybrid index, and finds them for a question."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from arc_common.context import RecalledLine
from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.memories import Artifact, ScoredArtifact
from arc_common.memory.artifacts import choose
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope
from arc_common.rag import Chunker
from arc_common.retrieval import HybridIndex

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

_log = logging.getLogger("arc.artifacts")

_MOST_CHARACTERS = 1_000_000
_LONGEST_SOURCE = 2_000
_OWN = ("artifact_id", "chunk_index", "created_at", "memory_type", "session_id")
"""The metadata keys that arc writes."""


def add_artifact(
    runtime: "Runtime",
    key: SessionKey | None,
    content: str,
    *,
    source: str,
    kind: str = "tools",
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """Store the output of a tool or a search: see `Session.add_artifact`."""
    text, origin = _checked("content", content, _MOST_CHARACTERS), _checked("source", source, _LONGEST_SOURCE)
    if kind != "tools":
        raise InvalidInputError("kind", kind, "'tools': facts and summary are kept by the conversation's own memory")
    given = {} if metadata is None else metadata
    if not isinstance(given, Mapping):
        raise InvalidInputError("metadata", metadata, "a mapping, or None")
    if taken := [name for name in _OWN if name in given]:
        raise InvalidInputError("metadata", taken[0], f"a name other than {', '.join(_OWN)}: arc writes these")
    if key is None:
        raise InvalidInputError("session_id", None, "an id, to keep artifacts under")
    runtime.store.get(key)  # raises for another user's session
    origin = " ".join(origin.split())
    artifact_id = sha256(f"{origin}\x00{text}".encode()).hexdigest()[:32]
    chunks = Chunker(runtime.token_counter, size=runtime.settings.rag.chunk_size, overlap=0).split(text)
    now = runtime.clock().isoformat()
    own = {"session_id": key.session_id, "memory_type": kind, "artifact_id": artifact_id, "created_at": now}
    _index(runtime, key).add(
        [
            Document(chunk.text, f"{artifact_id}#{place}", origin, {**given, **own, "chunk_index": place})
            for place, chunk in enumerate(chunks)
        ]
    )
    _know(runtime, key, True)
    return artifact_id


def artifacts_of_turn(
    runtime: "Runtime", key: SessionKey | None, query: str, *, facts: Sequence[RecalledLine] = ()
) -> list[ScoredArtifact]:
    """Return the artifacts to show on a turn, most relevant first; empty if artifacts are off. Never raises."""
    settings = runtime.settings.artifacts
    if not settings.enabled or not settings.final_top_k or not query.strip():
        return []
    stated = [
        ScoredArtifact(Artifact(fact.id, "facts", fact.line.removeprefix("- ")), 0.0, (fact.line.removeprefix("- "),))
        for fact in facts[: settings.max_facts]
    ]
    try:
        return choose(query, _found(runtime, key, query) if key else [], stated, settings)
    except Exception as error:  # noqa: BLE001 - a reply must not fail for want of artifacts
        _log.warning("a turn goes on without tool snippets: %s", error, exc_info=error)
        runtime.observer.count("artifacts.errors")
        return stated[: min(settings.top_k, settings.final_top_k)]


def forget_artifacts(runtime: "Runtime", key: SessionKey) -> int:
    """Remove a session's artifacts, even if it has no messages, and return the number of chunks removed."""
    _know(runtime, key, None)
    return runtime.index_store.erase(_scope(key), kind="artifact")


def _scope(key: SessionKey) -> Scope:
    return Scope(key.caller_id, key.user_id, key.session_id)


def _index(runtime: "Runtime", key: SessionKey) -> HybridIndex:
    return HybridIndex(
        runtime.index_store,
        scope=_scope(key),
        kind="artifact",
        embedder=runtime.embedder,
        batch_size=runtime.settings.embeddings.batch_size,
        observer=runtime.observer,
    )


def _found(runtime: "Runtime", key: SessionKey, query: str) -> list[ScoredArtifact]:
    """Return the session's tool snippets that match the question."""
    settings = runtime.settings.artifacts
    if not settings.max_tool_snippets:
        return []
    with runtime.index_lock:
        known = runtime.has_artifacts.get(_scope(key))
    index = _index(runtime, key)
    if known is None:
        known = index.count() > 0
        _know(runtime, key, known)
    return [_scored(one) for one in index.search(query, top_k=settings.rerank_top_n)] if known else []


def _know(runtime: "Runtime", key: SessionKey, has_artifacts: bool | None) -> None:
    """Cache whether a session has artifacts; `None` clears the entry. Cachetools' caches require a lock."""
    with runtime.index_lock:
        runtime.has_artifacts.pop(_scope(key), None)
        if has_artifacts is not None:
            runtime.has_artifacts[_scope(key)] = has_artifacts


def _scored(found: ScoredDocument) -> ScoredArtifact:
    document = found.document
    created_at = document.metadata.get("created_at")
    return ScoredArtifact(
        Artifact(
            id=document.id or "",
            kind="tools",
            text=document.text,
            source=document.source or "",
            created_at=datetime.fromisoformat(created_at) if isinstance(created_at, str) else None,
            metadata=document.metadata,
        ),
        found.score or 0.0,
        score_parts=found.score_parts,
    )


def _checked(name: str, value: object, most: int) -> str:
    """Return the text unchanged if it can be stored; raise `InvalidInputError` otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(name, value, "text that is not empty")
    if len(value) > most:
        raise InvalidInputError(name, value, f"at most {most:,} characters, not {len(value):,}")
    if "\x00" in value:
        raise InvalidInputError(name, value, "text without NUL characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(name, value, "text without lone surrogates") from error
    return value
