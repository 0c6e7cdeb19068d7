"""How far each session was read for long-term memories."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add it. What sessions have by now counts as read: it was, by the version before."""
    op.add_column("arc_sessions", sa.Column("remembered", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE arc_sessions SET remembered = next_seq - 1")


def downgrade() -> None:
    """Drop it."""
    op.drop_column("arc_sessions", "remembered")
