"""Vectors in memory, searched by their cosine with another: exactly, by one product with all of them."""

import numpy as np
from numpy.typing import NDArray

from arc_common.ranking import cosines

__all__ = ["VectorTable"]

_BLOCK = 4096
"""Rows of a full block. Small enough that the unfilled part of the last one is nothing beside 100,000 vectors."""

_FIRST_BLOCK = 16

_ROUNDING = 1e-5
"""Far above that of a float32 product of unit vectors: rows so close to the last place may belong before it."""

_FEW = 0.1
"""Of the rows. So few are faster copied and multiplied than picked from the product with all of them."""


class VectorTable:
    """Rows of unit vectors of one dimension. Not thread-safe.

    - Vectors lie in blocks, so that growing copies nothing but a small first block, and nothing is held twice.
    - A search costs one float32 product with all vectors, or with those allowed if they are few.

    Args:
        embedder: The name of the embedder that made the vectors.
        dimension: Theirs.
    """

    def __init__(self, embedder: str, dimension: int) -> None:
        self.embedder = embedder
        self.dimension = dimension
        self._blocks: list[NDArray[np.float32]] = []
        self._there = np.zeros(_FIRST_BLOCK, dtype=np.bool_)
        self._size = 0
        self._count = 0

    @property
    def count(self) -> int:
        """How many rows have a vector."""
        return self._count

    def put(self, row: int, vector: NDArray[np.float32]) -> None:
        """Let a row have this vector (float32, of length 1)."""
        block, place = divmod(row, _BLOCK)
        while block >= len(self._blocks) or place >= len(self._blocks[block]):
            self._grow()
        if row >= len(self._there):
            self._there = np.concatenate([self._there, np.zeros(max(row, _FIRST_BLOCK), dtype=np.bool_)])
        self._blocks[block][place] = vector
        self._count += not self._there[row]
        self._there[row] = True
        self._size = max(self._size, row + 1)

    def remove(self, row: int) -> None:
        """Forget a row's vector, if it has one."""
        if row < self._size and self._there[row]:
            self._there[row] = False
            self._count -= 1

    def has(self, row: int) -> bool:
        """Whether a row has a vector."""
        return row < self._size and bool(self._there[row])

    def vector(self, row: int) -> NDArray[np.float32]:
        """A copy of a row's vector."""
        vector: NDArray[np.float32] = self._blocks[row // _BLOCK][row % _BLOCK].copy()
        return vector

    def best(
        self, vector: NDArray[np.float32], limit: int, *, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The rows nearest to a vector and their cosines: all rows, or the `limit` best with those about as near.

        Args:
            vector: Float32 of shape (dimension,) and length 1.
            limit: How many rows are wanted, at least one.
            allowed: Whether each row may be among them: of shape (n,); rows from n on may not. `None` for all.
        """
        if allowed is None and self._count == self._size:
            rows, scores = None, self._product(vector)
        else:
            eligible = self._there[: self._size].copy()
            if allowed is not None:
                shared = min(len(allowed), self._size)
                eligible[:shared] &= allowed[:shared]
                eligible[shared:] = False
            rows = np.flatnonzero(eligible)
            if len(rows) <= _FEW * self._size:
                scores = self._gather(rows) @ vector
            else:
                scores = self._product(vector)[rows]
        if limit < len(scores):
            last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            chosen = np.flatnonzero(scores >= last - _ROUNDING)
            rows = chosen if rows is None else rows[chosen]
        elif rows is None:
            rows = np.arange(self._size)
        exact = [cosines(self._gather(rows[i : i + _BLOCK]), vector) for i in range(0, len(rows), _BLOCK)]
        return rows, np.concatenate(exact) if exact else np.zeros(0)

    def _product(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        scores = np.empty(self._size, dtype=np.float32)
        for i, block in enumerate(self._blocks):
            start = i * _BLOCK
            size = min(len(block), self._size - start)
            np.dot(block[:size], vector, out=scores[start : start + size])
        return scores

    def _gather(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        gathered = np.empty((len(rows), self.dimension), dtype=np.float32)
        blocks = rows // _BLOCK
        for block in np.unique(blocks).tolist():
            mine = blocks == block
            gathered[mine] = self._blocks[block][rows[mine] % _BLOCK]
        return gathered

    def _grow(self) -> None:
        """Double a first block that is not full, else add a full one."""
        if self._blocks and len(self._blocks[-1]) < _BLOCK:
            last = self._blocks[-1]
            self._blocks[-1] = np.concatenate([last, np.zeros_like(last)])
        else:
            size = _BLOCK if self._blocks else _FIRST_BLOCK
            self._blocks.append(np.zeros((size, self.dimension), dtype=np.float32))
