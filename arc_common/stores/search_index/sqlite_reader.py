"""One search in SQLite's index: updates the copy of the scope, looks words up and answers filters."""

import json
import struct
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from arc_common.concurrency import begin_in_each_process
from arc_common.filters import Condition, Filter
from arc_common.protocols.search_index import IndexEntry
from arc_common.retrieval.bm25 import BM25, inverse_document_frequencies
from arc_common.retrieval.vectors import VectorTable
from arc_common.stores.conversations_statements import Statements
from arc_common.stores.drivers import Transaction
from arc_common.stores.schema import PREFIX
from arc_common.stores.search_index.entries import Held
from arc_common.stores.search_index.filters import (
    All,
    Either,
    HasLabel,
    Neither,
    Ordered,
    Tokens,
    Wanted,
    comparing_statement,
    number_of,
    wanted_for,
)

_ROUNDING = 1e-9
"""A relative tolerance far above the rounding error of a sum of scores."""


@dataclass(frozen=True, slots=True)
class Posting:
    """The entries that have a term."""

    places: NDArray[np.intp]
    frequencies: NDArray[np.float64]


def words_of(entry: IndexEntry, tokens: Tokens) -> str:
    """Return an entry's row in the FTS5 table."""
    terms = (tokens.of(term).hex() + _suffix(float(frequency)) for term, frequency in entry.terms.items())
    return " ".join([*terms, *(label.hex() for label in tokens.labels(entry.metadata))])


