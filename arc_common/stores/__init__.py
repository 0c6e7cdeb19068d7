"""Conversations, memories and the search index in SQLite and PostgreSQL."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arc_common.stores.conversations import SqlStore
    from arc_common.stores.search_index.store import SqlIndexStore

__all__ = ["SqlIndexStore", "SqlStore"]


def __getattr__(name: str) -> Any:
    """Import a store on first use: SQLAlchemy takes 0.2 s, and the index also needs numpy, which takes 0.1 s."""
    if name == "SqlStore":
        from arc_common.stores.conversations import SqlStore  # noqa: PLC0415 - the reason above

        return SqlStore
    if name == "SqlIndexStore":
        from arc_common.stores.search_index.store import SqlIndexStore  # noqa: PLC0415 - the reason above

        return SqlIndexStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
