"""Alembic's entry point: runs the revisions on the connection and in the transaction of `migrate.py`."""

from alembic import context

from arc_common.stores.database.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
