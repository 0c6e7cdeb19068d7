"""The entries of the hybrid index (documents, messages, facts, memories, artifacts) and the protocol of its backends.

A backend stores entries, finds candidates and counts statistics; arc scores and fuses the candidates, so that every
backend gives the same ranking.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from numbers import Real
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from arc_common.caches import cached_text
from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter
from arc_common.messages import check_identifier, check_text
from arc_common.serialization import json_copy

EntryKind = Literal["document", "message", "fact", "memory", "artifact", "item"]

KINDS: tuple[EntryKind, ...] = get_args(EntryKind)

DOCUMENT_ID = "document_id"
"""The metadata key under which a chunk stores its document's id."""

MAX_DIMENSION = 16_000
"""The largest dimension of a vector that pgvector stores."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of entries: a caller, one of its users, or one conversation.

    Scopes are separate partitions: a search in a scope finds only the entries stored under exactly that scope, not
    those of a wider or a narrower one. Only `IndexStore.remove` without ids also reaches the scopes within.

    Args:
        caller_id: The application; nothing is shared between two of them.
        user_id: One of its users; `None` for entries that belong to no user.
        session_id: A conversation (with the user it is bound to); `None` for entries that belong to no conversation.
    """

    caller_id: str = "default"
    user_id: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        check_identifier("caller_id", self.caller_id)
        for name in ("user_id", "session_id"):
            value = getattr(self, name)
            if value is not None:
                check_identifier(name, value)


cached_scope = cached_text(4_096)(Scope)
"""Returns a scope like the class, which checks its fields once: each turn of a session names the same scopes."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A text that can be found by its words, its meaning and its metadata.

    Args:
        id: Its id, unique within scope and kind.
        terms: The frequency of each term of the analysed text; a fraction for terms that count less (a neighbour's).
            Any text may be a term.
        metadata: JSON values. They are copied; tuples become lists.
        source: The origin of the text, as a reader would name it.
        vector: Float32 of shape (dimension,), normalised to length 1; `None` if the text has not been embedded.
        embedder: The name of the embedder that made the vector; `None` without a vector.

    Raises:
        InvalidInputError: A text, key or value can't be stored; a frequency is not above zero, or the frequencies' sum
            overflows a float; or the vector is not finite, is zero, or has no embedder.
    """

    id: str
    text: str
    terms: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    vector: NDArray[np.float32] | None = field(default=None, compare=False)
    embedder: str | None = None

    def __post_init__(self) -> None:
        check_identifier("entry.id", self.id)
        check_text("entry.text", self.text)
        if self.source is not None:
            check_text("entry.source", self.source)
        for name in ("terms", "metadata"):
            if not isinstance(getattr(self, name), Mapping):
                raise InvalidInputError(f"entry.{name}", getattr(self, name), "a mapping")
        for term, frequency in self.terms.items():
            check_text("entry.terms", term)
            if not (isinstance(frequency, int | float | Real) and 0 < frequency < math.inf):
                raise InvalidInputError(f"entry.terms[{term!r}]", frequency, "a finite number above zero")
        try:
            self.length  # noqa: B018 - stores ask for it when they have begun to write
        except OverflowError as error:
            raise InvalidInputError("entry.terms", self.terms, "frequencies with a finite sum") from error
        object.__setattr__(self, "metadata", json_copy("entry.metadata", self.metadata))
        if (self.vector is None) != (self.embedder is None):
            raise InvalidInputError("entry.embedder", self.embedder, "the embedder's name with a vector, else None")
        if self.vector is not None:
            check_identifier("entry.embedder", self.embedder)
            object.__setattr__(self, "vector", unit_vector("entry.vector", self.vector))

    @property
    def length(self) -> float:
        """The length of the text in terms: the sum of their frequencies."""
        return math.fsum(self.terms.values())


