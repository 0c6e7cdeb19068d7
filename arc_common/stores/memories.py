"""Long-term memories in SQLite or PostgreSQL."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from arc_common.memories import Memory, MemoryStatus, MemoryType
from arc_common.protocols import SessionKey
from arc_common.protocols.memories import IndexChange, MemoryChange, MemoryUpdates, memory_entry
from arc_common.protocols.search_index import Scope
from arc_common.stores.codec import MAIN_BRANCH, checked_ids, checked_limit, conversation_key, to_microseconds
from arc_common.stores.connection import Database
from arc_common.stores.connection import scope as session_scope
from arc_common.stores.drivers import Call, Transaction
from arc_common.stores.memories_statements import (
    ERASED,
    checked_memory_ids,
    heir,
    loss,
    memory_body,
    memory_from_row,
    memory_row,
    memory_scope,
    memory_statements_for,
    outline_from_row,
    source_rows,
)

if TYPE_CHECKING:
    from arc_common.stores.search_index.store import EntriesChange, SqlIndexStore

_EVERY_ROW = 2**62


class SqlMemories:
    """A `MemoryStore` on the tables of a `SqlStore`."""

    def __init__(
        self, database: Database, *, clock: Callable[[], datetime], index: "Callable[[], SqlIndexStore]"
    ) -> None:
        self._index = index
        self._database = database
        self._clock = clock
        self._sql = memory_statements_for(database.dialect)

    def changes(self, scope: Scope, *, after: int = 0) -> MemoryUpdates:
        """See `MemoryStore.changes`."""
        key = memory_scope(scope)
        if after:
            found = self._database.read((self._sql.version, key))
            if found and found[0][0] == after:
                return MemoryUpdates(after, (), is_whole=False)
        found, rows = self._database.snapshot((self._sql.version, key), (self._sql.outlines, {**key, "after": after}))
        if not found:
            return MemoryUpdates(0, (), is_whole=True)
        version, purged = found[0]
        if version < after:  # the scope was recreated after the clock was set back
            return self.changes(scope)
        return MemoryUpdates(version, tuple(map(outline_from_row, rows)), is_whole=purged > after)

    def commit(
        self, scope: Scope, change: MemoryChange, *, version: int, index: IndexChange | None = None
    ) -> int | None:
        """See `MemoryStore.commit`."""
        bodies = list(map(memory_body, change.put))
        first = to_microseconds(self._clock())
        with self._indexing(scope, index) as entries, self._database.transaction() as transaction:
            ((current,),), *known = transaction.run(
                (self._sql.open_scope, {**memory_scope(scope), "first": first}), *(entries.reading if entries else ())
            )
            if current != (version + 1 if version else first):
                return None
            place = memory_scope(scope)
            calls = self._writes(place, current, list(zip(change.put, bodies, strict=True)))
            if change.removed:
                calls += self._removals(place, change.removed)
            transaction.commit(*calls, *(entries.writing(known) if entries else ()))
        return int(current)

    def find(
        self,
        scope: Scope,
        ids: Sequence[str] | None = None,
        *,
        status: MemoryStatus | None = MemoryStatus.ACTIVE,
        type: MemoryType | None = None,  # noqa: A002 - the field's name
        include_superseded: bool = False,
        limit: int | None = None,
    ) -> list[Memory]:
        """See `MemoryStore.find`."""
        if ids is not None:
            return self._of_ids(scope, checked_memory_ids(ids))
        checked_limit("limit", limit)
        asked = {
            "status": "" if status is None else status.value,
            "type": "" if type is None else type.value,
            "superseded": int(include_superseded),
            "row_limit": _EVERY_ROW if limit is None else limit,
        }
        rows = self._database.read((self._sql.newest, {**memory_scope(scope), **asked}))
        return list(map(memory_from_row, rows))

    def _of_ids(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        if not ids:
            return []
        rows = self._database.read((self._sql.of_ids, {**memory_scope(scope), "ids": self._database.many(ids)}))
        found = {row[0]: row for row in rows}
        return [memory_from_row(found[name]) for name in ids if name in found]

    def touch(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> int:
        """See `MemoryStore.touch`."""
        names = checked_memory_ids(ids)
        if not names:
            return 0
        asked = {**memory_scope(scope), "ids": self._database.many(names), "at": to_microseconds(at)}
        return len(self._database.write((self._sql.touch, asked)) or ())

    def erase(self, scope: Scope) -> int:
        """See `MemoryStore.erase`."""
        with self._database.transaction() as transaction:
            (rows,) = transaction.run((self._sql.lock_within, memory_scope(scope)))
            if not rows:
                return 0
            counts = transaction.run(
                *((self._sql.of_scope, {"scope": row[0], "caller_id": scope.caller_id}) for row in rows)
            )
            transaction.commit(*((getattr(self._sql, f"erase_{table.name}"), memory_scope(scope)) for table in ERASED))
        return sum(map(len, counts))

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """See `MemoryStore.forget`."""
        with self._database.transaction() as transaction:
            count, calls = self.forgetting(transaction, key, None if message_ids is None else checked_ids(message_ids))
            transaction.commit(*calls)
        return count

    def forgetting(
        self, transaction: Transaction, key: SessionKey, ids: Sequence[str] | None
    ) -> tuple[int, list[Call]]:
        """Return how many memories forgetting a session or its messages removes, and the calls that remove them."""
        count, calls = 0, list[Call]()
        reach = {"caller_id": key.caller_id, "session_id": key.session_id, "user_id": key.user_id or ""}
        (scopes,) = transaction.run((self._sql.lock_within_reach, reach))
        for scope_id, session_id, user_id in scopes:
            gone, anew, more = self._forget_in(transaction, key, scope_id, ids, is_own=bool(session_id))
            count += len(gone)
            calls += more
            if gone or anew:
                place = Scope(key.caller_id, user_id or None, session_id or None)
                with self._index().beside(place, "memory", list(map(memory_entry, anew)), removed=gone) as entries:
                    calls += entries.writing(transaction.run(*entries.reading))
        return count, calls

    def read_to(self, key: SessionKey) -> int:
        """See `MemoryStore.read_to`."""
        rows = self._database.read((self._sql.read_to, session_scope(key)))
        return int(rows[0][0]) if rows else 0

    def mark_read(self, key: SessionKey, *, after: int, to: int) -> bool:
        """See `MemoryStore.mark_read`."""
        return bool(self._database.write((self._sql.mark_read, {**session_scope(key), "after": after, "to": to})))

    def unread(self, scope: Scope) -> list[SessionKey]:
        """See `MemoryStore.unread`."""
        statement = self._sql.unread if scope.user_id is None else self._sql.unread_of_user
        rows = self._database.read(
            (statement, {"caller_id": scope.caller_id, "user_id": scope.user_id, "branch": MAIN_BRANCH})
        )
        keys = [SessionKey(session_id, scope.caller_id, user_id) for session_id, user_id in rows]
        return [key for key in keys if scope.session_id in (None, key.session_id)]

    def _indexing(self, scope: Scope, change: IndexChange | None) -> "AbstractContextManager[EntriesChange | None]":
        """Return a context with the change to the index that accompanies a commit, if any."""
        if change is None:
            return nullcontext()
        return self._index().beside(scope, "memory", change.put, removed=change.removed)

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
        if gone:
            calls += self._removals(place, gone)
        return gone, [memory for memory in changed.values() if memory.id in anew and memory.holds], calls

    def _writes(self, place: dict[str, Any], version: int, stored: Sequence[tuple[Memory, str]]) -> list[Call]:
        if not stored:
            return []
        rows = [{**memory_row(memory, body), **place, "version": version} for memory, body in stored]
        sources = [{**row, **place} for memory, _ in stored for row in source_rows(memory, place["caller_id"])]
        ids = self._database.many([memory.id for memory, _ in stored])
        calls: list[Call] = [(self._sql.write, rows), (self._sql.drop_sources, {**place, "ids": ids})]
        return [*calls, (self._sql.write_source, sources)] if sources else calls

    def _removals(self, place: dict[str, Any], ids: Sequence[str]) -> list[Call]:
        named = {**place, "ids": self._database.many(list(ids))}
        return [
            (self._sql.remove, named),
            (self._sql.drop_sources, named),
            (self._sql.purge, place),
            (self._sql.drop_empty, place),
        ]
