"""What the hybrid index stores of documents, messages, facts, memories and artifacts, and the protocol of its backends.

A backend keeps entries, finds candidates and counts statistics; arc scores and fuses them, so that a ranking is the
same on every backend.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

from arc_common.exceptions import InvalidInputError
from arc_common.filters import Filter
from arc_common.messages import check_identifier

if TYPE_CHECKING:  # numpy takes a tenth of a second, which importing arc must not cost
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "DOCUMENT_ID",
    "KINDS",
    "EntryKind",
    "IndexEntry",
    "IndexReader",
    "IndexStore",
    "LexicalCandidates",
    "Scope",
    "chunk_prefix",
    "unit_vector",
]

EntryKind = Literal["document", "message", "fact", "memory", "artifact"]

KINDS: tuple[EntryKind, ...] = get_args(EntryKind)

DOCUMENT_ID = "document_id"
"""The metadata key under which a chunk stores its document's id."""

MAX_DIMENSION = 16_000
"""The longest vector that pgvector stores."""

_DEPTH = 32
_INTEGERS = 2**63


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose entries: a caller's, one of its users', or one conversation's.

    A scope is a place of its own, not a rule of sight: a search in it finds the entries that were put under the very
    same scope, and no others — neither a wider scope's nor a narrower one's. Only `IndexStore.erase` looks inside.

    Args:
        caller_id: The application; nothing is shared between two of them.
        user_id: One of its users; `None` for what belongs to no user.
        session_id: A conversation (with the user it is bound to); `None` for what belongs to no conversation.
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

    def contains(self, other: "Scope") -> bool:
        """Whether the other is this one or lies within it, as a user's conversations lie within the user's own."""
        return (
            self.caller_id == other.caller_id
            and self.user_id in (None, other.user_id)
            and self.session_id in (None, other.session_id)
        )


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One text that can be found, by its words, by its meaning, and by its metadata.

    Args:
        id: Its identity within scope and kind.
        text: What a reader would see.
        terms: How often each term of the analysed text occurs; a fraction for terms that count less (a neighbour's).
            Any text may be a term.
        metadata: JSON values. They are copied: tuples become lists.
        source: Where the text comes from, as a reader would name it.
        vector: Float32 of shape (dimension,), of length 1 (any other length is normalised away); `None` if it has not
            been embedded.
        embedder: The name of the embedder that made the vector; `None` without one.

    Raises:
        InvalidInputError: Text, key or value can't be stored; a frequency is not above zero, or their sum is no float;
            the vector is not finite, is zero, or has no embedder.
    """

    id: str
    text: str
    terms: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    vector: "NDArray[np.float32] | None" = field(default=None, compare=False)
    embedder: str | None = None

    def __post_init__(self) -> None:
        check_identifier("entry.id", self.id)
        _check_text("entry.text", self.text)
        if self.source is not None:
            _check_text("entry.source", self.source)
        for name in ("terms", "metadata"):
            if not isinstance(getattr(self, name), Mapping):
                raise InvalidInputError(f"entry.{name}", getattr(self, name), "a mapping")
        for term, frequency in self.terms.items():
            _check_text("entry.terms", term)
            if not (isinstance(frequency, int | float | Real) and 0 < frequency < math.inf):
                raise InvalidInputError(f"entry.terms[{term!r}]", frequency, "a finite number above zero")
        try:
            self.length  # noqa: B018 - stores ask for it when they have begun to write
        except OverflowError as error:
            raise InvalidInputError("entry.terms", self.terms, "frequencies whose sum is a float") from error
        object.__setattr__(self, "metadata", _plain("entry.metadata", self.metadata, 0))
        if (self.vector is None) != (self.embedder is None):
            raise InvalidInputError("entry.embedder", self.embedder, "the embedder's name beside a vector, else None")
        if self.vector is not None:
            check_identifier("entry.embedder", self.embedder)
            object.__setattr__(self, "vector", unit_vector("entry.vector", self.vector))

    @property
    def length(self) -> float:
        """How many terms the text has: the sum of their frequencies."""
        return math.fsum(self.terms.values())


@dataclass(frozen=True, slots=True, eq=False)
class LexicalCandidates:
    """Entries that have terms of a query, with all that BM25 needs to score them.

    Args:
        ids: The candidates, n of them, in any order.
        frequencies: Float64 of shape (n, t): how often each of the t terms asked for occurs in each, in their order.
        lengths: Float64 of shape (n,): their lengths.
        document_frequencies: Int64 of shape (t,): in how many entries of scope and kind each term occurs.
        count: How many entries there are in scope and kind, filtered out or not.
        total_length: The sum of their lengths.
    """

    ids: tuple[str, ...]
    frequencies: "NDArray[np.float64]"
    lengths: "NDArray[np.float64]"
    document_frequencies: "NDArray[np.int64]"
    count: int
    total_length: float


class IndexReader(Protocol):
    """The part of an `IndexStore` that a search needs."""

    def embedding(self, scope: Scope, kind: EntryKind) -> tuple[str, int] | None:
        """Embedder and dimension of the stored vectors; `None` if there are none."""

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
        """Entries that have at least one of the terms.

        - All of them, if they are no more than `limit`. Otherwise at least `limit` of them, among them those that
          arc's BM25 (`arc_common.retrieval.bm25`) puts first; a backend may miss some of the last of these.
        - The statistics are those of all entries in scope and kind, whatever filters and ids say.

        Args:
            scope: Whose.
            kind: Of what.
            terms: What each term of the query weighs, above zero.
            filters: Only entries whose metadata match.
            ids: Only these entries.
            limit: How many are wanted.
        """

    def dense(
        self,
        scope: Scope,
        kind: EntryKind,
        vector: "NDArray[np.float32]",
        *,
        embedder: str,
        filters: Filter | None = None,
        ids: Collection[str] | None = None,
        limit: int,
        exact: bool = False,
    ) -> list[tuple[str, float]]:
        """The entries nearest to a vector: id and cosine similarity, best first, at most `limit`.

        - As many as match, up to `limit`: a filter never leaves fewer than it lets through.
        - Entries without a vector are not among them.

        Args:
            scope: Whose.
            kind: Of what.
            vector: Float32 of shape (dimension,) and length 1.
            embedder: The name of the embedder that made it.
            filters: Only entries whose metadata match.
            ids: Only these entries.
            limit: How many at most.
            exact: Whether an approximate answer is refused.

        Raises:
            InvalidInputError: The stored vectors are of another embedder or another dimension.
        """

    def vectors(self, scope: Scope, kind: EntryKind, ids: Collection[str]) -> "dict[str, NDArray[np.float32]]":
        """The vectors of those of the entries that have one, by id."""

    def fetch(self, scope: Scope, kind: EntryKind, ids: Sequence[str]) -> list[IndexEntry]:
        """Those of the entries that are there, in the order of the ids, each once; without terms and vectors."""


@runtime_checkable
class IndexStore(IndexReader, Protocol):
    """Where the index is kept. Thread-safe; every method is atomic and sees one scope and kind only.

    - Entries come back as they were put, `fetch` leaves out what showing them does not need.
    - Vectors of one scope and kind are all of one embedder and one dimension.
    - Of entries that are equal in rank, those with the smaller id (by code points) come first.
    """

    def put(
        self, scope: Scope, kind: EntryKind, entries: Sequence[IndexEntry], *, removed: Collection[str] = ()
    ) -> None:
        """Store entries; each replaces the one with its id. If two have the same id, the later one is stored.

        The same step removes the entries whose ids are in `removed`, and their chunks (see `remove`), but none of those
        just stored.

        Raises:
            InvalidInputError: A vector's embedder or dimension is another than that of the vectors that are there;
                nothing was written.
        """

    def attach(self, scope: Scope, kind: EntryKind, entries: Sequence[IndexEntry]) -> int:
        """Give stored entries the vectors of these, where the stored text is still theirs; how many got one.

        For entries that were stored when no embedder answered. Nothing but vector and embedder changes.

        Raises:
            InvalidInputError: As `put`.
        """

    def detach(self, scope: Scope, kind: EntryKind) -> int:
        """Forget all vectors, so that another embedder can make new ones; how many there were."""

    def remove(self, scope: Scope, kind: EntryKind, ids: Collection[str]) -> int:
        """Remove entries, and return how many there were.

        A document's chunks are removed with it: the entries `<id>#…` whose `document_id` is its id.
        """

    def erase(self, scope: Scope, *, kind: EntryKind | None = None) -> int:
        """Remove all entries of the scope and of every scope within it (see `Scope.contains`); how many there were."""

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
        """The first entries by id, with all that they have.

        Args:
            scope: Whose.
            kind: Of what.
            filters: Only those whose metadata match.
            unembedded: Only those without a vector.
            after: Only those with a larger id: the last one of the page before.
            limit: At most so many.
        """

    def count(self, scope: Scope, kind: EntryKind, *, filters: Filter | None = None) -> int:
        """How many entries there are."""

    def close(self) -> None:
        """Give back what the store holds. Safe to call twice."""


def chunk_prefix(document_id: str) -> str:
    """Return the beginning of the ids of a document's chunks; the chunk's index follows it."""
    return f"{document_id}#"


def unit_vector(name: str, vector: "Sequence[float] | NDArray[Any]") -> "NDArray[np.float32]":
    """The vector at length 1, as float32 of shape (dimension,); one that is so already is returned as it is.

    Args:
        name: What an error calls it.
        vector: Finite numbers, not all zero.

    Raises:
        InvalidInputError: They are not, or they are more than 16,000.
    """
    import numpy as np  # noqa: PLC0415 - see above

    try:
        given = np.asarray(vector)
    except ValueError as error:
        raise InvalidInputError(name, vector, "a sequence of numbers") from error
    if given.ndim != 1 or not 0 < given.size <= MAX_DIMENSION or given.dtype.kind not in "fiu":
        raise InvalidInputError(name, vector, f"one row of 1 to {MAX_DIMENSION:,} numbers")
    with np.errstate(all="ignore"):  # what overflows here is no unit vector
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


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidInputError(name, value, "text")
    if "\x00" in value:
        raise InvalidInputError(name, value, "text without NUL characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(name, value, "text without lone surrogates") from error


def _plain(name: str, value: Any, depth: int) -> Any:
    """A copy of JSON values; of subclasses, the plain values that they equal."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        _check_text(name, value)
        return str(value)
    if isinstance(value, int):
        if not -_INTEGERS <= value < _INTEGERS:
            raise InvalidInputError(name, value, "a whole number of 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(name, value, "a finite number")
        return float(value)
    if depth > _DEPTH:
        raise InvalidInputError(name, value, f"at most {_DEPTH} levels of nesting")
    if isinstance(value, list | tuple):
        return [_plain(f"{name}[{i}]", item, depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            _check_text(f"{name} key", key)
        return {str(key): _plain(f"{name}[{key!r}]", item, depth + 1) for key, item in value.items()}
    raise InvalidInputError(name, value, "JSON values: text, finite numbers, booleans, None, lists and mappings")
