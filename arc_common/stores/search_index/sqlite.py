"""Stores and finds entries in SQLite: words and labels by FTS5, vectors by numpy."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.filters import Filter, matcher
from arc_common.protocols.search_index import Candidates, IndexEntry, IndexQuery, check_comparable
from arc_common.retrieval.bm25 import BM25, best_places
from arc_common.retrieval.vectors import cosines
from arc_common.stores.codec import MOST, scope_place
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Row, Transaction
from arc_common.stores.search_index.entries import (
    ScopeStatistics,
    StoredEntry,
    candidates,
    index_statements_for,
    packed,
)
from arc_common.stores.search_index.filters import Tokens
from arc_common.stores.search_index.sqlite_reader import (
    FEW,
    Copies,
    Posting,
    ScopeCopy,
    SqliteReader,
    best_by,
    posted,
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
        self._copies = Copies(database.settings.index_cache_bytes)

    # Keeping

    def before_vectors(self) -> None:
        """Do nothing: vectors are stored as bytes."""

    def after_vectors(self, held: ScopeStatistics) -> None:
        """Do nothing: vectors need no index."""

    def entry_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:  # noqa: ARG002 - PostgreSQL has some
        """Return no columns beyond those that all databases have."""
        return {}

    def vector_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:  # noqa: ARG002 - PostgreSQL has more
        """Return a vector's columns."""
        return {"vector": packed(entry)}

    def value_columns(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a value's columns unchanged: SQLite compares integers and floats exactly."""
        return row

    def read_vector(self, stored: bytes) -> NDArray[np.float32]:
        """Read a stored vector."""
        return np.frombuffer(stored, dtype="<f4").astype(np.float32)

    unpacked = read_vector

    def has_vectors(self) -> bool:
        """Return `True`: vectors need no extension."""
        return True

    def known(self, row: Row) -> StoredEntry:
        """Read the columns of a stored entry after its id."""
        row_id, length, has_vector = row
        return StoredEntry(row_id, length, bool(has_vector))

    def new_rows(self, reserved: Sequence[Row], count: int) -> Iterable[int]:
        """Return the numbers after the last one ever used; there is no other writer."""
        last = reserved[0][0] if reserved else 0
        return range(last + 1, last + 1 + count)

    def words(
        self,
        place: Mapping[str, Any],  # noqa: ARG002 - PostgreSQL counts by scope
        tokens: Tokens,
        stored: Sequence[tuple[int, IndexEntry]],
        gone: Collection[StoredEntry],
    ) -> Iterator[Call]:
        """Yield the calls that delete the words of removed or replaced entries and store those of new ones."""
        if gone:
            yield self._sql.drop_words, {"rows": json.dumps([known.id for known in gone])}
        if stored:
            yield (self._sql.write_words, ({"row": row, "tokens": words_of(entry, tokens)} for row, entry in stored))

    def forget_words(self, within: Mapping[str, Any]) -> None:
        """Drop the words of removed entries from the copies of the scopes within one."""
        self._copies.forget_words([within[name] for name in _KEY])

    def close(self) -> None:
        """Clear the cache."""
        self._copies.clear()

    # Finding

    def candidates(self, queries: Sequence[IndexQuery]) -> list[Candidates]:
        """See `IndexStore.candidates`: one statement, unless a filter, a vector or a new scope needs more."""
        named = [scope_place(query.scope, query.kind) for query in queries]
        keys = [tuple(key[name] for name in _KEY) for key in named]
        copied = [key for key, query in zip(keys, queries, strict=True) if _needs_copy(query)]

        def read(copies: Mapping[tuple[str, ...], ScopeCopy], transaction: Transaction) -> list[Candidates]:
            learnt: list[dict[str, Posting]] = [{} for _ in queries]  # more than the copies may hold
            while True:
                found = self._looked(transaction, keys, queries, copies, learnt)
                if found is not None:
                    return [
                        self._found(query, reader, postings)
                        for query, (reader, postings) in zip(queries, found, strict=True)
                    ]

        return self._copies.use(copied, lambda copies: self._database.reading(partial(read, copies)))

    def _looked(
        self,
        transaction: Transaction,
        keys: Sequence[tuple[str, ...]],
        queries: Sequence[IndexQuery],
        copies: Mapping[tuple[str, ...], ScopeCopy],
        learnt: Sequence[dict[str, Posting]],
    ) -> "list[tuple[SqliteReader | None, Mapping[str, Posting]]] | None":
        """Return a reader and the postings for each query; `None` if it must look again, knowing what it read now."""
        asked: list[dict[str, Any]] = []
        wanted: list[list[str]] = []
        for key, query in zip(keys, queries, strict=True):
            copy = copies.get(key)
            known_by_now = learnt[len(asked)]
            is_known = copy is not None and copy.salt and _needs_copy(query)
            missing = copy.missing(query, known_by_now) if copy is not None and is_known else []
            known = copy.version if copy is not None and _needs_copy(query) else MOST  # no changes are wanted
            tokens = [copy.tokens.of(term).hex() for term in missing] if copy is not None else []
            wanted.append(missing)
            asked.append({**dict(zip(_KEY, key, strict=True)), "version": known, "tokens": tokens})
        ((*rows,),) = transaction.run((self._sql.look, {"asked": json.dumps(asked), "few": FEW}))
        by_place = {row[0]: row[1:] for row in rows}
        found: list[tuple[SqliteReader | None, Mapping[str, Posting]]] = []
        complete = True
        for place, (key, query) in enumerate(zip(keys, queries, strict=True)):
            if (row := by_place.get(place)) is None:
                found.append((None, {}))
                continue
            *columns, changes, postings = row
            held = ScopeStatistics(*columns)
            copy = copies.get(key) if _needs_copy(query) else None
            reader = SqliteReader(transaction, copy or ScopeCopy(), held, caller_id=key[0], seal=self._database.seal)
            if copy is None:
                found.append((reader, {}))
                continue
            if reader.refresh(changes):
                learnt[place].clear()
                complete = False
                continue
            for term, each in zip(wanted[place], () if postings is None else postings.split("|"), strict=True):
                learnt[place][term] = copy.learn(term, *posted(each))
            if copy.missing(query, learnt[place]):
                complete = False
                continue
            found.append((reader, copy.postings(query, learnt[place])))
        return found if complete else None

    def _found(self, query: IndexQuery, reader: SqliteReader | None, postings: Mapping[str, Posting]) -> Candidates:
        if reader is None:
            return candidates(None, [0] * len(query.terms))
        copy, held, limit = reader.copy, reader.held, query.limit
        holders = [len(posting.places) for posting in postings.values()]
        allowed = reader.allowed(query.filters, query.ids) if limit and _needs_copy(query) else None
        near = self._near(query, reader, allowed) if query.vector is not None else []
        if not limit or not query.terms:
            return replace(candidates(held, holders), near=near)
        norms = partial(self._bm25.norms, mean=held.mean_length)
        sure, maybe = best_by(
            postings, query.terms, copy.lengths, limit, norms=norms, count=held.entries, allowed=allowed
        )
        chosen = maybe.tolist()
        if len(chosen) > limit:
            chosen = sorted(chosen, key=copy.names.__getitem__)[:limit]
        places = np.concatenate([sure, np.array(chosen, dtype=np.intp)])
        frequencies = np.zeros((len(places), len(postings)))
        for column, posting in zip(frequencies.T, postings.values(), strict=True):
            if len(posting.places):
                column[:] = posting.at(places)
        return Candidates(
            ids=tuple(map(copy.names.__getitem__, places.tolist())),
            frequencies=frequencies,
            lengths=copy.lengths[places],
            document_frequencies=np.array(holders, dtype=np.int64),
            count=held.entries,
            total_length=held.total_length,
            embedding=held.embedding,
            near=near,
        )

    def _near(
        self, query: IndexQuery, reader: SqliteReader, allowed: NDArray[np.bool_] | None
    ) -> list[tuple[str, float]]:
        vector, limit, held = query.vector, query.limit, reader.held
        if vector is None or held.embedding is None:
            return []
        check_comparable(held.embedding, query.embedder or "", len(vector))
        if not limit:
            return []
        if held.vectors * len(vector) * 4 > self._copies.most_bytes:
            return _by_pages(reader, vector, allowed, limit)
        places, similarities = reader.refresh_vectors().best(vector, limit, allowed=allowed)
        found = [reader.copy.names[place] for place in places.tolist()]
        return [(found[at], float(similarities[at])) for at in best_places(found, similarities, limit)]

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


_KEY = ("caller_id", "session_id", "user_id", "kind")


def _needs_copy(query: IndexQuery) -> bool:
    return bool(query.terms) or query.vector is not None


def _by_pages(
    reader: SqliteReader, vector: NDArray[np.float32], allowed: NDArray[np.bool_] | None, limit: int
) -> list[tuple[str, float]]:
    """Return the nearest entries, with at most one page of vectors in memory."""
    best: list[tuple[str, float]] = []
    for page in reader.pages():
        there = [row for row in page if row[3] is not None]
        places = reader.copy.places(np.array([row[1] for row in there], dtype=np.int64))
        kept = there if allowed is None else [there[at] for at in np.flatnonzero(allowed[places]).tolist()]
        table = np.frombuffer(b"".join([row[3] for row in kept]), dtype="<f4").reshape(-1, len(vector))
        best += zip([row[2] for row in kept], cosines(table, vector).tolist(), strict=True)
        ids, similarities = [name for name, _ in best], np.array([cosine for _, cosine in best])
        best = [best[at] for at in best_places(ids, similarities, limit)]
    return best
