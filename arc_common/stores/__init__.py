"""Where conversations are kept."""

from arc_common.stores.in_memory import InMemoryStore

__all__ = ["InMemoryStore"]
