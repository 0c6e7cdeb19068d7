"""Keys, and the opaque content of rows. Pure."""

import hashlib
from secrets import randbits
from typing import Any

from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope
from arc_common.serialization import dumps, loads

MAIN_BRANCH = 0
"""The branch that every conversation begins with."""


def row_key(*parts: str) -> bytes:
    """The key of a row: 16 bytes of sha256 over its parts, each behind its length."""
    encoded = [part.encode() for part in parts]
    return hashlib.sha256(b"".join(len(part).to_bytes(4) + part for part in encoded)).digest()[:16]


def conversation_key(key: SessionKey) -> bytes:
    """The key of a conversation's rows."""
    return row_key(key.caller_id, key.session_id)


def scope_key(scope: Scope, kind: str) -> bytes:
    """The key of what a scope holds of a kind."""
    return row_key(scope.caller_id, scope.user_id or "", scope.session_id or "", kind)


def new_incarnation() -> int:
    """A random number that tells a conversation from an earlier one of the same name."""
    return randbits(62)


def to_body(value: Any, *, field: str) -> str:
    """The content of a row: what no statement compares or sorts by."""
    return dumps(value, field=field)


def from_body(body: str) -> Any:
    """Read what `to_body` wrote."""
    return loads(body)
