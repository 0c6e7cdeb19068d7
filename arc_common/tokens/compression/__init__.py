"""Ways to make a conversation fit that does not: each pure, each by a name, alone or in a chain."""

from arc_common.tokens.compression.base import Changed, Compression, CompressionStrategy
from arc_common.tokens.compression.chain import Chain
from arc_common.tokens.compression.clear_tool_results import ClearToolResults
from arc_common.tokens.compression.dropping import DropToolResults
from arc_common.tokens.compression.prune_system import PruneSystem
from arc_common.tokens.compression.registry import STRATEGIES, strategy
from arc_common.tokens.compression.rolling_window import RollingWindow
from arc_common.tokens.compression.score_pruning import ScorePruning
from arc_common.tokens.compression.summary import Summarize
from arc_common.tokens.compression.token_pruning import TokenPruning
from arc_common.tokens.compression.truncate import Truncate
from arc_common.tokens.compression.truncation import truncated

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
