"""Arc for LangChain."""

from typing import TYPE_CHECKING, Any

from langchain_arc.engine import open_engine
from langchain_arc.fitting import fit_messages
from langchain_arc.history import ArcChatMessageHistory
from langchain_arc.messages import from_arc, to_arc
from langchain_arc.models import ArcChatModel, LangChainChatModel, LangChainEmbedder

if TYPE_CHECKING:
    from langchain_arc.middleware import ArcMemoryMiddleware

__all__ = [
    "ArcChatMessageHistory",
    "ArcChatModel",
    "ArcMemoryMiddleware",
    "LangChainChatModel",
    "LangChainEmbedder",
    "fit_messages",
    "from_arc",
    "open_engine",
    "to_arc",
]


def __getattr__(name: str) -> Any:
    """`ArcMemoryMiddleware` on first use: it needs `langchain`, which chains and histories don't."""
    if name == "ArcMemoryMiddleware":
        from langchain_arc.middleware import ArcMemoryMiddleware  # noqa: PLC0415 - the reason above

        return ArcMemoryMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
