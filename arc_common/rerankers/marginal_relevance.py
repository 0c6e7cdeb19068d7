"""Maximal marginal relevance (Carbonell & Goldstein 1998) over vectors or terms, each similarity computed once."""

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from arc_common.exceptions import InvalidInputError
from arc_common.rerankers.ranking import check_share, check_top_k

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Similarities = Callable[[int], NDArray[np.floating]]

__all__ = ["jaccard_mmr", "query_mmr", "vector_mmr"]


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
        The place and the marginal relevance of each document taken, in the order taken.

    Raises:
        InvalidInputError: Vectors differ in dimension, or a number is not finite.
    """
    cosines = _Cosines(vectors)
    return _taken(relevance, cosines.to_row, len(cosines.rows), top_k, trade_off)


def query_mmr(
    query_vector: "ArrayLike", vectors: "ArrayLike | Sequence[ArrayLike]", *, top_k: int, trade_off: float = 0.5
) -> list[tuple[int, float]]:
    """Maximal marginal relevance where relevance is the cosine to the query; else as `vector_mmr`."""
    cosines = _Cosines(vectors)
    relevance = cosines.to_query(query_vector) if len(cosines.rows) else ()
    return _taken(relevance, cosines.to_row, len(cosines.rows), top_k, trade_off)


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
    columns = np.fromiter(
        (numbers.setdefault(term, len(numbers)) for term in chain.from_iterable(term_sets)), dtype=np.int64
    )
    sizes = np.array([len(terms) for terms in term_sets], dtype=np.int64)
    rows = np.repeat(np.arange(len(term_sets)), sizes)
    starts = np.concatenate(([0], np.cumsum(sizes)))

    def similarities(place: int) -> "NDArray[np.floating]":
        is_own = np.zeros(len(numbers), dtype=bool)
        is_own[columns[starts[place] : starts[place + 1]]] = True
        shared = np.bincount(rows[is_own[columns]], minlength=len(sizes))
        jaccard: NDArray[np.floating] = shared / np.maximum(sizes + sizes[place] - shared, 1)
        return jaccard

    return _taken(relevance, similarities, len(sizes), top_k, trade_off)


def _taken(
    relevance: "ArrayLike", similarities: "Similarities", count: int, top_k: int, trade_off: float
) -> list[tuple[int, float]]:
    """The greedy choice. What each candidate adds beside those taken is kept up to date with every one of them."""
    import numpy as np  # noqa: PLC0415

    check_top_k(top_k)
    check_share("trade_off", trade_off)
    gains = trade_off * np.asarray(relevance, dtype=np.float64).reshape(-1)
    if len(gains) != count:
        raise InvalidInputError("relevance", len(gains), f"one number for each of {count} documents")
    if not np.isfinite(gains).all():
        raise InvalidInputError("relevance", relevance, "finite numbers")
    marginal = gains
    taken: list[tuple[int, float]] = []
    while len(taken) < min(top_k, count):
        if taken:
            last = taken[-1][0]
            beside = gains - (1 - trade_off) * similarities(last)
            marginal = beside if len(taken) == 1 else np.minimum(marginal, beside, out=marginal)
            marginal[last] = -np.inf
        place = int(np.argmax(marginal))
        taken.append((place, float(marginal[place])))
    return taken


class _Cosines:
    """Vectors that are compared with each other and with a query, at any lengths; one of zeros is similar to none.

    Computed in the precision of an array of float32 or float64, else in float32, without a copy: reading the vectors is
    what it costs.

    Raises:
        InvalidInputError: The vectors differ in dimension, or a number is not finite.
    """

    def __init__(self, vectors: "ArrayLike | Sequence[ArrayLike]") -> None:
        import numpy as np  # noqa: PLC0415

        rows = _as_floats("vectors", vectors)
        self.rows = rows.reshape(0, 0) if rows.shape == (0,) else rows
        if self.rows.ndim != 2:
            raise InvalidInputError("vectors", vectors, "one vector for each document")
        with np.errstate(over="ignore", invalid="ignore"):
            # a product of matrices for each row: `einsum` takes half as long again, `norm` three times
            lengths = np.sqrt(self.rows[:, None, :] @ self.rows[:, :, None])[:, 0, 0]
        if not np.isfinite(lengths).all():
            raise InvalidInputError("vectors", vectors, "finite numbers")
        self._scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)

    def to_row(self, place: int) -> "NDArray[np.floating]":
        """The cosine of each vector and one of them."""
        cosines: NDArray[np.floating] = (self.rows @ self.rows[place]) * (self._scale * self._scale[place])
        return cosines

    def to_query(self, query: "ArrayLike") -> "NDArray[np.floating]":
        """The cosine of each vector and the query's."""
        import numpy as np  # noqa: PLC0415

        vector = _as_floats("query_vector", query).astype(self.rows.dtype, copy=False).reshape(-1)
        length = float(np.linalg.norm(vector))
        if len(vector) != self.rows.shape[1] or not np.isfinite(length):
            raise InvalidInputError("query_vector", query, f"{self.rows.shape[1]} finite numbers")
        cosines: NDArray[np.floating] = (self.rows @ vector) * (self._scale / length if length else 0 * self._scale)
        return cosines


def _as_floats(field: str, vectors: "ArrayLike | Sequence[ArrayLike]") -> "NDArray[np.floating]":
    import numpy as np  # noqa: PLC0415

    if isinstance(vectors, np.ndarray) and vectors.dtype == np.float64:
        return vectors
    try:
        with np.errstate(over="ignore"):  # what is too large is infinite, and told to be so
            return np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(field, vectors, "numbers, as many for each document") from error
