"""Documents, retrievers, rerankers and the vector store for LangChain."""
