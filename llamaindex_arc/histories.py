"""Reads the conversations that LlamaIndex's own stores hold, so that an engine can import them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from arc_common.engine.imports import ImportedSession, imported_id, read_json, table_rows
from arc_common.exceptions import InvalidInputError, MissingDependencyError
from arc_common.messages import Message
from llamaindex_arc.messages import to_arc

try:
    from llama_index.core.base.llms.types import ChatMessage
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc.histories", package="llama-index-core", extra="llamaindex") from error


def memory_table(url: str, table_name: str = "llama_index_memory") -> Iterator[ImportedSession]:
    """Read the table of `Memory`, session by session: messages in its window and those that have left it.

        engine.admin.import_(memory_table("sqlite:///memory.db"), user_id="ann")

    - Each message gets an id that is the same at each import, and keeps its time. The table is only read.

    Args:
        url: A SQLAlchemy URL; one with an async driver is read with the sync driver of the same database.
        table_name: The table's name.

    Raises:
        ConfigurationError: In use: the database can't be read, or has no such table.
        InvalidInputError: In use: a row is no message; the error names its id.
    """
    columns = ("id", "timestamp", "data")
    for key, rows in table_rows(url, table_name, columns, of="key", order=("timestamp", "id")):
        yield ImportedSession(key, _from_table(key, rows))


def simple_chat_store(path: str) -> Iterator[ImportedSession]:
    """Read a file of `SimpleChatStore.persist`, session by session. The messages have no times.

    Raises:
        InvalidInputError: In use: the file is missing, or was not written by a `SimpleChatStore`.
    """
    found = read_json(path)
    if isinstance(found, str):  # earlier versions wrote the JSON as a JSON text
        found = json.loads(found)
    store = found.get("store") if isinstance(found, dict) else None
    if not isinstance(store, dict):
        raise InvalidInputError("path", path, 'a JSON file with the "store" of a SimpleChatStore')
    for key, listed in store.items():
        yield ImportedSession(key, _from_list(key, listed))


def _from_table(key: str, rows: Iterable[Sequence[Any]]) -> Iterator[Message]:
    for row_id, timestamp, data in rows:
        message = _message(key, str(row_id), json.loads(data) if isinstance(data, str) else data)
        yield replace(message, created_at=datetime.fromtimestamp(timestamp / 1e9, UTC))


def _from_list(key: str, listed: Iterable[Any]) -> Iterator[Message]:
    for place, data in enumerate(listed):
        yield _message(key, str(place), data)


def _message(key: str, place: str, data: Any) -> Message:
    try:
        message = to_arc(ChatMessage.model_validate(data))
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"message {place} of session {key!r}", data, "a ChatMessage") from error
    return replace(message, id=imported_id("llamaindex", key, place))


READERS: Mapping[str, Callable[[str], Iterator[ImportedSession]]] = {
    "llamaindex": memory_table,
    "simple-chat-store": simple_chat_store,
}
"""The readers by their names for `arc import --from`."""
