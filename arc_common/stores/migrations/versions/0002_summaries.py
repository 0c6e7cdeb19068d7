"""Summaries, facts, and what a session adopts of them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _session_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("view", sa.Text),
        sa.Column("boundary", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("summarized", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("facts_version", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("lease_owner", sa.String(255)),
        sa.Column("lease_fence", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("lease_until", sa.BigInteger),
    ]


def upgrade() -> None:
    """Add them; existing sessions have no summaries yet."""
    for column in _session_columns():
        op.add_column("arc_sessions", column)
    op.create_table(
        "arc_summaries",
        sa.Column("session", _ROW_ID, sa.ForeignKey("arc_sessions.id", ondelete="CASCADE"), nullable=False),
        sa.Column("level", sa.SmallInteger, nullable=False),
        sa.Column("start_seq", sa.BigInteger, nullable=False),
        sa.Column("end_seq", sa.BigInteger, nullable=False),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("narrative", sa.Text, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("made_by", sa.String(16), nullable=False),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("parts", sa.Integer, nullable=False),
        sa.Column("covered", sa.SmallInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("session", "level", "start_seq", name="arc_summaries_pk"),
    )
    _index("arc_summaries_cover", ["start_seq"], "covered = 0")
    _index("arc_summaries_unfinished", ["made_by", "start_seq", "level"], "made_by <> 'model'")
    op.create_table(
        "arc_facts",
        sa.Column("session", _ROW_ID, sa.ForeignKey("arc_sessions.id", ondelete="CASCADE"), nullable=False),
        sa.Column("fact_id", sa.String(255), nullable=False),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("folded", sa.String(32), nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("category", sa.String(16), nullable=False),
        sa.Column("importance", sa.Double, nullable=False),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("segment", sa.BigInteger, nullable=False),
        sa.Column("made_by", sa.String(16), nullable=False),
        sa.Column("valid_from", sa.BigInteger, nullable=False),
        sa.Column("superseded_by", sa.String(255)),
        sa.Column("removed_by", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session", "fact_id", name="arc_facts_pk"),
    )
    _index(
        "arc_facts_holding",
        ["importance", "valid_from", "segment", "fact_id"],
        "superseded_by IS NULL AND removed_by IS NULL",
    )
    _index("arc_facts_by_key", ["folded"])
    _index("arc_facts_by_segment", ["segment"])
    _index("arc_facts_superseded", ["superseded_by"], "superseded_by IS NOT NULL")
    _index("arc_facts_removed", ["removed_by"], "removed_by IS NOT NULL")


def _index(name: str, columns: list[str], condition: str | None = None) -> None:
    where = None if condition is None else sa.text(condition)
    table = "_".join(name.split("_")[:2])
    op.create_index(name, table, ["session", *columns], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Drop them."""
    op.drop_table("arc_facts")
    op.drop_table("arc_summaries")
    for column in _session_columns():
        op.drop_column("arc_sessions", column.name)
