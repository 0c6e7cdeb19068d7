"""Tokens by script and content, with coefficients fitted to real tokenizers."""

from collections.abc import Sequence

from arc_common.tokens.correction import Correction, UsageCorrection
from arc_common.tokens.heuristic import HeuristicTokenCounter

__all__ = ["CalibratedTokenCounter"]


class CalibratedTokenCounter:
    """Estimates tokens from a text's scripts and content, without a vocabulary and without I/O."""

    def __init__(self) -> None:
        self._usage = UsageCorrection()
        self._heuristic = HeuristicTokenCounter()

    @property
    def name(self) -> str:
        """`calibrated/1`."""
        return "calibrated/1"

    def count(self, text: str) -> int:
        """The tokens of one text; 0 for `""`."""
        return self._heuristic.count(text)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, in their order."""
        return [self.count(text) for text in texts]

    @property
    def correction(self) -> Correction:
        """The correction in use; `corrected` applies it to sums, `count` doesn't."""
        return self._usage.current

    def observe(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Note what a request was estimated at (raw) and what the provider reported for it."""
        self._usage.observe(estimated_tokens, reported_tokens)

    def adopt_correction(self) -> Correction:
        """Put what was learned to use; called when a summary is adopted, when the prompt changes anyway."""
        return self._usage.adopt()
