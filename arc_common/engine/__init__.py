"""The engine and what it hands out: sessions, documents, memories, administration."""
