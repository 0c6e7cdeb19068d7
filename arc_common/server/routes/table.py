"""Every route of the API, with the role that it needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from arc_common.server.access import Role
from arc_common.server.routes import documents, health, memories, review, sessions

READER, WRITER, REVIEWER = Role


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route: without a role, it needs no token. `conflicts` are further statuses that it may answer with."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    function: Callable[..., Any]
    role: Role | None
    status: int = 200
    conflicts: tuple[int, ...] = ()

    @property
    def tag(self) -> str:
        """The group in which the documentation lists it."""
        return self.function.__module__.rpartition(".")[2]

    @property
    def summary(self) -> str:
        """The first words of its documentation."""
        return self.function.__name__.replace("_", " ").capitalize()


_SESSION = "/api/sessions/{sessionId}"
_REVIEW = "/api/rag-ingestion"

ENDPOINTS = (
    Endpoint("GET", "/api/sessions", sessions.list_sessions, READER),
    Endpoint("DELETE", _SESSION, sessions.delete_session, WRITER, 204),
    Endpoint("GET", f"{_SESSION}/messages", sessions.list_messages, READER),
    Endpoint("POST", f"{_SESSION}/messages", sessions.append_messages, WRITER, 201),
    Endpoint("POST", f"{_SESSION}/context", sessions.build_context, READER),
    Endpoint("POST", f"{_SESSION}/recall", sessions.recall, READER),
    Endpoint("GET", f"{_SESSION}/facts", sessions.list_facts, READER),
    Endpoint("GET", f"{_SESSION}/requests", sessions.list_requests, READER),
    Endpoint("GET", f"{_SESSION}/pins", sessions.list_pins, READER),
    Endpoint("POST", f"{_SESSION}/pins", sessions.add_pin, WRITER, 201),
    Endpoint("DELETE", f"{_SESSION}/pins/{{pinId}}", sessions.remove_pin, WRITER, 204),
    Endpoint("GET", f"{_SESSION}/branches", sessions.list_branches, READER),
    Endpoint("POST", f"{_SESSION}/branches", sessions.fork, WRITER, 201),
    Endpoint("POST", f"{_SESSION}/rewind", sessions.rewind, WRITER),
    Endpoint("PUT", f"{_SESSION}/branches/{{branchName}}/current", sessions.switch_branch, WRITER),
    Endpoint("DELETE", f"{_SESSION}/branches/{{branchName}}", sessions.delete_branch, WRITER, 204),
    Endpoint("GET", f"{_SESSION}/memories", memories.list_memories, READER),
    Endpoint("POST", f"{_SESSION}/memories", memories.add_memory, WRITER, 201),
    Endpoint("GET", f"{_SESSION}/memories/{{memoryId}}", memories.get_memory, READER),
    Endpoint("DELETE", f"{_SESSION}/memories/{{memoryId}}", memories.delete_memory, WRITER, 204),
    Endpoint("GET", "/conversations/{id}/debug", sessions.debug_conversation, READER),
    Endpoint("POST", "/api/documents", documents.add_documents, WRITER, 201),
    Endpoint("POST", "/api/documents/search", documents.search_documents, READER),
    Endpoint("GET", "/api/documents/{documentId:path}", documents.get_document, READER),
    Endpoint("DELETE", "/api/documents/{documentId:path}", documents.delete_document, WRITER, 204),
    Endpoint("GET", f"{_REVIEW}/policy", review.get_policy, REVIEWER),
    Endpoint("PUT", f"{_REVIEW}/policy", review.set_policy, REVIEWER, 200, (409,)),
    Endpoint("DELETE", f"{_REVIEW}/policy", review.reset_policy, REVIEWER, 200, (409,)),
    Endpoint("GET", f"{_REVIEW}/candidates", review.list_candidates, REVIEWER),
    Endpoint("POST", f"{_REVIEW}/candidates", review.capture_answer, WRITER, 201),
    Endpoint("POST", f"{_REVIEW}/candidates/{{id}}/approve", review.approve_candidate, REVIEWER, 200, (409,)),
    Endpoint("POST", f"{_REVIEW}/candidates/{{id}}/reject", review.reject_candidate, REVIEWER, 200, (409,)),
    Endpoint("GET", "/healthz", health.healthz, None),
    Endpoint("GET", "/readyz", health.readyz, None),
)
