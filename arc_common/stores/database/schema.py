"""The tables. Times are microseconds since 1970 (UTC): exact, and the same in every database."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    column,
    func,
    literal_column,
    table,
    text,
)
from sqlalchemy.types import UserDefinedType

from arc_common.messages import MAX_ID_LENGTH

WORDS = "arc_index_words"
"""SQLite's FTS5 table: one row for each entry, with its tokens."""

SHOW_POSTINGS = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.arc_index_postings USING fts5vocab(main, {WORDS}, instance)"
"""Creates a temporary table that lists tokens and rows for one connection; it stores nothing."""

VECTORS = "arc_index_vectors"

ROW_NUMBERS = "arc_index_rows"
"""PostgreSQL's sequence of entries' numbers."""

PREFIX = 64
"""The number of leading characters that are indexed; PostgreSQL can't index a long text as a whole."""

_PENDING = {"gin_pending_list_limit": 64}
"""The size in KiB of the pending list that each search reads. With the default of 4 MiB, a search after a load took
5 ms instead of 0.2, and one by words 19 ms instead of 3. Loading takes equally long."""


class Vector(UserDefinedType[Any]):
    """The column type of pgvector, of any dimension."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the type's name in SQL."""
        return "VECTOR"


class SealedText(Text):
    """The type of a column that a cipher encrypts; no statement compares or sorts by it."""


@dataclass(frozen=True, slots=True)
class IndexTables:
    """The tables of one kind of database."""

    metadata: MetaData
    scopes: Table
    entries: Table
    texts: Table
    vectors: Table
    next_vectors: Table
    values: Table
    terms: Table | None


