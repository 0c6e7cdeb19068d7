"""Protocols that users and backends implement, and the values that they exchange with the engine."""

from arc_common.protocols.conversations import (
    Branch,
    Conversation,
    ConversationFilter,
    ConversationPage,
    ConversationStatus,
    ConversationStore,
    CountedMessage,
    SessionKey,
    StoredMessage,
)
from arc_common.protocols.models import (
    ChatModel,
    Cipher,
    ContradictionDetector,
    Embedder,
    QueryEmbedder,
    QueryTransformer,
    Reranker,
    Retriever,
    StructuredChatModel,
    TokenCounter,
)

__all__ = [
    "Branch",
    "ChatModel",
    "Cipher",
    "ContradictionDetector",
    "Conversation",
    "ConversationFilter",
    "ConversationPage",
    "ConversationStatus",
    "ConversationStore",
    "CountedMessage",
    "Embedder",
    "QueryEmbedder",
    "QueryTransformer",
    "Reranker",
    "Retriever",
    "SessionKey",
    "StoredMessage",
    "StructuredChatModel",
    "TokenCounter",
]
