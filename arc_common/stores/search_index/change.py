"""One change of a scope's entries in the index: the statements that read first, and those that then write."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arc_common.protocols.search_index import DOCUMENT_ID, EntryKind, IndexEntry, Scope, chunk_prefix
from arc_common.stores.database import Database
from arc_common.stores.drivers import Call, Row
from arc_common.stores.search_index.rows import (
    Held,
    Known,
    changed,
    checked_ids,
    checked_vectors,
    entry_row,
    scope_key,
    text_row,
    value_rows,
)
from arc_common.stores.search_index.statements import index_statements_for
from arc_common.stores.search_index.tokens import Tokens, new_salt

if TYPE_CHECKING:
    from arc_common.stores.search_index.postgres import PostgresIndex
    from arc_common.stores.search_index.sqlite import SqliteIndex

__all__ = ["EntriesChange"]


class EntriesChange:
    """Stores entries in a scope and removes others, as part of a transaction.

    - What `reading` gives runs first; what `writing` gives, the last part of the transaction. These are two round
      trips, or none of its own in a transaction that has two.
    - The scope's row is locked by the first call, so that its statistics stay exact.

    Args:
        database: Where the tables are.
        finder: What only this kind of database has.
        scope: Whose entries.
        kind: Of the entries.
        put: Entries, each of which replaces the one with its id; if several have the same id, the last.
        removed: The ids to remove, documents with their chunks; ids that could never be stored are skipped.
    """

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
        self._key = scope_key(scope, kind)
        self._given = put
        self._put = {entry.id: entry for entry in put}
        self._removed = checked_ids(removed)
        self._documents = self._removed if kind == "document" else []
        self.removed = 0
        """The number of stored entries that are removed, known once they are read."""
        self.after: Held | None = None
        """What the scope holds behind the change, once that is known."""

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
        """The calls that make the change, by what was read.

        Raises:
            InvalidInputError: Vectors are of another embedder than those stored.
        """
        if not rows or not rows[0]:
            return []
        held = Held(*rows[0][0])
        embedding = checked_vectors(held.embedding, self._given)
        there = [*rows[1]]
        for document_id, alike in zip(self._documents, rows[3:], strict=True):
            there += [row for *row, metadata in alike if json.loads(metadata).get(DOCUMENT_ID) == document_id]
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
        place = {"scope": held.id, "caller_id": self._key["caller_id"]}
        if not self.after.entries:
            these = {"scopes": self._database.many([held.id]), "caller_id": place["caller_id"]}
            return [(statement, these) for statement in self._sql.erase]
        numbers = iter(self._finder.new_rows(rows[2], len(self._put)))
        stored = [(known[name].id if name in known else next(numbers), one) for name, one in self._put.items()]
        tokens = Tokens(held.salt)
        return [
            *self._removals(place, known, gone),
            *self._writes(place, held, tokens, stored),
            *self._finder.words(place, tokens, stored, list(known.values())),
            (self._sql.save_scope, {**place, **self.after.row()}),
        ]

    def _removals(self, place: Mapping[str, Any], known: Mapping[str, Known], gone: Sequence[Known]) -> list[Call]:
        """The calls that remove entries, and of others what they will not have any more."""
        lose = [one for name, one in known.items() if one.has_vector and not self._has_vector(name)]
        table_rows = (
            (self._sql.drop_values, known.values()),
            (self._sql.drop_vectors, lose),
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
        self, place: Mapping[str, Any], held: Held, tokens: Tokens, stored: Sequence[tuple[int, IndexEntry]]
    ) -> list[Call]:
        finder = self._finder
        values = any(True for row, entry in stored for _ in value_rows(entry, row, tokens))
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
                lambda row, entry: map(finder.value_columns, value_rows(entry, row, tokens)),
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
