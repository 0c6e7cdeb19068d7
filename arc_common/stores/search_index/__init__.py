"""The search index on SQLite and PostgreSQL."""
