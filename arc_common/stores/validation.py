"""Argument checks and the page cursor shared by all stores. Pure."""

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message, Role, check_identifier
from arc_common.protocols import CountedMessage
from arc_common.stores.conversations_statements import message_row, to_microseconds

_END = 2**62
_COUNTER_LENGTH = 64
_KEY_LENGTH = 16


def checked_limit(field: str, value: int | None, *, least: int = 0) -> None:
    """Refuse a value that is neither a whole number of at least `least` nor `None`."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInputError(field, value, f"a whole number of at least {least}, or None")
    if value > _END:
        raise InvalidInputError(field, value, f"at most {_END}")


def checked_place(field: str, value: int | None) -> None:
    """Refuse a value that is neither a whole number nor `None`; places outside the session are accepted."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or abs(value) > _END):
        raise InvalidInputError(field, value, "a message's seq, or None")


def checked_ids(message_ids: Sequence[str]) -> list[str]:
    """Return the ids as a list if each is a valid message id."""
    if isinstance(message_ids, str) or not isinstance(message_ids, Iterable):
        raise InvalidInputError("message_ids", message_ids, "a sequence of ids")
    return [check_identifier("message_ids", message_id) for message_id in message_ids]


def checked_places(places: Sequence[int]) -> list[int]:
    """Return the distinct places as a list if each is a valid `seq`."""
    for place in places:
        if place is None:
            raise InvalidInputError("places", place, "messages' seqs")
        checked_place("places", place)
    return list(dict.fromkeys(places))


def checked_scope(caller_id: str, user_id: str | None, limit: int) -> None:
    """Refuse an invalid caller, user or limit of a listing."""
    check_identifier("caller_id", caller_id)
    if user_id is not None:
        check_identifier("user_id", user_id)
    if limit is None:
        raise InvalidInputError("limit", None, "a whole number of at least 1")
    checked_limit("limit", limit, least=1)


def checked_counts(messages: Sequence[CountedMessage]) -> dict[int, dict[str, Any]]:
    """Return the messages' rows without their places, by the `id()` of each message."""
    roles: dict[str, Role] = {}
    rows: dict[int, dict[str, Any]] = {}
    for counted in messages:
        if not isinstance(counted, CountedMessage) or not isinstance(counted.message, Message):
            raise InvalidInputError("messages", counted, "a CountedMessage")
        message = counted.message
        if message.id is None or message.created_at is None:
            raise InvalidInputError("message", message, "an id and a time, which a session gives")
        if counted.tokens is None:
            raise InvalidInputError("message.tokens", None, "a whole number")
        checked_limit("message.tokens", counted.tokens)
        if len(check_identifier("message.counter", counted.counter)) > _COUNTER_LENGTH:
            raise InvalidInputError("message.counter", counted.counter, f"at most {_COUNTER_LENGTH} characters")
        if roles.setdefault(message.id, message.role) is not message.role:
            one, other = roles[message.id].value, message.role.value
            raise InvalidInputError("message.id", message.id, f"an id of its own: {one} and {other} message share it")
        rows.setdefault(id(message), message_row(counted))
    return rows


def page_token(created_at: datetime, key: bytes) -> str:
    """Return the cursor that continues after this conversation."""
    return base64.urlsafe_b64encode(f"{to_microseconds(created_at)}:{key.hex()}".encode()).decode()


def page_position(cursor: str | None) -> tuple[int, bytes]:
    """Return the position of a cursor, or the newest end without one."""
    if cursor is None:
        return _END, b""
    try:
        created_at, _, key = base64.b64decode(cursor.encode(), b"-_", validate=True).decode().partition(":")
        position = int(created_at), bytes.fromhex(key)
    except (ValueError, AttributeError) as error:
        raise InvalidInputError("cursor", cursor, "a cursor that an earlier page returned") from error
    if abs(position[0]) > _END or len(position[1]) != _KEY_LENGTH:
        raise InvalidInputError("cursor", cursor, "a cursor that an earlier page returned")
    return position
