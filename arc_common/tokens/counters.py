"""The token counters, and which one the engine takes when none is given."""

from arc_common.protocols import TokenCounter
from arc_common.tokens.calibration import CalibratedTokenCounter
from arc_common.tokens.correction import Correction, corrected
from arc_common.tokens.heuristic import HeuristicTokenCounter
from arc_common.tokens.tiktoken_counter import TiktokenCounter

__all__ = [
    "CalibratedTokenCounter",
    "Correction",
    "HeuristicTokenCounter",
    "TiktokenCounter",
    "corrected",
    "default_token_counter",
]


def default_token_counter() -> TokenCounter:
    """A new `CalibratedTokenCounter`.

    It needs no file and no network, so a first use can neither hang nor warn; it suits models of every provider, which
    one OpenAI vocabulary does not; and it learns from the usage that the provider reports. Who wants exact counts for
    an OpenAI model passes `TiktokenCounter(model)`.
    """
    return CalibratedTokenCounter()
