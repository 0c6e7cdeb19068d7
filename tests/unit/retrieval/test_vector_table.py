"""The vector table after any history of changes, and its memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.protocols.search_index import unit_vector
from arc_common.retrieval.vectors import VectorTable

vectors = st.lists(st.integers(-2, 2), min_size=2, max_size=2).filter(any)
changes = st.lists(st.tuples(st.integers(0, 40), st.one_of(st.none(), vectors)), max_size=40)


@given(changes=changes, query=vectors, limit=st.integers(1, 9), allowed=st.none() | st.sets(st.integers(0, 40)))
def test_the_nearest_are_found_after_any_changes(
    changes: list[tuple[int, list[int] | None]], query: list[int], limit: int, allowed: set[int] | None
) -> None:
    """The result is the best `limit` of the allowed rows, and any as near as the last."""
    table, left = VectorTable(2), {}
    for row, vector in changes:
        if vector is None:
            table.remove(row)
            left.pop(row, None)
        else:
            left[row] = unit_vector("v", [float(x) for x in vector])
            table.put(row, left[row])
    mask = None
    if allowed is not None:
        mask = np.zeros(max(allowed, default=0) + 1, dtype=np.bool_)
        mask[list(allowed)] = True
    asked = unit_vector("q", [float(x) for x in query])
    rows, cosines = table.best(asked, limit, allowed=mask)
    expected = {row: float(v @ asked) for row, v in left.items() if allowed is None or row in allowed}
    last = sorted(expected.values(), reverse=True)[:limit][-1:] or [0]
    assert set(rows.tolist()) == {row for row, cosine in expected.items() if cosine >= last[0] - 1e-4}
    assert np.allclose([expected[row] for row in rows.tolist()], cosines, atol=1e-6)


def test_a_search_leaves_what_another_found() -> None:
    """Results are copies, although the table reuses its buffer for scores."""
    table = VectorTable(2)
    for row in range(300):
        table.put(row, unit_vector("v", [float(row + 1), 1.0]))
    rows, cosines = table.best(unit_vector("q", [1.0, 0.0]), 3, allowed=None)
    kept = rows.tolist(), cosines.tolist()
    table.best(unit_vector("q", [0.0, 1.0]), 300, allowed=None)
    table.put(400, unit_vector("v", [1.0, 0.0]))
    table.best(unit_vector("q", [-1.0, 0.0]), 5, allowed=np.ones(401, dtype=np.bool_))
    assert (rows.tolist(), cosines.tolist()) == kept


@pytest.mark.parametrize("is_sorted", [True, False])
@given(count=st.integers(1, 1_000), limit=st.integers(1, 40), levels=st.integers(1, 60), seed=st.integers(0, 2**32 - 1))
def test_all_that_are_as_near_as_the_last_are_found(
    count: int, limit: int, levels: int, seed: int, is_sorted: bool
) -> None:
    """Their places and their number don't matter."""
    slopes = np.random.default_rng(seed).integers(0, levels, count)
    table = VectorTable(2)
    for row, slope in enumerate(sorted(slopes) if is_sorted else slopes):
        table.put(row, unit_vector("v", [1.0, float(slope)]))
    rows, _ = table.best(unit_vector("q", [1.0, 0.0]), limit, allowed=None)
    placed = np.sort(slopes) if is_sorted else slopes
    last = np.sort(slopes)[min(limit, count) - 1]
    assert sorted(rows.tolist()) == np.flatnonzero(placed <= last).tolist()


def test_it_holds_little_more_than_its_vectors() -> None:
    """A grown table has an eighth of spare capacity and finds all its vectors."""
    vectors = [unit_vector("v", [1, row, 0, 0]) for row in range(4_500)]
    tracemalloc.start()
    table = VectorTable(4)
    before = tracemalloc.get_traced_memory()[0]
    for row, vector in enumerate(vectors):
        table.put(row, vector)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert held <= 4 * 4 * 4_500 * 1.2 + 20_000
    rows, cosines = table.best(unit_vector("q", [1, 0, 0, 0]), 4_500, allowed=None)
    assert np.allclose(cosines, 1 / np.sqrt(1 + rows.astype(float) ** 2), atol=1e-6)
    few = np.isin(np.arange(4_500), [3, 999, 1_000, 4_499])
    rows, cosines = table.best(unit_vector("q", [1, 0, 0, 0]), 3, allowed=few)
    assert rows.tolist() == [3, 999, 1_000]
    assert np.allclose(cosines, 1 / np.sqrt(1 + rows.astype(float) ** 2), atol=1e-6)
