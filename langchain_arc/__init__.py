"""Arc for LangChain."""

from typing import TYPE_CHECKING, Any

from langchain_arc.chains import with_arc_memory
from langchain_arc.engine import open_engine
from langchain_arc.fitting import fit_messages
from langchain_arc.history import ArcChatMessageHistory
from langchain_arc.messages import from_arc, to_arc
from langchain_arc.models import ArcChatModel, LangChainChatModel, LangChainEmbedder
from langchain_arc.runnables import ArcContext

if TYPE_CHECKING:
    from langchain_arc.middleware import ArcMemoryMiddleware

__all__ = [
    "ArcChatMessageHistory",
    "ArcChatModel",
    "ArcContext",
    "ArcMemoryMiddleware",
    "LangChainChatModel",
    "LangChainEmbedder",
    "fit_messages",
    "from_arc",
    "open_engine",
    "to_arc",
    "with_arc_memory",
]


def __getattr__(name: str) -> Any:
    """`ArcMemoryMiddleware` on first use: it needs `langchain`, which chains and histories don't."""
    if name == "ArcMemoryMiddleware":
        from langchain_arc.middleware import ArcMemoryMiddleware  # noqa: PLC0415 - the reason above

        return ArcMemoryMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
