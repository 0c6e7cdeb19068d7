"""Compression strategies that make a conversation fit a token limit: pure, named, alone or in a chain."""

from arc_common.tokens.compression.base import Chain, Compression, CompressionStrategy
from arc_common.tokens.compression.strategies import (
    STRATEGIES,
    ClearToolResults,
    DropToolResults,
    PruneSystem,
    RollingWindow,
    ScorePruning,
    Summarize,
    TokenPruning,
    Truncate,
    strategy,
)
from arc_common.tokens.compression.truncation import truncated
from arc_common.tokens.selection import Changed

__all__ = [
    "STRATEGIES",
    "Chain",
    "Changed",
    "ClearToolResults",
    "Compression",
    "CompressionStrategy",
    "DropToolResults",
    "PruneSystem",
    "RollingWindow",
    "ScorePruning",
    "Summarize",
    "TokenPruning",
    "Truncate",
    "strategy",
    "truncated",
]
