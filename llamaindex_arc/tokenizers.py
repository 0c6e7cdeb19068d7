"""LlamaIndex's tokenizer functions and arc's token counters, each as the other."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached

from arc_common.protocols import TokenCounter

_REMEMBERED = 2_048
"""Texts whose counts are kept: a window of a few hundred messages, several times over."""


class CounterAsTokenizer:
    """A token counter as what chat engines take the length of: a list with an item for each token."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def __call__(self, text: str) -> list[int]:
        """A list as long as the text has tokens."""
        return [0] * self._counter.count(text)


class TokenizerAsCounter:
    """A tokenizer function as a token counter that tokenizes each of the last 2,048 texts once."""

    name = "tokenizer_fn"

    def __init__(self, tokenizer_fn: Callable[[str], Sequence[Any]]) -> None:
        cache: LRUCache[Any, int] = LRUCache(_REMEMBERED)
        self._count = cached(cache, lock=Lock())(lambda text: len(tokenizer_fn(text)))

    def count(self, text: str) -> int:
        """The tokens of one text."""
        return self._count(text) if text else 0

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, in their order."""
        return list(map(self.count, texts))
