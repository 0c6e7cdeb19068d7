"""Arc for LlamaIndex: durable, token-budgeted memory under the class names that LlamaIndex knows."""
