"""The view of SQLite's words that nothing reads any more: each connection has a temporary one of its own."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Drop it."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE arc_index_vocabulary")


def downgrade() -> None:
    """Show them again."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("CREATE VIRTUAL TABLE arc_index_vocabulary USING fts5vocab(arc_index_words, row)")