def _partial(condition: str) -> dict[str, Any]:
    """Return the arguments of an index over some rows only."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


@cache
def index_tables(dialect_name: str) -> IndexTables:
    """Return the tables for `sqlite` or `postgresql`."""
    metadata = MetaData()
    postgres = dialect_name == "postgresql"
    # Ids are ordered by code points: SQLite does so by itself, PostgreSQL with the collation "C".
    entry_id = String(MAX_ID_LENGTH, collation="C") if postgres else String(MAX_ID_LENGTH)
    identifier = String(MAX_ID_LENGTH)
    scopes = Table(
        "arc_index_scopes",
        metadata,
        Column("scope", _Key, primary_key=True),
        Column("caller_id", identifier, nullable=False),
        Column("session_id", identifier, nullable=False),  # "" for no session
        Column("user_id", identifier, nullable=False),  # "" for no user
        Column("kind", String(16), nullable=False),
        Column("salt", LargeBinary, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("detached", BigInteger, nullable=False),  # the version at which earlier vectors were removed
        Column("entries", BigInteger, nullable=False),
        Column("total_length", Double, nullable=False),
        Column("vectors", BigInteger, nullable=False),
        Column("embedder", identifier),
        Column("dimension", Integer),
        Column("former_embedder", identifier),
        Column("lease_owner", identifier),  # who makes the vectors of another embedder
        Column("lease_until", BigInteger),
        Index("arc_index_scopes_by_user", "caller_id", "user_id", "session_id", "kind"),
    )
    entries = Table(
        "arc_index_entries",
        metadata,
        Column("id", _RowId, primary_key=True, autoincrement=not postgres),
        _scope(primary_key=postgres),
        Column("caller_id", identifier, nullable=False),
        Column("entry_id", entry_id, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("length", Double, nullable=False),
        Column("metadata", SealedText, nullable=False),
        UniqueConstraint(*(("entry_id", "scope") if postgres else ("scope", "entry_id")), name="arc_index_entries_key"),
        sqlite_autoincrement=True,
    )
    texts = Table(
        "arc_index_texts",
        metadata,
        _scope(),
        Column("id", _RowId, nullable=False, autoincrement=False),
        Column("caller_id", identifier, nullable=False),
        Column("text", SealedText, nullable=False),
        Column("source", SealedText),
        Column("terms", SealedText, nullable=False),
        PrimaryKeyConstraint("scope", "id", name="arc_index_texts_pk"),
    )
    vectors = Table(
        VECTORS,
        metadata,
        Column("id", _RowId, primary_key=True, autoincrement=False),
        _scope(primary_key=postgres),
        Column("caller_id", identifier, nullable=False),
        Column("vector", Vector() if postgres else LargeBinary, nullable=False),
    )
    next_vectors = Table(  # made by another embedder beside the vectors, whose place they take once they are complete
        "arc_index_next_vectors",
        metadata,
        _scope(),
        Column("id", _RowId, nullable=False, autoincrement=False),
        Column("caller_id", identifier, nullable=False),
        Column("embedder", identifier, nullable=False),
        Column("vector", LargeBinary, nullable=False),
        PrimaryKeyConstraint("scope", "id", name="arc_index_next_vectors_pk"),
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
        Column("text", Text(collation="C") if postgres else Text),  # the whole text if it is longer than the prefix
        PrimaryKeyConstraint("scope", "id", "place", name="arc_index_values_pk"),
    )
    found = values.c.id, values.c.scope
    Index("arc_index_values_numbers", values.c.label, values.c.number, *found, **_partial("number IS NOT NULL"))
    Index("arc_index_values_texts", values.c.label, values.c.prefix, *found, **_partial("prefix IS NOT NULL"))
    terms = None
    if postgres:
        terms = _for_postgres(metadata, entries, vectors, entry_id)
    else:
        Index("arc_index_entries_changed", entries.c.scope, entries.c.version, entries.c.id)
        Index("arc_index_vectors_by_scope", vectors.c.scope)
    return IndexTables(metadata, scopes, entries, texts, vectors, next_vectors, values, terms)


def _for_postgres(metadata: MetaData, entries: Table, vectors: Table, entry_id: String) -> Table:
    entries.append_column(Column("tokens", ARRAY(BigInteger), nullable=False))  # of its terms and metadata, sorted
    entries.append_column(Column("frequencies", ARRAY(Double), nullable=False))  # of each token; 0 for metadata
    Index("arc_index_entries_by_scope", by_scope(entries), entries.c.entry_id)
    Index("arc_index_entries_tokens", entries.c.tokens, postgresql_using="gin", postgresql_with=_PENDING)
    # beside the vector, so that a filtered search reads one table
    vectors.append_column(Column("entry_id", entry_id, nullable=False))
    vectors.append_column(Column("sample", Integer, nullable=False))  # a random number
    vectors.append_column(Column("labels", ARRAY(BigInteger), nullable=False))
    Index("arc_index_vectors_sample", by_scope(vectors), vectors.c.sample)
    Index("arc_index_vectors_labels", vectors.c.labels, postgresql_using="gin", postgresql_with=_PENDING)
    return Table(
        "arc_index_terms",
        metadata,
        _scope(),
        Column("token", BigInteger, nullable=False),
        Column("caller_id", String(MAX_ID_LENGTH), nullable=False),
        Column("entries", BigInteger, nullable=False),
        PrimaryKeyConstraint("scope", "token", name="arc_index_terms_pk"),
    )


def by_scope(table: Table) -> ColumnElement[Any]:
    """Return the scope as PostgreSQL's indexes of entries and vectors name it.

    A statement that reads a whole scope uses this expression in addition to the scope itself, by which tables are
    partitioned. In other statements the planner can't choose these indexes: with many scopes, it takes each for small.
    """
    return func.substr(table.c.scope, literal_column("1"), type_=_Key)


def _scope(*, primary_key: bool = False) -> Column[Any]:
    return Column("scope", _Key, nullable=False, primary_key=primary_key)


HEAD = "0001"
"""The migration that makes these tables."""

VERSION_TABLE = "arc_alembic_version"

KEY_TABLE = "arc_encryption"
"""The table of an encrypted database's key, which is itself encrypted; other databases have no such table."""

KEYS = table(KEY_TABLE, column("sealed_key"))

_Identifier = String(MAX_ID_LENGTH)
_Key = LargeBinary(16)  # `codec.row_key`
_RowId = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER is SQLite's own row number

metadata = MetaData()


