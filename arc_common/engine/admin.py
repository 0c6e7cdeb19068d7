"""What operators ask of an engine: which sessions there are, and what state one of them is in."""

from dataclasses import dataclass
from typing import Any

from arc_common.concurrency import async_form
from arc_common.context import Receipt
from arc_common.engine.replay import ReplayedTurn, replay
from arc_common.engine.runtime import Runtime
from arc_common.exceptions import SessionNotFoundError
from arc_common.protocols import Conversation, ConversationPage, SessionKey
from arc_common.protocols.summaries import ConversationSummary
from arc_common.tokens.budget import TokenBudget


@dataclass(frozen=True, slots=True)
class SessionDebug:
    """The state of one session.

    Args:
        conversation: Its record.
        summary: What is written of it, whether it is adopted or not; `None` if nothing is.
        receipt: Of the newest context window or view that this process built for it; `None` if it built none lately.
    """

    conversation: Conversation
    summary: ConversationSummary | None
    receipt: Receipt | None

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form: counts, ids, times and tokens, but nothing of what anybody said."""
        record, summary = self.conversation, self.summary
        return {
            "session_id": record.key.session_id,
            "caller_id": record.key.caller_id,
            "user_id": record.key.user_id,
            "created_at": record.created_at.isoformat(),
            "last_message_at": record.last_message_at.isoformat() if record.last_message_at else None,
            "message_count": record.message_count,
            "tool_calls_count": record.tool_calls_count,
            "total_tokens": record.total_tokens,
            "status": record.status,
            "summary": None
            if summary is None
            else {
                "summarized_up_to": summary.summarized_up_to,
                "pending": summary.pending,
                "facts": len(summary.facts),
                "updated_at": summary.updated_at.isoformat(),
            },
            "receipt": self.receipt.to_dict() if self.receipt else None,
        }


class Admin:
    """What operators need. Each method has an async form."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._workers = runtime.workers

    def sessions(
        self, caller_id: str = "default", user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ConversationPage:
        """A caller's conversations (with `user_id`, that user's), newest first, a page at a time.

        Raises:
            InvalidInputError: The limit is less than 1, or the cursor is not one of an earlier page.
        """
        SessionKey("any", caller_id, user_id)
        return self._runtime.store.conversations(caller_id, user_id=user_id, limit=limit, cursor=cursor)

    asessions = async_form(sessions)

    def debug(self, session_id: str, *, caller_id: str = "default", user_id: str | None = None) -> SessionDebug:
        """What state a session is in, and what its newest context window was made of.

        Raises:
            SessionNotFoundError: There is no such session for this caller and user.
            StoreError: The store failed.
        """
        runtime = self._runtime
        key = SessionKey(session_id, caller_id, user_id)
        record = runtime.store.conversation(key)
        if record is None:
            raise SessionNotFoundError(session_id)
        memory = runtime.memory
        return SessionDebug(
            conversation=record,
            summary=memory.summary(key) if memory else None,
            receipt=runtime.receipts.newest(key),
        )

    adebug = async_form(debug)

    def replay(
        self,
        session_id: str,
        turn: int | None = None,
        *,
        budget: TokenBudget | None = None,
        caller_id: str = "default",
        user_id: str | None = None,
    ) -> ReplayedTurn:
        """What the model would be shown today for a stored turn: the newest, or the one of that number.

        - Changes nothing: no summary is adopted, no receipt kept.
        - The turn's last answer, and what came after it, is not in it.
        - Facts and summary are those adopted by now. Where they reach beyond the turn they are left out, and where they
          were adopted after it, the receipt's notes say so.
        - System prompt, tools and documents are the application's and not stored: not in it.

        Reads the whole session: its cost grows with it.

        Args:
            session_id: The session.
            turn: Which user message, from 1; `None` for the newest.
            budget: What the request may cost; by default the settings' budget.
            caller_id: Whose session it is.
            user_id: The user that it is bound to.

        Raises:
            BudgetExceededError: The user message alone doesn't fit.
            InvalidInputError: The session has no such turn.
            SessionNotFoundError: There is no such session for this caller and user.
            StoreError: The store failed.
        """
        key = SessionKey(session_id, caller_id, user_id)
        return replay(self._runtime, key, turn=turn, budget=budget or self._runtime.default_budget())

    areplay = async_form(replay)
