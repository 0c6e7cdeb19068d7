"""The actions of the pages' forms; each returns the address to open next."""

from collections.abc import Callable
from functools import partial

from arc_common.engine.ingestion import Ingestion
from arc_common.engine.memories import Memories
from arc_common.exceptions import CandidateNotFoundError, InvalidInputError, NotFoundError
from arc_common.memories import MemoryStatus
from arc_common.server.inspector.visit import Visit

Action = Callable[[Visit], str]


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
    memory_id, text = visit.query.get("memory", ""), form.get("text", "").strip()
    visit.memories.edit(memory_id, text=text, importance=importance, revision=revision)
    return _back(visit, "edited", "memories")


def _on_memory(act: Callable[[Memories, str], object], done: str) -> Action:
    """Return the action that does something to the memory in the address."""

    def action(visit: Visit) -> str:
        act(visit.memories, visit.query.get("memory", ""))
        return _back(visit, done, "memories")

    return action


forget_memory = _on_memory(Memories.delete, "forgotten")
pin_memory = _on_memory(Memories.pin, "pinned")
unpin_memory = _on_memory(Memories.unpin, "unpinned")
approve_memory = _on_memory(partial(Memories.set_status, status=MemoryStatus.ACTIVE), "approved")
reject_memory = _on_memory(partial(Memories.set_status, status=MemoryStatus.REJECTED), "rejected")


def _on_candidate(decide: Callable[..., object], done: str) -> Action:
    """Return the action that decides about the candidate in the address; a user's token finds only that user's."""

    def action(visit: Visit) -> str:
        wanted, token = visit.query.get("candidate", ""), visit.access.token
        if token.user_id is not None and visit.access.ingestion.get(wanted).user_id != token.user_id:
            raise CandidateNotFoundError(wanted)
        comment = visit.form.get("comment", "").strip()
        decide(visit.access.ingestion, wanted, reviewer=token.name, comment=comment)
        return visit.url("review", user=visit.text("user"), channel=visit.text("channel"), done=done)

    return action


approve = _on_candidate(Ingestion.approve, "approved")
reject = _on_candidate(Ingestion.reject, "rejected")


def _back(visit: Visit, done: str, part: str) -> str:
    return f"{visit.of_conversation('conversation', done=done)}#{part}"
