"""Whether a dense search on PostgreSQL compares all vectors that pass, or walks pgvector's HNSW graph. Pure.

The graph knows nothing of scopes and filters. The database's own choice for a filter that keeps 1 % of 100,000 vectors
is to walk it and to drop what does not pass: 4 of 10 results, most of them wrong ones. Comparing the 1,000 takes 1 ms.

Comparing takes as long as vectors pass, a walk as long as it is wide, and it is the wider the fewer pass. Both are
counted, and comparing, which misses nothing, is given up only where a walk is much the shorter.

How wide it must be depends on the vectors. Of the ten nearest of 100,000 × 384, a walk of 120 found all where they lie
in clusters, .98 of sentences by a sentence embedder, and .16 of random directions, where even one of 1,000, twice as
long as comparing all, found .60. So it is measured: see `Reach`.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

__all__ = [
    "FAR", "NEAR", "Graph", "Reach", "Walk", "index_ddl", "index_name", "indexed_as", "least_width", "walk_for",
]  # fmt: skip

NEAR, FAR = 10, 100
"""How many of the nearest are looked for when walks are measured."""

_WIDTHS = (120, 170, 240, 340, 480, 680, 1000)
"""Of the walks that are measured. The last is pgvector's limit."""

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

    Args:
        embedder: What its vectors came from.
        vectors: How many it had.
        density: The part of the graph that they were: 0 to 1.
        near: The `ef_search` that finds the ten nearest; `None` if none does.
        far: The same for the hundred nearest.
    """

    embedder: str | None = None
    vectors: int = 0
    density: float = 1.0
    near: int | None = None
    far: int | None = None

    def holds(self, embedder: str | None, vectors: int) -> bool:
        """Whether it still says something about a scope that now has so many vectors."""
        return self.embedder == embedder and self.vectors < vectors * _GROWTH and vectors < self.vectors * _GROWTH

    def width(self, depth: float) -> float | None:
        """The `ef_search` that finds so many of the nearest; `None` if none is known to."""
        if self.near is None or depth <= NEAR:
            return self.near
        if self.far is None or depth >= FAR:
            return None if self.far is None else self.far * depth / FAR
        return self.near + (self.far - self.near) * (depth - NEAR) / (FAR - NEAR)


@dataclass(frozen=True, slots=True)
class Walk:
    """How the graph is walked.

    Args:
        ef_search: How many vectors are looked at before the best of them are taken.
        precise: Whether the graph holds the vectors as they are, not at half their precision.
    """

    ef_search: int
    precise: bool = True

    @classmethod
    def in_graph(cls, dimension: int, ef_search: int) -> Self:
        """A walk of the graph of a dimension."""
        return cls(ef_search, precise=dimension <= _VECTOR)

    def looked_at(self, limit: int) -> int:
        """How many are to be compared at full precision, so that so many are the best."""
        return limit if self.precise else 2 * limit


def least_width(finds: Callable[[int], bool]) -> int | None:
    """The least `ef_search` that finds enough; `None` if none does.

    Args:
        finds: Whether walks of a width find enough. Wider ones are taken to find no less.
    """
    place = bisect_left(_WIDTHS, True, key=finds)
    return _WIDTHS[place] if place < len(_WIDTHS) else None


def walk_for(graph: Graph, reach: Reach, *, compared: int, vectors: int, share: float, limit: int) -> Walk | None:
    """How to walk the graph; `None` for comparing all vectors that pass.

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
        return None
    density = passing / max(graph.vectors, vectors)
    width = reach.width(limit * reach.density / density)
    if width is None or width > _WIDTHS[-1] or passing <= compared * width / _WIDTHS[0]:
        return None
    return Walk.in_graph(graph.dimension, round(width))


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
