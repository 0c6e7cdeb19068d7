"""How wide the walks of pgvector's graphs have to be, as measured in each scope."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make room for it; until it is measured, all vectors are compared."""
    if op.get_bind().dialect.name == "postgresql":
        scope = sa.ForeignKey("arc_index_scopes.id", ondelete="CASCADE")
        op.create_table(
            "arc_index_walks",
            sa.Column("scope", sa.BigInteger, scope, primary_key=True, autoincrement=False),
            sa.Column("caller_id", sa.String(255), nullable=False),
            sa.Column("embedder", sa.String(255), nullable=False),
            sa.Column("vectors", sa.BigInteger, nullable=False),
            sa.Column("density", sa.Double, nullable=False),
            sa.Column("near", sa.Integer),
            sa.Column("far", sa.Integer),
        )


def downgrade() -> None:
    """Forget it."""
    if op.get_bind().dialect.name == "postgresql":
        op.drop_table("arc_index_walks")
