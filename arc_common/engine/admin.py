"""Administration: lists sessions, shows a session's state, and replays stored turns."""

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
        conversation: The session's record.
        summary: The summary written so far, adopted or not; `None` if there is none.
        receipt: The receipt of the newest context window or view that this process built for the session; `None` if it
            built none recently.
    """

    conversation: Conversation
    summary: ConversationSummary | None
    receipt: Receipt | None

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON values: counts, ids, times and tokens, but no message text."""
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
    """Operations for administrators. Each method has an async form."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._workers = runtime.workers

    def sessions(
        self, caller_id: str = "default", user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> ConversationPage:
        """Return one page of a caller's conversations (with `user_id`, of that user's), newest first.

        Args:
            caller_id: The caller whose conversations to list.
            user_id: The user whose conversations to list; `None` for all of the caller's.
            limit: The most conversations on the page.
            cursor: The cursor of the previous page; `None` for the first page.

        Raises:
            InvalidInputError: `limit` is less than 1, or `cursor` is not from an earlier page.
        """
        SessionKey("any", caller_id, user_id)
        return self._runtime.store.conversations(caller_id, user_id=user_id, limit=limit, cursor=cursor)

    asessions = async_form(sessions)

    def debug(self, session_id: str, *, caller_id: str = "default", user_id: str | None = None) -> SessionDebug:
        """Return a session's record, its summary, and the receipt of its newest context window.

        Raises:
            SessionNotFoundError: The caller and user have no such session.
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
        """Rebuild the context window of a stored turn as it would be built today.

        - Changes nothing: no summary is adopted, and no receipt is kept.
        - The window ends before the turn's last answer.
        - Facts and summary are the currently adopted ones. They are omitted if they cover the turn itself; if they were
          adopted after it, the receipt's notes say so.
        - The application's system prompt, tools and documents are not stored, and so not included.
        - The whole session is read: the cost grows with its length.

        Args:
            session_id: The session's id.
            turn: The number of the user message, from 1; `None` for the newest.
            budget: The request's token budget; by default the settings' budget.
            caller_id: The caller that owns the session.
            user_id: The user that the session is bound to.

        Raises:
            BudgetExceededError: The user message alone doesn't fit.
            InvalidInputError: The session has no such turn.
            SessionNotFoundError: The caller and user have no such session.
            StoreError: The store failed.
        """
        key = SessionKey(session_id, caller_id, user_id)
        return replay(self._runtime, key, turn=turn, budget=budget or self._runtime.default_budget())

    areplay = async_form(replay)
