"""Whether a dense search on PostgreSQL compares all vectors that pass, or walks pgvector's HNSW graph. Pure.

The graph knows nothing of scopes and filters. The database's own choice for a filter that keeps 1 % of 100,000 vectors
is to walk it and to drop what does not pass: 4 of 10 results, most of them wrong ones. Comparing the 1,000 takes 1 ms.

Comparing takes as long as vectors pass, a walk as long as it is wide, and it is the wider the fewer pass. Both are
counted, and comparing, which misses nothing, is given up only where a walk is much the shorter.

How wide it must be depends on the vectors. Of the ten nearest of 100,000 × 384, a walk of 120 found all where they lie
in clusters, .99 of sentences by a sentence embedder, and .16 of random directions, where even one of 1,000, twice as
long as comparing all, found .60. So it is measured: see `Reach`. And it depends on the question: of one about things to
which nothing stored is near, the walk among the sentences found .97. What it finds is not as near then, which tells
that another, wider one is called for.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Self

__all__ = [
    "DEPTHS", "WIDEST", "Graph", "Reach", "Walk", "index_ddl", "index_name", "indexed_as", "least_width", "walks_for",
]  # fmt: skip

DEPTHS = (10, 50, 100)
"""How many of the nearest are looked for when walks are measured."""

_UNKNOWN = (nan,) * len(DEPTHS)

WIDEST = 1000
"""The greatest `ef_search` that pgvector takes."""

_WIDTHS = (120, 170, 240, 340, 480, 680, WIDEST)
"""Of the walks that are measured."""

_GROWTH = 1.5
"""A scope is measured again when it has so many times as many vectors, or is as much smaller."""

_VECTOR = 2000
_HALF = 4000
"""The most dimensions of pgvector's graphs, of full and of half precision."""


@dataclass(frozen=True, slots=True)
class Graph:
    """An HNSW index.

    Args:
        dimension: Of its vectors.
        vectors: About how many it has, of all scopes.
    """

    dimension: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Reach:
    """How wide walks have to be in a scope, as measured; without arguments, not yet.

    What was measured is given for each of `DEPTHS`.

    Args:
        embedder: What its vectors came from.
        vectors: How many it had.
        density: The part of the graph that they were: 0 to 1.
        near: The `ef_search` that finds the nearest for questions near what is stored; NaN if none does.
        aside: The same for questions that lie aside of it.
        cosines: Where the last one found is less near than that, a question is taken to lie aside.
    """

    embedder: str | None = None
    vectors: int = 0
    density: float = 1.0
    near: Sequence[float] = _UNKNOWN
    aside: Sequence[float] = _UNKNOWN
    cosines: Sequence[float] = _UNKNOWN

    def holds(self, embedder: str | None, vectors: int) -> bool:
        """Whether it still says something about a scope that now has so many vectors."""
        return self.embedder == embedder and self.vectors < vectors * _GROWTH and vectors < self.vectors * _GROWTH


@dataclass(frozen=True, slots=True)
class Walk:
    """How the graph is walked.

    Args:
        ef_search: How many vectors are looked at before the best of them are taken.
        precise: Whether the graph holds the vectors as they are, not at half their precision.
        cosine: If the last one found is less near, another search has to be made.
    """

    ef_search: int
    precise: bool = True
    cosine: float = -1.0

    @classmethod
    def in_graph(cls, dimension: int, ef_search: float, *, cosine: float = -1.0) -> Self:
        """A walk of the graph of a dimension."""
        return cls(round(ef_search), precise=dimension <= _VECTOR, cosine=cosine)

    def looked_at(self, limit: int) -> int:
        """How many are to be compared at full precision, so that so many are the best."""
        return limit if self.precise else 2 * limit


def least_width(finds: Callable[[int], bool]) -> float:
    """The least `ef_search` that finds enough; NaN if none does.

    Args:
        finds: Whether walks of a width find enough. Wider ones are taken to find no less.
    """
    place = bisect_left(_WIDTHS, True, key=finds)
    return float(_WIDTHS[place]) if place < len(_WIDTHS) else nan


def walks_for(graph: Graph, reach: Reach, *, compared: int, vectors: int, share: float, limit: int) -> list[Walk]:
    """How to walk the graph, and how if that does not find enough; then, all vectors that pass are to be compared.

    Args:
        graph: The one of the dimension.
        reach: How wide walks have to be where all pass.
        compared: So many vectors are compared rather than found by the shortest walk; rather than by one twice as wide,
            twice as many.
        vectors: How many the scope has.
        share: Of them, how many pass the filter: 0 to 1.
        limit: How many are wanted.
    """
    passing = vectors * share
    if passing <= compared:
        return []
    depth = limit * reach.density * max(graph.vectors, vectors) / passing
    deeper = max(1.0, depth / DEPTHS[-1])
    near, aside = _at(depth, reach.near) * deeper, _at(depth, reach.aside) * deeper
    widths = {near: -1.0} if aside <= near else {near: _at(depth, reach.cosines), aside: -1.0}
    return [
        Walk.in_graph(graph.dimension, width, cosine=cosine)
        for width, cosine in widths.items()
        if width <= WIDEST and compared * width < passing * _WIDTHS[0]
    ]


def _at(depth: float, measured: Sequence[float]) -> float:
    """What was measured for a depth, or between those that are next to it."""
    place = bisect_left(DEPTHS, depth)
    if place in (0, len(DEPTHS)):
        return measured[min(place, len(DEPTHS) - 1)]
    before, behind = DEPTHS[place - 1], DEPTHS[place]
    part = (depth - before) / (behind - before)
    return measured[place - 1] * (1 - part) + measured[place] * part


def index_name(dimension: int) -> str:
    """The graph's name."""
    return f"arc_index_vectors_hnsw_{dimension}"


def indexed_as(dimension: int) -> str | None:
    """The type that a graph holds vectors as; `None` if there is no graph for so many dimensions."""
    if dimension > _HALF:
        return None
    return f"vector({dimension})" if dimension <= _VECTOR else f"halfvec({dimension})"


def index_ddl(dimension: int) -> str:
    """The statement that makes the graph."""
    operators = "vector_ip_ops" if dimension <= _VECTOR else "halfvec_ip_ops"
    return (
        f"CREATE INDEX IF NOT EXISTS {index_name(dimension)} ON arc_index_vectors "
        f"USING hnsw (CAST(vector AS {indexed_as(dimension)}) {operators}) WHERE vector_dims(vector) = {dimension}"
    )
