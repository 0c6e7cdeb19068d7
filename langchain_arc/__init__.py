"""Arc for LangChain."""

from langchain_arc.messages import from_arc, to_arc

__all__ = ["from_arc", "to_arc"]
