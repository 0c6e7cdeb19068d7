"""Long-term memories in SQLite or PostgreSQL."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from arc_common.exceptions import NotFoundError
from arc_common.memories import Memory, MemoryStatus, MemoryType
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import MAIN, NOWHERE, Path
from arc_common.protocols.records import (
    MOST_REVISIONS,
    IndexChange,
    Onlooker,
    Progress,
    RecordChange,
    RecordUpdates,
    memory_entry,
)
from arc_common.protocols.search_index import EntryKind, Scope
from arc_common.stores.branch_paths import parts_of
from arc_common.stores.codec import (
    MOST,
    checked_ids,
    checked_limit,
    conversation_key,
    row_key,
    scope_place,
    to_microseconds,
)
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Row, SingleCall, Transaction
from arc_common.stores.search_index.entries import erasing_statements, index_statements_for
from arc_common.stores.search_index.store import EntriesChange, SqlIndexStore
from arc_common.stores.statements.memory_rows import (
    PIN,
    heir,
    loss,
    memory_body,
    memory_from_row,
    memory_row,
    pin_row,
    source_rows,
)
from arc_common.stores.statements.records import ERASED, record_statements_for


class SqlRecords:
    """A `Records` on the tables of a `SqlStore`."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime], index: SqlIndexStore) -> None:
        self._index = index
        self._database = database
        self._clock = clock
        self._sql = record_statements_for(database.dialect)

    def changes(self, scope: Scope, *, after: int = 0) -> RecordUpdates:
        """See `Records.changes`."""
        key = scope_place(scope)
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
        place = scope_place(scope)
        bodies = list(map(memory_body, change.put))
        first = to_microseconds(self._clock())
        opening: list[Call] = [(self._sql.open_scope, {**place, "first": first})] if change.is_content else []
        accessed = [
            {**place, "record_id": memory_id, "at": to_microseconds(change.accessed[memory_id])}
            for memory_id in sorted(checked_ids(tuple(change.accessed), "ids"))  # or two may wait for each other
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
            calls += self._sources(place, change)
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

    def _sources(self, place: dict[str, Any], change: RecordChange) -> list[Call]:
        """Return the calls that note the sources of memories, and the points of pins and artifacts."""
        known, calls = [], list[Call]()
        for memory in change.put:
            stated = change.stated[memory.id].sources if memory.id in change.stated else ()
            rows = source_rows(memory, place["caller_id"])
            known += [{**row, **place} for source, row in rows.items() if source not in stated]
        if known:
            calls.append((self._sql.write_source, known))
        for memory_id, proposed in change.stated.items():
            for session_id, message_id in proposed.sources:
                reader = self._database.place(SessionKey(session_id, place["caller_id"], branch=proposed.branch), MAIN)
                at = {**place, **reader, "record_id": memory_id, "message_id": message_id}
                calls.append((self._sql.state_source, at))
        for record_id, key in change.points.items():
            at = {**place, **self._database.place(key, MAIN), "record_id": record_id, "message_id": ""}
            calls.append((self._sql.write_point, at))
        return calls

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
        on: Onlooker | None = None,
    ) -> list[Memory]:
        """See `Records.find`."""
        if history:
            named = self._database.many([] if ids is None else checked_ids(ids, "ids"))
            asked = {**scope_place(scope), "ids": named, "every": int(ids is None)}
            return list(map(memory_from_row, self._database.read((self._sql.revisions, asked))))
        if ids is not None:
            return self._of_ids(scope, checked_ids(ids, "ids"), on)
        checked_limit("limit", limit)
        asked = {
            "status": "" if status is None else status.value,
            "type": "" if type is None else type.value,
            "superseded": int(include_superseded),
            "row_limit": MOST if limit is None else limit,
            "now": to_microseconds(self._clock()),
        }
        if on is None:
            rows = self._database.read((self._sql.newest, {**scope_place(scope), **asked}))
            return list(map(memory_from_row, rows))
        place = {**scope_place(scope), **self._seen_from(on)}
        return self._as_seen(place, self._database.read((self._sql.newest_seen, {**place, **asked})))

    def _of_ids(self, scope: Scope, ids: Sequence[str], on: Onlooker | None) -> list[Memory]:
        if not ids:
            return []
        place = {**scope_place(scope), "ids": self._database.many(ids)}
        if on is None:
            found = {row[0]: memory_from_row(row) for row in self._database.read((self._sql.of_ids, place))}
        else:
            place |= self._seen_from(on)
            found = {one.id: one for one in self._as_seen(place, self._database.read((self._sql.seen, place)))}
        return [found[name] for name in ids if name in found]

    def _seen_from(self, on: Onlooker) -> dict[str, Any]:
        """Return the parameters of a view."""
        if on == "live":
            return {"conversation": b"", **parts_of((), self._database.dialect)}
        path = self._database.last_path(on)
        return {"conversation": conversation_key(on), **parts_of(path.forks, self._database.dialect)}

    def _as_seen(self, place: Mapping[str, Any], rows: Sequence[Row]) -> list[Memory]:
        """Return memories as they are seen; one whose heirs are all hidden is valid."""
        found = [self._seen(row, place["caller_id"]) for row in rows]
        heirs: dict[str, tuple[str | None, bool]] = {}  # the heir of each heir, and whether it is seen
        asked = {one.superseded_by for one in found if one is not None and one.superseded_by is not None}
        while asked:
            named = {**place, "ids": self._database.many(sorted(asked))}
            further = self._database.read((self._sql.seen, named))
            heirs |= dict.fromkeys(asked, (None, True))  # one that was deleted ends the memory, too
            for row in further:
                seen = self._seen(row, place["caller_id"])
                heirs[row[0]] = memory_from_row(row[:-1]).superseded_by, seen is not None
            asked = {of for of, is_seen in heirs.values() if of is not None and not is_seen} - heirs.keys()
        memories = []
        for memory in (one for one in found if one is not None):
            of = memory.superseded_by
            while of is not None and not heirs[of][1]:
                of = heirs[of][0]
            memories.append(memory if of == memory.superseded_by else replace(memory, superseded_by=of))
        return memories

    def _seen(self, row: Row, caller_id: str) -> Memory | None:
        """Read a row of a memory and its sources; `None` if the session's branch shows none of the sources."""
        *columns, listed = row
        memory = memory_from_row(columns)
        if listed is None:
            return memory
        seen: dict[tuple[str, str], bool] = {}
        for conversation, message_id, is_seen in json.loads(listed):
            source = conversation.lower(), message_id
            seen[source] = seen.get(source, False) or bool(is_seen)
        return memory.without(lambda one: not seen.get((row_key(caller_id, one[0]).hex(), one[1]), True))

    def shown(self, scope: Scope, ids: Sequence[str], key: SessionKey) -> list[str]:
        """See `Records.shown`."""
        place = {**scope_place(scope), "ids": self._database.many(list(ids)), **self._seen_from(key)}
        seen: dict[str, bool] = {}
        for record_id, is_seen in self._database.read((self._sql.points, place)):
            seen[record_id] = seen.get(record_id, False) or bool(is_seen)
        return [name for name in ids if seen.get(name, True)]

    def erase(self, scope: Scope) -> int:
        """See `Records.erase`."""

        def work(transaction: Transaction) -> int:
            (rows,) = transaction.run((self._sql.lock_within, scope_place(scope)))
            counts = transaction.run(
                *((self._sql.of_scope, {"scope": row[0], "caller_id": scope.caller_id}) for row in rows)
            )
            erase = [(getattr(self._sql, f"erase_{table.name}"), scope_place(scope)) for table in ERASED]
            transaction.commit(*erase, *self._unindexing(transaction, scope, "memory", "artifact", within=True))
            return sum(map(len, counts))

        return self._database.transact(work)

    def forget(self, key: SessionKey, message_ids: Sequence[str] | None = None) -> int:
        """See `Records.forget`."""

        def work(transaction: Transaction) -> int:
            ids = None if message_ids is None else checked_ids(message_ids)
            count, calls = self.forgetting_messages(transaction, key, path, ids)
            if ids is None:
                calls += self._unindexing(transaction, _own_scope(key), "artifact")
            transaction.commit(*calls)
            return count

        path = NOWHERE
        with suppress(NotFoundError):
            path = self._database.path_of(key)
        return self._database.transact(work)

    def forgetting_messages(
        self, transaction: Transaction, key: SessionKey, path: Path, ids: Sequence[str] | None
    ) -> tuple[int, list[Call]]:
        """Do as `forgetting` for the whole session (`None`), or for messages that are gone or that the path shows."""
        place = self._database.place(key, MAIN)
        if ids is None:
            return self.forgetting(transaction, key, [(self._sql.drop_sources_of, place)], is_whole_session=True)
        parts = parts_of(path.forks, self._database.dialect)
        drop = self._sql.forget_sources, {**place, **parts, "ids": self._database.many(ids)}
        return self.forgetting(transaction, key, [drop])

    def forgetting(
        self,
        transaction: Transaction,
        key: SessionKey,
        dropping: Sequence[SingleCall],
        *,
        is_whole_session: bool = False,
    ) -> tuple[int, list[Call]]:
        """Drop sources with these calls; return the number of memories that this removes, and the calls left to run.

        They are dropped in the locked scopes only. Whoever adds memories in a new one meanwhile looks at the messages
        again and forgets what is gone, which needs its sources.
        """
        count, calls = 0, list[Call]()
        reach = {"caller_id": key.caller_id, "session_id": key.session_id, "user_id": key.user_id or ""}
        (scopes,) = transaction.run((self._sql.lock_within_reach, reach))
        places = [
            {"scope": row[0], "caller_id": key.caller_id, "conversation": conversation_key(key)} for row in scopes
        ]
        if not places:  # nothing rests on it, as in most conversations
            return 0, []
        drops = [(statement, {**named, "scope": place["scope"]}) for statement, named in dropping for place in places]
        before = transaction.run(*((self._sql.sources_of, place) for place in places))
        after = transaction.run(*drops, *((self._sql.sources_of, place) for place in places))[len(drops) :]
        for place, (_, session_id, user_id), had, left in zip(places, scopes, before, after, strict=True):
            scope = Scope(key.caller_id, user_id or None, session_id or None)
            is_whole = is_whole_session and bool(session_id)
            unseen = sorted({row[0] for row in had} - {row[0] for row in left}) if session_id else []
            if is_whole:
                calls += [(self._sql.drop_pins, place), (self._sql.drop_empty, place)]
            elif unseen:
                calls.append((self._sql.drop_pins_named, {**place, "ids": self._database.many(unseen)}))
            concerned = sorted({row[0] for row in had})
            still = None if is_whole else set(map(tuple, left))
            gone, anew, more = self._forget_in(transaction, key, place, concerned, still)
            count += len(gone)
            calls += more
            changes: tuple[tuple[EntryKind, list[Memory], list[str]], ...]
            changes = ("memory", anew, gone), ("artifact", [], unseen)
            for kind, put, names in changes:
                if put or names:
                    calls += self._index.beside(
                        scope,
                        kind,
                        list(map(memory_entry, put)),
                        removed=names,
                        make=lambda entries: entries.writing(transaction.run(*entries.reading)),
                    )
        return count, calls

    def unpinning(self, key: SessionKey, ids: Sequence[str]) -> list[Call]:
        """Return the calls that remove the pins of a session's messages."""
        place = scope_place(_own_scope(key))
        return [(self._sql.drop_pin_of, {**place, "message_id": message_id}) for message_id in ids]

    def _unindexing(
        self, transaction: Transaction, scope: Scope, *kinds: EntryKind, within: bool = False
    ) -> list[Call]:
        """Return the calls that remove a scope's entries of these kinds, or also those of the scopes within it."""
        index = index_statements_for(self._database.dialect)
        lock = index.lock_within if within else index.lock_scope
        found = transaction.run(*((lock, scope_place(scope, kind)) for kind in kinds))
        these = [{"scope": row[0], "caller_id": scope.caller_id} for rows in found for row in rows]
        erasing = erasing_statements(self._database.dialect, by_session=False) if these else ()
        return [(statement, these) for statement in erasing]

    def _forget_in(
        self, transaction: Transaction, key: SessionKey, place: dict[str, Any], had: Sequence[str], left: Any
    ) -> tuple[list[str], list[Memory], list[Call]]:
        """Return the removed ids of one scope, the memories new to the index, and the calls that make the change."""
        named = {**place, "ids": self._database.many(list(had))}
        (rows,) = transaction.run((self._sql.of_scope, place) if left is None else (self._sql.of_ids, named))
        lost = loss(map(memory_from_row, rows), key, left)
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
        if lost.changed:  # an earlier revision may have the forgotten text
            ids_changed = self._database.many([memory.id for memory in lost.changed])
            calls.append((self._sql.drop_history, {**place, "ids": ids_changed}))
        if gone:
            calls += self._removals(place, gone)
        active = MemoryStatus.ACTIVE
        return gone, [memory for memory in changed.values() if memory.id in anew and memory.status is active], calls

    def _writes(self, place: dict[str, Any], version: int, stored: Sequence[tuple[Memory, str]]) -> list[Call]:
        if not stored:
            return []
        rows = [{**memory_row(memory, body), **place, "version": version} for memory, body in stored]
        edited = [{**place, "record_id": one.id, "revision": one.revision} for one, _ in stored if one.revision > 1]
        calls: list[Call] = [(self._sql.archive, edited)] if edited else []
        old = [
            {**one, "revision": one["revision"] - MOST_REVISIONS} for one in edited if one["revision"] > MOST_REVISIONS
        ]
        calls += [(self._sql.drop_oldest, old)] if old else []
        return [*calls, (self._sql.write, rows)]

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


def _own_scope(key: SessionKey) -> Scope:
    return Scope(key.caller_id, key.user_id, key.session_id)
