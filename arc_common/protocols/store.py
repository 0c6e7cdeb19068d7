"""The protocol of a store for conversations and everything derived from them."""

from typing import Protocol

from arc_common.protocols import ConversationStore
from arc_common.protocols.memories import MemoryStore
from arc_common.protocols.search_index import IndexStore
from arc_common.protocols.summaries import SummaryStore

__all__ = ["Store"]


class Store(ConversationStore, Protocol):
    """A conversation store that also keeps summaries, long-term memories and the search index."""

    @property
    def summaries(self) -> SummaryStore:
        """The summaries and facts of its conversations."""

    @property
    def memories(self) -> MemoryStore:
        """The long-term memories."""

    @property
    def index(self) -> IndexStore:
        """The search index. Deleting a session also deletes its entries."""
