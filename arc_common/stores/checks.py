"""What every store checks before it does anything, and the cursor that they share. Pure."""

import base64
from collections.abc import Sequence
from datetime import datetime

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message
from arc_common.protocols import CountedMessage
from arc_common.stores.rows import to_microseconds

__all__ = ["checked_counts", "checked_limit", "page_position", "page_token"]

_END = 2**62


def checked_limit(field: str, value: int | None, *, least: int = 0) -> None:
    """Refuse what is not a whole number of at least `least`, or `None`.

    Raises:
        InvalidInputError: It isn't.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInputError(field, value, f"a whole number of at least {least}, or None")
    if value > _END:
        raise InvalidInputError(field, value, f"at most {_END}")


def checked_counts(messages: Sequence[CountedMessage]) -> Sequence[CountedMessage]:
    """The messages, if each has what a row needs.

    Raises:
        InvalidInputError: One has no id or no time, or its count is no count.
    """
    for counted in messages:
        message = counted.message
        if not isinstance(message, Message):
            raise InvalidInputError("messages", message, "a Message")
        if message.id is None or message.created_at is None:
            raise InvalidInputError("message", message, "an id and a time, which a session gives")
        checked_limit("message.tokens", counted.tokens)
    return messages


def page_token(created_at: datetime, row: int) -> str:
    """The cursor that continues behind this conversation."""
    return base64.urlsafe_b64encode(f"{to_microseconds(created_at)}:{row}".encode()).decode()


def page_position(cursor: str | None) -> tuple[int, int]:
    """The place that a cursor names; without one, the newest end.

    Raises:
        InvalidInputError: It was not made by `page_token`.
    """
    if cursor is None:
        return _END, _END
    try:
        created_at, row = base64.urlsafe_b64decode(cursor.encode()).decode().split(":")
        return int(created_at), int(row)
    except (ValueError, AttributeError) as error:
        raise InvalidInputError("cursor", cursor, "a cursor that an earlier page returned") from error
