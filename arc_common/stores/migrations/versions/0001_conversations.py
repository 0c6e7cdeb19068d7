"""Sessions and their messages."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "arc_sessions",
        sa.Column("id", _ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("session_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255)),
        sa.Column("account_id", sa.String(255)),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("last_message_at", sa.BigInteger),
        sa.Column("next_seq", sa.BigInteger, nullable=False),
        sa.Column("message_count", sa.BigInteger, nullable=False),
        sa.Column("tool_calls_count", sa.BigInteger, nullable=False),
        sa.Column("total_tokens", sa.BigInteger, nullable=False),
        sa.Column("metadata", sa.Text),
        sa.UniqueConstraint("caller_id", "session_id", name="arc_sessions_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("arc_sessions_by_caller", "arc_sessions", ["caller_id", "created_at", "id"])
    op.create_index("arc_sessions_by_user", "arc_sessions", ["caller_id", "user_id", "created_at", "id"])
    op.create_table(
        "arc_messages",
        sa.Column("session", _ROW_ID, sa.ForeignKey("arc_sessions.id", ondelete="CASCADE"), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("message_id", sa.String(255), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("content", sa.Text),
        sa.Column("payload", sa.Text),
        sa.Column("origin_format", sa.String(32)),
        sa.Column("origin", sa.Text),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("counter", sa.String(64), nullable=False),
        sa.Column("tool_calls", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session", "seq", name="arc_messages_pk"),
        sa.UniqueConstraint("session", "message_id", name="arc_messages_id"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("arc_messages")
    op.drop_table("arc_sessions")
