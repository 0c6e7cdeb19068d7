"""Keys, argument checks, and values as columns and back. Pure."""

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from secrets import randbits
from typing import Any, TypeVar

from pydantic_core import to_json

from arc_common.caches import cached_text
from arc_common.exceptions import InvalidInputError, check_whole
from arc_common.messages import Message, Origin, Role, check_identifier, fields_from_plain, is_storable, plain_fields
from arc_common.protocols import Conversation, ConversationFilter, CountedMessage, SessionKey, StoredMessage
from arc_common.protocols.conversations import After, ConversationStatus, Edits
from arc_common.protocols.search_index import Scope
from arc_common.serialization import DECODER, ENCODER, TAG, loads, to_plain
from arc_common.stores.database.schema import branches, conversations

T = TypeVar("T")

MOST = 2**62
"""More than any place, time or count that is stored."""

MAIN_BRANCH = 0
"""The initial branch of every conversation."""


def digest(*parts: str) -> bytes:
    """Return the sha256 of the length-prefixed parts."""
    encoded = [part.encode() for part in parts]
    return hashlib.sha256(b"".join([len(part).to_bytes(4) + part for part in encoded])).digest()


@cached_text(4_096)  # each statement of a session names the same keys
def row_key(*parts: str) -> bytes:
    """Return a row's key: the first 16 bytes of its parts' digest."""
    return digest(*parts)[:16]


def conversation_key(key: SessionKey) -> bytes:
    """Return the key of a conversation's rows."""
    return row_key(key.caller_id, key.session_id)


def scope_key(scope: Scope, kind: str) -> bytes:
    """Return the key of a scope and kind."""
    return row_key(scope.caller_id, scope.user_id or "", scope.session_id or "", kind)


def scope_place(scope: Scope, kind: str = "memory") -> dict[str, Any]:
    """Return the parameters that name a scope of one kind of records or index entries."""
    return {
        "scope": scope_key(scope, kind),
        "kind": kind,
        "caller_id": scope.caller_id,
        "session_id": scope.session_id or "",
        "user_id": scope.user_id or "",
    }


def new_incarnation() -> int:
    """Return a random number that distinguishes a conversation from an earlier one with the same id."""
    return randbits(62)


def to_body(value: Any, *, field: str) -> str:
    """Serialise the content of a row that no statement compares or sorts by."""
    return json_text(to_plain(value, field=field))


def json_text(plain: Any) -> str:
    """Write JSON in a fifth of the time that the standard encoder takes."""
    try:
        return to_json(plain).decode()
    except ValueError:  # more than 255 levels, of which a dictionary with other keys than text takes three
        return ENCODER.encode(plain)


def from_body(body: str) -> Any:
    """Read the value that `to_body` wrote."""
    return loads(body) if TAG in body else DECODER.raw_decode(body)[0]


MESSAGE_COLUMNS = (
    "message_id", "role", "body", "created_at", "seq", "tokens", "counter", "revision", "branch", "channel",
)  # fmt: skip
"""The columns that `stored_from_row` reads, in its order."""

CONVERSATION_COLUMNS = (
    *(conversations.c[name] for name in (
        "session_id", "caller_id", "user_id", "account_id", "created_at", "updated_at", "last_message_at",
    )),
    *(branches.c[name] for name in ("message_count", "tool_calls_count", "total_tokens")),
    conversations.c.status,
    *(branches.c[name] for name in ("head_seq", "remembered_seq")),
    conversations.c.archive_path,
)  # fmt: skip
"""The columns that `conversation_from_row` reads, in its order."""

ORIGIN_FORMAT_LENGTH = 32
"""Characters in the name of a foreign format."""

_ROLES: Mapping[str, Role] = {role.value: role for role in Role}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def to_microseconds(moment: datetime) -> int:
    """Convert a time to microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    """Convert microseconds since 1970 to a time in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def edits_text(points: Iterable[tuple[int, int]]) -> str:
    """Return places of messages, as (branch, seq), as the columns of edits have them."""
    return "".join(f" {branch}:{seq}" for branch, seq in points)


EVERYWHERE = " *"
"""Stands for all places of a conversation in a column of edits."""


def edits_from(text: str, everywhere: Iterable[tuple[int, int]] = ()) -> Edits:
    """Read a column of edits: for each edit, its epoch and its places."""
    named = [one for edit in text.split("|")[1:] for one in edit.split()[1:]]
    found = [one.split(":") for one in named if one != EVERYWHERE.strip()]
    return Edits(text, (*((int(branch), int(seq)) for branch, seq in found), *everywhere))


