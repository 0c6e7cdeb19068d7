"""Arc for LangChain."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from langchain_arc.chains import with_arc_memory
from langchain_arc.context import ArcContext
from langchain_arc.engine import open_engine
from langchain_arc.memory import ArcChatMessageHistory
from langchain_arc.messages import from_arc, to_arc
from langchain_arc.models import ArcChatModel, LangChainChatModel, LangChainEmbedder
from langchain_arc.token_limit import fit_messages

if TYPE_CHECKING:
    from langchain_arc.checkpoints import adelete_thread, delete_thread
    from langchain_arc.documents import document_from_arc, document_to_arc
    from langchain_arc.middleware import ArcMemoryMiddleware
    from langchain_arc.reranker import ArcDocumentCompressor, LangChainReranker
    from langchain_arc.retriever import ArcRetriever
    from langchain_arc.sources import LangChainRetriever
    from langchain_arc.store import ArcStore
    from langchain_arc.tools import memory_tools
    from langchain_arc.vector_store import ArcVectorStore

__all__ = [
    "ArcChatMessageHistory",
    "ArcChatModel",
    "ArcContext",
    "ArcDocumentCompressor",
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
    "ArcDocumentCompressor": "reranker",
    "ArcMemoryMiddleware": "middleware",
    "ArcRetriever": "retriever",
    "ArcStore": "store",
    "ArcVectorStore": "vector_store",
    "LangChainReranker": "reranker",
    "LangChainRetriever": "sources",
    "adelete_thread": "checkpoints",
    "delete_thread": "checkpoints",
    "document_from_arc": "documents",
    "document_to_arc": "documents",
    "memory_tools": "tools",
}
"""The submodules of the names that are imported on first use."""


def __getattr__(name: str) -> Any:
    """Import a name on first use: chains and histories need neither `langchain` nor the retrieval modules."""
    if name in _LAZY:
        return getattr(import_module(f"langchain_arc.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
