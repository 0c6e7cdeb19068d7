"""Which messages of a session are read next for long-term memories."""

from collections.abc import Sequence

from arc_common.messages import Role
from arc_common.protocols import ConversationStore, SessionKey, StoredMessage

__all__ = ["MOST_WITHOUT_ANSWER", "due", "is_answer", "is_question", "unread"]

_PAGE = 64
"""Places: at most as many messages go into one request to the model."""

MOST_WITHOUT_ANSWER = 8
"""User messages that wait for their answer; then they are read without one."""


def unread(conversations: ConversationStore, key: SessionKey, *, after: int) -> tuple[list[StoredMessage], bool]:
    """The messages that follow a place, 64 at most, oldest first; and whether there are more behind them.

    Raises:
        SessionNotFoundError: The session belongs to another user.
        StoreError: The store failed.
    """
    newest = conversations.tail(key, limit=1)
    end = newest[0].seq if newest else 0
    if end <= after:
        return [], False
    oldest = conversations.head(key, limit=1)  # a cap on the session may have taken what lay before it
    first = max(after + 1, oldest[0].seq if oldest else 0)
    while first <= end:
        found = conversations.tail(key, after=first - 1, before=first + _PAGE)
        if found:
            return found, found[-1].seq < end
        first += _PAGE
    return [], False


def due(messages: Sequence[StoredMessage], *, more: bool) -> Sequence[StoredMessage]:
    """Those to read now: up to the newest answer; without one, all if they are many; else none.

    Args:
        messages: The next ones, oldest first.
        more: Whether there are others behind them.
    """
    answer = next((place for place in reversed(range(len(messages))) if is_answer(messages[place])), None)
    if answer is not None:
        return messages[: answer + 1]
    return messages if more or sum(map(is_question, messages)) >= MOST_WITHOUT_ANSWER else ()


def is_answer(stored: StoredMessage) -> bool:
    """Whether an assistant says something in it."""
    return stored.message.role is Role.ASSISTANT and bool(stored.message.text.strip())


def is_question(stored: StoredMessage) -> bool:
    """Whether a user says something in it."""
    return stored.message.role is Role.USER and bool(stored.message.text.strip())
