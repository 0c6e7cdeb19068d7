"""Lexical analysis: turns text into terms, identically on every backend."""

from arc_common.text.analyzer import analyze, analyze_query, han_characters, is_general, query_words
from arc_common.text.thesaurus import Alternative, alternatives

__all__ = [
    "Alternative",
    "alternatives",
    "analyze",
    "analyze_query",
    "han_characters",
    "is_general",
    "query_words",
]
