"""The hybrid index in SQLite or PostgreSQL."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter
from arc_common.protocols.search_index import (
    DOCUMENT_ID,
    KINDS,
    Candidates,
    EntryKind,
    IndexEntry,
    IndexQuery,
    Scope,
    chunk_prefix,
    one_embedding,
)
from arc_common.settings import StorageSettings
from arc_common.stores.codec import checked_limit, scope_place, to_microseconds
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Row, Transaction
from arc_common.stores.search_index.entries import (
    ScopeStatistics,
    StoredEntry,
    changed,
    checked_ids,
    entry_row,
    erasing_statements,
    index_statements_for,
    packed,
    shown_entry,
    text_row,
    value_rows,
    whole_entry,
)
from arc_common.stores.search_index.filters import SIGNS, Tokens, new_salt, ordered_text
from arc_common.stores.search_index.sqlite import SqliteIndex

if TYPE_CHECKING:
    from arc_common.stores.search_index.postgres import PostgresIndex

T = TypeVar("T")

_MOVED = 500
"""The number of vectors that change over is read and written by at once."""


class EntriesChange:
    """Stores entries in a scope and removes others, as part of a transaction."""

    def __init__(
        self,
        database: Database,
        finder: "SqliteIndex | PostgresIndex",
        scope: Scope,
        kind: EntryKind,
        *,
        put: Sequence[IndexEntry] = (),
        removed: Collection[str] = (),
    ) -> None:
        self._database = database
        self._finder = finder
        self._sql = index_statements_for(database.dialect)
        self._key = scope_place(scope, kind)
        self._given = put
        self._put = {entry.id: entry for entry in put}
        self._removed = checked_ids(removed)
        self._documents = self._removed if kind in ("document", "item", "artifact") else []
        self.removed = 0
        """The number of stored entries that are removed, known once they are read."""
        self.after: ScopeStatistics | None = None
        """The scope's statistics after the change, once known."""

    @property
    def reading(self) -> list[Call]:
        """The calls that lock the scope and read its entries."""
        names = list(dict.fromkeys([*self._put, *self._removed]))
        if not names:
            return []
        lock: Call = self._sql.lock_scope, self._key
        if self._put:
            lock = self._sql.open_scope, {**self._key, "salt": new_salt()}
        return [
            lock,
            (self._sql.known, {**self._key, "ids": self._database.many(names)}),
            (self._sql.reserve, {"count": len(self._put)}),
            *(
                (
                    self._sql.known_chunks,
                    {**self._key, "first": prefix, "behind": prefix[:-1] + chr(ord(prefix[-1]) + 1)},
                )
                for prefix in map(chunk_prefix, self._documents)
            ),
        ]

    def writing(self, rows: Sequence[list[Row]]) -> list[Call]:
        """Return the calls that make the change, given the rows read."""
        if not rows or not rows[0]:
            return []
        held = ScopeStatistics(*rows[0][0])
        embedding = one_embedding(held.embedding, self._given)
        there = [*rows[1]]
        for document_id, alike in zip(self._documents, rows[3:], strict=True):
            is_artifact = self._key["kind"] == "artifact"  # no other id begins like an artifact's
            there += [
                row for *row, metadata in alike if is_artifact or json.loads(metadata).get(DOCUMENT_ID) == document_id
            ]
        known = {row[0]: self._finder.known(row[1:]) for row in there}
        if not self._put and not known:
            return []
        gone = [one for name, one in known.items() if name not in self._put]
        self.removed = len(gone)
        self.after = changed(
            held,
            embedding=embedding,
            added=[entry.length for entry in self._put.values()],
            removed=[one.length for one in known.values()],
            vectors=sum(entry.vector is not None for entry in self._put.values())
            - sum(one.has_vector for one in known.values()),
        )
        place = {"scope": held.scope, "caller_id": self._key["caller_id"]}
        if not self.after.entries:
            return [(statement, place) for statement in erasing_statements(self._database.dialect, by_session=False)]
        numbers = iter(self._finder.new_rows(rows[2], len(self._put)))
        stored = [(known[name].id if name in known else next(numbers), one) for name, one in self._put.items()]
        tokens = Tokens(self._database.seal.hashed(held.salt))
        return [
            *self._removals(place, known, gone),
            *self._writes(place, held, tokens, stored),
            *self._finder.words(place, tokens, stored, list(known.values())),
            (self._sql.save_scope, {**place, **self.after.row()}),
        ]

    def _removals(
        self, place: Mapping[str, Any], known: Mapping[str, StoredEntry], gone: Sequence[StoredEntry]
    ) -> list[Call]:
        """Return the calls that remove entries and the obsolete values and vectors of others."""
        lose = [one for name, one in known.items() if one.has_vector and not self._has_vector(name)]
        table_rows = (
            (self._sql.drop_values, known.values()),
            (self._sql.drop_vectors, lose),
            (self._sql.drop_next, known.values()),
            (self._sql.drop_texts, gone),
            (self._sql.drop_entries, gone),
        )
        return [
            (statement, {**place, "rows": self._database.many([one.id for one in these])})
            for statement, these in table_rows
            if these
        ]

    def _has_vector(self, name: str) -> bool:
        return name in self._put and self._put[name].vector is not None

    def _writes(
        self, place: Mapping[str, Any], held: ScopeStatistics, tokens: Tokens, stored: Sequence[tuple[int, IndexEntry]]
    ) -> list[Call]:
        finder = self._finder
        with_texts = not self._database.seal.is_on
        values = any(True for row, entry in stored for _ in value_rows(entry, row, tokens, with_texts=with_texts))
        table_rows: tuple[tuple[Any, bool, Callable[[int, IndexEntry], Iterable[dict[str, Any]]]], ...] = (
            (
                self._sql.write_entry,
                bool(stored),
                lambda row, entry: [{**entry_row(entry, row, held), **finder.entry_columns(entry, tokens)}],
            ),
            (self._sql.write_text, bool(stored), lambda row, entry: [text_row(entry, row)]),
            (
                self._sql.write_vector,
                any(entry.vector is not None for _, entry in stored),
                lambda row, entry: (
                    [] if entry.vector is None else [{"id": row, **finder.vector_columns(entry, tokens)}]
                ),
            ),
            (
                self._sql.write_value,
                values,
                lambda row, entry: map(finder.value_columns, value_rows(entry, row, tokens, with_texts=with_texts)),
            ),
        )
        return [
            (statement, _rows(place, stored, of_entry)) for statement, is_needed, of_entry in table_rows if is_needed
        ]


