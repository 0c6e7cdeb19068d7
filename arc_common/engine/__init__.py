"""The engine, and the objects it provides: sessions, documents, memories and administration."""