@dataclass(frozen=True, slots=True, eq=False)
class IndexQuery:
    """A search in one scope and kind; without a limit, for statistics alone.

    Args:
        terms: The weight of each term of the query, above zero. Where many entries have the heaviest, a store may leave
            the others out, as if no entry had them.
        vector: Float32 of shape (dimension,) and length 1, to find the nearest entries too.
        filters: Find only entries whose metadata match.
        ids: Find only these entries.
        limit: The number of entries wanted by words, and the maximum number by the vector.
        exact: Require an exact search by the vector instead of an approximate one.
    """

    scope: Scope
    kind: EntryKind
    terms: Mapping[str, float] = field(default_factory=dict)
    vector: NDArray[np.float32] | None = None
    embedder: str | None = None
    filters: Filter | None = None
    ids: Collection[str] | None = None
    limit: int = 0
    exact: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Entries that contain terms of a query, with the statistics that BM25 needs to score them; and the nearest ones.

    Args:
        ids: The ids of the n entries that contain a term, in any order.
        frequencies: Float64 of shape (n, t): the frequency of each of the t requested terms in each entry, in the
            order of the terms.
        lengths: Float64 of shape (n,): the entries' lengths in terms.
        document_frequencies: Int64 of shape (t,): the number of entries of scope and kind that contain each term.
        count: The number of entries in scope and kind, filtered out or not.
        total_length: The sum of these entries' lengths in terms.
        embedding: The embedder and dimension of the stored vectors; `None` if there are none.
        near: The id and cosine similarity of the entries nearest to the vector, best first.
    """

    ids: tuple[str, ...]
    frequencies: NDArray[np.float64]
    lengths: NDArray[np.float64]
    document_frequencies: NDArray[np.int64]
    count: int
    total_length: float
    embedding: tuple[str, int] | None = None
    near: Sequence[tuple[str, float]] = ()


class IndexReader(Protocol):
    """The part of an `IndexStore` that a search needs."""

    def candidates(self, *queries: IndexQuery) -> list[Candidates]:
        """Return the candidates of each query, in the same order.

        - By words: all entries that contain a term if there are no more than `limit`; otherwise at least `limit` of
          them, including those that arc's BM25 (`arc_common.retrieval.bm25`) ranks first. A backend may miss some of
          the last of these.
        - By vector: as many entries as have one and match, up to `limit`, even with a selective filter.
        - The statistics cover all entries in scope and kind, regardless of `filters` and `ids`.

        Raises:
            InvalidInputError: The stored vectors are from another embedder than the query's or have another dimension.
        """

    def fetch(self, scope: Scope, kind: EntryKind, ids: Sequence[str], *, vectors: bool = False) -> list[IndexEntry]:
        """Return the stored entries with these ids, in the order of the ids, each once, without terms.

        They have their vectors only with `vectors`.
        """


@runtime_checkable
class IndexStore(IndexReader, Protocol):
    """Stores the index. Thread-safe; every method is atomic, and no query reads another's scope and kind.

    - Entries are returned as they were put, but `fetch` omits the parts that display does not need.
    - All vectors of one scope and kind have the same embedder and dimension.
    - Entries of equal rank are ordered by id (by code points).
    """

    def put(
        self,
        scope: Scope,
        kind: EntryKind,
        entries: Sequence[IndexEntry],
        *,
        removed: Collection[str] = (),
        only_vectors: bool = False,
    ) -> int:
        """Store entries; each replaces the one with its id. Return the number stored.

        - If two have the same id, the later one is stored.
        - The same step removes the entries whose ids are in `removed` and their chunks (see `remove`), but none of the
          entries just stored.
        - With `only_vectors`, only add the vectors to the stored entries with the same id and text: they were stored
          while no embedder was available. If the stored vectors are from another embedder, the new ones are kept beside
          them, found by no search, until `remove` puts them in their place.

        Raises:
            InvalidInputError: A vector's embedder or dimension differs from that of the stored vectors; nothing was
                written.
        """

    def remove(
        self,
        scope: Scope,
        kind: EntryKind | None,
        ids: Collection[str] | None,
        *,
        only_vectors: bool = False,
        embedder: str | None = None,
    ) -> int:
        """Remove entries and return the number removed.

        - A document's chunks are removed with it: the entries `<id>#…` whose `document_id` is its id.
        - Without `ids`, remove all entries of the scope and of every scope within it, as a user's conversations lie
          within the user's; without a kind, of every kind.
        - With `only_vectors`, remove all vectors of the scope and kind but no entry, so that another embedder can make
          new ones; `ids` is `None`. With an `embedder`, the vectors that it made beside them take their place in the
          same step.
        """

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
        """Return a page of at most `limit` complete entries, ordered by id, whose metadata match the filters.

        - With `after`, the last id of the previous page, return only entries with a larger one.
        - With `unembedded`, return only entries without a vector; with an embedder's name, without one that it made
          beside the stored ones (then no filter is possible).
        """


@runtime_checkable
class OutdatedVectors(Protocol):
    """An `IndexStore` that can find the scopes whose vectors are from another embedder."""

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
        """Claim the next scope and kind with vectors of another embedder than this one; `None` if there is none.

        - Two owners never get the same one at once. A claim ends after `seconds` unless `keep_outdated` renews it.
        - An application's own items, which have an embedder of their own, are never returned, nor are scopes whose
          vectors were of this embedder before the present one: otherwise two processes would replace each other's
          vectors for ever. With `everything`, those are returned too, and so are scopes in which a vector is missing.
        - With `after`, the last one returned, only one that follows it is claimed.
        """

    def keep_outdated(self, scope: Scope, kind: EntryKind, *, owner: str, now: datetime, seconds: float) -> bool:
        """Renew a claim, or end it with `seconds=0`; return whether it was still this owner's."""


