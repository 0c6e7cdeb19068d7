"""Lexical analysis: text in, terms out, the same on every backend."""

from arc_common.text.analyzer import analyze, analyze_query
from arc_common.text.concepts import related_terms

__all__ = ["analyze", "analyze_query", "related_terms"]
