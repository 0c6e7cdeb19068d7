"""The tables. Times are microseconds since 1970 (UTC): exact, and the same in every database."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from arc_common.messages import MAX_ID_LENGTH

__all__ = ["HEAD", "VERSION_TABLE", "messages", "metadata", "sessions"]

HEAD = "0001"
"""The migration that makes these tables."""

VERSION_TABLE = "arc_alembic_version"

_Identifier = String(MAX_ID_LENGTH)
_RowId = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER is SQLite's own row number

metadata = MetaData()

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
