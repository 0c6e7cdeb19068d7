"""Converts LlamaIndex's tokenizer functions to arc's token counters, and back."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached

from arc_common.protocols import TokenCounter

_REMEMBERED = 2_048
"""The number of texts whose counts are kept: several windows of a few hundred messages."""


class CounterAsTokenizer:
    """A token counter as a tokenizer function: chat engines only take the length of its result."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def __call__(self, text: str) -> list[int]:
        """Return a list with one item for each token of the text."""
        return [0] * self._counter.count(text)


class TokenizerAsCounter:
    """A tokenizer function as a token counter that tokenizes each of the last 2,048 texts once."""

    name = "tokenizer_fn"

    def __init__(self, tokenizer_fn: Callable[[str], Sequence[Any]]) -> None:
        cache: LRUCache[Any, int] = LRUCache(_REMEMBERED)
        self._count = cached(cache, lock=Lock())(lambda text: len(tokenizer_fn(text)))

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        return self._count(text) if text else 0

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in the order of the texts."""
        return list(map(self.count, texts))
