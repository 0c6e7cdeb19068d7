"""Keys and the serialised bodies of rows. Pure."""

import hashlib
from secrets import randbits
from typing import Any

from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope
from arc_common.serialization import dumps, loads

MAIN_BRANCH = 0
"""The initial branch of every conversation."""


def row_key(*parts: str) -> bytes:
    """Return a row's key: 16 bytes of sha256 over its length-prefixed parts."""
    encoded = [part.encode() for part in parts]
    return hashlib.sha256(b"".join(len(part).to_bytes(4) + part for part in encoded)).digest()[:16]


def conversation_key(key: SessionKey) -> bytes:
    """Return the key of a conversation's rows."""
    return row_key(key.caller_id, key.session_id)


def scope_key(scope: Scope, kind: str) -> bytes:
    """Return the key of a scope and kind."""
    return row_key(scope.caller_id, scope.user_id or "", scope.session_id or "", kind)


def new_incarnation() -> int:
    """Return a random number that distinguishes a conversation from an earlier one with the same id."""
    return randbits(62)


def to_body(value: Any, *, field: str) -> str:
    """Serialise the content of a row that no statement compares or sorts by."""
    return dumps(value, field=field)


def from_body(body: str) -> Any:
    """Read what `to_body` wrote."""
    return loads(body)
