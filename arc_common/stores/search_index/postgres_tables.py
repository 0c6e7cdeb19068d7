"""What PostgreSQL keeps of entries: arrays of tokens under GIN, and pgvector's vectors with graphs where they help."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arc_common.exceptions import ConfigurationError, StoreError
from arc_common.protocols.search_index import IndexEntry
from arc_common.stores.database import Database
from arc_common.stores.drivers import Call, Row
from arc_common.stores.packing import PackedVector
from arc_common.stores.search_index.postgres_plan import index_ddl, index_name, indexed_as
from arc_common.stores.search_index.postgres_statements import ddl_statement, plain_statement
from arc_common.stores.search_index.rows import Held, Known
from arc_common.stores.search_index.tokens import Tokens, canonical_number, number_of

__all__ = ["PostgresKeeping"]

_LOCK = 0x6172_6302
"""The advisory lock under which tables are changed at run time ("arc", 2)."""


class PostgresKeeping:
    """The columns that only PostgreSQL has, the counts of terms, and the changes of tables that vectors call for.

    Args:
        database: Where the tables are.
        graph_from: See `SqlIndexStore`.
    """

    def __init__(self, database: Database, *, graph_from: int) -> None:
        self._database = database
        self._graph_from = graph_from
        self._has_vectors = False
        self._built: set[int] = set()

    def before_vectors(self) -> None:
        """See that vectors have pgvector's type.

        Raises:
            ConfigurationError: The server has no pgvector, or this user may not turn it on.
        """
        if not self.has_vectors():
            self._take_pgvector()
            self._has_vectors = True

    def has_vectors(self) -> bool:
        """Whether vectors have pgvector's type: without it there are none, and it may not be installed."""
        if not self._has_vectors:
            ((kind,),) = self._database.read((plain_statement("vector_type"), {}))
            self._has_vectors = kind == "vector"
        return self._has_vectors

    def after_vectors(self, key: Mapping[str, str], held: Held) -> None:  # noqa: ARG002 - who measures asks for it
        """Build the graph of a dimension when a scope has come to so many vectors that it will be used."""
        dimension = held.dimension
        if (
            dimension is None
            or held.vectors <= self._graph_from
            or dimension in self._built
            or not indexed_as(dimension)
        ):
            return
        if not self._database.read((plain_statement("graph"), {"name": index_name(dimension)})):
            with self._database.transaction() as transaction:
                transaction.run((plain_statement("lock_ddl"), {"number": _LOCK}))
                transaction.commit((plain_statement("build_memory"), {}), (ddl_statement(index_ddl(dimension)), {}))
        self._built.add(dimension)

    def entry_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:
        """What is stored of an entry beside the columns that all databases have."""
        terms = [number_of(tokens.of(term)) for term in entry.terms]
        return {
            "tokens": [*terms, *_labels(entry, tokens)],
            "frequencies": [float(frequency) for frequency in entry.terms.values()],
        }

    def vector_columns(self, entry: IndexEntry, tokens: Tokens) -> dict[str, Any]:
        """What is stored of a vector."""
        assert entry.vector is not None  # noqa: S101 - who has none is not asked
        return {
            "vector": PackedVector.of(entry.vector),
            "entry_id": entry.id,
            "sample": int.from_bytes(tokens.of(entry.id)[:4], "big", signed=True),
            "labels": _labels(entry, tokens),
        }

    def value_columns(self, row: dict[str, Any]) -> dict[str, Any]:
        """What is stored of a value: a number with all its digits, which a float would lose."""
        number = row["number"]
        return row if number is None else {**row, "number": canonical_number(number)}

    def read_vector(self, stored: str) -> NDArray[np.float32]:
        """A vector as it was given."""
        return np.fromstring(stored[1:-1], dtype=np.float32, sep=",")

    def unpacked(self, stored: bytes) -> NDArray[np.float32]:
        """The same, as pgvector sends it."""
        return PackedVector(stored).unpacked()

    def known(self, row: Row) -> Known:
        """Read what is known of a stored entry, behind its id."""
        row_id, length, has_vector, tokens, terms = row
        return Known(row_id, length, has_vector, tuple(tokens[:terms]))

    def new_rows(self, reserved: Sequence[Row], count: int) -> Iterable[int]:  # noqa: ARG002 - SQLite gives the last one
        """Numbers for new rows."""
        return [row[0] for row in reserved]

    def words(
        self,
        place: Mapping[str, Any],
        tokens: Tokens,
        stored: Sequence[tuple[int, IndexEntry]],
        gone: Collection[Known],
    ) -> Iterator[Call]:
        """The calls that count the terms of entries that are stored, go or are replaced."""
        more = Counter(number_of(tokens.of(term)) for _, entry in stored for term in entry.terms)
        fewer = Counter(token for known in gone for token in known.tokens)
        more.subtract(fewer)
        changes = {token: change for token, change in more.items() if change}
        if changes:
            counted = {"tokens": list(changes), "more": list(changes.values())}
            yield plain_statement("count_terms"), {**place, **counted}
        lost = [token for token, change in changes.items() if change < 0]
        if lost:
            yield plain_statement("drop_terms"), {**place, "tokens": lost}

    def _take_pgvector(self) -> None:
        try:
            with self._database.transaction() as transaction:
                transaction.run((plain_statement("lock_ddl"), {"number": _LOCK}))
                (rows,) = transaction.run((plain_statement("vector_type"), {}))
                if rows[0][0] != "vector":
                    names = ("make_extension", "take_vectors", "keep_inline")
                    transaction.commit(*((plain_statement(name), {}) for name in names))
        except StoreError as error:
            raise ConfigurationError(
                "vectors in PostgreSQL need the extension pgvector: install it on the server and let an administrator "
                f"run CREATE EXTENSION vector in this database (searching by words works without it): {error}"
            ) from error


def _labels(entry: IndexEntry, tokens: Tokens) -> list[int]:
    return [number_of(label) for label in tokens.labels(entry.metadata)]
