"""Long-term memories in SQLite or PostgreSQL."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from arc_common.exceptions import NotFoundError
from arc_common.memories import Memory, MemoryStatus, MemoryType
from arc_common.messages import Message
from arc_common.prompts.context import pin_words
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import MAIN, Path
from arc_common.protocols.records import IndexChange, Progress, RecordChange, RecordUpdates, memory_entry
from arc_common.protocols.search_index import EntryKind, Scope
from arc_common.stores.codec import checked_ids, checked_limit, conversation_key, to_microseconds
from arc_common.stores.connection import Database
from arc_common.stores.drivers import Call, Transaction
from arc_common.stores.records_statements import (
    ERASED,
    PIN,
    heir,
    loss,
    memory_body,
    memory_from_row,
    memory_row,
    memory_scope,
    pin_body,
    pin_row,
    record_statements_for,
    source_rows,
)
from arc_common.stores.search_index.entries import erasing_statements, index_statements_for
from arc_common.stores.search_index.entries import scope_key as index_scope
from arc_common.stores.search_index.store import EntriesChange, SqlIndexStore

_EVERY_ROW = 2**62


class SqlRecords:
    """A `Records` on the tables of a `SqlStore`."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime], index: SqlIndexStore) -> None:
        self._index = index
        self._database = database
        self._clock = clock
        self._sql = record_statements_for(database.dialect)

    def changes(self, scope: Scope, *, after: int = 0) -> RecordUpdates:
        """See `Records.changes`."""
        key = memory_scope(scope)
        if after:
            found = self._database.read((self._sql.version, key))
            if found and found[0][0] == after:
                return RecordUpdates(after, (), is_whole=False)
        found, rows = self._database.snapshot((self._sql.version, key), (self._sql.changed, {**key, "after": after}))
        if not found:
            return RecordUpdates(0, (), is_whole=True)
        version, purged = found[0]
        if version < after:  # the scope was recreated after the clock was set back
            return self.changes(scope)
        return RecordUpdates(version, tuple(map(memory_from_row, rows)), is_whole=purged > after)

    def commit(
        self, scope: Scope, change: RecordChange, *, version: int | None, index: IndexChange | None = None
    ) -> int | None:
        """See `Records.commit`."""
        place = memory_scope(scope)
        bodies = list(map(memory_body, change.put))
        first = to_microseconds(self._clock())
        opening: list[Call] = [(self._sql.open_scope, {**place, "first": first})] if change.is_content else []
        accessed = [
            {**place, "record_id": memory_id, "at": to_microseconds(change.accessed[memory_id])}
            for memory_id in checked_ids(tuple(change.accessed), "ids")
        ]
        read = change.progress  # its row first, as an edit of the conversation locks it before scopes

        def work(transaction: Transaction, path: Path = MAIN, entries: EntriesChange | None = None) -> int | None:
            progress = [] if read is None else [self._progress(read, path)]
            reading = [*progress, *opening, *(entries.reading if entries else ())]
            found = transaction.run(*reading) if reading else []
            if progress and not found.pop(0):
                return None
            current = found.pop(0)[0][0] if opening else 0
            if opening and version is not None and current != (version + 1 if version else first):
                return None
            calls = self._writes(place, current, list(zip(change.put, bodies, strict=True)))
            if change.removed:
                calls += self._removals(place, change.removed)
            if change.pins:
                pins = [{**pin_row(pin), **place, "kind": PIN, "version": current} for pin in change.pins]
                calls.append((self._sql.write, pins))
            if accessed:
                calls.append((self._sql.touch, accessed))
            transaction.commit(*calls, *(entries.writing(found) if entries else ()))
            return int(current)

        def done(path: Path) -> int | None:
            on_path = partial(work, path=path)
            if index is None:
                return self._database.transact(on_path)
            return self._index.beside(
                scope,
                "memory",
                index.put,
                removed=index.removed,
                make=lambda entries: self._database.transact(partial(on_path, entries=entries)),
            )

        if read is None:
            return done(MAIN)
        try:
            (version,) = self._database.along(read.key, lambda path: _if_any(done(path))) or (None,)
        except NotFoundError:
            return None
        return version

    def _progress(self, read: Progress, path: Path) -> Call:
        place = self._database.place(read.key, path)
        statement = self._sql.progress_along if "path" in place else self._sql.progress
        return statement, {**place, "after": read.after, "to": read.to}

    def find(
        self,
        scope: Scope,
        ids: Sequence[str] | None = None,
        *,
        status: MemoryStatus | None = MemoryStatus.ACTIVE,
        type: MemoryType | None = None,  # noqa: A002 - the field's name
        include_superseded: bool = False,
        limit: int | None = None,
        history: bool = False,
    ) -> list[Memory]:
        """See `Records.find`."""
        if history:
            named = self._database.many([] if ids is None else checked_ids(ids, "ids"))
            asked = {**memory_scope(scope), "ids": named, "every": int(ids is None)}
            return list(map(memory_from_row, self._database.read((self._sql.revisions, asked))))
        if ids is not None:
            return self._of_ids(scope, checked_ids(ids, "ids"))
        checked_limit("limit", limit)
        asked = {
            "status": "" if status is None else status.value,
            "type": "" if type is None else type.value,
            "superseded": int(include_superseded),
            "row_limit": _EVERY_ROW if limit is None else limit,
            "now": to_microseconds(self._clock()),
        }
        rows = self._database.read((self._sql.newest, {**memory_scope(scope), **asked}))
        return list(map(memory_from_row, rows))

    def _of_ids(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        if not ids:
            return []
        rows = self._database.read((self._sql.of_ids, {**memory_scope(scope), "ids": self._database.many(ids)}))
        found = {row[0]: row for row in rows}
        return [memory_from_row(found[name]) for name in ids if name in found]

    def erase(self, scope: Scope) -> int:
        """See `Records.erase`."""

        def work(transaction: Transaction) -> int:
            (rows,) = transaction.run((self._sql.lock_within, memory_scope(scope)))
            counts = transaction.run(
                *((self._sql.of_scope, {"scope": row[0], "caller_id": scope.caller_id}) for row in rows)
            )
            erase = [(getattr(self._sql, f"erase_{table.name}"), memory_scope(scope)) for table in ERASED]
            transaction.commit(*erase, *self._unindexing(transaction, scope, "memory", "artifact", within=True))
            return sum(map(len, counts))

        return self._database.transact(work)

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """See `Records.forget`."""

        def work(transaction: Transaction) -> int:
            count, calls = self.forgetting(transaction, key, None if message_ids is None else checked_ids(message_ids))
            if message_ids is None:
                calls += self._unindexing(transaction, _own_scope(key), "artifact")
            transaction.commit(*calls)
            return count

        return self._database.transact(work)

    def forgetting(
        self, transaction: Transaction, key: SessionKey, ids: Sequence[str] | None
    ) -> tuple[int, list[Call]]:
        """Return how many memories forgetting a session or its messages removes, and the calls that remove them."""
        count, calls = 0, list[Call]()
        reach = {"caller_id": key.caller_id, "session_id": key.session_id, "user_id": key.user_id or ""}
        (scopes,) = transaction.run((self._sql.lock_within_reach, reach))
        for scope_id, session_id, user_id in scopes:
            own = {"scope": scope_id, "caller_id": key.caller_id}
            if session_id and ids is None:
                calls += [(self._sql.drop_pins, own), (self._sql.drop_empty, own)]
            gone, anew, more = self._forget_in(transaction, key, scope_id, ids, is_own=bool(session_id))
            count += len(gone)
            calls += more
            if gone or anew:
                place = Scope(key.caller_id, user_id or None, session_id or None)
                calls += self._index.beside(
                    place,
                    "memory",
                    list(map(memory_entry, anew)),
                    removed=gone,
                    make=lambda entries: entries.writing(transaction.run(*entries.reading)),
                )
        return count, calls

    def unpinning(self, key: SessionKey, ids: Sequence[str]) -> list[Call]:
        """Return the calls that remove the pins of a session's messages."""
        return [(self._sql.drop_pin_of, {**_own(key), "message_id": message_id}) for message_id in ids]

    def repinning(self, key: SessionKey, revised: Sequence[Message]) -> list[Call]:
        """Return the calls that change the pins of a session's edited messages."""
        return [
            (
                self._sql.revise_pin,
                {**_own(key), "message_id": message.id, "body": _pinned_body(message)},
            )
            for message in revised
        ]

    def _unindexing(
        self, transaction: Transaction, scope: Scope, *kinds: EntryKind, within: bool = False
    ) -> list[Call]:
        """Return the calls that remove a scope's entries of these kinds, or also those of the scopes within it."""
        index = index_statements_for(self._database.dialect)
        lock = index.lock_within if within else index.lock_scope
        found = transaction.run(*((lock, index_scope(scope, kind)) for kind in kinds))
        ids = [row[0] for rows in found for row in rows]
        these = {"scopes": self._database.many(ids), "caller_id": scope.caller_id}
        erasing = erasing_statements(self._database.dialect, by_session=False) if ids else ()
        return [(statement, these) for statement in erasing]

    def _forget_in(
        self, transaction: Transaction, key: SessionKey, scope_id: bytes, ids: Sequence[str] | None, *, is_own: bool
    ) -> tuple[list[str], list[Memory], list[Call]]:
        """Return the removed ids of one scope, the memories new to the index, and the calls that make the change."""
        place = {"scope": scope_id, "caller_id": key.caller_id}
        whole = is_own and ids is None
        of_session = {**place, "conversation": conversation_key(key)}
        (rows,) = transaction.run((self._sql.of_scope, place) if whole else (self._sql.of_session, of_session))
        lost = loss(map(memory_from_row, rows), key, ids, is_own=is_own)
        if not lost.removed and not lost.changed:
            return [], [], []
        gone = list(lost.removed)
        named = {**place, "ids": self._database.many(gone)}
        ((version,),), behind = transaction.run((self._sql.lock_scope, place), (self._sql.superseded_by, named))
        heirs = [
            replace(memory, superseded_by=heir(memory.superseded_by, lost.removed))
            for memory in map(memory_from_row, behind)
            if memory.id not in lost.removed
        ]
        changed = {memory.id: memory for memory in lost.changed}
        for memory in heirs:
            changed[memory.id] = replace(changed.get(memory.id, memory), superseded_by=memory.superseded_by)
        anew = lost.reworded | {memory.id for memory in heirs}
        stored = [(memory, memory_body(memory)) for memory in changed.values()]
        calls = self._writes(place, version, stored)
        if lost.changed:  # an earlier revision may say what is forgotten
            ids_changed = self._database.many([memory.id for memory in lost.changed])
            calls.append((self._sql.drop_history, {**place, "ids": ids_changed}))
        if gone:
            calls += self._removals(place, gone)
        return gone, [memory for memory in changed.values() if memory.id in anew and memory.holds], calls

    def _writes(self, place: dict[str, Any], version: int, stored: Sequence[tuple[Memory, str]]) -> list[Call]:
        if not stored:
            return []
        rows = [{**memory_row(memory, body), **place, "version": version} for memory, body in stored]
        sources = [{**row, **place} for memory, _ in stored for row in source_rows(memory, place["caller_id"])]
        ids = self._database.many([memory.id for memory, _ in stored])
        edited = [{**place, "record_id": one.id, "revision": one.revision} for one, _ in stored if one.revision > 1]
        calls: list[Call] = [(self._sql.archive, edited)] if edited else []
        calls += [(self._sql.write, rows), (self._sql.drop_sources, {**place, "ids": ids})]
        return [*calls, (self._sql.write_source, sources)] if sources else calls

    def _removals(self, place: dict[str, Any], ids: Sequence[str]) -> list[Call]:
        named = {**place, "ids": self._database.many(list(ids))}
        return [
            (self._sql.remove, named),
            (self._sql.drop_sources, named),
            (self._sql.purge, place),
            (self._sql.drop_empty, place),
        ]


def _if_any(version: int | None) -> tuple[int, ...]:
    return () if version is None else (version,)


def _own(key: SessionKey) -> dict[str, Any]:
    """Return the parameters that name a session's own scope."""
    return memory_scope(_own_scope(key))


def _own_scope(key: SessionKey) -> Scope:
    return Scope(key.caller_id, key.user_id, key.session_id)


def _pinned_body(message: Message) -> str:
    said_at = None if message.created_at is None else to_microseconds(message.created_at)
    text, who = pin_words(message)
    return pin_body(text, said_by=who, said_at=said_at)
