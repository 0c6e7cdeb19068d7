"""The protocol of stores for the review queue, and the values that it exchanges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from arc_common.messages import member_of
from arc_common.protocols.search_index import IndexEntry, Scope


class CandidateStatus(StrEnum):
    """The review status of a candidate. Parsed case-insensitively."""

    PENDING = "PENDING"
    INGESTED = "INGESTED"
    """Approved, and indexed as a document."""
    REJECTED = "REJECTED"

    @classmethod
    def _missing_(cls, value: object) -> "CandidateStatus":
        return member_of(cls, value, "status")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may become knowledge: an answered question, or a memory. Times are UTC.

    Args:
        kind: "answer" for a question with its answer, "memory" for an extracted memory.
        query: The question; `""` for a memory.
        response: The answer, or the memory's text.
        captured_at: When it was captured, or the memory extracted.
        run_id: The id of the run that answered, or of the memory.
        channel: Where it was asked, such as "web"; `""` for a memory.
        document_id: The id of the document that it became.
    """

    id: str
    kind: Literal["answer", "memory"]
    status: CandidateStatus
    query: str
    response: str
    captured_at: datetime
    run_id: str
    session_id: str | None = None
    user_id: str | None = None
    channel: str = ""
    document_id: str | None = None
    reviewer: str | None = None
    comment: str = ""
    reviewed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CandidatePage:
    """A page of candidates, the oldest first, and the cursor of the next page (`None` on the last page)."""

    candidates: tuple[Candidate, ...]
    next_cursor: str | None


class ReviewQueue(Protocol):
    """Stores the candidates for a review, and each caller's policy. Thread-safe; every method is atomic.

    Answers are kept in the scope of their user and session, and are removed with these. Pending and rejected memories
    are in the queue, too; `Records` stores them, and changes their status.
    """

    def put(self, caller_id: str, candidate: Candidate) -> Candidate:
        """Store a pending answer, unless one of its run is stored; return the stored one. Its `id` is ignored."""

    def get(self, caller_id: str, candidate_id: str) -> Candidate | None:
        """Return a candidate, or `None` if the caller has none with that id."""

    def page(
        self,
        caller_id: str,
        *,
        status: CandidateStatus,
        user_id: str | None = None,
        channel: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> CandidatePage:
        """Return a page of a caller's candidates of this status (of one user, of one channel), the oldest first."""

    def decide(self, caller_id: str, decided: Candidate, *, entries: Sequence[IndexEntry] = ()) -> bool:
        """Store a pending answer's decision, and with it the entries of the caller's documents that it becomes.

        Returns:
            False if the answer is no longer pending, or is gone; nothing was written.

        Raises:
            InvalidInputError: `IndexStore.put` would raise; nothing was written.
        """

    def policy(self, caller_id: str) -> Mapping[str, Any] | None:
        """Return the values of the caller's policy that are stored; `None` without any."""

    def set_policy(self, caller_id: str, values: Mapping[str, Any] | None) -> None:
        """Store some values of the caller's policy and keep the others, or remove all."""

    def erase(self, scope: Scope) -> None:
        """Remove the answers of the scope and of the scopes within it, and the documents that they became.

        The scope of a whole caller also loses its policy.
        """