conversations = Table(
    "arc_conversations",
    metadata,
    Column("conversation", _Key, primary_key=True),
    Column("caller_id", _Identifier, nullable=False),
    Column("session_id", _Identifier, nullable=False),
    Column("user_id", _Identifier),
    Column("account_id", _Identifier),
    Column("incarnation", BigInteger, nullable=False),  # random, so that no lease or job of a deleted conversation fits
    Column("status", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("last_message_at", BigInteger),
    Column("next_seq", BigInteger, nullable=False),
    Column("next_branch", BigInteger, nullable=False, server_default="1"),
    Column("current_branch", BigInteger, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("facts_version", BigInteger, nullable=False, server_default="0"),
    Column("lease_owner", _Identifier),
    Column("lease_fence", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", BigInteger),
    Column("work_due_at", BigInteger),
    Column("edits", Text),  # places of messages edited or removed since their surroundings were indexed
    Column("unread_edits", Text),  # places of messages edited since they were read for memories
    Column("archive_path", Text),
    Column("archive_checksum", String(64)),
    Index("arc_conversations_by_caller", "caller_id", "created_at", "conversation"),
    Index("arc_conversations_by_user", "caller_id", "user_id", "created_at", "conversation"),
    Index("arc_conversations_by_status", "status", "created_at", "conversation"),
    Index("arc_conversations_due", "work_due_at", **_partial("work_due_at IS NOT NULL")),
)

branches = Table(
    "arc_branches",
    metadata,
    Column("conversation", _Key, nullable=False),
    Column("branch", BigInteger, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("parent", BigInteger),
    Column("forked_seq", BigInteger),
    Column("path", Text),  # its parts; none for the main branch, which is its own path
    Column("name", _Identifier),
    Column("head_seq", BigInteger, nullable=False),
    Column("live", SmallInteger, nullable=False, server_default="1"),
    Column("message_count", BigInteger, nullable=False),
    Column("total_tokens", BigInteger, nullable=False),
    Column("tool_calls_count", BigInteger, nullable=False),
    Column("summarized_seq", BigInteger, nullable=False, server_default="0"),
    Column("remembered_seq", BigInteger, nullable=False, server_default="0"),  # read for memories up to here
    Column("created_at", BigInteger, nullable=False),
    Column("last_message_at", BigInteger),
    PrimaryKeyConstraint("conversation", "branch", name="arc_branches_pk"),
)

messages = Table(
    "arc_messages",
    metadata,
    Column("conversation", _Key, nullable=False),
    Column("branch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("message_id", _Identifier, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("counter", String(64), nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("channel", String(32)),  # the thread whose run stored it from a checkpoint
    Column("created_at", BigInteger, nullable=False),
    Column("body", SealedText, nullable=False),
    PrimaryKeyConstraint("conversation", "branch", "seq", name="arc_messages_pk"),
    UniqueConstraint("conversation", "branch", "message_id", name="arc_messages_id"),
)

views = Table(
    "arc_views",
    metadata,
    Column("conversation", _Key, nullable=False),
    Column("branch", BigInteger, nullable=False),
    Column("at_seq", BigInteger, nullable=False),  # the newest message at adoption
    Column("caller_id", _Identifier, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("boundary", BigInteger, nullable=False),
    Column("body", SealedText, nullable=False),
    PrimaryKeyConstraint("conversation", "branch", "at_seq", name="arc_views_pk"),
)

receipts = Table(
    "arc_receipts",
    metadata,
    Column("conversation", _Key, nullable=False),
    Column("branch", BigInteger, nullable=False),
    Column("at_seq", BigInteger, nullable=False),
    Column("run_id", _Identifier, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("body", SealedText, nullable=False),
    PrimaryKeyConstraint("conversation", "branch", "at_seq", "run_id", name="arc_receipts_pk"),
)

stray_objects = Table(
    "arc_stray_objects",
    metadata,
    Column("conversation", _Key, nullable=False),
    Column("path", Text, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("user_id", _Identifier),
    Column("since", BigInteger, nullable=False),
    PrimaryKeyConstraint("conversation", "path", name="arc_stray_objects_pk"),
    Index("arc_stray_objects_by_age", "since"),
)
"""Objects that no conversation names now, but that a machine which was archiving may still write."""

# Databases use a partial index only for statements that repeat its condition to the letter.
IS_UNCOVERED = text("arc_segments.covered = 0")
"""The condition that no higher segment covers a segment."""
IS_UNFINISHED = text("arc_segments.made_by <> 'model'")
"""The condition that a segment is empty or made by rules."""
IS_FACT = text("arc_facts.tombstone = 0")
IS_PINNED = text("arc_records.pinned = 1")
IS_REVIEWED = text("arc_records.status <> 'ACTIVE'")
"""The condition that a record waits for a review, or was reviewed."""

summaries = Table(
    "arc_segments",
    metadata,
    Column("conversation", _Key, nullable=False),
    Column("branch", BigInteger, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("end_seq", BigInteger, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("narrative", SealedText, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("made_by", String(16), nullable=False),  # "" if it must be written; these sort first
    Column("sources", SealedText, nullable=False),
    Column("parts", Integer, nullable=False),
    Column("covered", SmallInteger, nullable=False),  # by a segment of the same branch
    Column("point_seq", BigInteger, nullable=False),  # shown where this place of its branch lies on the path
    Column("created_at", BigInteger),
    PrimaryKeyConstraint("conversation", "branch", "level", "start_seq", name="arc_segments_pk"),
)
Index(
    "arc_segments_cover", summaries.c.conversation, summaries.c.branch, summaries.c.start_seq, **_partial("covered = 0")
)
Index(
    "arc_segments_unfinished",
    summaries.c.conversation,
    summaries.c.branch,
    summaries.c.made_by,
    summaries.c.start_seq,
    summaries.c.level,
    **_partial("made_by <> 'model'"),
)

facts = Table(
    "arc_facts",
    metadata,
    Column("conversation", _Key, nullable=False),
    Column("branch", BigInteger, nullable=False),
    Column("leaf_seq", BigInteger, nullable=False),  # the newest message of the leaf that it was read from
    Column("place", BigInteger, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("leaf_start", BigInteger, nullable=False),
    Column("point_seq", BigInteger, nullable=False),  # its leaf's
    Column("fact_id", _Identifier),
    Column("slot", String(32), nullable=False),  # the same for facts that say the same
    Column("ends", String(32), nullable=False),  # the slot or the folded key of which it ends the earlier facts
    Column("tombstone", SmallInteger, nullable=False),  # 1 for a row that only ends facts
    Column("heir", _Identifier),  # the fact that replaced it, for a tombstone
    Column("folded_key", String(32), nullable=False),
    Column("category", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("importance", Double, nullable=False),
    Column("sources", Text, nullable=False),  # ids of messages
    Column("valid_from", BigInteger, nullable=False),
    Column("made_by", String(16), nullable=False),
    Column("body", SealedText, nullable=False),
    PrimaryKeyConstraint("conversation", "branch", "leaf_seq", "place", name="arc_facts_pk"),
    UniqueConstraint("conversation", "fact_id", name="arc_facts_id"),
)
Index("arc_facts_by_ends", *(facts.c[name] for name in ("conversation", "ends", "leaf_seq", "place")))
Index("arc_facts_by_key", facts.c.conversation, facts.c.folded_key, facts.c.branch)
Index(
    "arc_facts_by_importance",
    *(facts.c[name] for name in ("conversation", "branch", "importance", "valid_from", "leaf_start", "fact_id")),
    **_partial("tombstone = 0"),
)
Index("arc_facts_by_leaf", facts.c.conversation, facts.c.branch, facts.c.leaf_start)

_RecordId = _Identifier.with_variant(String(MAX_ID_LENGTH, collation="C"), "postgresql")  # the order of code points

scopes = Table(
    "arc_scopes",
    metadata,
    Column("scope", _Key, primary_key=True),
    Column("caller_id", _Identifier, nullable=False),
    Column("session_id", _Identifier, nullable=False),  # "" for none: NULLs are never equal
    Column("user_id", _Identifier, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("purged", BigInteger, nullable=False),  # the version of the last removal
    Index("arc_scopes_by_user", "caller_id", "user_id"),
)

records = Table(
    "arc_records",
    metadata,
    Column("scope", _Key, nullable=False),
    Column("record_id", _RecordId, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("type", String(32), nullable=False),
    Column("status", String(16), nullable=False),
    Column("superseded_by", _RecordId),
    Column("importance", Double, nullable=False),
    Column("source", _Identifier),
    Column("name", _Identifier),
    Column("version", BigInteger, nullable=False),
    Column("reviewer", _Identifier),
    Column("valid_from", BigInteger, nullable=False),
    Column("valid_until", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("last_accessed_at", BigInteger),
    Column("pinned", SmallInteger, nullable=False, server_default="0"),  # 1 if every request shows it
    Column("body", SealedText, nullable=False),
    PrimaryKeyConstraint("scope", "record_id", "revision", name="arc_records_pk"),
)
Index(
    "arc_records_review",
    *(records.c[name] for name in ("caller_id", "status", "created_at", "scope", "record_id")),
    **_partial("status <> 'ACTIVE'"),
)
Index("arc_records_pinned", records.c.scope, **_partial("pinned = 1"))
Index("arc_records_changed", records.c.scope, records.c.version)
Index("arc_records_named", records.c.scope, records.c.name, **_partial("name IS NOT NULL"))
Index("arc_records_superseded", records.c.scope, records.c.superseded_by, **_partial("superseded_by IS NOT NULL"))

record_sources = Table(
    "arc_record_sources",
    metadata,
    Column("scope", _Key, nullable=False),
    Column("record_id", _RecordId, nullable=False),
    Column("conversation", _Key, nullable=False),
    Column("branch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),  # 0 for a message that is not stored
    Column("message_id", _Identifier, nullable=False),  # "" for a record made after the message, but not from it
    Column("since", BigInteger, nullable=False),  # forks with a smaller number were made before it
    Column("caller_id", _Identifier, nullable=False),
    Column("live", SmallInteger, nullable=False),  # 1 if a branch in use shows the point
    PrimaryKeyConstraint(
        "scope", "record_id", "conversation", "branch", "seq", "message_id", name="arc_record_sources_pk"
    ),
)
Index("arc_record_sources_by_message", *(record_sources.c[name] for name in ("conversation", "branch", "seq")))
