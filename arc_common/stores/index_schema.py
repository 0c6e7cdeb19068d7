"""The tables of the hybrid index.

They differ between databases in what finds entries: SQLite has an FTS5 table of tokens and vectors as bytes,
PostgreSQL arrays of tokens and pgvector's vectors. Both hold tokens instead of words (see `index_tokens`).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy import text as sql_text
from sqlalchemy.types import UserDefinedType

from arc_common.messages import MAX_ID_LENGTH

__all__ = ["PREFIX", "SHOW_POSTINGS", "VECTORS", "WORDS", "IndexTables", "Vector", "index_tables"]

WORDS = "arc_index_words"
"""SQLite's FTS5 table: one row for each entry, with its tokens."""

SHOW_POSTINGS = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.arc_index_postings USING fts5vocab(main, {WORDS}, instance)"
"""Shows that table to one connection by token and row. It stores nothing, and the table need not be there yet."""

VECTORS = "arc_index_vectors"

PREFIX = 64
"""Characters of a text by which it is found; PostgreSQL can't index the whole of a long one."""

_PENDING = {"gin_pending_list_limit": 64}
"""KiB that wait to be taken into an index, and are read by each search: with the default, 4 MiB, one took 5 ms behind a
load instead of 0.2, one by words 19 instead of 3. Loading takes as long."""

_RowId = BigInteger().with_variant(Integer, "sqlite")


class Vector(UserDefinedType[Any]):
    """pgvector's type, of any dimension; its own package would import numpy with the tables."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Its name in SQL."""
        return "VECTOR"


@dataclass(frozen=True, slots=True)
class IndexTables:
    """The tables of one kind of database.

    Args:
        metadata: What holds them.
        scopes: One row for each scope and kind with entries: its statistics, the salt of its tokens, its embedder.
        entries: What search reads of an entry.
        texts: What only showing it needs.
        vectors: Those of the entries that have one. Empty, and of bytes, on a PostgreSQL server without pgvector.
        values: The metadata that have an order: numbers and texts, those of a list each by itself.
        terms: In how many entries of a scope each term occurs; `None` on SQLite, whose FTS5 table counts.
    """

    metadata: MetaData
    scopes: Table
    entries: Table
    texts: Table
    vectors: Table
    values: Table
    terms: Table | None


