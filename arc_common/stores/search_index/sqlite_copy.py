"""What a process keeps of SQLite's index between searches: of each scope the lengths and the vectors of its entries.

A search reads the scope's row and what has changed since the last one, whichever process changed it.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from arc_common.retrieval.vectors import VectorTable

__all__ = ["Copies", "ScopeCopy"]

_MASKS = 8
"""Filters whose answers are kept until an entry changes."""

_SMALL = 2**20
"""Bytes. Smaller copies are counted as if they had these: so many there may be at most."""


class ScopeCopy:
    """The entries of one scope by place: the order of their rows. Used by one thread at a time.

    - Rows have ascending numbers, and a new row a higher one than all before: places stay.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.reset(scope_id=0)

    def reset(self, *, scope_id: int) -> None:
        """Begin anew, with another scope's row."""
        self.scope_id = scope_id
        self.version = 0
        self.rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.lengths: NDArray[np.float64] = np.zeros(0)
        self.there: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.vectors: VectorTable | None = None
        self.vectors_version = 0
        self._masks: OrderedDict[str, NDArray[np.bool_]] = OrderedDict()

    @property
    def is_hollow(self) -> bool:
        """Whether most of its places are empty, because their rows are gone."""
        return len(self.rows) > 2 * self.count + 1000

    @property
    def count(self) -> int:
        """How many entries there are."""
        return int(np.count_nonzero(self.there))

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        vectors = 0 if self.vectors is None else len(self.rows) * self.vectors.dimension * 4
        return max(_SMALL, len(self.rows) * (17 + len(self._masks)) + vectors)

    def take(self, rows: NDArray[np.int64], lengths: NDArray[np.float64]) -> None:
        """Take rows that are new or have changed."""
        if not len(rows):
            return
        order = np.argsort(rows)
        rows, lengths = rows[order], lengths[order]
        new = rows > (self.rows[-1] if len(self.rows) else -1)
        known = self.places(rows[~new])
        self.lengths[known] = lengths[~new]
        self.rows = np.concatenate([self.rows, rows[new]])
        self.lengths = np.concatenate([self.lengths, lengths[new]])
        self.there = np.concatenate([self.there, np.ones(int(new.sum()), dtype=np.bool_)])

    def keep_only(self, rows: NDArray[np.int64]) -> None:
        """Forget the rows that are not among these."""
        there = np.zeros(len(self.rows), dtype=np.bool_)
        there[self.places(rows)] = True
        for place in np.flatnonzero(self.there & ~there).tolist():
            if self.vectors is not None:
                self.vectors.remove(place)
        self.there = there

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        """Where rows are that it has."""
        return np.searchsorted(self.rows, rows)

    def found(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where rows are, and whether each of them is there at all."""
        if not len(self.rows):
            return np.zeros(len(rows), dtype=np.intp), np.zeros(len(rows), dtype=np.bool_)
        places = np.minimum(self.places(rows), len(self.rows) - 1)
        return places, (self.rows[places] == rows) & self.there[places]

    def mask(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each place has one of the rows."""
        places, there = self.found(rows)
        mask = np.zeros(len(self.rows), dtype=np.bool_)
        mask[places[there]] = True
        return mask

    def remembered(self, name: str) -> NDArray[np.bool_] | None:
        """A filter's answer, if it was asked since the last change."""
        return self._masks.get(name)

    def remember(self, name: str, mask: NDArray[np.bool_]) -> None:
        """Keep a filter's answer."""
        self._masks[name] = mask
        if len(self._masks) > _MASKS:
            self._masks.popitem(last=False)

    def forget_masks(self) -> None:
        """Give up the filters' answers, because something has changed."""
        self._masks.clear()


class Copies:
    """The copies of the scopes that were searched last, for as many bytes as allowed.

    - A scope is searched by one thread at a time, different ones at once.
    - A forked child begins with none: another thread may have been changing one.

    Args:
        most_bytes: Beyond which the scopes that were unused for longest are forgotten.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._reset()

    @property
    def most_bytes(self) -> int:
        """How much they may take."""
        return self._most_bytes

    @contextmanager
    def of(self, key: tuple[str, ...]) -> Iterator[ScopeCopy]:
        """The copy of a scope, for one thread."""
        if self._process != os.getpid():
            self._reset()
        with self._lock:
            copy = self._copies.pop(key, None) or ScopeCopy()
            self._copies[key] = copy
        with copy.lock:
            try:
                yield copy
            except BaseException:  # an interrupt may have left a change half made
                copy.reset(scope_id=0)
                raise
        with self._lock:
            if self._copies.get(key) is copy:
                self._sizes[key] = copy.size
            total = sum(self._sizes.values())
            while total > self._most_bytes and len(self._copies) > 1:
                oldest, _ = self._copies.popitem(last=False)
                total -= self._sizes.pop(oldest, 0)

    def clear(self) -> None:
        """Forget all."""
        self._reset()

    def _reset(self) -> None:
        self._lock = Lock()
        self._copies: OrderedDict[tuple[str, ...], ScopeCopy] = OrderedDict()
        self._sizes: dict[tuple[str, ...], int] = {}
        self._process = os.getpid()
