"""Documents, retrievers, rerankers, fusion and query transforms for LlamaIndex."""
