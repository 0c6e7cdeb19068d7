"""All tables. Once this has been released, its statements are copied here and never change again."""

from alembic import op

from arc_common.stores.database.migrate import create_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables in an empty database."""
    create_tables(op.get_bind())