@cache
def index_tables(dialect_name: str) -> IndexTables:
    """The tables for `sqlite` or `postgresql`."""
    metadata = MetaData()
    postgres = dialect_name == "postgresql"
    # By code points, as arc orders ids: SQLite does, PostgreSQL does as the database's locale says.
    entry_id = String(MAX_ID_LENGTH, collation="C") if postgres else String(MAX_ID_LENGTH)
    identifier = String(MAX_ID_LENGTH)
    scopes = Table(
        "arc_index_scopes",
        metadata,
        Column("id", _RowId, primary_key=True, autoincrement=True),
        Column("caller_id", identifier, nullable=False),
        Column("session_id", identifier, nullable=False),  # "" for no session: of NULLs, any number are unique
        Column("user_id", identifier, nullable=False),  # "" for no user
        Column("kind", String(16), nullable=False),
        Column("salt", LargeBinary, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("detached", BigInteger, nullable=False),  # the version at which the vectors before were given up
        Column("entries", BigInteger, nullable=False),
        Column("total_length", Double, nullable=False),
        Column("vectors", BigInteger, nullable=False),
        Column("embedder", identifier),
        Column("dimension", Integer),
        UniqueConstraint("caller_id", "session_id", "user_id", "kind", name="arc_index_scopes_key"),
        Index("arc_index_scopes_by_user", "caller_id", "user_id"),
        sqlite_autoincrement=True,
    )
    entries = Table(
        "arc_index_entries",
        metadata,
        Column("id", _RowId, primary_key=True, autoincrement=True),
        _scope(),
        Column("caller_id", identifier, nullable=False),
        Column("entry_id", entry_id, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("length", Double, nullable=False),
        Column("metadata", Text, nullable=False),
        UniqueConstraint("scope", "entry_id", name="arc_index_entries_key"),
        sqlite_autoincrement=True,
    )
    texts = Table(
        "arc_index_texts",
        metadata,
        _scope(),
        Column("id", _RowId, nullable=False, autoincrement=False),
        Column("caller_id", identifier, nullable=False),
        Column("text", Text, nullable=False),
        Column("source", Text),
        Column("terms", Text, nullable=False),
        PrimaryKeyConstraint("scope", "id", name="arc_index_texts_pk"),
    )
    vectors = Table(
        VECTORS,
        metadata,
        Column("id", _RowId, primary_key=True, autoincrement=False),
        _scope(),
        Column("caller_id", identifier, nullable=False),
        Column("vector", Vector() if postgres else LargeBinary, nullable=False),
    )
    values = Table(
        "arc_index_values",
        metadata,
        _scope(),
        Column("id", _RowId, nullable=False, autoincrement=False),
        Column("place", Integer, nullable=False),
        Column("caller_id", identifier, nullable=False),
        Column("label", BigInteger, nullable=False),  # of the key
        Column("number", Numeric),
        Column("prefix", String(PREFIX, collation="C") if postgres else String(PREFIX)),
        Column("text", Text(collation="C") if postgres else Text),  # of those that are longer
        PrimaryKeyConstraint("scope", "id", "place", name="arc_index_values_pk"),
    )
    Index("arc_index_values_numbers", values.c.label, values.c.number, values.c.id, **_where("number IS NOT NULL"))
    Index("arc_index_values_texts", values.c.label, values.c.prefix, values.c.id, **_where("prefix IS NOT NULL"))
    terms = None
    if postgres:
        terms = _for_postgres(metadata, entries, vectors, entry_id)
    else:
        Index("arc_index_entries_changed", entries.c.scope, entries.c.version, entries.c.id)
        Index("arc_index_vectors_by_scope", vectors.c.scope)
    return IndexTables(metadata, scopes, entries, texts, vectors, values, terms)


def _for_postgres(metadata: MetaData, entries: Table, vectors: Table, entry_id: String) -> Table:
    entries.append_column(Column("tokens", ARRAY(BigInteger), nullable=False))  # of its terms, then of its metadata
    entries.append_column(Column("frequencies", ARRAY(Double), nullable=False))  # of its terms
    Index("arc_index_entries_tokens", entries.c.tokens, postgresql_using="gin", postgresql_with=_PENDING)
    # beside the vector, so that a filtered search reads one table
    vectors.append_column(Column("entry_id", entry_id, nullable=False))
    vectors.append_column(Column("sample", Integer, nullable=False))  # a random number
    vectors.append_column(Column("labels", ARRAY(BigInteger), nullable=False))
    Index("arc_index_vectors_sample", vectors.c.scope, vectors.c.sample)
    Index("arc_index_vectors_labels", vectors.c.labels, postgresql_using="gin", postgresql_with=_PENDING)
    Table(  # how wide the walks of pgvector's graph have to be: see `Reach`
        "arc_index_walks",
        metadata,
        _scope(primary_key=True),
        Column("caller_id", String(MAX_ID_LENGTH), nullable=False),
        Column("embedder", String(MAX_ID_LENGTH), nullable=False),
        Column("vectors", BigInteger, nullable=False),
        Column("density", Double, nullable=False),
        *(Column(name, ARRAY(Double), nullable=False) for name in ("near", "aside", "cosines")),
    )
    return Table(
        "arc_index_terms",
        metadata,
        _scope(),
        Column("token", BigInteger, nullable=False),
        Column("caller_id", String(MAX_ID_LENGTH), nullable=False),
        Column("entries", BigInteger, nullable=False),
        PrimaryKeyConstraint("scope", "token", name="arc_index_terms_pk"),
    )


def _where(condition: str) -> dict[str, Any]:
    """Keyword arguments of an index over some rows only."""
    return {"sqlite_where": sql_text(condition), "postgresql_where": sql_text(condition)}


def _scope(*, primary_key: bool = False) -> Column[Any]:
    whole = ForeignKey("arc_index_scopes.id", ondelete="CASCADE")
    return Column("scope", _RowId, whole, nullable=False, primary_key=primary_key, autoincrement=False)