def posted(plain: str | None, forms: str | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows of entries with a token and its frequency in each: int64 and float64 of shape (m,)."""
    once = _numbers(plain)
    if forms is None:
        return once, np.ones(len(once))
    counted, _, rows = forms.partition(";")
    pairs = [form.partition(":") for form in counted.split(",")]
    several = np.repeat([_frequency(form) for form, _, _ in pairs], [int(many) for _, _, many in pairs])
    return np.concatenate([once, _numbers(rows)]), np.concatenate([np.ones(len(once)), several])


def scores_of(
    postings: Mapping[str, Posting],
    weights: Mapping[str, float],
    lengths: NDArray[np.float64],
    *,
    bm25: BM25,
    count: int,
    mean: float,
) -> NDArray[np.float64]:
    """Return the entries' scores, up to rounding: float64 of shape (n,), zero without any of the terms."""
    norms = bm25.norms(lengths, mean=mean)
    scores = np.zeros(len(lengths))
    rarities = inverse_document_frequencies(np.array([len(posting.places) for posting in postings.values()]), count)
    for (term, posting), rarity in zip(postings.items(), rarities.tolist(), strict=True):
        often = posting.frequencies
        scores[posting.places] += weights[term] * rarity * often / (often + norms[posting.places])
    return scores


def best_by(
    scores: NDArray[np.float64], limit: int, allowed: NDArray[np.bool_] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places that are surely among the `limit` best, and those that may be because of ties."""
    found = np.flatnonzero(scores if allowed is None else scores * allowed)
    if len(found) <= limit:
        return found, found[:0]
    reached = scores[found]
    last = np.partition(reached, len(found) - limit)[len(found) - limit]
    sure = reached > last * (1 + _ROUNDING)
    return found[sure], found[~sure & (reached >= last * (1 - _ROUNDING))]


def frequencies_at(places: NDArray[np.intp], postings: Sequence[Posting], count: int) -> NDArray[np.float64]:
    """Return the frequency of each term in each of some entries: float64 of shape (places, terms)."""
    table = np.zeros((len(places), len(postings)))
    often = np.zeros(count)
    for column, posting in enumerate(postings):
        often[posting.places] = posting.frequencies
        table[:, column] = often[places]
        often[posting.places] = 0.0
    return table


def _frequency(suffix: str) -> float:
    """Read a term's frequency from the suffix of its token."""
    if suffix[1] == "f":
        return float(struct.unpack(">d", bytes.fromhex(suffix[2:]))[0])
    return float(suffix[1:])


def _suffix(frequency: float) -> str:
    """Encode a frequency as "x" with letters and digits, or as nothing for the usual frequency of 1."""
    if frequency == 1:
        return ""
    if frequency.is_integer() and frequency < 2**53:
        return f"x{int(frequency)}"
    return f"xf{struct.pack('>d', frequency).hex()}"


@cache
def sqlite_index_statements() -> Statements:
    """Return the statements. Many numbers are returned as one text, in a fifth of the time of rows."""
    return Statements("sqlite", {name: text(sql) for name, sql in _SQL.items()})


_SQL = {
    "changes": """
        SELECT group_concat(id), group_concat(length) FROM arc_index_entries
        WHERE scope = :scope AND caller_id = :caller_id AND version > :version""",
    "rows": "SELECT group_concat(id) FROM arc_index_entries WHERE scope = :scope AND caller_id = :caller_id",
    "vectors": """
        SELECT entry.version, entry.id, entry.entry_id, held.vector
        FROM arc_index_entries AS entry LEFT JOIN arc_index_vectors AS held ON held.id = entry.id
        WHERE entry.scope = :scope AND entry.caller_id = :caller_id AND (entry.version, entry.id) > (:version, :id)
        ORDER BY entry.version, entry.id LIMIT :row_limit""",
    "postings": """
        SELECT wanted.key,
          (SELECT group_concat(rowid) FROM arc_index_words WHERE arc_index_words MATCH wanted.value),
          (SELECT group_concat(suffix || ':' || many) || ';' || group_concat(rows) FROM (
             SELECT substr(term, length(wanted.value) + 1) AS suffix, count(*) AS many, group_concat(doc) AS rows
             FROM temp.arc_index_postings
             WHERE term >= wanted.value || 'x' AND term < wanted.value || 'y' GROUP BY term))
        FROM json_each(:tokens) AS wanted""",
    "holders": "SELECT group_concat(rowid) FROM arc_index_words WHERE arc_index_words MATCH :query",
    "names": """
        SELECT id, entry_id, length FROM arc_index_entries
        WHERE caller_id = :caller_id AND id IN (SELECT value FROM json_each(:rows))""",
    "first": """
        SELECT id FROM arc_index_entries
        WHERE caller_id = :caller_id AND id IN (SELECT value FROM json_each(:rows))
        ORDER BY entry_id LIMIT :row_limit""",
    "rows_of_ids": """
        SELECT id FROM arc_index_entries
        WHERE scope = :scope AND caller_id = :caller_id AND entry_id IN (SELECT value FROM json_each(:ids))""",
    "write_words": "INSERT INTO arc_index_words (rowid, tokens) VALUES (:row, :tokens)",
    "drop_words": "DELETE FROM arc_index_words WHERE rowid IN (SELECT value FROM json_each(:rows))",
}


_MASKS = 8
"""The number of filters whose results are cached until an entry changes."""

_SMALL = 2**20
"""The least size in bytes that a copy counts, which limits the number of copies."""


class ScopeCopy:
    """The entries of one scope by place: the order of their rows."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.reset(scope_id=0)

    def reset(self, *, scope_id: int) -> None:
        """Begin anew, with another scope's row."""
        self.scope_id = scope_id
        self.version = 0
        self.rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.lengths: NDArray[np.float64] = np.zeros(0)
        self.there: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.vectors: VectorTable | None = None
        self.vectors_version = 0
        self._masks: OrderedDict[str, NDArray[np.bool_]] = OrderedDict()

    @property
    def is_hollow(self) -> bool:
        """Whether most places are empty because their rows were removed."""
        return len(self.rows) > 2 * self.count + 1000

    @property
    def count(self) -> int:
        """The number of entries."""
        return int(np.count_nonzero(self.there))

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        vectors = 0 if self.vectors is None else len(self.rows) * self.vectors.dimension * 4
        return max(_SMALL, len(self.rows) * (17 + len(self._masks)) + vectors)

    def take(self, rows: NDArray[np.int64], lengths: NDArray[np.float64]) -> None:
        """Add new or changed rows."""
        if not len(rows):
            return
        order = np.argsort(rows)
        rows, lengths = rows[order], lengths[order]
        new = rows > (self.rows[-1] if len(self.rows) else -1)
        known = self.places(rows[~new])
        self.lengths[known] = lengths[~new]
        self.rows = np.concatenate([self.rows, rows[new]])
        self.lengths = np.concatenate([self.lengths, lengths[new]])
        self.there = np.concatenate([self.there, np.ones(int(new.sum()), dtype=np.bool_)])

    def keep_only(self, rows: NDArray[np.int64]) -> None:
        """Remove the rows that are not among these."""
        there = np.zeros(len(self.rows), dtype=np.bool_)
        there[self.places(rows)] = True
        for place in np.flatnonzero(self.there & ~there).tolist():
            if self.vectors is not None:
                self.vectors.remove(place)
        self.there = there

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the places of rows that the copy holds."""
        return np.searchsorted(self.rows, rows)

    def found(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the places of rows and whether the copy holds each."""
        if not len(self.rows):
            return np.zeros(len(rows), dtype=np.intp), np.zeros(len(rows), dtype=np.bool_)
        places = np.minimum(self.places(rows), len(self.rows) - 1)
        return places, (self.rows[places] == rows) & self.there[places]

    def mask(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each place holds one of the rows."""
        places, there = self.found(rows)
        mask = np.zeros(len(self.rows), dtype=np.bool_)
        mask[places[there]] = True
        return mask

    def remembered(self, name: str) -> NDArray[np.bool_] | None:
        """Return a filter's result if it was cached since the last change."""
        return self._masks.get(name)

    def remember(self, name: str, mask: NDArray[np.bool_]) -> None:
        """Cache a filter's result."""
        self._masks[name] = mask
        if len(self._masks) > _MASKS:
            self._masks.popitem(last=False)

    def forget_masks(self) -> None:
        """Discard the filters' results after a change."""
        self._masks.clear()


class Copies:
    """Caches copies of the scopes searched last, up to a size in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        begin_in_each_process(self._reset)

    @property
    def most_bytes(self) -> int:
        """The maximum size of all copies in bytes."""
        return self._most_bytes

    @contextmanager
    def of(self, key: tuple[str, ...]) -> Iterator[ScopeCopy]:
        """Yield the copy of a scope to one thread at a time."""
        with self._lock:
            copy = self._copies.pop(key, None) or ScopeCopy()
            self._copies[key] = copy
        with copy.lock:
            try:
                yield copy
            except BaseException:  # an interrupt may have left a change half made
                copy.reset(scope_id=0)
                raise
        with self._lock:
            if self._copies.get(key) is copy:
                self._sizes[key] = copy.size
            total = sum(self._sizes.values())
            while total > self._most_bytes and len(self._copies) > 1:
                oldest, _ = self._copies.popitem(last=False)
                total -= self._sizes.pop(oldest, 0)

    def clear(self) -> None:
        """Discard all copies."""
        self._reset()

    def _reset(self) -> None:
        self._lock = Lock()
        self._copies: OrderedDict[tuple[str, ...], ScopeCopy] = OrderedDict()
        self._sizes: dict[tuple[str, ...], int] = {}


_PAGE = 4096
"""The number of vectors read at once."""

_MOST_WORDS = 500
"""The maximum number of words in one FTS5 query."""

Page = tuple[list[int], list[str], list[bytes]]
"""Rows of entries that have a vector, their ids and the vectors."""


class SqliteReader:
    """Reads one scope in one transaction, on one snapshot."""

    def __init__(self, transaction: Transaction, copy: ScopeCopy, held: Held, *, caller_id: str) -> None:
        self._transaction = transaction
        self._sql = sqlite_index_statements()
        self._place = {"scope": held.id, "caller_id": caller_id}
        self._tokens = Tokens(held.salt)
        self.copy = copy
        self.held = held
        self._refresh()

    def postings(self, terms: Collection[str]) -> dict[str, Posting]:
        """Return the entries that contain each term, with one statement."""
        tokens = json.dumps([self._tokens.of(term).hex() for term in terms])
        ((*found,),) = self._transaction.run((self._sql.postings, {"tokens": tokens}))
        by_place = {place: posted(plain, forms) for place, plain, forms in found}
        return {term: self._posting(*by_place[place]) for place, term in enumerate(terms)}

    def allowed(self, filters: Filter | None, ids: Collection[str] | None) -> NDArray[np.bool_] | None:
        """Return whether each place passes; `None` if all do."""
        mask = None if filters is None else self.matching(filters)
        if ids is not None:
            parameters = {**self._place, "ids": json.dumps(list(ids))}
            ((*rows,),) = self._transaction.run((self._sql.rows_of_ids, parameters))
            named = self.copy.mask(np.array([row for (row,) in rows], dtype=np.int64))
            mask = named if mask is None else mask & named
        return mask

    def matching(self, filters: Filter) -> NDArray[np.bool_]:
        """Return whether each place matches a filter."""
        name = repr(filters)  # not the filter itself: Python takes 1 and True for the same key
        mask = self.copy.remembered(name)
        if mask is None:
            mask = self._answer(wanted_for(filters, self._tokens)) & self.copy.there
            self.copy.remember(name, mask)
        return mask

    def refresh_vectors(self) -> VectorTable:
        """Return the vectors, updated with all changes since their last use."""
        copy, held = self.copy, self.held
        if held.embedder is None or held.dimension is None:
            raise LookupError("the scope has no vectors")
        if copy.vectors is None or copy.vectors_version < held.detached or copy.vectors.embedder != held.embedder:
            copy.vectors = VectorTable(held.embedder, held.dimension)
            copy.vectors_version = 0
        for rows, vectors in self._changed_vectors(copy.vectors_version):
            for place, vector in zip(copy.places(rows).tolist(), vectors, strict=True):
                if vector is None:
                    copy.vectors.remove(place)
                else:
                    copy.vectors.put(place, np.frombuffer(vector, dtype="<f4"))
        copy.vectors_version = held.version
        return copy.vectors

    def pages(self) -> Iterator[Page]:
        """Yield all vectors, one page at a time."""
        for page in self._pages(0):
            there = [row for row in page if row[3] is not None]
            yield [row[1] for row in there], [row[2] for row in there], [row[3] for row in there]

    def first(self, rows: Sequence[int], limit: int) -> list[int]:
        """Return the rows whose ids come first if there are far more than wanted, else all."""
        if len(rows) <= 2 * limit:
            return list(rows)
        parameters = {**self._place, "rows": json.dumps(list(rows)), "row_limit": limit}
        ((*first,),) = self._transaction.run((self._sql.first, parameters))
        return [row for (row,) in first]

    def shown(self, rows: Sequence[int]) -> list[tuple[str, float]]:
        """Return the ids and lengths of rows."""
        ((*found,),) = self._transaction.run((self._sql.names, {**self._place, "rows": json.dumps(list(rows))}))
        by_row = {row: (name, length) for row, name, length in found}
        return [by_row[row] for row in rows]

    def _posting(self, rows: NDArray[np.int64], frequencies: NDArray[np.float64]) -> Posting:
        places, there = self.copy.found(rows)
        return Posting(places[there], frequencies[there])

    def _refresh(self) -> None:
        copy, held = self.copy, self.held
        if copy.scope_id != held.id or copy.is_hollow:
            copy.reset(scope_id=held.id)
        if copy.version == held.version:
            return
        ((changes,),) = self._transaction.run((self._sql.changes, {**self._place, "version": copy.version}))
        copy.forget_masks()
        copy.take(_numbers(changes[0]), _decimals(changes[1]))
        if copy.count != held.entries:
            (((rows,),),) = self._transaction.run((self._sql.rows, self._place))
            copy.keep_only(_numbers(rows))
        copy.version = held.version

    def _changed_vectors(self, version: int) -> Iterator[tuple[NDArray[np.int64], list[bytes | None]]]:
        for page in self._pages(version):
            yield np.array([row[1] for row in page], dtype=np.int64), [row[3] for row in page]

    def _pages(self, version: int) -> Iterator[list[Any]]:
        """Yield pages of the entries that changed after a version, with their vectors."""
        after = {"version": version, "id": 2**62}  # all of that version are known
        while True:
            ((*page,),) = self._transaction.run((self._sql.vectors, {**self._place, **after, "row_limit": _PAGE}))
            if not page:
                return
            yield page
            after = {"version": page[-1][0], "id": page[-1][1]}

    def _answer(self, wanted: Wanted) -> NDArray[np.bool_]:
        match wanted:
            case HasLabel(labels):
                return self._having([label.hex() for label in labels])
            case Ordered(condition, label):
                return self._comparing(condition, label)
            case All(parts):
                mask = self.copy.there.copy()
                for part in parts:
                    mask &= self._answer(part)
                return mask
            case Either(parts):
                mask = np.zeros(len(self.copy.rows), dtype=np.bool_)
                for part in parts:
                    mask |= self._answer(part)
                return mask
            case Neither(part):
                return ~self._answer(part)

    def _having(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each place has one of the words."""
        mask = np.zeros(len(self.copy.rows), dtype=np.bool_)
        for start in range(0, len(words), _MOST_WORDS):
            query = " OR ".join(words[start : start + _MOST_WORDS])
            (((rows,),),) = self._transaction.run((self._sql.holders, {"query": query}))
            mask |= self.copy.mask(_numbers(rows))
        return mask

    def _comparing(self, condition: Condition, label: bytes) -> NDArray[np.bool_]:
        value = condition.value
        is_text = isinstance(value, str)
        statement = comparing_statement(condition.comparison, text_value=is_text)
        asked = {**self._place, "label": number_of(label), "value": value}
        if isinstance(value, str):
            asked["prefix"] = value[:PREFIX]
        (((rows,),),) = self._transaction.run((statement, asked))
        return self.copy.mask(_numbers(rows))


def _numbers(joined: str | None) -> NDArray[np.int64]:
    return np.fromstring(joined or "", dtype=np.int64, sep=",")


def _decimals(joined: str | None) -> NDArray[np.float64]:
    return np.fromstring(joined or "", dtype=np.float64, sep=",")
