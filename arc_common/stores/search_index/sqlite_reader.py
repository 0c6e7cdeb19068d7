"""One search in SQLite's index: updates the copy of the scope, looks words up and answers filters."""

import json
import struct
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from operator import attrgetter
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from arc_common.caches import LRUCache
from arc_common.concurrency import begin_in_each_process
from arc_common.filters import Condition, Filter
from arc_common.protocols.search_index import IndexEntry, IndexQuery
from arc_common.retrieval.bm25 import inverse_document_frequencies
from arc_common.retrieval.vectors import VectorTable
from arc_common.stores.codec import MOST
from arc_common.stores.database.drivers import Row, Transaction
from arc_common.stores.database.encryption import Seal
from arc_common.stores.database.schema import PREFIX
from arc_common.stores.search_index.entries import MANY, ScopeStatistics
from arc_common.stores.search_index.filters import Tokens, comparing_statement, filter_mask, number_of
from arc_common.stores.statements.compiler import Statements

T = TypeVar("T")

_ROUNDING = 1e-9
"""A relative tolerance far above the rounding error of a sum of scores."""


@dataclass(slots=True)
class Posting:
    """The entries that have a term, by place, ascending; and the term's saturation in each, once computed."""

    places: NDArray[np.intp]
    frequencies: NDArray[np.float64]
    seen: int = 0
    saturation: NDArray[np.float64] | None = None

    @property
    def size(self) -> int:
        """The size in bytes, with the saturation."""
        return 200 + 24 * len(self.places)

    def at(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the term's frequency in the entries at these places."""
        if not len(self.places):
            return np.zeros(len(places))
        found = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return np.where(self.places[found] == places, self.frequencies[found], 0.0)


_NO_ENTRIES = Posting(np.zeros(0, dtype=np.intp), np.zeros(0))


def words_of(entry: IndexEntry, tokens: Tokens) -> str:
    """Return an entry's row in the FTS5 table."""
    terms = (tokens.of(term).hex() + _suffix(float(frequency)) for term, frequency in entry.terms.items())
    return " ".join([*terms, *(label.hex() for label in tokens.labels(entry.metadata))])


def posted(found: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows of entries with a token and its frequency in each: int64 and float64 of shape (m,)."""
    # `,x2;2,1;1,2,5`: the token's frequencies as suffixes, the number of rows with each; these rows
    suffixes, _, counted = found.partition(";")
    counts, _, rows = counted.partition(";")
    if not rows:
        return _numbers(""), _decimals("")
    return _numbers(rows), np.repeat([_frequency(suffix) for suffix in suffixes.split(",")], _numbers(counts))


def best_by(
    postings: Mapping[str, Posting],
    weights: Mapping[str, float],
    lengths: NDArray[np.float64],
    limit: int,
    *,
    norms: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    count: int,
    allowed: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places that are surely among the `limit` best, and those that may be because of ties.

    All entries of each term are scored. Leaving out those that can't be among the best (Turtle & Flood 1995) took three
    times as long among 100,000 messages.
    """
    scores = np.zeros(len(lengths))
    rarities = inverse_document_frequencies(np.array([len(one.places) for one in postings.values()]), count)
    for (term, posting), rarity in zip(postings.items(), rarities.tolist(), strict=True):
        if not len(posting.places):
            continue
        if posting.saturation is None:
            posting.saturation = posting.frequencies / (posting.frequencies + norms(lengths[posting.places]))
        scores[posting.places] += weights[term] * rarity * posting.saturation
    has_score = scores != 0  # of 100,000, numpy finds those of truth values in a tenth of the time
    found = np.flatnonzero(has_score if allowed is None else has_score & allowed)
    if len(found) <= limit:
        return found, found[:0]
    best = scores[found]
    last = np.partition(best, len(found) - limit)[len(found) - limit]
    sure = best > last * (1 + _ROUNDING)
    return found[sure], found[~sure & (best >= last * (1 - _ROUNDING))]


@lru_cache(1 << 14)  # numbers, which many terms share
def _frequency(suffix: str) -> float:
    """Read a term's frequency from the suffix of its token."""
    if not suffix:
        return 1.0
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
    """Return the statements. Many numbers are returned as one text, in a fifth of the time of rows.

    The words wanted are materialised, as SQLite would read them from their JSON again for each posting.
    """
    return Statements("sqlite", {name: text(sql) for name, sql in _SQL.items()})


_SQL = {
    # For each scope asked for: its statistics, the entries changed since the known version, and unknown postings.
    "look": """
        SELECT asked.key, held.scope, held.salt, held.version, held.detached, held.entries, held.total_length,
          held.vectors, held.embedder, held.dimension,
          CASE WHEN held.version > asked.value ->> 'version' THEN (
            SELECT json_array(group_concat(entry.id), group_concat(entry.length), json_group_array(entry.entry_id),
              json_group_array((
                SELECT terms FROM arc_index_texts AS held_text
                WHERE (asked.value ->> 'version' > 0 OR held.entries <= :few)
                  AND held_text.scope = held.scope AND held_text.id = entry.id)))
            FROM arc_index_entries AS entry
            WHERE entry.scope = held.scope AND entry.caller_id = held.caller_id
              AND entry.version > asked.value ->> 'version') END,
          (WITH wanted AS MATERIALIZED (
             SELECT value AS first, value || 'y' AS behind FROM json_each(asked.value -> 'tokens'))
           SELECT group_concat(
             ifnull((SELECT group_concat(suffix) || ';' || group_concat(many) || ';' || group_concat(rows) FROM (
               SELECT substr(term, length(first) + 1) AS suffix, count(*) AS many, group_concat(doc) AS rows
               FROM temp.arc_index_postings WHERE term >= first AND term < behind GROUP BY term)), ''), '|')
           FROM wanted)
        FROM json_each(:asked) AS asked JOIN arc_index_scopes AS held
          ON held.caller_id = asked.value ->> 'caller_id' AND held.session_id = asked.value ->> 'session_id'
          AND held.user_id = asked.value ->> 'user_id' AND held.kind = asked.value ->> 'kind'""",
    "rows": "SELECT group_concat(id) FROM arc_index_entries WHERE scope = :scope AND caller_id = :caller_id",
    "vectors": """
        SELECT entry.version, entry.id, entry.entry_id, held.vector
        FROM arc_index_entries AS entry LEFT JOIN arc_index_vectors AS held ON held.id = entry.id
        WHERE entry.scope = :scope AND entry.caller_id = :caller_id AND (entry.version, entry.id) > (:version, :id)
        ORDER BY entry.version, entry.id LIMIT :row_limit""",
    "holders": "SELECT group_concat(rowid) FROM arc_index_words WHERE arc_index_words MATCH :query",
    "rows_of_ids": """
        SELECT id FROM arc_index_entries
        WHERE scope = :scope AND caller_id = :caller_id AND entry_id IN (SELECT value FROM json_each(:ids))""",
    "write_words": "INSERT INTO arc_index_words (rowid, tokens) VALUES (:row, :tokens)",
    "drop_words": "DELETE FROM arc_index_words WHERE rowid IN (SELECT value FROM json_each(:rows))",
}


_MASKS = 8
"""The number of filters whose results are cached until an entry changes."""

_SMALL = 2**20
"""The least size in bytes at which a copy is counted, which limits the number of copies."""

_POSTINGS_BYTES = 2**28
"""The size of a scope's cached postings: those of 100,000 messages with all the words of their windows take 100 MB."""

FEW = 2_000
"""Entries of a scope up to which all words are read at once, in 40 ms: word by word, a new question costs 3 ms."""

_MOST_CHANGES = 1_024
"""Changed entries above which postings are read again, not updated."""


def _heaviest(terms: Mapping[str, float]) -> list[str]:
    most = max(terms.values(), default=0.0)
    return [term for term, weight in terms.items() if weight == most]


class ScopeCopy:
    """The entries of one scope by place: the order of their rows."""

    _knows_all: bool  # true if a term without a cached posting is in no entry

    def __init__(self) -> None:
        self.lock = Lock()
        self.reset(b"")

    def reset(self, salt: bytes, key: bytes = b"") -> None:
        """Start again, with the salt of another scope or of one that was recreated, and the key of its tokens."""
        self.salt = salt
        self.tokens = Tokens(key)
        self.version = 0
        self.rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.lengths: NDArray[np.float64] = np.zeros(0)
        self.there: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.names: list[str] = []
        self.count = 0
        self.vectors: VectorTable | None = None
        self.vectors_version = 0
        self._masks: OrderedDict[str, NDArray[np.bool_]] = OrderedDict()
        self.forget_words()

    @property
    def is_hollow(self) -> bool:
        """True if most places are empty because their rows were removed."""
        return len(self.rows) > 2 * self.count + 1000

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        vectors = 0 if self.vectors is None else len(self.rows) * self.vectors.dimension * 4
        return max(_SMALL, len(self.rows) * (150 + len(self._masks)) + vectors + int(self._postings.size))

    def take(
        self,
        rows: NDArray[np.int64],
        lengths: NDArray[np.float64],
        names: Sequence[str],
        terms: Sequence[str | None],
    ) -> None:
        """Add new or changed rows, with their terms as JSON if postings are to be updated."""
        is_first = not len(self.rows)
        order = np.argsort(rows)
        rows, lengths = rows[order], lengths[order]
        new = rows > (self.rows[-1] if len(self.rows) else -1)
        known = self.places(rows[~new])
        self.lengths[known] = lengths[~new]
        self.rows = np.concatenate([self.rows, rows[new]])
        self.lengths = np.concatenate([self.lengths, lengths[new]])
        self.there = np.concatenate([self.there, np.ones(int(new.sum()), dtype=np.bool_)])
        self.names += [names[at] for at in order[new].tolist()]
        self.count += int(new.sum())
        self._masks.clear()
        if is_first and len(rows) and terms[0] is not None:
            self._learn_all([json.loads(terms[i] or "{}") for i in order.tolist()])
        elif len(self._changed) + len(rows) > _MOST_CHANGES:
            self.forget_words()
        elif self._postings or self._knows_all:
            places = self.places(rows).tolist()
            self._changed += [(at, json.loads(terms[i] or "{}")) for at, i in zip(places, order.tolist(), strict=True)]
        if self._postings.size > _POSTINGS_BYTES // 2:
            self._knows_all = False  # from here on, a posting may be dropped
        for posting in self._postings.values():
            posting.saturation = None  # the mean length has changed

    def keep_only(self, rows: NDArray[np.int64]) -> None:
        """Remove the rows that are not among these."""
        there = np.zeros(len(self.rows), dtype=np.bool_)
        there[self.places(rows)] = True
        for place in np.flatnonzero(self.there & ~there).tolist():
            if self.vectors is not None:
                self.vectors.remove(place)
        self.there, self.count = there, int(np.count_nonzero(there))
        self._masks.clear()
        self.forget_words()

    def missing(self, query: IndexQuery, learnt: Mapping[str, Posting]) -> list[str]:
        """Return the terms whose postings are to be read next: first the heaviest, which tell if others matter."""
        if self._knows_all:
            return []
        unread = [term for term in query.terms if term not in learnt and term not in self._postings]
        own = _heaviest(query.terms)
        first = [term for term in unread if term in own]
        return first or (unread if self._needs_all(query, learnt) else [])

    def postings(self, query: IndexQuery, learnt: Mapping[str, Posting]) -> dict[str, Posting]:
        """Return the posting of each term, of which none is missing: with no entries for those that are left out."""
        told = query.terms if self._needs_all(query, learnt) else _heaviest(query.terms)
        known = {term: learnt.get(term) or self.posting(term) for term in told}
        return {term: known.get(term, _NO_ENTRIES) for term in query.terms}

    def _needs_all(self, query: IndexQuery, learnt: Mapping[str, Posting]) -> bool:
        """Return whether few entries have the heaviest terms, or may be found by them."""
        own = [learnt.get(term) or self.posting(term) for term in _heaviest(query.terms)]
        return query.filters is not None or query.ids is not None or sum(len(one.places) for one in own) <= MANY

    def learn(self, term: str, rows: NDArray[np.int64], frequencies: NDArray[np.float64]) -> Posting:
        """Cache a term's posting, and return it."""
        order = np.argsort(rows, kind="stable")
        places, there = self.found(rows[order])
        posting = Posting(places[there], frequencies[order][there], len(self._changed))
        with suppress(ValueError):  # too large to be cached
            self._postings[term] = posting
        return posting

    def posting(self, term: str) -> Posting:
        """Return a term's cached posting, with all changes."""
        try:
            posting = self._postings[term]
        except KeyError:
            posting = _NO_ENTRIES
        if posting.seen < len(self._changed):
            changed = dict(self._changed[posting.seen :])
            kept = ~np.isin(posting.places, list(changed))
            more = {place: float(terms[term]) for place, terms in changed.items() if term in terms}
            places = np.concatenate([posting.places[kept], np.array(list(more), dtype=np.intp)])
            frequencies = np.concatenate([posting.frequencies[kept], np.array(list(more.values()), dtype=np.float64)])
            order = np.argsort(places, kind="stable")
            posting = self._postings[term] = Posting(places[order], frequencies[order], len(self._changed))
        return posting

    def _learn_all(self, texts: Sequence[Mapping[str, float]]) -> None:
        """Cache the postings of all terms, given those of every entry."""
        found: dict[str, tuple[list[int], list[float]]] = {}
        for place, frequencies in enumerate(texts):
            for term, frequency in frequencies.items():
                places, often = found.setdefault(term, ([], []))
                places.append(place)
                often.append(frequency)
        for term, (places, often) in found.items():
            self._postings[term] = Posting(np.array(places, dtype=np.intp), np.array(often, dtype=np.float64))
        self._knows_all = True

    def forget_words(self) -> None:
        """Drop the cached postings; they are read again when they are needed."""
        self._knows_all = False
        self._postings: LRUCache[str, Posting] = LRUCache(_POSTINGS_BYTES, getsizeof=attrgetter("size"))
        self._changed: list[tuple[int, dict[str, float]]] = []

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


def _is_part(part: str, own: str) -> bool:
    return part in ("", own)


class Copies:
    """Caches copies of the scopes searched last, up to a size in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        begin_in_each_process(self.clear)

    def use(self, keys: Iterable[tuple[str, ...]], work: Callable[[dict[tuple[str, ...], ScopeCopy]], T]) -> T:
        """Call `work` with the copies of scopes, each in one thread at a time."""
        with self._lock:
            copies = {key: self._copies.get(key) or ScopeCopy() for key in sorted(set(keys))}
            for key, copy in copies.items():
                self._copies[key] = copy
                self._copies.move_to_end(key)
        with ExitStack() as held:
            for copy in copies.values():  # in one order everywhere, so that no two threads wait for each other
                held.enter_context(copy.lock)
            try:
                result = work(copies)
            except BaseException:  # an interrupt may have left a change half made
                for copy in copies.values():
                    copy.reset(b"")
                raise
        with self._lock:
            self._sizes.update((key, copy.size) for key, copy in copies.items() if self._copies.get(key) is copy)
            total = sum(self._sizes.values())
            while total > self.most_bytes and len(self._copies) > 1:
                oldest, _ = self._copies.popitem(last=False)
                total -= self._sizes.pop(oldest, 0)
        return result

    def forget_words(self, within: Sequence[str]) -> None:
        """Drop the words of the copies whose keys have these parts; an empty part stands for any."""
        with self._lock:
            copies = [copy for key, copy in self._copies.items() if all(map(_is_part, within, key))]
        for copy in copies:
            with copy.lock:
                copy.forget_words()

    def clear(self) -> None:
        """Discard all copies."""
        self._lock = Lock()
        self._copies: OrderedDict[tuple[str, ...], ScopeCopy] = OrderedDict()
        self._sizes: dict[tuple[str, ...], int] = {}


_PAGE = 4096
"""The number of vectors read at once."""

_MOST_WORDS = 500
"""The maximum number of words in one FTS5 query."""


class SqliteReader:
    """Reads one scope in one transaction, on one snapshot."""

    def __init__(
        self, transaction: Transaction, copy: ScopeCopy, held: ScopeStatistics, *, caller_id: str, seal: Seal
    ) -> None:
        self._transaction = transaction
        self._sql = sqlite_index_statements()
        self._place = {"scope": held.scope, "caller_id": caller_id}
        self._seal = seal
        self.copy = copy
        self.held = held

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens(self._seal.hashed(self.held.salt))  # the copy's are updated later

    def refresh(self, changes: str | None) -> bool:
        """Update the copy with the changed entries; return whether the copy must be read from the beginning."""
        copy, held = self.copy, self.held
        is_known = copy.salt == held.salt
        if not is_known or copy.version > held.version or copy.is_hollow:
            is_new = not copy.salt
            copy.reset(held.salt, self._seal.hashed(held.salt))
            if not is_new:
                return True
        if copy.version != held.version:
            rows, lengths, names, terms = json.loads(changes or "[null, null, [], []]")
            if self._seal.is_on:
                terms = [one and self._seal.opened(one) for one in terms]
            copy.take(_numbers(rows), _decimals(lengths), names, terms)
            if copy.count != held.entries:
                (((there,),),) = self._transaction.run((self._sql.rows, self._place))
                copy.keep_only(_numbers(there))
            copy.version = held.version
        return False

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
            mask = filter_mask(filters, self._tokens, self.copy.there, having=self._having, comparing=self._comparing)
            self.copy.remember(name, mask)
        return mask

    def refresh_vectors(self) -> VectorTable:
        """Return the vectors, updated with all changes since their last use."""
        copy, held = self.copy, self.held
        if held.embedder is None or held.dimension is None:
            raise LookupError("the scope has no vectors")
        if copy.vectors is None or copy.vectors_version < held.detached:
            copy.vectors = VectorTable(held.dimension, rows=len(copy.rows))
            copy.vectors_version = 0
        for page in self.pages(copy.vectors_version):
            places = copy.places(np.array([row[1] for row in page], dtype=np.int64))
            for place, (*_, vector) in zip(places.tolist(), page, strict=True):
                if vector is None:
                    copy.vectors.remove(place)
                else:
                    copy.vectors.put(place, np.frombuffer(vector, dtype="<f4"))
        copy.vectors_version = held.version
        return copy.vectors

    def pages(self, version: int = 0) -> Iterator[list[Row]]:
        """Yield pages of the entries changed after a version: the version, row, id and vector of each."""
        after = {"version": version, "id": MOST}  # all of that version are known
        while True:
            ((*page,),) = self._transaction.run((self._sql.vectors, {**self._place, **after, "row_limit": _PAGE}))
            if not page:
                return
            yield page
            after = {"version": page[-1][0], "id": page[-1][1]}

    def _having(self, labels: Sequence[bytes]) -> NDArray[np.bool_]:
        """Return whether each place has one of the labels."""
        words = [label.hex() for label in labels]
        mask = np.zeros(len(self.copy.rows), dtype=np.bool_)
        for start in range(0, len(words), _MOST_WORDS):
            query = " OR ".join(words[start : start + _MOST_WORDS])
            (((rows,),),) = self._transaction.run((self._sql.holders, {"query": query}))
            mask |= self.copy.mask(_numbers(rows))
        return mask

    def _comparing(self, condition: Condition) -> NDArray[np.bool_]:
        value = condition.value
        statement = comparing_statement(condition.comparison, text_value=isinstance(value, str))
        asked = {**self._place, "label": number_of(self._tokens.key(condition.key)), "value": value}
        if isinstance(value, str):
            asked["prefix"] = value[:PREFIX]
        (((rows,),),) = self._transaction.run((statement, asked))
        return self.copy.mask(_numbers(rows))


def _numbers(joined: str | None) -> NDArray[np.int64]:
    return np.fromstring(joined or "", dtype=np.int64, sep=",")


def _decimals(joined: str | None) -> NDArray[np.float64]:
    return np.fromstring(joined or "", dtype=np.float64, sep=",")
