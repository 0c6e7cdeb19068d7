"""Middleware, tools, a store, checkpoints and prompt caches for LangChain's agents."""
