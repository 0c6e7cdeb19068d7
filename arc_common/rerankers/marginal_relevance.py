"""Maximal marginal relevance (Carbonell & Goldstein 1998) over vectors or terms, similarities computed as needed."""

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from arc_common.exceptions import InvalidInputError
from arc_common.rerankers.base import check_share, check_top_k

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Similarities: TypeAlias = Callable[[int], NDArray[np.floating]]

__all__ = ["jaccard_mmr", "query_mmr", "vector_mmr"]

_BLOCK = 32
"""Candidates that are compared anew at once. Of 1,000 with normally distributed vectors, which are the least alike, 30
are for each one taken, on average: 24 to 48 at once took the same time."""

_FEW = 500
"""Candidates that are all compared with each one taken: to read so many costs less than to choose among them."""

_LEAST_SQUARE = {4: 1e-24, 8: 1e-276}
"""By the bytes of a number: of a smaller square, not all digits are there."""


def vector_mmr(
    relevance: "ArrayLike", vectors: "ArrayLike | Sequence[ArrayLike]", *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Maximal marginal relevance over vectors, by cosine.

    Args:
        relevance: Of each document to the query, shape (N,).
        vectors: Shape (N, dimension), of any lengths; a vector of zeros is similar to none.
        top_k: How many to take at most.
        trade_off: λ.

    Returns:
        The place and the marginal relevance of each document taken, in the order taken; of equal ones the earlier.

    Raises:
        InvalidInputError: Vectors differ in dimension, or a number is not finite.
    """
    cosines = _Cosines(vectors)
    return _lazily_taken(_gains(relevance, len(cosines.rows), top_k, trade_off), cosines, top_k, 1 - trade_off)


def query_mmr(
    query_vector: "ArrayLike", vectors: "ArrayLike | Sequence[ArrayLike]", *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Maximal marginal relevance where relevance is the cosine to the query; else as `vector_mmr`."""
    cosines = _Cosines(vectors)
    relevance = cosines.to_query(query_vector) if len(cosines.rows) else ()
    return _lazily_taken(_gains(relevance, len(cosines.rows), top_k, trade_off), cosines, top_k, 1 - trade_off)


def jaccard_mmr(
    relevance: "ArrayLike", term_sets: Sequence[Collection[str]], *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Maximal marginal relevance over sets of terms, by Jaccard's similarity; else as `vector_mmr`.

    Args:
        relevance: Of each document to the query, shape (N,).
        term_sets: The different terms of each document.
        top_k: How many to take at most.
        trade_off: λ.
    """
    import numpy as np  # noqa: PLC0415 - a tenth of a second that importing arc must not cost

    numbers: dict[str, int] = {}
    try:
        sizes = np.array([len(terms) for terms in term_sets], dtype=np.int64)
        columns = np.fromiter(
            (numbers.setdefault(term, len(numbers)) for term in chain.from_iterable(term_sets)), dtype=np.int64
        )
    except TypeError as error:
        raise InvalidInputError("term_sets", term_sets, "the terms of each document") from error
    if len(columns) != sizes.sum():
        raise InvalidInputError("term_sets", term_sets, "the terms of each document, to be read twice")
    rows = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.concatenate(([0], np.cumsum(sizes)))

    def similarities(place: int) -> "NDArray[np.floating]":
        is_own = np.zeros(len(numbers), dtype=bool)
        is_own[columns[starts[place] : starts[place + 1]]] = True
        shared = np.bincount(rows[is_own[columns]], minlength=len(sizes))
        jaccard: NDArray[np.floating] = shared / np.maximum(sizes + sizes[place] - shared, 1)
        return jaccard

    return _taken(_gains(relevance, len(sizes), top_k, trade_off), similarities, top_k, 1 - trade_off)


def _gains(relevance: "ArrayLike", count: int, top_k: int, trade_off: float) -> "NDArray[np.float64]":
    """What each of the candidates adds before any is taken, all values checked."""
    import numpy as np  # noqa: PLC0415

    check_top_k(top_k)
    check_share("trade_off", trade_off)
    try:
        numbers = np.asarray(relevance, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError("relevance", relevance, "finite numbers") from error
    if len(numbers) != count:
        raise InvalidInputError("relevance", len(numbers), f"one number for each of {count} documents")
    if not np.isfinite(numbers).all():
        raise InvalidInputError("relevance", relevance, "finite numbers")
    gains: NDArray[np.float64] = trade_off * numbers
    return gains


def _taken(
    gains: "NDArray[np.float64]", similarities: "Similarities", top_k: int, weight: float
) -> list[tuple[int, float]]:
    """The greedy choice. What each candidate adds beside those taken is kept up to date with every one of them."""
    import numpy as np  # noqa: PLC0415

    marginal = gains
    taken: list[tuple[int, float]] = []
    while len(taken) < min(top_k, len(gains)):
        if taken:
            last = taken[-1][0]
            beside = gains - weight * similarities(last)
            marginal = beside if len(taken) == 1 else np.minimum(marginal, beside, out=marginal)
            marginal[last] = -np.inf
        place = int(np.argmax(marginal))
        taken.append((place, float(marginal[place])))
    return taken


def _lazily_taken(
    gains: "NDArray[np.float64]", cosines: "_Cosines", top_k: int, weight: float
) -> list[tuple[int, float]]:
    """The same choice by fewer comparisons (lazy greedy: Minoux 1978), each of which costs reading a vector.

    What a candidate adds beside the first one taken can only fall with those taken later: what it added when it was
    last compared is the most that it can add. So the best are compared anew until one stays the best. A cosine is the
    same in any company, so the choice is the same to the last bit.
    """
    import numpy as np  # noqa: PLC0415

    if len(gains) <= _FEW:
        return _taken(gains, cosines.to_row, top_k, weight)
    wanted = min(top_k, len(gains))
    first = int(np.argmax(gains))
    taken = [(first, float(gains[first]))]
    bounds = gains - weight * cosines.to_row(first)
    bounds[first] = -np.inf
    compared = np.ones(len(gains), dtype=np.intp)  # with how many of those taken
    units = np.empty((wanted, cosines.rows.shape[1]), dtype=cosines.rows.dtype)
    block = _BLOCK
    while len(taken) < wanted:
        best = int(np.argmax(bounds))
        if compared[best] == len(taken):
            units[len(taken)] = cosines.unit(best)
            taken.append((best, float(bounds[best])))
            bounds[best] = -np.inf
            block = _BLOCK
            continue
        some: NDArray[np.intp] | slice = slice(None)
        if 2 * block < len(gains):  # comparing more than half of them where they are costs less than gathering them
            some = np.argpartition(bounds, -block)[-block:]
            some[0] = best  # in place of the least of the block: of equal ones, it may be outside
        since = units[int(compared[some].min()) : len(taken)]
        bounds[some] = np.minimum(bounds[some], gains[some] - weight * cosines.nearest(since, some))
        compared[some] = len(taken)
        block *= 2
    return taken


class _Cosines:
    """Vectors that are compared with each other and with a query, at any lengths; one of zeros is similar to none.

    - Computed in the precision of an array of float32 or float64, else in float32, without a copy: reading the vectors
      is what it costs.
    - A cosine depends on the two vectors alone, which that of a product of matrices does not: equal ones stay equal.

    Raises:
        InvalidInputError: The vectors differ in dimension, or a number is not finite.
    """

    def __init__(self, vectors: "ArrayLike | Sequence[ArrayLike]") -> None:
        import numpy as np  # noqa: PLC0415

        rows = _as_floats("vectors", vectors)
        rows = rows.reshape(0, 0) if rows.shape == (0,) else rows
        if rows.ndim != 2:
            raise InvalidInputError("vectors", vectors, "one vector for each document")
        self.rows, self._scale = _with_scale(rows)
        if not np.isfinite(self._scale).all():
            raise InvalidInputError("vectors", vectors, "finite numbers")

    def unit(self, place: int) -> "NDArray[np.floating]":
        """One of the vectors, at length 1."""
        vector: NDArray[np.floating] = self.rows[place] * self._scale[place]
        return vector

    def to_row(self, place: int) -> "NDArray[np.floating]":
        """The cosine of each vector and one of them."""
        cosines: NDArray[np.floating] = _products(self.unit(place), self.rows) * self._scale
        return cosines

    def nearest(self, units: "NDArray[np.floating]", some: "NDArray[np.intp] | slice") -> "NDArray[np.floating]":
        """The highest cosine of each of some vectors and a vector of length 1."""
        cosines: NDArray[np.floating] = _products(units[:, None], self.rows[some]).max(axis=0) * self._scale[some]
        return cosines

    def to_query(self, query: "ArrayLike") -> "NDArray[np.floating]":
        """The cosine of each vector and the query's."""
        import numpy as np  # noqa: PLC0415

        vector, scale = _with_scale(_as_floats("query_vector", query, self.rows.dtype).reshape(1, -1))
        if vector.shape[1] != self.rows.shape[1] or not np.isfinite(scale).all():
            raise InvalidInputError("query_vector", query, f"{self.rows.shape[1]} finite numbers")
        cosines: NDArray[np.floating] = _products(vector[0] * scale, self.rows) * self._scale
        return cosines


def _products(vectors: "NDArray[np.floating]", rows: "NDArray[np.floating]") -> "NDArray[np.floating]":
    """The product of each pair of vectors, in one order of summing up whatever the others are.

    A product of a matrix and a vector takes a tenth less time, but sums up by the row's place; `einsum` takes two
    thirds more.
    """
    import numpy as np  # noqa: PLC0415

    if hasattr(np, "vecdot"):  # numpy 2
        products: NDArray[np.floating] = np.vecdot(vectors, rows)
    else:
        products = (vectors[..., None, :] @ rows[..., None])[..., 0, 0]
    return products


def _with_scale(rows: "NDArray[np.floating]") -> "tuple[NDArray[np.floating], NDArray[np.floating]]":
    """The rows, and what each has to be multiplied with to be of length 1: 0 if it is zero, NaN if it is not finite.

    Rows whose squares are too small to be exact come multiplied by a power of two.
    """
    import numpy as np  # noqa: PLC0415

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = _products(rows, rows)
        if len(rows) and _LEAST_SQUARE[rows.itemsize] <= squares.min() and squares.max() < np.inf:
            return rows, 1 / np.sqrt(squares)
        small = np.flatnonzero(squares < _LEAST_SQUARE[rows.itemsize])
        if rows[small].any():
            rows = rows.copy()
            rows[small] = np.ldexp(rows[small], -np.frexp(np.abs(rows[small]).max(axis=1, keepdims=True))[1])
            squares[small] = _products(rows[small], rows[small])
        squares[squares == np.inf] = np.nan
        return rows, np.divide(1, np.sqrt(squares), out=squares, where=squares != 0)


def _as_floats(
    field: str, vectors: "ArrayLike | Sequence[ArrayLike]", dtype: "np.dtype[Any] | None" = None
) -> "NDArray[np.floating]":
    import numpy as np  # noqa: PLC0415

    if dtype is None:
        dtype = np.dtype(np.float64 if getattr(vectors, "dtype", None) == np.float64 else np.float32)
    try:
        with np.errstate(over="ignore"):  # what is too large is infinite, and told to be so
            return np.asarray(vectors, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(field, vectors, "numbers, as many for each document") from error