def chunk_prefix(document_id: str) -> str:
    """Return the prefix of the ids of a document's chunks; the chunk's index follows it."""
    return f"{document_id}#"


def unit_vector(name: str, vector: Sequence[float] | NDArray[Any]) -> NDArray[np.float32]:
    """Return up to 16,000 finite numbers, not all zero, normalised to length 1, as float32; a copy only if needed."""
    try:
        given = np.asarray(vector)
    except ValueError as error:
        raise InvalidInputError(name, vector, "a sequence of numbers") from error
    if given.ndim != 1 or not 0 < given.size <= MAX_DIMENSION or given.dtype.kind not in "fiu":
        raise InvalidInputError(name, vector, f"one row of 1 to {MAX_DIMENSION:,} numbers")
    with np.errstate(all="ignore"):  # a vector that overflows here is not a unit vector
        array = given.astype(np.float32, copy=False)
        if abs(float(np.dot(array, array)) - 1) < 1e-6:
            return array
    exact = given.astype(np.float64)
    largest = float(np.abs(exact).max())
    if not 0 < largest < math.inf:
        raise InvalidInputError(name, vector, "finite numbers that are not all zero")
    exact = exact / largest  # squares of the largest and the smallest floats are infinite and zero
    unit: NDArray[np.float32] = (exact / np.sqrt(np.dot(exact, exact))).astype(np.float32)
    return unit


def one_embedding(embedding: tuple[str, int] | None, entries: Iterable[IndexEntry]) -> tuple[str, int] | None:
    """Return the embedder and dimension of stored vectors and of these entries'; refuse different ones."""
    for entry in entries:
        if entry.vector is not None and entry.embedder is not None:
            embedding = embedding or (entry.embedder, len(entry.vector))
            check_comparable(embedding, entry.embedder, len(entry.vector))
    return embedding


def check_comparable(embedding: tuple[str, int], embedder: str, dimension: int) -> None:
    """Refuse a vector of another embedder or another dimension than the stored ones."""
    name, size = embedding
    if embedder != name:
        expected = f"{name!r}, which made the other vectors (`re_embed` replaces those that are stored)"
        raise InvalidInputError("embedder", embedder, expected)
    if dimension != size:
        raise InvalidInputError("vector", f"{dimension} numbers", f"{size}, as in the others of {name!r}")