def message_row(counted: CountedMessage | StoredMessage) -> dict[str, Any]:
    """Return the columns of a message with an id and a time, without its place."""
    message = counted.message
    if message.origin is not None:
        _check_origin(message.origin)
    return {
        "message_id": message.id,
        "role": str(message.role),
        "body": to_body(plain_fields(message), field="message"),
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
    if not 0 < len(origin.format) <= ORIGIN_FORMAT_LENGTH or not is_storable(origin.format):
        raise InvalidInputError("message.origin.format", origin.format, f"1 to {ORIGIN_FORMAT_LENGTH} characters")
    if not is_storable(origin.json):
        raise InvalidInputError("message.origin.json", origin.json, "text without NUL and lone surrogates")


_SHORT = 2_000


def recalled_from_row(row: Sequence[Any]) -> StoredMessage:
    """Read a row of `MESSAGE_COLUMNS` that is often read: a short message of text alone is read once."""
    return (len(row[2]) <= _SHORT and _text_from_row(tuple(row))) or stored_from_row(row)


@cached_text(4_096)
def _text_from_row(row: tuple[Any, ...]) -> StoredMessage | None:
    stored = stored_from_row(row)
    message = stored.message
    return None if message.metadata or message.tool_calls or type(message.content) is tuple else stored


def stored_from_row(row: Sequence[Any]) -> StoredMessage:
    """Read a row of `MESSAGE_COLUMNS`."""
    message_id, role, body, created_at, seq, tokens, counter, revision, branch, channel = row
    message = Message(
        _ROLES.get(role, role),
        id=message_id,
        created_at=from_microseconds(created_at),
        **fields_from_plain(from_body(body)),
    )
    return StoredMessage(message, seq, tokens, counter, revision, branch=branch, thread=channel)


def conversation_from_row(row: Sequence[Any]) -> Conversation:
    """Read a row of `CONVERSATION_COLUMNS`."""
    names, (created_at, updated_at, last_at, count, calls, tokens, status, head, read, objects) = row[:4], row[4:]
    return Conversation(
        key=SessionKey(*names),
        created_at=from_microseconds(created_at),
        updated_at=from_microseconds(updated_at),
        last_message_at=None if last_at is None else from_microseconds(last_at),
        message_count=count,
        tool_calls_count=calls,
        total_tokens=tokens,
        status=ConversationStatus(status),
        last_seq=head,
        remembered_seq=read,
        archived_as=objects.split()[0] if objects and status == ConversationStatus.ARCHIVED else None,
    )


_COUNTER_LENGTH = 64
_KEY_LENGTH = 16
_THREAD_LENGTH = 32


def checked_limit(field: str, value: int | None, *, least: int = 0) -> None:
    """Refuse a value that is neither a whole number of at least `least` nor `None`."""
    if (type(value) is int and least <= value <= MOST) or value is None:
        return
    if check_whole(field, value, least=least) > MOST:
        raise InvalidInputError(field, value, f"at most {MOST}")


def checked_place(field: str, value: int | None) -> None:
    """Refuse a value that is neither a whole number nor `None`; places outside the session are accepted."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST):
        raise InvalidInputError(field, value, "a message's seq, or None")


def checked_ids(ids: Sequence[str], field: str = "message_ids") -> list[str]:
    """Return each of the ids once, in their order, if all are valid."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InvalidInputError(field, ids, "a sequence of ids")
    return list(dict.fromkeys(check_identifier(field, one) for one in ids))


def checked_seqs(seqs: Sequence[int]) -> list[int]:
    """Return the distinct places as a list if each is a valid `seq`."""
    for seq in [one for one in seqs if type(one) is not int or abs(one) > MOST]:
        if seq is None:
            raise InvalidInputError("seqs", seq, "messages' seqs")
        checked_place("seqs", seq)
    return list(dict.fromkeys(seqs))


def checked_after(after: After) -> After:
    """Return the place of a run if it is valid."""
    if len(check_identifier("after.thread", after.thread)) > _THREAD_LENGTH:
        raise InvalidInputError("after.thread", after.thread, f"at most {_THREAD_LENGTH} characters")
    checked_place("after.seq", after.seq)
    checked_seqs(after.without)
    return after


def bounds_of(which: ConversationFilter) -> dict[str, int]:
    """Return a filter's limits as the parameters of a listing."""
    limits = {
        "active": (which.active_since, which.idle_since),
        "created": (which.created_since, which.created_before),
        "messages": (which.min_messages, which.max_messages),
    }
    bounds: dict[str, int] = {}
    for name, (least, most) in limits.items():
        for end, value, default in (("from", least, -MOST), ("to", most, MOST)):
            given = to_microseconds(value) if isinstance(value, datetime) else value and min(value, MOST)
            bounds[f"{name}_{end}"] = default if given is None else given
    return bounds


def checked_scope(caller_id: str, user_id: str | None, limit: int) -> None:
    """Refuse an invalid caller, user or limit of a listing."""
    check_identifier("caller_id", caller_id)
    if user_id is not None:
        check_identifier("user_id", user_id)
    checked_limit("limit", check_whole("limit", limit))


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
        if type(counted.tokens) is not int:
            check_whole("message.tokens", counted.tokens, least=0)
        checked_limit("message.tokens", counted.tokens)
        if len(check_identifier("message.counter", counted.counter)) > _COUNTER_LENGTH:
            raise InvalidInputError("message.counter", counted.counter, f"at most {_COUNTER_LENGTH} characters")
        if roles.setdefault(message.id, message.role) is not message.role:
            one, other = roles[message.id].value, message.role.value
            raise InvalidInputError("message.id", message.id, f"an id of its own: {one} and {other} message share it")
        rows.setdefault(id(message), message_row(counted))
    return rows


def key_from_hex(text: str) -> bytes | None:
    """Return a row's key; `None` if the text is no key."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        return None
    return key if len(key) == _KEY_LENGTH else None


def page_token(at: datetime, name: str) -> str:
    """Return the cursor that continues after a row with this time and name."""
    return base64.urlsafe_b64encode(f"{to_microseconds(at)}:{name}".encode()).decode()


def page_position(cursor: str, read: Callable[[str], T | None]) -> tuple[int, T]:
    """Return the time of a cursor and its name, as `read` reads it; refuse a text that no page returned."""
    try:
        at, _, name = base64.b64decode(cursor.encode(), b"-_", validate=True).decode().partition(":")
        position, found = int(at), read(name)
    except (ValueError, AttributeError):
        position, found = 0, None
    if found is None or abs(position) > MOST:
        raise InvalidInputError("cursor", cursor, "a cursor that an earlier page returned")
    return position, found
