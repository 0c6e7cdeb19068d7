"""The hybrid index: scopes, entries, texts, vectors, and what finds them."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.exc import DBAPIError

revision = "0003"
down_revision = "0002"

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _scope() -> sa.Column[Any]:
    return sa.Column("scope", _ROW_ID, sa.ForeignKey("arc_index_scopes.id", ondelete="CASCADE"), nullable=False)


def upgrade() -> None:
    """Make them, empty."""
    postgres = op.get_bind().dialect.name == "postgresql"
    _make_tables(sa.String(255, collation="C") if postgres else sa.String(255), postgres=postgres)
    if postgres:
        _make_for_postgres()
    else:
        _make_for_sqlite()


def _make_tables(entry_id: sa.String, *, postgres: bool) -> None:
    op.create_table(
        "arc_index_scopes",
        sa.Column("id", _ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("session_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("salt", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("detached", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("total_length", sa.Double, nullable=False),
        sa.Column("vectors", sa.BigInteger, nullable=False),
        sa.Column("embedder", sa.String(255)),
        sa.Column("dimension", sa.Integer),
        sa.UniqueConstraint("caller_id", "session_id", "user_id", "kind", name="arc_index_scopes_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("arc_index_scopes_by_user", "arc_index_scopes", ["caller_id", "user_id"])
    op.create_table(
        "arc_index_entries",
        sa.Column("id", _ROW_ID, primary_key=True, autoincrement=True),
        _scope(),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("entry_id", entry_id, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("length", sa.Double, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        *(_postgres_columns() if postgres else ()),
        sa.UniqueConstraint("scope", "entry_id", name="arc_index_entries_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "arc_index_texts",
        _scope(),
        sa.Column("id", _ROW_ID, nullable=False, autoincrement=False),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("source", sa.Text),
        sa.Column("terms", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("scope", "id", name="arc_index_texts_pk"),
    )
    op.create_table(
        "arc_index_values",
        _scope(),
        sa.Column("id", _ROW_ID, nullable=False, autoincrement=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("label", sa.BigInteger, nullable=False),
        sa.Column("number", sa.Numeric),
        sa.Column("prefix", sa.String(64, collation="C") if postgres else sa.String(64)),
        sa.Column("text", sa.Text(collation="C") if postgres else sa.Text),
        sa.PrimaryKeyConstraint("scope", "id", "place", name="arc_index_values_pk"),
    )
    for name, column in (("numbers", "number"), ("texts", "prefix")):
        where = sa.text(f"{column} IS NOT NULL")
        columns = ["label", column, "id"]
        op.create_index(
            f"arc_index_values_{name}", "arc_index_values", columns, sqlite_where=where, postgresql_where=where
        )


def _postgres_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("tokens", sa.ARRAY(sa.BigInteger), nullable=False),
        sa.Column("frequencies", sa.ARRAY(sa.Double), nullable=False),
    ]


def _make_for_sqlite() -> None:
    op.create_index("arc_index_entries_changed", "arc_index_entries", ["scope", "version", "id"])
    op.create_table(
        "arc_index_vectors",
        sa.Column("id", _ROW_ID, primary_key=True, autoincrement=False),
        _scope(),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
    )
    op.create_index("arc_index_vectors_by_scope", "arc_index_vectors", ["scope"])
    op.execute(
        "CREATE VIRTUAL TABLE arc_index_words USING fts5(tokens, tokenize = 'ascii', detail = none, columnsize = 0)"
    )
    op.execute("CREATE VIRTUAL TABLE arc_index_vocabulary USING fts5vocab(arc_index_words, row)")


def _make_for_postgres() -> None:
    op.create_index("arc_index_entries_tokens", "arc_index_entries", ["tokens"], postgresql_using="gin")
    op.create_table(
        "arc_index_terms",
        _scope(),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("scope", "token", name="arc_index_terms_pk"),
    )
    op.create_table(
        "arc_index_vectors",
        sa.Column("id", _ROW_ID, primary_key=True, autoincrement=False),
        _scope(),
        sa.Column("caller_id", sa.String(255), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("entry_id", sa.String(255, collation="C"), nullable=False),
        sa.Column("sample", sa.Integer, nullable=False),
        sa.Column("labels", sa.ARRAY(sa.BigInteger), nullable=False),
    )
    op.execute("ALTER TABLE arc_index_vectors SET (toast_tuple_target = 8160)")
    op.create_index("arc_index_vectors_sample", "arc_index_vectors", ["scope", "sample"])
    op.create_index("arc_index_vectors_labels", "arc_index_vectors", ["labels"], postgresql_using="gin")
    _take_pgvector()


def _take_pgvector() -> None:
    """Give vectors pgvector's type where it can be had; conversations need none, and the first vector asks again."""
    connection = op.get_bind()
    try:
        with connection.begin_nested():
            connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    except DBAPIError:  # not installed, or not allowed
        return
    op.execute("ALTER TABLE arc_index_vectors ALTER COLUMN vector TYPE vector USING NULL")
    # In the row itself as far as a page holds it: fetching it from elsewhere takes longer than comparing it.
    op.execute("ALTER TABLE arc_index_vectors ALTER COLUMN vector SET STORAGE MAIN")


def downgrade() -> None:
    """Drop them."""
    if op.get_bind().dialect.name == "postgresql":
        op.drop_table("arc_index_terms")
    else:
        op.execute("DROP TABLE arc_index_vocabulary")
        op.execute("DROP TABLE arc_index_words")
    op.drop_table("arc_index_vectors")
    op.drop_table("arc_index_values")
    op.drop_table("arc_index_texts")
    op.drop_table("arc_index_entries")
    op.drop_table("arc_index_scopes")
