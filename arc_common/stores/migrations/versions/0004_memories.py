"""Long-term memories: their scopes, the memories, and the sessions that they come from."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make them, empty."""
    postgres = op.get_bind().dialect.name == "postgresql"
    memory_id = sa.String(255, collation="C") if postgres else sa.String(255)
    op.create_table(
        "arc_memory_scopes",
        sa.Column("id", _ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("session_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("purged", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("caller_id", "session_id", "user_id", name="arc_memory_scopes_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("arc_memory_scopes_by_user", "arc_memory_scopes", ["caller_id", "user_id"])
    op.create_table(
        "arc_memories",
        sa.Column("scope", _ROW_ID, sa.ForeignKey("arc_memory_scopes.id", ondelete="CASCADE"), nullable=False),
        sa.Column("memory_id", memory_id, nullable=False),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("type", sa.String(16), nullable=False),
        sa.Column("importance", sa.Double, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("superseded_by", memory_id),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("valid_from", sa.BigInteger, nullable=False),
        sa.Column("last_accessed_at", sa.BigInteger),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text),
        sa.PrimaryKeyConstraint("scope", "memory_id", name="arc_memories_pk"),
    )
    op.create_index("arc_memories_changed", "arc_memories", ["scope", "version"])
    is_superseded = sa.text("superseded_by IS NOT NULL")
    op.create_index(
        "arc_memories_superseded",
        "arc_memories",
        ["scope", "superseded_by"],
        sqlite_where=is_superseded,
        postgresql_where=is_superseded,
    )
    op.create_table(
        "arc_memory_sources",
        sa.Column("scope", _ROW_ID, sa.ForeignKey("arc_memory_scopes.id", ondelete="CASCADE"), nullable=False),
        sa.Column("memory_id", memory_id, nullable=False),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("session_id", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("scope", "memory_id", "session_id", name="arc_memory_sources_pk"),
    )
    op.create_index("arc_memory_sources_by_session", "arc_memory_sources", ["scope", "session_id"])


def downgrade() -> None:
    """Drop them."""
    op.drop_table("arc_memory_sources")
    op.drop_table("arc_memories")
    op.drop_table("arc_memory_scopes")
