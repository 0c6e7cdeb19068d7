"""What LangChain's agents use: middleware, tools, a store, checkpoints and prompt caches."""
