"""Reads the conversations that LangChain's own histories stored, so that an engine can import them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import messages_from_dict

from arc_common.engine.importers import ImportedSession, imported_id, table_rows
from arc_common.exceptions import InvalidInputError
from arc_common.messages import Message
from langchain_arc.messages import to_arc


def message_store(url: str, table_name: str = "message_store") -> Iterator[ImportedSession]:
    """Read the table of `SQLChatMessageHistory`, session by session.

        engine.admin.import_(message_store("sqlite:///history.db"), user_id="ann")

    - Messages keep their ids; one without an id gets one that is the same at each import. The table has no times, so
      they get the time of the import.
    - `url` is a SQLAlchemy URL. The table is only read.

    Raises:
        ConfigurationError: While importing: the database can't be read, or has no such table.
        InvalidInputError: While importing: a row is not a message; the error names its id.
    """
    columns = ("id", "message")
    for session_id, rows in table_rows(url, table_name, columns, of="session_id", order=("id",)):
        yield ImportedSession(session_id, _messages(session_id, rows))


def _messages(session_id: str, rows: Iterable[Sequence[Any]]) -> Iterator[Message]:
    seen: set[str] = set()
    for row_id, stored in rows:
        try:
            given = json.loads(stored) if isinstance(stored, str | bytes) else stored
            message = to_arc(messages_from_dict([given])[0])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInputError(f"message {row_id} of session {session_id!r}", stored, "a message") from error
        if message.id is None or message.id in seen:
            message = replace(message, id=imported_id("message_store", session_id, str(row_id)))
        seen.add(message.id or "")
        yield message


READERS: Mapping[str, Callable[[str], Iterator[ImportedSession]]] = {"langchain": message_store}
"""The readers by their names for `arc import --from`."""
