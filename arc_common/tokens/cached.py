"""A counter that remembers what it counted: system prompts, facts and tools come again on every turn."""

from collections.abc import Sequence
from threading import Lock

from cachetools import LRUCache

from arc_common.protocols import TokenCounter
from arc_common.tokens.budget import stated_error
from arc_common.tokens.correction import Correcting, Correction

__all__ = ["CachedTokenCounter"]

_MOST_CHARACTERS = 4_000_000
"""Of the texts remembered, together: some eight megabytes."""


class CachedTokenCounter:
    """Counts as another counter does, each text once as long as it is remembered. Thread-safe.

    Raw counts, as the other's; its correction shows through, and learning is left to it.

    Args:
        counter: The other counter.
        max_characters: The most characters of text that are remembered; the least recently counted leave.
    """

    def __init__(self, counter: TokenCounter, *, max_characters: int = _MOST_CHARACTERS) -> None:
        self._counter = counter
        self._lock = Lock()
        self._counts: LRUCache[str, tuple[int, int]] = LRUCache(max_characters, getsizeof=lambda known: known[1])

    @property
    def name(self) -> str:
        """The other counter's."""
        return self._counter.name

    @property
    def correction(self) -> Correction:
        """The correction that the other has in use, if it has one."""
        return self._counter.correction if isinstance(self._counter, Correcting) else Correction()

    @property
    def relative_error(self) -> float:
        """The wrapped counter's error; 0.0 if it states none."""
        return stated_error(self._counter)

    def count(self, text: str) -> int:
        """The tokens of one text; 0 for `""`."""
        return self.count_batch((text,))[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, in their order."""
        with self._lock:
            known = {text: self._counts[text][0] for text in texts if text in self._counts}
        new = list(dict.fromkeys(text for text in texts if text not in known))
        if new:
            known.update(zip(new, self._counter.count_batch(new), strict=True))
            with self._lock:
                for text in new:
                    if len(text) <= self._counts.maxsize:
                        self._counts[text] = known[text], len(text)
        return [known[text] for text in texts]
