"""Bounded caches: one that no interrupt damages, and caches of texts that forget them when data is deleted."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
P = ParamSpec("P")

_forget: list[Callable[[], None]] = []


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


def cached_by_hash(most: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Cache a function's results for up to `most` texts by their hashes, so that no text is kept."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        known: dict[int, T] = {}

        @wraps(function)
        def find(text: str) -> T:
            key = hash(text) + len(text)  # "HÅU±" and "안녕" have the same bytes, and so the same hash
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
    for forget in _forget:
        forget()
