"""Compression strategies that make a conversation fit a token limit: pure, named, alone or in a chain."""

from arc_common.tokens.compression.base import Chain, Compression, CompressionStrategy
from arc_common.tokens.compression.dropping import (
    DropToolResults,
    PruneSystem,
    RollingWindow,
    ScorePruning,
    TokenPruning,
)
from arc_common.tokens.compression.registry import STRATEGIES, strategy
from arc_common.tokens.compression.shortening import ClearToolResults, Truncate, truncated
from arc_common.tokens.compression.summary import Summarize
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
