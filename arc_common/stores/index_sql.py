"""The hybrid index in SQLite or PostgreSQL."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from arc_common.filters import Filter
from arc_common.indexing import EntryKind, IndexEntry, LexicalCandidates, Scope
from arc_common.retrieval.lexical import BM25
from arc_common.stores.checks import checked_limit
from arc_common.stores.database import Database
from arc_common.stores.drivers import Call, Transaction
from arc_common.stores.index_rows import (
    Held,
    Known,
    changed,
    checked_ids,
    checked_vectors,
    entry_row,
    scope_key,
    shown_entry,
    text_row,
    value_rows,
    whole_entry,
)
from arc_common.stores.index_statements import index_statements_for
from arc_common.stores.index_tokens import Tokens, new_salt

if TYPE_CHECKING:
    from arc_common.stores.index_postgres import PostgresIndex
    from arc_common.stores.index_sqlite import SqliteIndex

__all__ = ["SqlIndexStore"]

_CACHE_BYTES = 2**30
"""1 GiB: 700,000 vectors of 384 numbers."""

_GRAPH_FROM = 10_000
"""To compare so many vectors takes PostgreSQL about 10 ms."""


class SqlIndexStore:
    """An `IndexStore` on SQLite or PostgreSQL.

    - A change is one transaction under the lock of its scope's row: statistics stay exact, whatever the number of
      processes, and changes of different scopes don't wait for each other.
    - A lexical search is exact on SQLite and PostgreSQL, and so is a dense one on SQLite. On PostgreSQL a dense search
      is exact unless it has to look at more than some ten thousand vectors (`graph_from`).
    - Words and metadata are kept as tokens under a salt of the scope's own beside the readable text, and go with it.

    Args:
        database: Where the tables are.
        bm25: The formula that candidates are found by; the one that scores them.
        cache_bytes: On SQLite, how much of vectors and lengths is kept in memory, over all scopes.
        graph_from: On PostgreSQL, up to so many vectors are compared; a scope with more of them gets their dimension
            pgvector's HNSW graph, which is walked when more than that pass a filter.
    """

    def __init__(
        self,
        database: Database,
        *,
        bm25: BM25 | None = None,
        cache_bytes: int = _CACHE_BYTES,
        graph_from: int = _GRAPH_FROM,
    ) -> None:
        self._database = database
        self._sql = index_statements_for(database.dialect)
        self._finder = _finder_for(database, bm25 or BM25(), cache_bytes, graph_from)

    def put(self, scope: Scope, kind: EntryKind, entries: Sequence[IndexEntry]) -> None:
        """See `IndexStore.put`."""
        if not entries:
            return
        with self.beside(entries) as calls, self._database.transaction() as transaction:
            transaction.commit(*calls(transaction, scope, kind))

    @contextmanager
    def beside(
        self, entries: Sequence[IndexEntry], *, removed: Collection[str] = ()
    ) -> "Iterator[Callable[[Transaction, Scope, EntryKind], list[Call]]]":
        """Gives what writes entries, and removes others, as part of a transaction on the same database.

        It is called once in the transaction, and what it returns is committed with it; the block ends behind that. What
        `put` raises, it raises.
        """
        has_vectors = any(entry.vector is not None for entry in entries)
        if has_vectors:
            self._finder.before_vectors()
        done: list[Held] = []

        def calls(transaction: Transaction, scope: Scope, kind: EntryKind) -> list[Call]:
            if gone := self._removing(transaction, scope, kind, checked_ids(removed))[0]:
                transaction.run(*gone)
            if not entries:
                return []
            writing, after = self._putting(transaction, scope, kind, entries)
            done.append(after)
            return writing

        yield calls
        if has_vectors and done:
            self._finder.after_vectors(done[0])

    def attach(self, scope: Scope, kind: EntryKind, entries: Sequence[IndexEntry]) -> int:
        """See `IndexStore.attach`."""
        given = [entry for entry in entries if entry.vector is not None]
        if not given:
            return 0
        self._finder.before_vectors()
        with self._database.transaction() as transaction:
            held = self._locked(transaction, scope, kind)
            embedding = checked_vectors(held.embedding if held else None, given)
            if held is None:
                return 0
            place = {"scope": held.id, "caller_id": scope.caller_id}
            named = {**place, "ids": self._database.many([entry.id for entry in given])}
            known_rows, text_rows = transaction.run((self._sql.known, named), (self._sql.texts, named))
            known = {row[0]: self._finder.known(row[1:]) for row in known_rows}
            stored = {row[0]: row[1:] for row in text_rows}
            fitting = [entry for entry in given if entry.id in stored and stored[entry.id][0] == entry.text]
            latest = {one.id: replace(one, metadata=json.loads(stored[one.id][1])) for one in fitting}
            if not latest:
                return 0
            tokens = Tokens(held.salt)
            rows = [self._vector_row(place, known[entry.id].id, entry, tokens) for entry in latest.values()]
            new = sum(not known[entry_id].has_vector for entry_id in latest)
            touched = {**place, "rows": self._database.many([row["id"] for row in rows]), "new_version": held.version}
            after = changed(held, embedding=embedding, vectors=new)
            transaction.commit((self._sql.write_vector, rows), (self._sql.touch, touched), self._saving(place, after))
        self._finder.after_vectors(after)
        return len(fitting)

    def detach(self, scope: Scope, kind: EntryKind) -> int:
        """See `IndexStore.detach`."""
        with self._database.transaction() as transaction:
            held = self._locked(transaction, scope, kind)
            if held is None or not held.vectors:
                return 0
            place = {"scope": held.id, "caller_id": scope.caller_id}
            after = changed(held, embedding=None, vectors=-held.vectors)
            transaction.commit((self._sql.drop_all_vectors, place), self._saving(place, after))
        return held.vectors

    def remove(self, scope: Scope, kind: EntryKind, ids: Collection[str]) -> int:
        """See `IndexStore.remove`."""
        names = checked_ids(ids)
        if not names:
            return 0
        with self._database.transaction() as transaction:
            calls, count = self._removing(transaction, scope, kind, names)
            if calls:
                transaction.commit(*calls)
        return count

    def erase(self, scope: Scope, *, kind: EntryKind | None = None) -> int:
        """See `IndexStore.erase`."""
        within = {**scope_key(scope, "document"), "kind": kind or ""}
        with self._database.transaction() as transaction:
            (rows,) = transaction.run((self._sql.lock_within, within))
            if not rows:
                return 0
            these = {"scopes": self._database.many([row[0] for row in rows]), "caller_id": scope.caller_id}
            transaction.commit(*((statement, these) for statement in self._sql.erase))
        return sum(row[1] for row in rows)

    def fetch(self, scope: Scope, kind: EntryKind, ids: Sequence[str]) -> list[IndexEntry]:
        """See `IndexStore.fetch`."""
        names = checked_ids(ids)
        if not names:
            return []
        rows = self._database.read((self._sql.fetch, {**scope_key(scope, kind), "ids": self._database.many(names)}))
        found = {row[0]: shown_entry(row) for row in rows}
        return [found[name] for name in names if name in found]

    def vectors(self, scope: Scope, kind: EntryKind, ids: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """See `IndexStore.vectors`."""
        names = checked_ids(ids)
        if not names:
            return {}
        rows = self._database.read((self._sql.vectors, {**scope_key(scope, kind), "ids": self._database.many(names)}))
        return {entry_id: self._finder.read_vector(stored) for entry_id, stored in rows}

    def scan(
        self,
        scope: Scope,
        kind: EntryKind,
        *,
        filters: Filter | None = None,
        unembedded: bool = False,
        after: str | None = None,
        limit: int,
    ) -> list[IndexEntry]:
        """See `IndexStore.scan`."""
        checked_limit("limit", limit)
        key, start = scope_key(scope, kind), after or ""
        if filters is None:
            statement = self._sql.scan_unembedded if unembedded else self._sql.scan
            rows = self._database.read((statement, {**key, "after": start, "row_limit": limit}))
        else:
            rows = self._finder.scan(key, filters, unembedded=unembedded, after=start, limit=limit)
        return [
            whole_entry(row, None if vector is None else self._finder.read_vector(vector), embedder)
            for *row, vector, embedder in rows
        ]

    def lexical(
        self,
        scope: Scope,
        kind: EntryKind,
        terms: Mapping[str, float],
        *,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
    ) -> LexicalCandidates:
        """See `IndexStore.lexical`."""
        checked_limit("limit", limit)
        names = None if ids is None else checked_ids(ids)
        return self._finder.lexical(scope_key(scope, kind), terms, filters=filters, ids=names, limit=limit)

    def dense(
        self,
        scope: Scope,
        kind: EntryKind,
        vector: NDArray[np.float32],
        *,
        embedder: str,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
        exact: bool = False,
    ) -> list[tuple[str, float]]:
        """See `IndexStore.dense`."""
        checked_limit("limit", limit)
        names = None if ids is None else checked_ids(ids)
        return self._finder.dense(
            scope_key(scope, kind), vector, embedder=embedder, filters=filters, ids=names, limit=limit, exact=exact
        )

    def count(self, scope: Scope, kind: EntryKind, *, filters: Filter | None = None) -> int:
        """See `IndexStore.count`."""
        key = scope_key(scope, kind)
        if filters is not None:
            return self._finder.count(key, filters)
        held = self._held(key)
        return held.entries if held else 0

    def embedding(self, scope: Scope, kind: EntryKind) -> tuple[str, int] | None:
        """See `IndexStore.embedding`."""
        held = self._held(scope_key(scope, kind))
        return held.embedding if held else None

    def close(self) -> None:
        """See `IndexStore.close`; the database is its owner's to close."""
        self._finder.close()

    def _held(self, key: Mapping[str, str]) -> Held | None:
        rows = self._database.read((self._sql.scope, key))
        return Held(*rows[0]) if rows else None

    def _locked(self, transaction: Transaction, scope: Scope, kind: EntryKind) -> Held | None:
        (rows,) = transaction.run((self._sql.lock_scope, scope_key(scope, kind)))
        return Held(*rows[0]) if rows else None

    def _putting(
        self, transaction: Transaction, scope: Scope, kind: EntryKind, entries: Sequence[IndexEntry]
    ) -> tuple[list[Call], Held]:
        """Locks a scope and reads what is there; the calls that store entries in it, and the scope behind them."""
        latest = list({entry.id: entry for entry in entries}.values())
        (rows,) = transaction.run((self._sql.open_scope, {**scope_key(scope, kind), "salt": new_salt()}))
        held = Held(*rows[0])
        place = {"scope": held.id, "caller_id": scope.caller_id}
        embedding = checked_vectors(held.embedding, entries)
        known, reserved = self._known(transaction, place, [entry.id for entry in latest], new=len(latest))
        numbers = iter(self._finder.new_rows(reserved, len(latest)))
        stored = [(known[entry.id].id if entry.id in known else next(numbers), entry) for entry in latest]
        after = changed(
            held,
            embedding=embedding,
            added=[entry.length for entry in latest],
            removed=[one.length for one in known.values()],
            vectors=sum(entry.vector is not None for entry in latest) - sum(one.has_vector for one in known.values()),
        )
        return [*self._writes(place, held, stored, known), self._saving(place, after)], after

    def _removing(
        self, transaction: Transaction, scope: Scope, kind: EntryKind, names: Sequence[str]
    ) -> tuple[list[Call], int]:
        """Locks a scope and reads what is there; the calls that remove entries from it, and how many these are."""
        held = self._locked(transaction, scope, kind) if names else None
        if held is None:
            return [], 0
        place = {"scope": held.id, "caller_id": scope.caller_id}
        known, _ = self._known(transaction, place, names, new=0)
        if not known:
            return [], 0
        after = changed(
            held,
            embedding=held.embedding,
            removed=[one.length for one in known.values()],
            vectors=-sum(one.has_vector for one in known.values()),
        )
        return self._removals(place, held, after, list(known.values())), len(known)

    def _known(
        self, transaction: Transaction, place: Mapping[str, Any], names: Sequence[str], *, new: int
    ) -> tuple[dict[str, Known], Sequence[Any]]:
        """Those of the entries that are stored, and numbers for new rows."""
        rows, reserved = transaction.run(
            (self._sql.known, {**place, "ids": self._database.many(names)}), (self._sql.reserve, {"count": new})
        )
        return {row[0]: self._finder.known(row[1:]) for row in rows}, reserved

    def _writes(
        self,
        place: Mapping[str, Any],
        held: Held,
        stored: Sequence[tuple[int, IndexEntry]],
        known: Mapping[str, Known],
    ) -> list[Call]:
        tokens = Tokens(held.salt)
        entries = [
            {**entry_row(entry, row, held), **place, **self._finder.entry_columns(entry, tokens)}
            for row, entry in stored
        ]
        calls: list[Call] = [
            (self._sql.write_entry, entries),
            (self._sql.write_text, [{**text_row(entry, row), **place} for row, entry in stored]),
        ]
        without = [
            known[entry.id].id
            for _, entry in stored
            if entry.vector is None and entry.id in known and known[entry.id].has_vector
        ]
        if without:
            calls.append((self._sql.drop_vectors, {**place, "rows": self._database.many(without)}))
        vectors = [self._vector_row(place, row, entry, tokens) for row, entry in stored if entry.vector is not None]
        if vectors:
            calls.append((self._sql.write_vector, vectors))
        if known:
            rows = self._database.many([one.id for one in known.values()])
            calls.append((self._sql.drop_values, {**place, "rows": rows}))
        values = [self._finder.value_columns(one) for row, entry in stored for one in value_rows(entry, row, tokens)]
        if values:
            calls.append((self._sql.write_value, [{**one, **place} for one in values]))
        return [*calls, *self._finder.words(place, tokens, stored, list(known.values()))]

    def _removals(self, place: Mapping[str, Any], held: Held, after: Held, gone: Sequence[Known]) -> list[Call]:
        if not after.entries:
            these = {"scopes": self._database.many([held.id]), "caller_id": place["caller_id"]}
            return [(statement, these) for statement in self._sql.erase]
        rows = {**place, "rows": self._database.many([known.id for known in gone])}
        return [
            *self._finder.words(place, Tokens(held.salt), [], gone),
            (self._sql.drop_texts, rows),
            (self._sql.drop_vectors, rows),
            (self._sql.drop_values, rows),
            (self._sql.drop_entries, rows),
            self._saving(place, after),
        ]

    def _vector_row(self, place: Mapping[str, Any], row: int, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:
        return {"id": row, **place, **self._finder.vector_columns(entry, tokens)}

    def _saving(self, place: Mapping[str, Any], held: Held) -> Call:
        return self._sql.save_scope, {**place, **held.row()}


def _finder_for(database: Database, bm25: BM25, cache_bytes: int, graph_from: int) -> "SqliteIndex | PostgresIndex":
    if database.dialect == "sqlite":
        from arc_common.stores.index_sqlite import SqliteIndex  # noqa: PLC0415 - whichever is used

        return SqliteIndex(database, bm25=bm25, cache_bytes=cache_bytes)
    from arc_common.stores.index_postgres import PostgresIndex  # noqa: PLC0415 - the same

    return PostgresIndex(database, bm25=bm25, graph_from=graph_from)
