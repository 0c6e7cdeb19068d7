"""Conversations, memories and the search index in SQLite and PostgreSQL."""

from arc_common.stores.conversations import SqlStore
from arc_common.stores.search_index.store import SqlIndexStore

__all__ = ["SqlIndexStore", "SqlStore"]
