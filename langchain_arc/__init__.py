"""Arc for LangChain: durable memory within a token budget, retrieval, and tools for agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arc_common.exceptions import MissingDependencyError

try:
    from langchain_arc.chains import with_arc_memory
    from langchain_arc.context import ArcContext
    from langchain_arc.engine import open_engine
    from langchain_arc.ingestion import ArcIngestionHandler
    from langchain_arc.memory import ArcChatMessageHistory
    from langchain_arc.messages import from_arc, to_arc
    from langchain_arc.models import ArcChatModel, LangChainChatModel, LangChainEmbedder
    from langchain_arc.token_limit import fit_messages
except ImportError as error:
    raise MissingDependencyError("langchain_arc", package="langchain-core", extra="langchain") from error

if TYPE_CHECKING:
    from langchain_arc.agents.checkpoints import adelete_thread, delete_thread
    from langchain_arc.agents.ingestion import ArcIngestionMiddleware
    from langchain_arc.agents.middleware import ArcMemoryMiddleware
    from langchain_arc.agents.store import ArcStore
    from langchain_arc.agents.tools import memory_tools
    from langchain_arc.retrieval.documents import document_from_arc, document_to_arc
    from langchain_arc.retrieval.reranker import ArcDocumentCompressor, LangChainReranker
    from langchain_arc.retrieval.retriever import ArcRetriever
    from langchain_arc.retrieval.sources import LangChainRetriever
    from langchain_arc.retrieval.vector_store import ArcVectorStore

__all__ = [
    "ArcChatMessageHistory",
    "ArcChatModel",
    "ArcContext",
    "ArcDocumentCompressor",
    "ArcIngestionHandler",
    "ArcIngestionMiddleware",
    "ArcMemoryMiddleware",
    "ArcRetriever",
    "ArcStore",
    "ArcVectorStore",
    "LangChainChatModel",
    "LangChainEmbedder",
    "LangChainReranker",
    "LangChainRetriever",
    "adelete_thread",
    "delete_thread",
    "document_from_arc",
    "document_to_arc",
    "fit_messages",
    "from_arc",
    "memory_tools",
    "open_engine",
    "to_arc",
    "with_arc_memory",
]


_LAZY = {
    "ArcDocumentCompressor": "retrieval.reranker",
    "ArcIngestionMiddleware": "agents.ingestion",
    "ArcMemoryMiddleware": "agents.middleware",
    "ArcRetriever": "retrieval.retriever",
    "ArcStore": "agents.store",
    "ArcVectorStore": "retrieval.vector_store",
    "LangChainReranker": "retrieval.reranker",
    "LangChainRetriever": "retrieval.sources",
    "adelete_thread": "agents.checkpoints",
    "delete_thread": "agents.checkpoints",
    "document_from_arc": "retrieval.documents",
    "document_to_arc": "retrieval.documents",
    "memory_tools": "agents.tools",
}
"""The submodules of the names that are imported on first use."""


def __getattr__(name: str) -> Any:
    """Import a name on first use: chains and histories need neither `langchain` nor the retrieval modules."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"langchain_arc.{_LAZY[name]}"), name)
    except ImportError as error:
        raise MissingDependencyError(name, package="langchain", extra="agents") from error
