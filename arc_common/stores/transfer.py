"""Converts all data of a caller or one of its users to JSON values, and back into a database of either kind."""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sqlalchemy import Column, Table, bindparam, select, tuple_, update

from arc_common.exceptions import ArchiveError, ConfigurationError, InvalidInputError
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import ConversationStatus
from arc_common.protocols.search_index import IndexEntry, IndexStore, Scope
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Transaction
from arc_common.stores.database.schema import (
    HEAD,
    KEYS,
    SealedText,
    conversations,
    facts,
    index_tables,
    messages,
    metadata,
    records,
    scopes,
    stray_objects,
)
from arc_common.stores.statements.compiler import Statement, compiler_for, insert_for
from arc_common.stores.statements.summary_rows import FACT_COLUMNS, fact_from_row, folded_key, slot_of

_PAGE = 200
_OF_ALL_CALLERS = "/* reencrypt */"
"""Marks statements that concern all callers."""
_BYTES = "base64"
_MOST = 1 << 63
_UNCLAIMED = {"lease_owner": None, "lease_until": None}
"""A copy does not continue the work of another process."""
_UNARCHIVED = {"archive_path": None, "archive_checksum": None}


class SqlTransfer:
    """Reads and stores the records of `Store.dump` and `Store.load`."""

    def __init__(
        self,
        database: Database,
        index: IndexStore,
        archived: Callable[[SessionKey, str | None, str | None], list[dict[str, Any]]],
    ) -> None:
        self._database = database
        self._index = index
        self._archived = archived
        self._compiled = compiler_for(database.dialect)
        self._of_scope = [table for table in metadata.sorted_tables if "scope" in table.c]
        own = (*self._of_scope, stray_objects)  # the objects are in this database's archive
        self._of_conversation = [table for table in metadata.sorted_tables if table not in own]

    def dump(self, caller_id: str, user_id: str | None) -> Iterator[dict[str, Any]]:
        """See `Store.dump`."""
        whose = {"caller_id": caller_id, **({} if user_id is None else {"user_id": user_id})}
        yield {"arc": HEAD, **whose}
        for owner, tables in ((conversations, self._of_conversation), (scopes, self._of_scope)):
            for key, *_ in self._pages(owner, whose):
                record = self._record_of(owner, tables, key) if owner is scopes else self._whole(key)
                if owner.name in record:  # otherwise it was deleted meanwhile
                    yield record
        own = index_tables(self._database.dialect).scopes
        for _, _, session_id, found_user, kind in self._pages(own, whose, "caller_id", "session_id", "user_id", "kind"):
            yield from self._entries(Scope(caller_id, found_user or None, session_id or None), kind)

    def conversation(self, key: bytes) -> dict[str, Any] | None:
        """Return a conversation as an object of `dump`, without its archived messages; `None` if there is none."""
        record = self._record_of(conversations, self._of_conversation, key)
        return record if conversations.name in record else None

    def _record_of(self, owner: Table, tables: Sequence[Table], key: bytes) -> dict[str, Any]:
        rows = self._database.snapshot(*((self._rows_of(table, owner), {"owner": key}) for table in tables))
        return {table.name: _plain(table, found) for table, found in zip(tables, rows, strict=True) if found}

    def _whole(self, key: bytes) -> dict[str, Any]:
        """Return a conversation with its messages, wherever they are."""
        record = self._record_of(conversations, self._of_conversation, key)
        while conversations.name in record:
            try:
                return self._with_archived_messages(record)
            except ArchiveError:
                before, record = record, self._record_of(conversations, self._of_conversation, key)
                if record == before:
                    raise  # else it was restored meanwhile
        return record

    def _with_archived_messages(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a conversation with the messages that are in the archive, as if it had never been there."""
        (row,) = record[conversations.name]
        if row["archive_checksum"] is not None and messages.name not in record:
            key = SessionKey(row["session_id"], row["caller_id"], row["user_id"])
            found = self._archived(key, row["archive_path"], row["archive_checksum"])
            record = {**record, messages.name: _plain(messages, [list(one.values()) for one in found])}
        is_archived = row["status"] == ConversationStatus.ARCHIVED
        status = ConversationStatus.ACTIVE.value if is_archived else row["status"]
        return {**record, conversations.name: [{**row, **_UNARCHIVED, "status": status}]}

    def load(self, record: Mapping[str, Any]) -> bool:
        """See `Store.load`."""
        if "arc" in record:
            if record["arc"] != HEAD:
                raise InvalidInputError("arc", record["arc"], f"{HEAD!r}, the revision of this version's tables")
            return False
        if "entries" in record:
            scope, kind = Scope(**record["scope"]), record["kind"]
            entries = [_entry(one) for one in record["entries"]]
            there = {one.id for one in self._index.fetch(scope, kind, [one.id for one in entries])}
            new = [one for one in entries if one.id not in there]
            return bool(self._index.put(scope, kind, new)) if new else False
        rows = {name: [to_values(row) for row in rows] for name, rows in record.items()}
        known = {table.name: table for table in (*self._of_conversation, *self._of_scope)}
        for name, own in rows.items():
            columns = [column.name for column in known[name].columns] if name in known else []
            if not all(sorted(row) == sorted(columns) for row in own):
                raise InvalidInputError(name, sorted(own[0]), f"rows with the columns {', '.join(columns)}")
            for row in own:
                for column in known[name].columns:
                    _check_value(column, row[column.name])
        for row in rows.get(conversations.name, ()):
            row.update(_UNARCHIVED)  # names of the objects of another database
        self._rehash(rows.get(facts.name, ()))
        return self._database.transact(lambda transaction: self._store(transaction, rows, known))

    def _rehash(self, rows: Sequence[dict[str, Any]]) -> None:
        """Hash the slots and keys of facts again, because the database that wrote them may use another key."""
        hash_key, anew = self._database.seal.hash_key, dict[str, str]()
        for row in rows:
            if not row["tombstone"]:
                fact = fact_from_row([*(row[name] for name in FACT_COLUMNS), None])
                anew |= {row["slot"]: slot_of(fact, hash_key), row["folded_key"]: folded_key(fact.slot, hash_key)}
        for row in rows:
            row.update((name, anew.get(row[name], row[name])) for name in ("slot", "ends", "folded_key"))

    def reencrypt(self) -> int:
        """Re-encrypt all text under the cipher's first key, a page in each transaction; return the number of rows."""
        seal, count = self._database.seal, 0
        if not seal.is_on:
            raise ConfigurationError("the database is not encrypted: there is nothing to re-encrypt")
        for table in (*metadata.sorted_tables, *index_tables(self._database.dialect).metadata.sorted_tables):
            texts = [column for column in table.columns if isinstance(column.type, SealedText)]
            if texts:
                count += self._reencrypt(table, texts)
        key = update(KEYS).values(sealed_key=bindparam("sealed_key"))
        stored: Call = (self._compiled(key), {"sealed_key": seal.stored_key()})
        self._database.transact(lambda transaction: transaction.commit(stored))
        return count

    def _reencrypt(self, table: Table, texts: Sequence[Column[Any]]) -> int:
        keys = list(table.primary_key.columns)
        named = {f"key_{key.name}": key for key in keys}
        page = select(*keys, *texts).prefix_with(_OF_ALL_CALLERS).order_by(*keys).limit(_PAGE).with_for_update()
        following = page.where(
            tuple_(*keys) > tuple_(*(bindparam(name, type_=key.type) for name, key in named.items()))
        )
        change = self._compiled(
            update(table)
            .prefix_with(_OF_ALL_CALLERS)
            .where(*(key == bindparam(name) for name, key in named.items()))
            .values({text.name: bindparam(text.name) for text in texts})
        )
        begin, go_on = self._compiled(page), self._compiled(following)

        def work(transaction: Transaction, last: Sequence[Any] = ()) -> list[Sequence[Any]]:
            after = dict(zip(named, last, strict=False))
            (rows,) = transaction.run((go_on, after) if last else (begin, {}))
            names = [*named, *(text.name for text in texts)]
            if rows:
                transaction.commit((change, [dict(zip(names, row, strict=True)) for row in rows]))
            return rows

        count, rows = 0, self._database.transact(work)
        while rows:
            count += len(rows)
            rows = self._database.transact(partial(work, last=rows[-1][: len(keys)]))
        return count

    def _store(
        self, transaction: Transaction, rows: Mapping[str, Sequence[dict[str, Any]]], known: Mapping[str, Table]
    ) -> bool:
        """Insert the rows of a conversation or scope, unless the conversation is there."""
        for row in rows.get(conversations.name, ()):
            there = select(conversations.c.incarnation).where(conversations.c.conversation == bindparam("key"))
            (found,) = transaction.run((self._compiled(there), {"key": row["conversation"]}))
            if found and found[0][0] != row["incarnation"]:
                expected = "a session that the database does not hold: delete it first, or import elsewhere"
                raise InvalidInputError("session_id", row["session_id"], expected)
            if found:
                return False
        for row in rows.get(scopes.name, ()):
            held = select(records.c.record_id, records.c.revision).where(records.c.scope == bindparam("key"))
            (found,) = transaction.run((self._compiled(held), {"key": row["scope"]}))
            stored = set(map(tuple, found))
            if all((one["record_id"], one["revision"]) in stored for one in rows.get(records.name, ())):
                return False
        calls: list[Call] = [(self.inserting(self._database, known[name]), own) for name, own in rows.items()]
        newer = scopes.c.version + 1  # so that processes that know the scope read it as a whole
        anew = self._compiled(
            update(scopes).where(scopes.c.scope == bindparam("key")).values(version=newer, purged=newer)
        )
        calls += [(anew, {"key": row["scope"]}) for row in rows.get(scopes.name, ())]
        transaction.commit(*calls)
        return True

    @staticmethod
    def inserting(database: Database, table: Table) -> Statement:
        """Return the statement that stores a whole row, unless it is there."""
        return compiler_for(database.dialect)(insert_for(database.dialect)(table).on_conflict_do_nothing())

    def _rows_of(self, table: Table, owner: Table) -> Statement:
        key = owner.primary_key.columns[0].name
        return self._compiled(select(table).where(table.c[key] == bindparam("owner")).order_by(*table.primary_key))

    def _pages(self, owner: Table, whose: Mapping[str, str], *more: str) -> Iterator[Sequence[Any]]:
        """Yield the key and further columns of each of the owner's rows."""
        key = owner.primary_key.columns[0]
        named = [owner.c[name] == bindparam(name) for name in whose]
        chosen = select(key, *(owner.c[name] for name in more)).where(*named).order_by(key).limit(_PAGE)
        page = self._database.read((self._compiled(chosen), whose))
        following = self._compiled(chosen.where(key > bindparam("after")))
        while page:
            yield from page
            page = self._database.read((following, {**whose, "after": page[-1][0]}))

    def _entries(self, scope: Scope, kind: Any) -> Iterator[dict[str, Any]]:
        place = {"caller_id": scope.caller_id, "user_id": scope.user_id, "session_id": scope.session_id}
        after = None
        while page := self._index.scan(scope, kind, after=after, limit=_PAGE):
            after = page[-1].id
            yield {"scope": place, "kind": kind, "entries": [_fields(entry) for entry in page]}


def _plain(table: Table, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    names = [column.name for column in table.columns]
    found = [{name: _packed(value) for name, value in zip(names, row, strict=True)} for row in rows]
    return [{**row, **_UNCLAIMED} for row in found] if table is conversations else found


def _packed(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {_BYTES: base64.b64encode(value).decode()}
    return value


def to_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row's columns from its JSON."""
    return {
        name: base64.b64decode(value[_BYTES]) if isinstance(value, Mapping) else value for name, value in row.items()
    }


def _check_value(column: Column[Any], value: Any) -> None:
    """Raise if a column can't hold a value: SQLite stores values of any type, and each later read would fail."""
    kind = column.type.python_type
    fits = isinstance(value, float | int) if kind is float else type(value) is kind
    is_large = type(value) is int and not -_MOST <= value < _MOST
    if is_large or not (fits or (value is None and column.nullable)):
        expected = f"a value of type {kind.__name__}" + (f" from -{_MOST} to {_MOST - 1}" if is_large else "")
        raise InvalidInputError(f"{column.table.name}.{column.name}", value, expected)


def _fields(entry: IndexEntry) -> dict[str, Any]:
    vector = None if entry.vector is None else _packed(entry.vector.astype("<f4").tobytes())
    fields = {"id": entry.id, "text": entry.text, "terms": dict(entry.terms), "metadata": dict(entry.metadata)}
    return {**fields, "source": entry.source, "vector": vector, "embedder": entry.embedder}


def _entry(fields: Mapping[str, Any]) -> IndexEntry:
    packed = fields["vector"]
    vector = None if packed is None else np.frombuffer(base64.b64decode(packed[_BYTES]), dtype="<f4")
    return IndexEntry(**{**fields, "vector": vector})
