"""Messages as rows and back, without losing anything. Pure.

A plain message is its `content` column and nothing else. What more it has goes into `payload`, as reversible JSON;
text that a database can't hold (NUL, lone surrogates) goes there too, escaped.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, Message, Origin, ToolCall
from arc_common.protocols import Conversation, CountedMessage, SessionKey, StoredMessage
from arc_common.serialization import dumps, loads

__all__ = [
    "CONVERSATION_COLUMNS",
    "MESSAGE_COLUMNS",
    "ORIGIN_FORMAT_LENGTH",
    "conversation_from_row",
    "detached",
    "from_microseconds",
    "message_row",
    "stored_from_row",
    "to_microseconds",
]

MESSAGE_COLUMNS = (
    "message_id", "role", "content", "payload", "origin_format", "origin", "created_at",
    "seq", "tokens", "counter", "revision",
)  # fmt: skip
"""The columns that `stored_from_row` reads, in its order."""

CONVERSATION_COLUMNS = (
    "session_id", "caller_id", "user_id", "account_id", "created_at", "updated_at", "last_message_at", "message_count",
    "tool_calls_count", "total_tokens", "status", "metadata",
)  # fmt: skip
"""The columns that `conversation_from_row` reads, in its order."""

ORIGIN_FORMAT_LENGTH = 32
"""Characters in the name of a foreign format."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_PART_FIELDS = ("text", "url", "data", "mime_type", "name")


def to_microseconds(moment: datetime) -> int:
    """A moment as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    """The moment in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def message_row(counted: CountedMessage | StoredMessage) -> dict[str, Any]:
    """The columns of a message that has an id and a time, apart from its place.

    Raises:
        InvalidInputError: It holds something that can't be stored.
    """
    message = counted.message
    if message.origin is not None:
        _check_origin(message.origin)
    payload = _payload(message)
    content = message.content if isinstance(message.content, str) and "content" not in payload else None
    return {
        "message_id": message.id,
        "role": message.role.value,
        "content": content,
        "payload": dumps(payload, field="message") if payload else None,
        "origin_format": message.origin.format if message.origin else None,
        "origin": message.origin.json if message.origin else None,
        "tokens": counted.tokens,
        "counter": counted.counter,
        "tool_calls": len(message.tool_calls),
        "created_at": _stored_time(message.created_at) if message.created_at else None,
    }


def _stored_time(moment: datetime) -> int:
    microseconds = to_microseconds(moment)
    if not _FIRST <= microseconds <= _LAST:
        raise InvalidInputError("message.created_at", moment, "a time that lies in the years 1 to 9999 in UTC")
    return microseconds


def _check_origin(origin: Origin) -> None:
    if not 0 < len(origin.format) <= ORIGIN_FORMAT_LENGTH or not _storable(origin.format):
        raise InvalidInputError("message.origin.format", origin.format, f"1 to {ORIGIN_FORMAT_LENGTH} characters")
    if not _storable(origin.json):
        raise InvalidInputError("message.origin.json", origin.json, "text without NUL and lone surrogates")


def _payload(message: Message) -> dict[str, Any]:
    """What the other columns don't say."""
    payload: dict[str, Any] = {}
    content = message.content
    if content is None:
        payload["content"] = None
    elif not isinstance(content, str):
        payload["content"] = [_part_to_json(part) for part in content]
    elif not _storable(content):
        payload["content"] = content
    if message.tool_calls:
        payload["tool_calls"] = [
            {
                "name": call.name,
                "arguments": call.arguments if isinstance(call.arguments, str) else dict(call.arguments),
                "id": call.id,
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        payload["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        payload["name"] = message.name
    if message.metadata:
        payload["metadata"] = dict(message.metadata)
    return payload


def _storable(text: str) -> bool:
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _part_to_json(part: ContentPart) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": part.type}
    for name in _PART_FIELDS:
        value = getattr(part, name)
        if value is not None:
            plain[name] = value
    if part.extra:
        plain["extra"] = dict(part.extra)
    return plain


def detached(stored: StoredMessage) -> StoredMessage:
    """The message as a database would give it back: it shares no mapping with the one given."""
    message = stored.message
    if stored.edited:
        stored = replace(stored, edited=False)
    if not message.metadata and not message.tool_calls and (message.content is None or type(message.content) is str):
        return stored
    row = {**message_row(stored), "seq": stored.seq, "revision": stored.revision}
    return stored_from_row([row[name] for name in MESSAGE_COLUMNS])


def stored_from_row(row: Sequence[Any]) -> StoredMessage:
    """Read a row of `MESSAGE_COLUMNS`."""
    message_id, role, content, payload, origin_format, origin, created_at, seq, tokens, counter, revision = row
    fields = _fields(loads(payload)) if payload else {}
    if "content" not in fields:
        fields["content"] = content
    message = Message(
        role,
        id=message_id,
        created_at=from_microseconds(created_at),
        origin=Origin(origin_format, origin) if origin_format else None,
        **fields,
    )
    return StoredMessage(message, seq, tokens, counter, revision)


def _fields(payload: dict[str, Any]) -> dict[str, Any]:
    content = payload.get("content")
    if isinstance(content, list):
        payload["content"] = tuple(ContentPart(**part) for part in content)
    if "tool_calls" in payload:
        payload["tool_calls"] = tuple(ToolCall(**call) for call in payload["tool_calls"])
    return payload


def conversation_from_row(row: Sequence[Any]) -> Conversation:
    """Read a row of `CONVERSATION_COLUMNS`."""
    names, (created_at, updated_at, last_at, count, calls, tokens, status, more) = row[:4], row[4:]
    return Conversation(
        key=SessionKey(*names),
        created_at=from_microseconds(created_at),
        updated_at=from_microseconds(updated_at),
        last_message_at=None if last_at is None else from_microseconds(last_at),
        message_count=count,
        tool_calls_count=calls,
        total_tokens=tokens,
        status=status,
        metadata=loads(more) if more else {},
    )
