"""Retrieval-augmented generation: from a question to the documents that a model sees."""

from arc_common.rag.chunking import Chunk, Chunker
from arc_common.rag.context_builder import ContextBuilder, DocumentOrder, RagContext
from arc_common.rag.pipeline import Fusion, RagPipeline, RagQuery

__all__ = [
    "Chunk",
    "Chunker",
    "ContextBuilder",
    "DocumentOrder",
    "Fusion",
    "RagContext",
    "RagPipeline",
    "RagQuery",
]
