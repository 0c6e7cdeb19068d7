"""Stores and finds entries in SQLite: words and labels by FTS5, vectors by numpy."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.documents import best_places, cosines
from arc_common.filters import Filter, matcher
from arc_common.protocols.search_index import IndexEntry, LexicalCandidates
from arc_common.retrieval.bm25 import BM25
from arc_common.stores.connection import Database
from arc_common.stores.drivers import Call, Row
from arc_common.stores.search_index.entries import Held, Known, candidates, check_comparable, index_statements_for
from arc_common.stores.search_index.filters import Tokens
from arc_common.stores.search_index.sqlite_reader import (
    Copies,
    SqliteReader,
    best_by,
    frequencies_at,
    scores_of,
    sqlite_index_statements,
    words_of,
)

_PAGE = 256


class SqliteIndex:
    """The SQLite-specific part of `SqlIndexStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._bm25 = BM25()
        self._sql = sqlite_index_statements()
        self._common = index_statements_for("sqlite")
        self._copies = Copies(database.options.index_cache_bytes)

    # Keeping

    def before_vectors(self) -> None:
        """Do nothing: vectors are stored as bytes."""

    def after_vectors(self, held: Held) -> None:
        """Do nothing: vectors need no index."""

    def entry_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:  # noqa: ARG002 - PostgreSQL has some
        """Return no columns beyond those that all databases have."""
        return {}

    def vector_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:  # noqa: ARG002 - PostgreSQL has more
        """Return a vector's columns."""
        return {"vector": np.ascontiguousarray(entry.vector, dtype="<f4").tobytes()}

    def value_columns(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a value's columns unchanged: SQLite compares integers and floats exactly."""
        return row

    def read_vector(self, stored: bytes) -> NDArray[np.float32]:
        """Read a stored vector."""
        return np.frombuffer(stored, dtype="<f4").astype(np.float32)

    def unpacked(self, stored: bytes) -> NDArray[np.float32]:
        """Read a stored vector."""
        return self.read_vector(stored)

    def has_vectors(self) -> bool:
        """Return `True`: vectors need no extension."""
        return True

    def known(self, row: Row) -> Known:
        """Read the columns of a stored entry after its id."""
        row_id, length, has_vector = row
        return Known(row_id, length, bool(has_vector))

    def new_rows(self, reserved: Sequence[Row], count: int) -> Iterable[int]:
        """Return the numbers after the last one ever used; there is no other writer."""
        last = reserved[0][0] if reserved else 0
        return range(last + 1, last + 1 + count)

    def words(
        self,
        place: Mapping[str, Any],  # noqa: ARG002 - PostgreSQL counts by scope
        tokens: Tokens,
        stored: Sequence[tuple[int, IndexEntry]],
        gone: Collection[Known],
    ) -> Iterator[Call]:
        """Yield the calls that delete the words of removed or replaced entries and store those of new ones."""
        if gone:
            yield self._sql.drop_words, {"rows": json.dumps([known.id for known in gone])}
        if stored:
            yield (self._sql.write_words, ({"row": row, "tokens": words_of(entry, tokens)} for row, entry in stored))

    def close(self) -> None:
        """Clear the cache."""
        self._copies.clear()

    # Finding

    def lexical(
        self,
        key: Mapping[str, str],
        terms: Mapping[str, float],
        *,
        filters: Filter | None,
        ids: Collection[str] | None,
        limit: int,
    ) -> LexicalCandidates:
        """See `IndexStore.lexical`."""
        with self._reader(key) as reader:
            if reader is None:
                return candidates(None, [], [0] * len(terms))
            copy, held = reader.copy, reader.held
            postings = reader.postings(terms)
            holders = [len(posting.places) for posting in postings.values()]
            if not limit:
                return candidates(held, [], holders)
            scores = scores_of(
                postings, terms, copy.lengths, bm25=self._bm25, count=held.entries, mean=held.mean_length
            )
            sure, maybe = best_by(scores, limit, reader.allowed(filters, ids))
            rows = [*copy.rows[sure].tolist(), *reader.first(copy.rows[maybe].tolist(), limit)]
            places = copy.places(np.array(rows, dtype=np.int64))
            often = frequencies_at(places, list(postings.values()), len(copy.rows)).tolist()
            found = [(*shown, each) for shown, each in zip(reader.shown(rows), often, strict=True)]
            return candidates(held, found, holders)

    def dense(
        self,
        key: Mapping[str, str],
        vector: NDArray[np.float32],
        *,
        embedder: str,
        filters: Filter | None,
        ids: Collection[str] | None,
        limit: int,
        exact: bool,  # noqa: ARG002 - it always is
    ) -> list[tuple[str, float]]:
        """See `IndexStore.dense`."""
        with self._reader(key) as reader:
            if reader is None or reader.held.embedding is None:
                return []
            check_comparable(reader.held.embedding, embedder, len(vector))
            if not limit:
                return []
            allowed = reader.allowed(filters, ids)
            if reader.held.vectors * len(vector) * 4 > self._copies.most_bytes:
                return _by_pages(reader, vector, allowed, limit)
            places, similarities = reader.refresh_vectors().best(vector, limit, allowed=allowed)
            found = [name for name, _ in reader.shown(reader.copy.rows[places].tolist())]
            return [(found[at], float(similarities[at])) for at in best_places(found, similarities, limit)]

    def count(self, key: Mapping[str, str], filters: Filter) -> int:
        """Return the number of entries that match."""
        with self._reader(key) as reader:
            return 0 if reader is None else int(reader.matching(filters).sum())

    def scan(self, key: Mapping[str, str], filters: Filter, *, unembedded: bool, after: str, limit: int) -> list[Row]:
        """Return the first rows by id whose metadata match."""
        statement = self._common.scan_unembedded if unembedded else self._common.scan
        test = matcher(filters)
        kept: list[Row] = []
        while len(kept) < limit:
            page = self._database.read((statement, {**key, "after": after, "row_limit": _PAGE}))
            kept += [row for row in page if test(json.loads(row[3]))]
            if len(page) < _PAGE:
                break
            after = page[-1][0]
        return kept[:limit]

    @contextmanager
    def _reader(self, key: Mapping[str, str]) -> Iterator[SqliteReader | None]:
        """Yield a reader of the scope; `None` if it has no entries."""
        with self._copies.of(tuple(key.values())) as copy, self._database.reading() as transaction:
            ((*found,),) = transaction.run((self._common.scope, key))
            held = Held(*found[0]) if found else None
            yield None if held is None else SqliteReader(transaction, copy, held, caller_id=key["caller_id"])


def _by_pages(
    reader: SqliteReader, vector: NDArray[np.float32], allowed: NDArray[np.bool_] | None, limit: int
) -> list[tuple[str, float]]:
    """Return the nearest entries, with at most one page of vectors in memory."""
    best: list[tuple[str, float]] = []
    for rows, names, vectors in reader.pages():
        places = reader.copy.places(np.array(rows, dtype=np.int64))
        kept = range(len(rows)) if allowed is None else np.flatnonzero(allowed[places]).tolist()
        table = np.frombuffer(b"".join([vectors[at] for at in kept]), dtype="<f4").reshape(-1, len(vector))
        best += zip([names[at] for at in kept], cosines(table, vector).tolist(), strict=True)
        ids, similarities = [name for name, _ in best], np.array([cosine for _, cosine in best])
        best = [best[at] for at in best_places(ids, similarities, limit)]
    return best
