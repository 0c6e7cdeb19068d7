"""Arc for LlamaIndex: durable memory within a token budget, and retrieval."""

from arc_common.exceptions import MissingDependencyError

try:
    from llamaindex_arc.chat_store import ArcChatStore
    from llamaindex_arc.engine import open_engine
    from llamaindex_arc.ingestion import ArcIngestionEventHandler
    from llamaindex_arc.memory import ArcChatMemoryBuffer, ArcMemory
    from llamaindex_arc.memory_blocks import ArcFactsBlock, ArcLongTermBlock, ArcRecallBlock, ArcSummaryBlock
    from llamaindex_arc.messages import from_arc, to_arc
    from llamaindex_arc.models import ArcLLM, LlamaIndexChatModel, LlamaIndexEmbedder
    from llamaindex_arc.overflow import with_overflow_recovery
    from llamaindex_arc.retrieval.documents import node_from_arc, node_to_arc
    from llamaindex_arc.retrieval.fusion import ArcFusionRetriever
    from llamaindex_arc.retrieval.reranker import ArcNodePostprocessor, ArcTokenBudgetPostprocessor, LlamaIndexReranker
    from llamaindex_arc.retrieval.retriever import ArcRetriever
    from llamaindex_arc.retrieval.sources import LlamaIndexRetriever
    from llamaindex_arc.retrieval.transforms import ArcConversationTransform, ArcHyDETransform
except ImportError as error:
    raise MissingDependencyError("llamaindex_arc", package="llama-index-core", extra="llamaindex") from error

__all__ = [
    "ArcChatMemoryBuffer",
    "ArcChatStore",
    "ArcConversationTransform",
    "ArcFactsBlock",
    "ArcFusionRetriever",
    "ArcHyDETransform",
    "ArcIngestionEventHandler",
    "ArcLLM",
    "ArcLongTermBlock",
    "ArcMemory",
    "ArcNodePostprocessor",
    "ArcRecallBlock",
    "ArcRetriever",
    "ArcSummaryBlock",
    "ArcTokenBudgetPostprocessor",
    "LlamaIndexChatModel",
    "LlamaIndexEmbedder",
    "LlamaIndexReranker",
    "LlamaIndexRetriever",
    "from_arc",
    "node_from_arc",
    "node_to_arc",
    "open_engine",
    "to_arc",
    "with_overflow_recovery",
]