def _rows(
    place: Mapping[str, Any],
    stored: Sequence[tuple[int, IndexEntry]],
    of_entry: Callable[[int, IndexEntry], Iterable[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    """Yield a table's rows, made one by one: all rows of a large document would take as much memory as it does."""
    for row, entry in stored:
        for each in of_entry(row, entry):
            yield {**place, **each}


class SqlIndexStore:
    """An `IndexStore` on SQLite or PostgreSQL.

    - A change is one transaction under the lock of its scope's row: statistics stay exact, whatever the number of
      processes, and changes of different scopes don't wait for each other.
    - On SQLite, search is exact. On PostgreSQL, the words that weigh most find the entries until they have 500, or five
      times the limit; all words score them, and find them too with a filter. On both, alternatives for words that
      thousands of entries have are left out. Dense search is exact unless several thousand vectors pass the filter
      (`storage.index_graph_from`).
    - Words and metadata are stored as tokens under the scope's own salt, and removed together with the readable text.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owns_database = False
        self._sql = index_statements_for(database.dialect)
        self._finder = _finder_for(database)

    @classmethod
    def open(cls, url: str | Engine = "sqlite://") -> Self:
        """Return an index over a database of its own, which `close` closes. Does no I/O before first use.

        Args:
            url: A SQLAlchemy address of SQLite or PostgreSQL, or an `Engine`. Without one the index lives in memory and
                ends with the object.

        Raises:
            ConfigurationError: The address is not one of SQLite or PostgreSQL.
        """
        index = cls(Database(url, StorageSettings()))
        index._owns_database = True
        return index

    def put(
        self,
        scope: Scope,
        kind: EntryKind,
        entries: Sequence[IndexEntry],
        *,
        removed: Collection[str] = (),
        only_vectors: bool = False,
    ) -> int:
        """See `IndexStore.put`."""
        if only_vectors:
            return self._attach(scope, kind, [entry for entry in entries if entry.vector is not None])
        self.beside(scope, kind, entries, removed=removed, make=self._make)
        return len({entry.id for entry in entries})

    def beside(
        self,
        scope: Scope,
        kind: EntryKind,
        entries: Sequence[IndexEntry] = (),
        *,
        removed: Collection[str] = (),
        make: Callable[[EntriesChange], T],
    ) -> T:
        """Call `make` with a change of entries, which it makes in a transaction; return its result."""
        has_vectors = any(entry.vector is not None for entry in entries)
        if has_vectors:
            self._finder.before_vectors()
        change = EntriesChange(self._database, self._finder, scope, kind, put=entries, removed=removed)
        made = make(change)
        if has_vectors and change.after is not None:
            self._finder.after_vectors(change.after)
        if removed:
            self._database.after_transaction(partial(self._finder.forget_words, scope_place(scope, kind)))
        return made

    def _attach(self, scope: Scope, kind: EntryKind, given: Sequence[IndexEntry]) -> int:
        """Add vectors to stored entries with the same text."""
        if not given:
            return 0
        self._finder.before_vectors()

        def work(transaction: Transaction) -> tuple[int, ScopeStatistics | None]:
            key = scope_place(scope, kind)
            named = {**key, "ids": self._database.many([entry.id for entry in given])}
            scopes, known_rows, text_rows = transaction.run(
                (self._sql.lock_scope, key), (self._sql.known, named), (self._sql.texts, named)
            )
            held = ScopeStatistics(*scopes[0]) if scopes else None
            made_by = one_embedding(None, given)
            beside = held is not None and held.embedder is not None and made_by and made_by[0] != held.embedder
            embedding = one_embedding(held.embedding if held and not beside else None, given)
            if held is None:
                return 0, None
            place = {"scope": held.scope, "caller_id": scope.caller_id}
            known = {row[0]: self._finder.known(row[1:]) for row in known_rows}
            stored = {row[0]: row[1:] for row in text_rows}
            fitting = [entry for entry in given if entry.id in stored and stored[entry.id][0] == entry.text]
            latest = {one.id: replace(one, metadata=json.loads(stored[one.id][1])) for one in fitting}
            if not latest:
                return 0, None
            if beside:
                named_by = {**place, "embedder": embedding[0] if embedding else ""}
                kept = [{"id": known[one.id].id, **named_by, "vector": packed(one)} for one in latest.values()]
                transaction.commit((self._sql.write_next, kept))
                return len(fitting), None
            tokens = Tokens(self._database.seal.hashed(held.salt))
            rows = [
                {"id": known[entry.id].id, **place, **self._finder.vector_columns(entry, tokens)}
                for entry in latest.values()
            ]
            new = sum(not known[entry_id].has_vector for entry_id in latest)
            touched = {**place, "rows": self._database.many([row["id"] for row in rows]), "new_version": held.version}
            after = changed(held, embedding=embedding, vectors=new)
            transaction.commit((self._sql.write_vector, rows), (self._sql.touch, touched), self._saving(place, after))
            return len(fitting), after

        count, after = self._database.transact(work)
        if after is not None:
            self._finder.after_vectors(after)
        return count

    def _detach(self, scope: Scope, kind: EntryKind) -> int:
        """Remove all vectors."""

        def work(transaction: Transaction) -> int:
            (rows,) = transaction.run((self._sql.lock_scope, scope_place(scope, kind)))
            held = ScopeStatistics(*rows[0]) if rows else None
            if held is None or not held.vectors:
                return 0
            place = {"scope": held.scope, "caller_id": scope.caller_id}
            after = changed(held, embedding=None, vectors=-held.vectors)
            vectors, following = (self._sql.drop_all_vectors, place), (self._sql.drop_all_next, place)
            transaction.commit(vectors, following, self._saving(place, after))
            return held.vectors

        return self._database.transact(work)

    def _change_over(self, scope: Scope, kind: EntryKind, embedder: str) -> int:
        """Replace all vectors by those that another embedder made beside them."""
        self._finder.before_vectors()

        def work(transaction: Transaction) -> tuple[int, ScopeStatistics | None]:
            (rows,) = transaction.run((self._sql.lock_scope, scope_place(scope, kind)))
            held = ScopeStatistics(*rows[0]) if rows else None
            if held is None or held.embedder == embedder:
                return 0, None
            place = {"scope": held.scope, "caller_id": scope.caller_id}
            transaction.run((self._sql.drop_all_vectors, place))
            tokens = Tokens(self._database.seal.hashed(held.salt))
            number, moved, dimension = 0, 0, 0
            asked = {**place, "embedder": embedder, "row_limit": _MOVED}
            while page := transaction.run((self._sql.next_vectors, {**asked, "after": number}))[0]:
                number = page[-1][0]
                dimension = dimension or len(page[0][3]) // 4
                given = [
                    (row, IndexEntry(name, "", metadata=json.loads(more), vector=_unpacked(stored), embedder=embedder))
                    for row, name, more, stored in page
                    if len(stored) == 4 * dimension
                ]
                columns = [{"id": row, **place, **self._finder.vector_columns(one, tokens)} for row, one in given]
                transaction.run((self._sql.write_vector, columns))
                moved += len(given)
            anew = replace(held, detached=held.version)  # so that readers drop the vectors that they hold
            after = changed(anew, embedding=(embedder, dimension), vectors=moved - held.vectors)
            former = (self._sql.note_former, {**place, "former": held.embedder})
            transaction.commit((self._sql.drop_all_next, place), self._saving(place, after), former)
            return held.vectors, after

        removed, after = self._database.transact(work)
        if after is not None:
            self._finder.after_vectors(after)
        return removed

    def claim_outdated(
        self,
        embedder: str,
        *,
        owner: str,
        now: datetime,
        seconds: float,
        after: tuple[Scope, EntryKind] | None = None,
        everything: bool = False,
    ) -> tuple[Scope, EntryKind] | None:
        """See `OutdatedVectors.claim_outdated`."""
        asked = {
            **_lease(owner, now, seconds),
            "embedder": embedder,
            "after": scope_place(*after)["scope"] if after else b"",
            "kinds": self._database.many([kind for kind in KINDS if kind != "item"]),
            "everything": int(everything),
        }
        rows = self._database.transact(lambda transaction: transaction.commit((self._sql.claim_outdated, asked)))[0]
        if not rows:
            return None
        caller_id, user_id, session_id, kind = rows[0]
        return Scope(caller_id, user_id or None, session_id or None), kind

    def keep_outdated(self, scope: Scope, kind: EntryKind, *, owner: str, now: datetime, seconds: float) -> bool:
        """See `OutdatedVectors.keep_outdated`."""
        asked = {**_lease(owner, now, seconds), **scope_place(scope, kind)}
        renew = self._sql.renew_outdated if seconds else self._sql.release_outdated
        return bool(self._database.transact(lambda transaction: transaction.commit((renew, asked)))[0])

    def remove(
        self,
        scope: Scope,
        kind: EntryKind | None,
        ids: Collection[str] | None,
        *,
        only_vectors: bool = False,
        embedder: str | None = None,
    ) -> int:
        """See `IndexStore.remove`."""
        if only_vectors:
            if ids is not None or kind is None:
                raise InvalidInputError("ids", ids, "None, and a kind, to remove only vectors")
            return self._detach(scope, kind) if embedder is None else self._change_over(scope, kind, embedder)
        if ids is None:
            return self._erase(scope, kind)
        if kind is None:
            raise InvalidInputError("kind", kind, "a kind, to remove entries by id")
        change = EntriesChange(self._database, self._finder, scope, kind, removed=ids)
        self._make(change)
        if change.removed:
            self._finder.forget_words(scope_place(scope, kind))
        return change.removed

    def _erase(self, scope: Scope, kind: EntryKind | None) -> int:
        """Remove all entries of the scope and of every scope within it."""
        within = {**scope_place(scope, "document"), "kind": kind or ""}

        def work(transaction: Transaction) -> int:
            (rows,) = transaction.run((self._sql.lock_within, within))
            if not rows:
                return 0
            these = [{"scope": row[0], "caller_id": scope.caller_id} for row in rows]
            transaction.commit(
                *((statement, these) for statement in erasing_statements(self._database.dialect, by_session=False))
            )
            return sum(row[1] for row in rows)

        removed = self._database.transact(work)
        self._finder.forget_words(within)
        return removed

    def fetch(self, scope: Scope, kind: EntryKind, ids: Sequence[str], *, vectors: bool = False) -> list[IndexEntry]:
        """See `IndexStore.fetch`."""
        names = checked_ids(ids)
        if not names:
            return []
        asked = {**scope_place(scope, kind), "ids": self._database.many(names)}
        if vectors and self._finder.has_vectors():
            rows = self._database.read((self._sql.fetch_with_vectors, asked))
            found = {row[0]: self._with_vector(shown_entry(row[:-2]), *row[-2:]) for row in rows}
        else:
            found = {row[0]: shown_entry(row) for row in self._database.read((self._sql.fetch, asked))}
        return [found[name] for name in names if name in found]

    def _with_vector(self, entry: IndexEntry, stored: bytes | None, embedder: str) -> IndexEntry:
        return entry if stored is None else replace(entry, vector=self._finder.unpacked(stored), embedder=embedder)

    def scan(
        self,
        scope: Scope,
        kind: EntryKind,
        *,
        filters: Filter | None = None,
        unembedded: bool | str = False,
        after: str | None = None,
        limit: int,
    ) -> list[IndexEntry]:
        """See `IndexStore.scan`."""
        checked_limit("limit", limit)
        self._check(filters)
        key, start = scope_place(scope, kind), after or ""
        if isinstance(unembedded, str):
            if filters is not None:
                raise InvalidInputError("filters", filters, "None, because unembedded names an embedder")
            asked = {**key, "after": start, "row_limit": limit, "embedder": unembedded}
            rows = self._database.read((self._sql.scan_outdated, asked))
        elif filters is None:
            statement = self._sql.scan_unembedded if unembedded else self._sql.scan
            rows = self._database.read((statement, {**key, "after": start, "row_limit": limit}))
        else:
            rows = self._finder.scan(key, filters, unembedded=unembedded, after=start, limit=limit)
        return [
            whole_entry(row, None if vector is None else self._finder.read_vector(vector), embedder)
            for *row, vector, embedder in rows
        ]

    def candidates(self, *queries: IndexQuery) -> list[Candidates]:
        """See `IndexStore.candidates`."""
        for query in queries:
            checked_limit("limit", query.limit)
            self._check(query.filters)
        checked = [one if one.ids is None else replace(one, ids=checked_ids(one.ids)) for one in queries]
        return self._finder.candidates(checked) if checked else []

    def close(self) -> None:
        """Clear the caches, and close the database if `open` opened it. Safe to call twice."""
        self._finder.close()
        if self._owns_database:
            self._database.close()

    def _check(self, filters: Filter | None) -> None:
        """Refuse to compare texts that are encrypted."""
        if filters is not None and self._database.seal.is_on and (one := ordered_text(filters)):
            asked = f"{one.key} {SIGNS[one.comparison]} {one.value!r}"
            expected = "no order of texts, which an encrypted database can't compare: use numbers, such as a timestamp"
            raise InvalidInputError("filters", asked, expected)

    def _make(self, change: EntriesChange) -> None:
        if not (reading := change.reading):
            return

        def work(transaction: Transaction) -> None:
            if calls := change.writing(transaction.run(*reading)):
                transaction.commit(*calls)

        self._database.transact(work)

    def _saving(self, place: Mapping[str, Any], held: ScopeStatistics) -> Call:
        return self._sql.save_scope, {**place, **held.row()}


def _unpacked(stored: bytes) -> NDArray[np.float32]:
    return np.frombuffer(stored, dtype="<f4")


def _lease(owner: str, now: datetime, seconds: float) -> dict[str, Any]:
    until = to_microseconds(now + timedelta(seconds=seconds))
    return {"owner": owner, "now": to_microseconds(now), "until": until}


def _finder_for(database: Database) -> "SqliteIndex | PostgresIndex":
    if database.dialect == "sqlite":
        return SqliteIndex(database)
    from arc_common.stores.search_index.postgres import PostgresIndex  # noqa: PLC0415 - pgvector is an extra's

    return PostgresIndex(database)
