"""Short lists of what PostgreSQL's indexes of tokens have still to take in: each search reads the whole list."""

from alembic import op

revision = "0008"
down_revision = "0006"

_INDEXES = ("arc_index_entries_tokens", "arc_index_vectors_labels")


def upgrade() -> None:
    """Shorten them to the least that there is, 64 KiB, and take in what waits."""
    if op.get_bind().dialect.name == "postgresql":
        for index in _INDEXES:
            op.execute(f"ALTER INDEX {index} SET (gin_pending_list_limit = 64)")
            op.execute(f"SELECT gin_clean_pending_list('{index}')")


def downgrade() -> None:
    """Let them grow to what the server allows, 4 MiB by default."""
    if op.get_bind().dialect.name == "postgresql":
        for index in _INDEXES:
            op.execute(f"ALTER INDEX {index} RESET (gin_pending_list_limit)")
