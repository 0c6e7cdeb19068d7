"""Reads the conversations that LlamaIndex's own stores hold, so that an engine can import them."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from arc_common.engine.importers import ImportedSession, imported_id, read_json, table_rows
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message
from llamaindex_arc.messages import to_arc


def memory_table(url: str, table_name: str = "llama_index_memory") -> Iterator[ImportedSession]:
    """Read the table of LlamaIndex's `Memory`, session by session, including messages that have left its window.

        engine.admin.import_(memory_table("sqlite:///memory.db"), user_id="ann")

    - Each message gets an id that is the same at each import, and keeps its time. The table is only read.
    - A SQLAlchemy `url` with an async driver is read with the sync driver of the same database.

    Raises:
        ConfigurationError: While importing: the database can't be read, or has no such table.
        InvalidInputError: While importing: a row is not a message; the error names its id.
    """
    columns = ("id", "timestamp", "data")
    for key, rows in table_rows(url, table_name, columns, of="key", order=("timestamp", "id")):
        yield ImportedSession(key, (_message(key, str(row_id), data, time) for row_id, time, data in rows))


def simple_chat_store(path: str) -> Iterator[ImportedSession]:
    """Read a file of `SimpleChatStore.persist`, session by session. The messages have no times.

    Raises:
        InvalidInputError: While importing: the file is missing, or was not written by a `SimpleChatStore`.
    """
    found = read_json(path)
    with suppress(TypeError, ValueError):  # earlier versions wrote the JSON as a JSON text
        found = json.loads(found)
    store = found.get("store") if isinstance(found, dict) else None
    if not isinstance(store, dict) or not all(isinstance(messages, list) for messages in store.values()):
        raise InvalidInputError("path", path, 'a JSON file with the "store" of a SimpleChatStore')
    for key, messages in store.items():
        yield ImportedSession(key, (_message(key, str(place), data) for place, data in enumerate(messages)))


def _message(key: str, place: str, data: Any, nanoseconds: int | None = None) -> Message:
    try:
        message = to_arc(ChatMessage.model_validate(json.loads(data) if isinstance(data, str) else data))
        created_at = None if nanoseconds is None else datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInputError(f"message {place} of session {key!r}", data, "a ChatMessage") from error
    return replace(message, id=imported_id("llamaindex", key, place), created_at=created_at)


READERS: Mapping[str, Callable[[str], Iterator[ImportedSession]]] = {
    "llamaindex": memory_table,
    "simple-chat-store": simple_chat_store,
}
"""The readers by their names for `arc import --from`."""
