"""Captures answered questions, and keeps the queue in which people review them."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from arc_common.caches import forget_texts
from arc_common.concurrency import async_form
from arc_common.exceptions import (
    CandidateNotFoundError,
    ConfigurationError,
    InvalidInputError,
    ReviewConflictError,
    check_moment,
)
from arc_common.memories import MemoryStatus
from arc_common.messages import check_identifier, check_text
from arc_common.protocols import SessionKey
from arc_common.protocols.review import Candidate, CandidatePage, CandidateStatus
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.rag import Chunker
from arc_common.rag.ingestion import check_patterns, document_of, refusal
from arc_common.retrieval.index import entry_of, with_terms
from arc_common.settings import IngestionPolicy

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime

_log = logging.getLogger("arc.ingestion")

_MOST_CHARACTERS = 100_000
_LONGEST_COMMENT = 4_000


class Ingestion:
    """The review queue of one caller: approved answers become the caller's documents, approved memories the user's.

        engine.ingestion.capture("How long can I return it?", "Within 30 days.", run_id="r1", user_id="ann")
        for candidate in engine.ingestion.candidates().candidates:
            engine.ingestion.approve(candidate.id, reviewer="lee", comment="checked")

    - Each method has an async form, and raises `StoreError` if the store fails. Callers are isolated from each other.
    - A candidate is approved or rejected once, also if two reviewers decide at the same moment.
    - With `settings.memory.require_review`, extracted memories wait in the same queue. An approved one becomes an
      ordinary memory, and leaves the queue.
    - Deleting a session, or erasing a user, also removes the answers captured from it, and the documents that they
      became.
    """

    def __init__(self, runtime: "Runtime", caller_id: str) -> None:
        self._runtime = runtime
        self._workers = runtime.workers
        self._caller_id = SessionKey("any", caller_id).caller_id

    def __repr__(self) -> str:
        """Name the owner of the queue."""
        return f"<Ingestion of {self._caller_id!r}>"

    def policy(self) -> IngestionPolicy:
        """Return the policy in force: the stored one if `rag.ingestion.dynamic_enabled` is on, else the settings'."""
        settings = self._runtime.settings.rag.ingestion
        stored = self._runtime.store.reviews.policy(self._caller_id) if settings.dynamic_enabled else None
        own = {name: getattr(settings, name) for name in IngestionPolicy.model_fields}
        return IngestionPolicy(**{**own, **(stored or {})})

    apolicy = async_form(policy)

    def set_policy(
        self,
        *,
        enabled: bool | None = None,
        require_review: bool | None = None,
        allowed_channels: Sequence[str] | None = None,
        min_query_chars: int | None = None,
        min_response_chars: int | None = None,
        blocked_patterns: Sequence[str] | None = None,
    ) -> IngestionPolicy:
        """Change the caller's policy for all processes, and return it; values that are not given stay as they are.

            engine.ingestion.set_policy(enabled=True, allowed_channels=["web"])

        Raises:
            ConfigurationError: `rag.ingestion.dynamic_enabled` is off, or a value is invalid. Nothing was written.
            InvalidInputError: A blocked pattern is invalid. Nothing was written.
        """
        self._check_dynamic()
        given: dict[str, Any] = {
            "enabled": enabled,
            "require_review": require_review,
            "allowed_channels": allowed_channels,
            "min_query_chars": min_query_chars,
            "min_response_chars": min_response_chars,
            "blocked_patterns": blocked_patterns,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        policy = IngestionPolicy(**{**dict(self.policy()), **changes})
        check_patterns(policy.blocked_patterns)
        self._runtime.store.reviews.set_policy(self._caller_id, policy.model_dump(mode="json", include=set(changes)))
        return self.policy()

    aset_policy = async_form(set_policy)

    def reset_policy(self) -> IngestionPolicy:
        """Remove the stored policy, and return the settings' one.

        Raises:
            ConfigurationError: `rag.ingestion.dynamic_enabled` is off.
        """
        self._check_dynamic()
        self._runtime.store.reviews.set_policy(self._caller_id, None)
        return self.policy()

    areset_policy = async_form(reset_policy)

    def capture(
        self,
        query: str,
        response: str,
        *,
        run_id: str,
        session_id: str | None = None,
        user_id: str | None = None,
        channel: str = "chat",
        captured_at: datetime | None = None,
    ) -> Candidate | None:
        """Put an answered question into the queue, or index it at once if the policy requires no review.

        Capture successful answers only. Capturing the same run again changes nothing and returns the first candidate.

        Args:
            query: The question.
            response: The answer.
            run_id: The id of the run that answered.
            session_id: The session, with which the candidate is removed.
            user_id: The user, with whom the candidate is erased.
            channel: Where it was asked, such as "web".
            captured_at: When it was answered (with zone); by default now.

        Returns:
            The candidate; `None` if the policy refuses it, which is counted ("ingestion.refused").

        Raises:
            InvalidInputError: A value is not acceptable. Nothing was written.
        """
        asked, answered = _checked("query", query), _checked("response", response)
        candidate = Candidate(
            id="",
            kind="answer",
            status=CandidateStatus.PENDING,
            query=asked.strip(),
            response=answered.strip(),
            captured_at=check_moment("captured_at", captured_at) or self._runtime.clock(),
            run_id=check_identifier("run_id", run_id),
            session_id=None if session_id is None else check_identifier("session_id", session_id),
            user_id=None if user_id is None else check_identifier("user_id", user_id),
            channel=check_identifier("channel", channel),
        )
        policy = self.policy()
        reason = refusal(policy, asked, answered, channel)
        if reason is not None:
            self._runtime.observer.count("ingestion.refused", reason=reason)
            return None
        stored = self._runtime.store.reviews.put(self._caller_id, candidate)
        if policy.require_review:
            return stored
        try:
            return self._decided(stored, CandidateStatus.INGESTED, reviewer=None, comment="")
        except ReviewConflictError:  # the same run was captured before
            return self.get(stored.id)

    acapture = async_form(capture)

    def report_capture_error(self, error: Exception) -> None:
        """Log and count an answer that could not be captured. Never raises. Intended for adapters."""
        _log.warning("an answer was not captured: %s", error, exc_info=error)
        self._runtime.observer.count("ingestion.errors", error=type(error).__name__)

    def candidates(
        self,
        status: CandidateStatus | str = CandidateStatus.PENDING,
        *,
        channel: str | None = None,
        user_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> CandidatePage:
        """Return a page of candidates, the oldest first; with a channel, only its answers.

        Raises:
            InvalidInputError: `limit` is less than 1, the status is unknown, or `cursor` is not from an earlier page.
        """
        return self._runtime.store.reviews.page(
            self._caller_id,
            status=CandidateStatus(status),
            channel=None if channel is None else check_identifier("channel", channel),
            user_id=user_id,
            limit=limit,
            cursor=cursor,
        )

    acandidates = async_form(candidates)

    def get(self, candidate_id: str) -> Candidate:
        """Return one candidate, whatever its status.

        Raises:
            CandidateNotFoundError: The caller has no candidate with that id.
        """
        found = self._runtime.store.reviews.get(self._caller_id, candidate_id)
        if found is None:
            raise CandidateNotFoundError(candidate_id)
        return found

    aget = async_form(get)

    def approve(self, candidate_id: str, *, reviewer: str, comment: str = "") -> Candidate:
        """Approve a candidate: an answer becomes a document of the caller, a memory is used from now on.

        The document is searchable once this returns, together with the decision or not at all.

        Args:
            candidate_id: The candidate's id.
            reviewer: Who approves it.
            comment: The reviewer's comment.

        Raises:
            CandidateNotFoundError: The caller has no candidate with that id.
            InvalidInputError: A value is not acceptable.
            ReviewConflictError: It was approved or rejected already.
        """
        return self._reviewed(candidate_id, CandidateStatus.INGESTED, reviewer, comment)

    aapprove = async_form(approve)

    def reject(self, candidate_id: str, *, reviewer: str, comment: str = "") -> Candidate:
        """Reject a candidate; a rejected memory is not extracted again. Takes and raises the same as `approve`."""
        return self._reviewed(candidate_id, CandidateStatus.REJECTED, reviewer, comment)

    areject = async_form(reject)

    def _reviewed(self, candidate_id: str, status: CandidateStatus, reviewer: str, comment: str) -> Candidate:
        check_identifier("reviewer", reviewer)
        if len(check_text("comment", comment)) > _LONGEST_COMMENT:
            raise InvalidInputError("comment", comment, f"at most {_LONGEST_COMMENT:,} characters")
        found = self.get(candidate_id)
        if found.status is not CandidateStatus.PENDING:
            raise ReviewConflictError(candidate_id, found.status)
        return self._decided(found, status, reviewer=reviewer, comment=comment)

    def _decided(
        self, candidate: Candidate, status: CandidateStatus, *, reviewer: str | None, comment: str
    ) -> Candidate:
        decided = replace(
            candidate, status=status, reviewer=reviewer, comment=comment, reviewed_at=self._runtime.clock()
        )
        if candidate.kind == "memory":
            is_done = self._decide_memory(decided)
        elif status is CandidateStatus.INGESTED:
            document = document_of(candidate)
            decided = replace(decided, document_id=document.id)
            entries = self._entries(decided)
            is_done = self._ingest(decided, entries)
        else:
            is_done = self._runtime.store.reviews.decide(self._caller_id, decided)
        if not is_done:
            raise ReviewConflictError(candidate.id, self.get(candidate.id).status)
        self._runtime.observer.count("ingestion.reviewed", status=status.value)
        return decided

    def _decide_memory(self, decided: Candidate) -> bool:
        scope = Scope(self._caller_id, decided.user_id, decided.session_id)
        wanted = MemoryStatus.ACTIVE if decided.status is CandidateStatus.INGESTED else MemoryStatus.REJECTED
        review = {"reviewed_by": decided.reviewer, "review_comment": decided.comment}
        keeper = self._runtime.long_term.keeper
        memory = keeper.set_status(scope, decided.run_id, wanted, review=review)
        forget_texts()
        return memory is not None

    def _entries(self, candidate: Candidate) -> list[IndexEntry]:
        """Return the entries of an answer's document, with vectors if there is a working embedder."""
        services = self._runtime.services
        rag = services.settings.rag
        chunker = Chunker(services.token_counter, size=rag.chunk_size, overlap=rag.chunk_overlap)
        document = document_of(candidate)
        chunks = chunker.split_document(document)
        entries = [entry_of(chunk) for chunk in (chunks if len(chunks) > 1 else [document])]
        if (embedder := services.guarded_embedder()) is not None:
            entries, _ = embedder.of_entries(entries)
        return [with_terms(entry, "document") for entry in entries]

    def _ingest(self, decided: Candidate, entries: Sequence[IndexEntry]) -> bool:
        reviews, scope = self._runtime.store.reviews, Scope(self._caller_id)
        try:
            is_done = reviews.decide(self._caller_id, decided, entries=entries)
        except InvalidInputError:  # the stored vectors are from another embedder: the words find it
            plain = [replace(entry, vector=None, embedder=None) for entry in entries]
            is_done = reviews.decide(self._caller_id, decided, entries=plain)
        if is_done:
            self._runtime.has_documents[scope] = True
        return is_done

    def _check_dynamic(self) -> None:
        if not self._runtime.settings.rag.ingestion.dynamic_enabled:
            raise ConfigurationError(
                "rag.ingestion.dynamic_enabled: got False, so the settings' policy applies; set it to True to change "
                "the policy at run time"
            )


def _checked(field: str, value: object) -> str:
    if len(text := check_text(field, value)) > _MOST_CHARACTERS:
        raise InvalidInputError(field, value, f"at most {_MOST_CHARACTERS:,} characters")
    return text
