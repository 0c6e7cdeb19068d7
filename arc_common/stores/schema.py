"""The tables. Times are microseconds since 1970 (UTC): exact, and the same in every database."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from arc_common.messages import MAX_ID_LENGTH

__all__ = [
    "HEAD", "IS_HOLDING", "IS_UNCOVERED", "IS_UNFINISHED", "VERSION_TABLE", "facts", "memories", "memory_scopes",
    "memory_sources", "messages", "metadata", "sessions", "summaries",
]  # fmt: skip

HEAD = "0009"
"""The migration that makes these tables."""

VERSION_TABLE = "arc_alembic_version"

_Identifier = String(MAX_ID_LENGTH)
_RowId = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER is SQLite's own row number

metadata = MetaData()


def _partial(condition: str) -> dict[str, Any]:
    """Keyword arguments of an index over some rows only."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


sessions = Table(
    "arc_sessions",
    metadata,
    Column("id", _RowId, primary_key=True, autoincrement=True),
    Column("caller_id", _Identifier, nullable=False),
    Column("session_id", _Identifier, nullable=False),
    Column("user_id", _Identifier),
    Column("account_id", _Identifier),
    Column("status", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("last_message_at", BigInteger),
    Column("next_seq", BigInteger, nullable=False),
    Column("message_count", BigInteger, nullable=False),
    Column("tool_calls_count", BigInteger, nullable=False),
    Column("total_tokens", BigInteger, nullable=False),
    Column("metadata", Text),
    Column("view", Text),
    Column("boundary", BigInteger, nullable=False, server_default="0"),
    Column("summarized", BigInteger, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("facts_version", BigInteger, nullable=False, server_default="0"),
    Column("lease_owner", _Identifier),
    Column("lease_fence", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", BigInteger),
    Column("remembered", BigInteger, nullable=False, server_default="0"),  # read for memories up to here
    UniqueConstraint("caller_id", "session_id", name="arc_sessions_key"),  # also serves look-ups by caller alone
    Index("arc_sessions_by_caller", "caller_id", "created_at", "id"),
    Index("arc_sessions_by_user", "caller_id", "user_id", "created_at", "id"),
    sqlite_autoincrement=True,  # the number of a deleted session is never used again
)

messages = Table(
    "arc_messages",
    metadata,
    Column("session", _RowId, ForeignKey(sessions.c.id, ondelete="CASCADE"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("message_id", _Identifier, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("content", Text),
    Column("payload", Text),
    Column("origin_format", String(32)),
    Column("origin", Text),
    Column("tokens", BigInteger, nullable=False),
    Column("counter", String(64), nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("session", "seq", name="arc_messages_pk"),
    UniqueConstraint("session", "message_id", name="arc_messages_id"),
)

# Databases use a partial index only for statements that repeat its condition to the letter.
IS_UNCOVERED = text("arc_summaries.covered = 0")
"""No higher segment stands for it."""
IS_UNFINISHED = text("arc_summaries.made_by <> 'model'")
"""It is empty or by rules."""
IS_HOLDING = text("arc_facts.superseded_by IS NULL AND arc_facts.removed_by IS NULL")
"""A fact that is still so."""

summaries = Table(
    "arc_summaries",
    metadata,
    Column("session", _RowId, ForeignKey(sessions.c.id, ondelete="CASCADE"), nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("end_seq", BigInteger, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("narrative", Text, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("made_by", String(16), nullable=False),  # "" for nobody, so that what has to be written sorts first
    Column("sources", Text, nullable=False),
    Column("parts", Integer, nullable=False),
    Column("covered", SmallInteger, nullable=False),
    Column("created_at", BigInteger),
    PrimaryKeyConstraint("session", "level", "start_seq", name="arc_summaries_pk"),
)
Index("arc_summaries_cover", summaries.c.session, summaries.c.start_seq, **_partial("covered = 0"))
Index(
    "arc_summaries_unfinished",
    summaries.c.session,
    summaries.c.made_by,
    summaries.c.start_seq,
    summaries.c.level,
    **_partial("made_by <> 'model'"),
)

facts = Table(
    "arc_facts",
    metadata,
    Column("session", _RowId, ForeignKey(sessions.c.id, ondelete="CASCADE"), nullable=False),
    Column("fact_id", _Identifier, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("key", Text, nullable=False),
    Column("folded", String(32), nullable=False),
    Column("value", Text, nullable=False),
    Column("category", String(16), nullable=False),
    Column("importance", Double, nullable=False),
    Column("sources", Text, nullable=False),
    Column("segment", BigInteger, nullable=False),
    Column("made_by", String(16), nullable=False),
    Column("valid_from", BigInteger, nullable=False),
    Column("superseded_by", _Identifier),
    Column("removed_by", BigInteger),  # the leaf that said so: redoing it takes it back
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("session", "fact_id", name="arc_facts_pk"),
)
Index(
    "arc_facts_holding",
    facts.c.session,
    facts.c.importance,
    facts.c.valid_from,
    facts.c.segment,
    facts.c.fact_id,
    **_partial("superseded_by IS NULL AND removed_by IS NULL"),
)
Index("arc_facts_by_key", facts.c.session, facts.c.folded)
Index("arc_facts_by_segment", facts.c.session, facts.c.segment)
Index("arc_facts_superseded", facts.c.session, facts.c.superseded_by, **_partial("superseded_by IS NOT NULL"))
Index("arc_facts_removed", facts.c.session, facts.c.removed_by, **_partial("removed_by IS NOT NULL"))

_MemoryId = _Identifier.with_variant(String(MAX_ID_LENGTH, collation="C"), "postgresql")  # the order of code points

memory_scopes = Table(
    "arc_memory_scopes",
    metadata,
    Column("id", _RowId, primary_key=True, autoincrement=True),
    Column("caller_id", _Identifier, nullable=False),
    Column("session_id", _Identifier, nullable=False),  # "" for none, as in the index: NULLs are never equal
    Column("user_id", _Identifier, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("purged", BigInteger, nullable=False),  # the version at which something was removed for the last time
    UniqueConstraint("caller_id", "session_id", "user_id", name="arc_memory_scopes_key"),
    Index("arc_memory_scopes_by_user", "caller_id", "user_id"),
    sqlite_autoincrement=True,
)

memories = Table(
    "arc_memories",
    metadata,
    Column("scope", _RowId, ForeignKey(memory_scopes.c.id, ondelete="CASCADE"), nullable=False),
    Column("memory_id", _MemoryId, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("type", String(16), nullable=False),
    Column("importance", Double, nullable=False),
    Column("status", String(16), nullable=False),
    Column("superseded_by", _MemoryId),
    Column("created_at", BigInteger, nullable=False),
    Column("valid_from", BigInteger, nullable=False),
    Column("last_accessed_at", BigInteger),
    Column("sources", Text, nullable=False),
    Column("metadata", Text),
    PrimaryKeyConstraint("scope", "memory_id", name="arc_memories_pk"),
)
Index("arc_memories_changed", memories.c.scope, memories.c.version)
Index("arc_memories_superseded", memories.c.scope, memories.c.superseded_by, **_partial("superseded_by IS NOT NULL"))

memory_sources = Table(
    "arc_memory_sources",  # which memories a session's end concerns; the messages are named beside the memory
    metadata,
    Column("scope", _RowId, ForeignKey(memory_scopes.c.id, ondelete="CASCADE"), nullable=False),
    Column("memory_id", _MemoryId, nullable=False),
    Column("caller_id", _Identifier, nullable=False),
    Column("session_id", _Identifier, nullable=False),
    PrimaryKeyConstraint("scope", "memory_id", "session_id", name="arc_memory_sources_pk"),
)
Index("arc_memory_sources_by_session", memory_sources.c.scope, memory_sources.c.session_id)
