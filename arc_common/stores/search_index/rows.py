"""Converts index entries to rows and back, and updates a scope's statistics. Pure."""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import EntryKind, IndexEntry, LexicalCandidates, Scope
from arc_common.stores.schema import PREFIX
from arc_common.stores.search_index.filters import Tokens, number_of
from arc_common.stores.search_index.statements import SCOPE_COLUMNS


@dataclass(frozen=True, slots=True)
class Held:
    """The statistics of a scope and kind: a row of `SCOPE_COLUMNS`."""

    id: int
    salt: bytes
    version: int
    detached: int
    entries: int
    total_length: float
    vectors: int
    embedder: str | None
    dimension: int | None

    @property
    def embedding(self) -> tuple[str, int] | None:
        """The embedder and dimension of the vectors."""
        return None if self.embedder is None or self.dimension is None else (self.embedder, self.dimension)

    @property
    def mean_length(self) -> float:
        """The mean length of an entry."""
        return self.total_length / self.entries if self.entries else 0.0

    def row(self) -> dict[str, Any]:
        """Return the columns, except those that never change."""
        return {name: getattr(self, name) for name in SCOPE_COLUMNS if name not in ("id", "salt")}


@dataclass(frozen=True, slots=True)
class Known:
    """A stored entry."""

    id: int
    length: float
    has_vector: bool
    tokens: tuple[int, ...] = ()


def scope_key(scope: Scope, kind: EntryKind) -> dict[str, str]:
    """Return the parameters that identify a scope and kind."""
    return {
        "caller_id": scope.caller_id,
        "session_id": scope.session_id or "",
        "user_id": scope.user_id or "",
        "kind": kind,
    }


def checked_ids(ids: Collection[str]) -> list[str]:
    """Return each id once, in order, omitting ids that can't be stored."""
    if isinstance(ids, str):
        raise InvalidInputError("ids", ids, "a collection of ids")
    return [entry_id for entry_id in dict.fromkeys(ids) if _could_be_stored(entry_id)]


def checked_vectors(embedding: tuple[str, int] | None, entries: Iterable[IndexEntry]) -> tuple[str, int] | None:
    """Return the embedder and dimension of stored and given vectors; refuse different ones."""
    for entry in entries:
        if entry.vector is not None and entry.embedder is not None:
            if embedding is None:
                embedding = entry.embedder, len(entry.vector)
            check_comparable(embedding, entry.embedder, len(entry.vector))
    return embedding


def changed(
    held: Held,
    *,
    embedding: tuple[str, int] | None,
    added: Iterable[float] = (),
    removed: Iterable[float] = (),
    vectors: int = 0,
) -> Held:
    """Return the scope's statistics after a change."""
    more, fewer = list(added), list(removed)
    entries = held.entries + len(more) - len(fewer)
    total = math.fsum([held.total_length, *more, *(-length for length in fewer)])
    count = held.vectors + vectors
    embedder, dimension = embedding if embedding and count else (None, None)
    return replace(
        held,
        entries=entries,
        total_length=max(total, 0.0) if entries else 0.0,
        vectors=count,
        embedder=embedder,
        dimension=dimension,
        detached=held.detached if count else held.version,
    )


def entry_row(entry: IndexEntry, row_id: int, held: Held) -> dict[str, Any]:
    """Return the columns that every database stores to search an entry, without scope and caller."""
    return {
        "id": row_id,
        "entry_id": entry.id,
        "version": held.version,
        "length": entry.length,
        "metadata": _json(entry.metadata),
    }


def text_row(entry: IndexEntry, row_id: int) -> dict[str, Any]:
    """Return the columns that hold an entry's text, source and terms."""
    terms = {term: float(frequency) for term, frequency in entry.terms.items()}
    return {"id": row_id, "text": entry.text, "source": entry.source, "terms": _json(terms)}


def shown_entry(row: Sequence[Any]) -> IndexEntry:
    """Read a row of `SHOWN_COLUMNS`."""
    entry_id, text, source, metadata = row
    return IndexEntry(entry_id, text, metadata=json.loads(metadata), source=source)


def whole_entry(row: Sequence[Any], vector: NDArray[np.float32] | None, embedder: str | None) -> IndexEntry:
    """Read a row of `SHOWN_COLUMNS` and the terms."""
    *shown, terms = row
    return replace(
        shown_entry(shown),
        terms=json.loads(terms),
        vector=vector,
        embedder=embedder if vector is not None else None,
    )


def value_rows(entry: IndexEntry, row_id: int, tokens: Tokens) -> list[dict[str, Any]]:
    """Return a row for each ordered metadata value, without scope and caller."""
    rows: list[dict[str, Any]] = []
    for key, held in entry.metadata.items():
        ordered = [one for one in (held if isinstance(held, list) else (held,)) if _has_order(one)]
        label = number_of(tokens.key(key)) if ordered else 0
        for value in ordered:
            is_text = isinstance(value, str)
            rows.append(
                {
                    "id": row_id,
                    "place": len(rows),
                    "label": label,
                    "number": None if is_text else value,
                    "prefix": value[:PREFIX] if is_text else None,
                    "text": value if is_text and len(value) > PREFIX else None,
                }
            )
    return rows


def candidates(
    held: Held | None, found: Sequence[tuple[str, float, Sequence[float]]], holders: Sequence[int]
) -> LexicalCandidates:
    """Return the candidates found, with the statistics of the scope."""
    frequencies = np.array([row[2] for row in found], dtype=np.float64).reshape(len(found), len(holders))
    return LexicalCandidates(
        ids=tuple(row[0] for row in found),
        frequencies=frequencies,
        lengths=np.array([row[1] for row in found], dtype=np.float64),
        document_frequencies=np.array(holders, dtype=np.int64),
        count=held.entries if held else 0,
        total_length=held.total_length if held else 0.0,
    )


def _has_order(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _could_be_stored(entry_id: str) -> bool:
    if "\0" in entry_id:
        return False
    try:
        entry_id.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_comparable(embedding: tuple[str, int], embedder: str, dimension: int) -> None:
    """Refuse a vector of another embedder or another dimension than the stored ones."""
    name, size = embedding
    if embedder != name:
        expected = f"{name!r}, which made the stored vectors (`detach` them to change the embedder)"
        raise InvalidInputError("embedder", embedder, expected)
    if dimension != size:
        raise InvalidInputError("vector", f"{dimension} numbers", f"{size}, as in the stored vectors of {name!r}")
