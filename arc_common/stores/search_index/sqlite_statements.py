"""The index's SQL statements that only SQLite has."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from arc_common.filters import Comparison
from arc_common.protocols.search_index import IndexEntry
from arc_common.retrieval.bm25 import BM25, inverse_document_frequencies
from arc_common.stores.conversations_statements import Statement, compiler_for
from arc_common.stores.search_index.filters import SIGNS, Tokens

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
    once = _numbers(plain or "")
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


def _numbers(joined: str) -> NDArray[np.int64]:
    return np.fromstring(joined, dtype=np.int64, sep=",")


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


@dataclass(frozen=True, slots=True)
class SqliteIndexStatements:
    """The statements, named by what they do. Many numbers are returned as one text, in a fifth of the time of rows."""

    changes: Statement
    rows: Statement
    vectors: Statement
    postings: Statement
    holders: Statement
    names: Statement
    first: Statement
    rows_of_ids: Statement
    write_words: Statement
    drop_words: Statement


@cache
def sqlite_index_statements() -> SqliteIndexStatements:
    """The statements."""
    compiled = compiler_for("sqlite")
    return SqliteIndexStatements(**{name: compiled(text(sql)) for name, sql in _SQL.items()})


@cache
def comparing_statement(comparison: Comparison, *, text_value: bool) -> Statement:
    """Return the statement for rows of entries with a value under a key that satisfies a comparison."""
    template = _TEXTS if text_value else _NUMBERS
    sign = SIGNS[comparison]
    return compiler_for("sqlite")(text(template.format(sign=sign, loosely=sign.rstrip("=") + "=")))


_NUMBERS = """
    SELECT group_concat(id) FROM arc_index_values
    WHERE label = :label AND scope = :scope AND caller_id = :caller_id AND number {sign} :value"""

_TEXTS = """
    SELECT group_concat(id) FROM arc_index_values
    WHERE label = :label AND scope = :scope AND caller_id = :caller_id
      AND prefix {loosely} :prefix AND coalesce(text, prefix) {sign} :value"""

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
