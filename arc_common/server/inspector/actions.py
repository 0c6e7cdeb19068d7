"""The actions of the pages' forms; each returns the address to open next."""

from arc_common.exceptions import CandidateNotFoundError, InvalidInputError, NotFoundError
from arc_common.memories import MemoryStatus
from arc_common.protocols.review import Candidate
from arc_common.server.inspector.visit import Visit


def pin(visit: Visit) -> str:
    """Show a text, or the message with an id, in every request of the conversation."""
    message_id = visit.text("message")
    if message_id and not visit.stored.find([message_id]):
        raise NotFoundError(f"no message {message_id!r} in this conversation")
    visit.stored.pin(message_id or visit.form.get("text", ""))
    return _back(visit, "pinned", "pins")


def unpin(visit: Visit) -> str:
    """Remove a pin of the conversation."""
    visit.stored.unpin(visit.query.get("pin", ""))
    return _back(visit, "unpinned", "pins")


def restore(visit: Visit) -> str:
    """Bring the conversation's messages back from the archive."""
    key = visit.stored.id or ""
    visit.engine.admin.restore(key, caller_id=visit.access.caller_id, user_id=visit.user_id)
    return visit.of_conversation("conversation", done="restored")


def edit_memory(visit: Visit) -> str:
    """Change a memory, if it is still the revision that was shown."""
    form = visit.form
    try:
        importance, revision = float(form.get("importance", "")), int(form.get("revision", ""))
    except ValueError:
        raise InvalidInputError("importance", form.get("importance"), "a number from 0 to 1") from None
    visit.memories.edit(_memory(visit), text=form.get("text", "").strip(), importance=importance, revision=revision)
    return _back(visit, "edited", "memories")


def forget_memory(visit: Visit) -> str:
    """Delete a memory."""
    visit.memories.delete(_memory(visit))
    return _back(visit, "forgotten", "memories")


def pin_memory(visit: Visit) -> str:
    """Show a memory in every request of its scope."""
    visit.memories.pin(_memory(visit))
    return _back(visit, "pinned", "memories")


def unpin_memory(visit: Visit) -> str:
    """Show a memory only where it fits the question again."""
    visit.memories.unpin(_memory(visit))
    return _back(visit, "unpinned", "memories")


def approve_memory(visit: Visit) -> str:
    """Approve a memory that awaits its review."""
    visit.memories.set_status(_memory(visit), MemoryStatus.ACTIVE)
    return _back(visit, "approved", "memories")


def reject_memory(visit: Visit) -> str:
    """Reject a memory that awaits its review."""
    visit.memories.set_status(_memory(visit), MemoryStatus.REJECTED)
    return _back(visit, "rejected", "memories")


def approve(visit: Visit) -> str:
    """Approve a candidate of the review queue."""
    found, comment = _candidate(visit), visit.form.get("comment", "").strip()
    visit.access.ingestion.approve(found.id, reviewer=visit.access.token.name, comment=comment)
    return _next(visit, "approved")


def reject(visit: Visit) -> str:
    """Reject a candidate of the review queue."""
    found, comment = _candidate(visit), visit.form.get("comment", "").strip()
    visit.access.ingestion.reject(found.id, reviewer=visit.access.token.name, comment=comment)
    return _next(visit, "rejected")


def _memory(visit: Visit) -> str:
    return visit.query.get("memory", "")


def _candidate(visit: Visit) -> Candidate:
    """Return the candidate in the address; a token of one user finds only those of that user."""
    wanted = visit.query.get("candidate", "")
    found = visit.access.ingestion.get(wanted)
    own = visit.access.token.user_id
    if own is not None and found.user_id != own:
        raise CandidateNotFoundError(wanted)
    return found


def _back(visit: Visit, done: str, part: str) -> str:
    return f"{visit.of_conversation('conversation', done=done)}#{part}"


def _next(visit: Visit, done: str) -> str:
    return visit.url("review", user=visit.text("user"), channel=visit.text("channel"), done=done)
