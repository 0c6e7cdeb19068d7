"""Brings conversations and memories that other libraries stored into an engine."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import column, create_engine, make_url, select, table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from arc_common.engine.memories import Memories
from arc_common.engine.session import Session
from arc_common.exceptions import ConfigurationError, InvalidInputError, check_calls, hide_password, scrubbed
from arc_common.messages import Message
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope

if TYPE_CHECKING:
    from arc_common.engine.runtime import Runtime
    from arc_common.engine.user_data import Progress

_TOGETHER = 200
_FROM = "mem0_id"
"""The key in a memory's metadata of the id that it had in mem0."""
_SYNC = {"aiosqlite": "sqlite", "asyncpg": "postgresql+psycopg", "aiomysql": "mysql+pymysql"}


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A conversation of another library.

    Args:
        session_id: Its id, which it keeps.
        messages: Its messages, oldest first, each with an id that is the same at each import.
        user_id: The user that it belongs to, unless the import names one.
    """

    session_id: str
    messages: Iterable[Message]
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """A memory of another library.

    Args:
        id: Its id there.
        text: The statement.
        user_id: The user that it is about, unless the import names one; without any, it is the caller's.
        valid_from: Since when it is valid.
        metadata: Further data about it.
    """

    id: str
    text: str
    user_id: str | None = None
    valid_from: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


Imported = ImportedSession | ImportedMemory


def load_others(
    runtime: "Runtime", source: Iterable[Imported], caller_id: str, user_id: str | None, progress: "Progress | None"
) -> int:
    """Store new messages and memories; return their number. See `Admin.import_`."""
    check_calls(progress)
    read = stored = 0
    known: dict[Scope, set[Any]] = {}
    for one in source:
        if isinstance(one, ImportedSession):
            key = SessionKey(one.session_id, caller_id, user_id or one.user_id)
            messages = iter(one.messages)
            while batch := list(islice(messages, _TOGETHER)):
                stored += _append(runtime, key, batch)
                read += len(batch)
                if progress is not None:
                    progress(read)
            continue
        if not isinstance(one, ImportedMemory):
            raise InvalidInputError("source", one, "an ImportedSession or an ImportedMemory")
        scope = Scope(caller_id, user_id or one.user_id)
        if scope not in known:
            found = runtime.store.records.find(scope, status=None, include_superseded=True)
            known[scope] = {memory.metadata.get(_FROM) for memory in found}
        if one.id not in known[scope]:
            metadata = {**one.metadata, _FROM: one.id}
            Memories(runtime, scope).add(one.text, metadata=metadata, valid_from=one.valid_from)
            known[scope].add(one.id)
            stored += 1
        read += 1
        if progress is not None:
            progress(read)
    return stored


def _append(runtime: "Runtime", key: SessionKey, batch: Sequence[Message]) -> int:
    """Append the messages that the session does not have; return their number."""
    ids = [message.id for message in batch if message.id]
    if len(ids) < len(batch):
        raise InvalidInputError("messages", batch, "messages with ids, so that an import can be repeated")
    there = {stored.message.id for stored in runtime.store.read(key, ids=ids)}
    new = [message for message in batch if message.id not in there]
    if new:
        Session(runtime, key).append(new)
    return len(new)


def imported_id(*place: str) -> str:
    """Return an id for a message without one, which is the same at each import from the same place."""
    return f"import-{sha256(chr(0).join(place).encode(errors='surrogatepass')).hexdigest()[:32]}"


def table_rows(
    url: str, name: str, columns: Sequence[str], *, of: str, order: Sequence[str]
) -> Iterator[tuple[str, Iterator[Sequence[Any]]]]:
    """Yield the keys in the column `of` of a table in any database of SQLAlchemy's, each with its rows in order."""

    def rows_of(key: str) -> Iterator[Sequence[Any]]:
        with _reported(url):
            found = connection.execution_options(yield_per=_TOGETHER).execute(rows.where(source.c[of] == key))
            yield from (tuple(row) for row in found)

    with _reported(url):
        address = make_url(url)
        address = address.set(drivername=_SYNC.get(address.get_driver_name(), address.drivername))
        engine = create_engine(address, poolclass=NullPool)
        if address.drivername.startswith("sqlite") and not Path(address.database or "").is_file():
            raise ConfigurationError(f"database {hide_password(url)}: there is no such file")
        source = table(name, *(column(one) for one in dict.fromkeys([of, *columns, *order])))
        rows = select(*(source.c[one] for one in columns)).order_by(*(source.c[one] for one in order))
        with closing(engine.connect()) as connection:
            keys = connection.execute(select(source.c[of]).distinct().order_by(source.c[of])).scalars().all()
            yield from ((key, rows_of(key)) for key in keys)


@contextmanager
def _reported(url: str) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, ImportError, ValueError) as error:
        cause = getattr(error, "orig", None) or error
        raise ConfigurationError(f"database {hide_password(url)}: {scrubbed(str(cause), url)}") from error


def mem0_memories(path: str | Path) -> Iterator[ImportedMemory]:
    """Read the memories of a JSON file with the answer of mem0's `get_all`, or of its export.

    Raises:
        InvalidInputError: The file is missing, or holds other JSON.
    """
    found = read_json(path)
    for name in ("results", "memories"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    if not isinstance(found, list):
        raise InvalidInputError("path", str(path), 'a JSON file with mem0\'s "results", or a list of memories')
    for place, one in enumerate(found):
        if not isinstance(one, dict) or not isinstance(one.get("memory"), str) or not isinstance(one.get("id"), str):
            raise InvalidInputError(f"results[{place}]", one, 'an object with "id" and "memory"')
        more = {name: one[name] for name in ("agent_id", "run_id", "categories") if one.get(name)}
        yield ImportedMemory(
            one["id"],
            one["memory"],
            user_id=one.get("user_id"),
            valid_from=_moment(one.get("created_at")),
            metadata={**(one.get("metadata") or {}), **more},
        )


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError("path", str(path), f"a JSON file: {error}") from error


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
