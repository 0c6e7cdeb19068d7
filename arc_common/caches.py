"""Bounded caches: one that no interrupt damages, and caches of texts that forget them when data is deleted."""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
P = ParamSpec("P")

_forget: list[Callable[[], None]] = []
_dropping: list[Callable[[], None]] = []


class _Reading(list[Callable[[], None]]):
    """The drops since some work began; a list that a weak reference can watch."""


_reading: dict[int, ref[_Reading]] = {}  # an interrupt may prevent a removal


@contextmanager
def reading_texts() -> Iterator[None]:
    """Mark work that may cache texts it has read: what `drop_texts` drops meanwhile is dropped again at its end."""
    dropped = _Reading()
    _reading[id(dropped)] = ref(dropped)  # first, so that no drop is missed between the two lines
    dropped += list(_dropping)
    try:
        yield
    finally:
        _reading.pop(id(dropped), None)
        for drop in dropped:
            drop()


def drop_texts(drop: Callable[[], None]) -> None:
    """Drop deleted texts from caches by calling `drop`, now and at the end of work that may put them back."""
    try:
        _dropping.append(drop)
        for reference in list(_reading.values()):  # at once: other threads continue
            if (dropped := reference()) is not None:
                dropped.append(drop)
        drop()
    finally:
        if drop in _dropping:
            _dropping.remove(drop)


os.register_at_fork(after_in_child=_reading.clear)  # no other thread's work continues there
os.register_at_fork(after_in_child=_dropping.clear)


class LRUCache(MutableMapping[K, V]):
    """Keeps the items used last, up to `maxsize` by their sizes (1 each by default); stays valid if interrupted."""

    def __init__(self, maxsize: float, getsizeof: Callable[[V], float] | None = None) -> None:
        self.maxsize = maxsize
        self._sizeof = getsizeof
        self._size = 0.0
        self._items: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        value = self._items[key]
        self._items.move_to_end(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        size = self._size_of(value)
        if size > self.maxsize:
            raise ValueError("value too large")
        before = self._items.get(key)
        self._items[key] = value
        self._items.move_to_end(key)
        self._size += size if before is None else size - self._size_of(before)
        if self._size > self.maxsize:  # deleted items are still counted
            self._size = sum(map(self._size_of, self._items.values()))
        while self._size > self.maxsize:
            self._size -= self._size_of(self._items.popitem(last=False)[1])

    def __delitem__(self, key: K) -> None:
        del self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._items))  # reading an item moves it

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size(self) -> float:
        """The sum of the items' sizes, and of those that were deleted since it last reached the limit."""
        return self._size

    def _size_of(self, value: V) -> float:
        return 1 if self._sizeof is None else self._sizeof(value)


def drop_session(kept: MutableMapping[Any, Any], key: Any) -> None:
    """Drop all branches of a session from a cache whose keys are `SessionKey`s."""
    for one in [one for one in kept if one.session == key.session]:
        del kept[one]


def text_hash(text: str) -> int:
    """Return a text's hash, as a key for caches that keep no text."""
    return hash(text) + len(text)  # "HÅU±" and "안녕" have the same bytes, and so the same hash


def cached_by_hash(most: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Cache a function's results for up to `most` texts by their hashes, so that no text is kept."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        known: dict[int, T] = {}

        @wraps(function)
        def find(text: str) -> T:
            key = hash(text) + len(text)  # `text_hash` written out: a turn would call it 450 times
            found = known.get(key)
            if found is None:
                found = function(text)
                if len(known) >= most:
                    known.clear()
                known[key] = found
            return found

        return find

    return decorate


def cached_text(most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache the last `most` results of a function of texts until `forget_texts` is called."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(most)(function)
        _forget.append(cached.cache_clear)
        return cast("Callable[P, T]", cached)

    return decorate


def forget_texts() -> None:
    """Empty the caches of all `cached_text` functions, because none may keep deleted text."""
    drop_texts(_empty)


def forget_with_texts(forget: Callable[[], None]) -> None:
    """Call a function that empties a cache whenever texts are deleted."""
    _forget.append(forget)


def _empty() -> None:
    for forget in _forget:
        forget()
