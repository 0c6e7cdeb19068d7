"""Arc for LangChain."""

from langchain_arc.engine import open_engine
from langchain_arc.history import ArcChatMessageHistory
from langchain_arc.messages import from_arc, to_arc
from langchain_arc.models import ArcChatModel, LangChainChatModel, LangChainEmbedder

__all__ = [
    "ArcChatMessageHistory",
    "ArcChatModel",
    "LangChainChatModel",
    "LangChainEmbedder",
    "from_arc",
    "open_engine",
    "to_arc",
]
