"""Arc for LlamaIndex: durable, token-budgeted memory under the class names that LlamaIndex knows."""

from llamaindex_arc.blocks import ArcFactsBlock, ArcNarrativeBlock
from llamaindex_arc.chat_store import ArcChatStore
from llamaindex_arc.engine import open_engine
from llamaindex_arc.memory import ArcChatMemoryBuffer
from llamaindex_arc.messages import from_arc, to_arc
from llamaindex_arc.models import ArcLLM, LlamaIndexChatModel, LlamaIndexEmbedder
from llamaindex_arc.postprocessors import ArcTokenBudgetPostprocessor

__all__ = [
    "ArcChatMemoryBuffer",
    "ArcChatStore",
    "ArcFactsBlock",
    "ArcLLM",
    "ArcNarrativeBlock",
    "ArcTokenBudgetPostprocessor",
    "LlamaIndexChatModel",
    "LlamaIndexEmbedder",
    "from_arc",
    "open_engine",
    "to_arc",
]
