"""How wide walks have to be for questions aside of what is stored, and for more depths than two."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_FORMER = ("near", "far")
_MEASURED = ("near", "aside", "cosines")


def upgrade() -> None:
    """Make room for it; until it is measured anew, all vectors are compared."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DELETE FROM arc_index_walks")
        for name in _FORMER:
            op.drop_column("arc_index_walks", name)
        for name in _MEASURED:
            op.add_column("arc_index_walks", sa.Column(name, sa.ARRAY(sa.Double), nullable=False))


def downgrade() -> None:
    """Forget it."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DELETE FROM arc_index_walks")
        for name in _MEASURED:
            op.drop_column("arc_index_walks", name)
        for name in _FORMER:
            op.add_column("arc_index_walks", sa.Column(name, sa.Integer))
