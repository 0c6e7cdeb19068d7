"""The short form of the index's comparison with bare SQL, with too few entries for a graph."""

from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
import pytest

from tests.support.benchmarks import benchmark


@pytest.fixture(scope="module")
def comparing() -> ModuleType:
    return benchmark("index_sql")


def test_few_vectors_are_compared_on_postgres(
    comparing: ModuleType, postgres_database: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a graph, each filter is still measured, and its recall is 1."""
    comparing.on_postgres(comparing.made_up(60, 4, 2), postgres_database())
    lines = [line for line in capsys.readouterr().out.splitlines() if "recall" in line]
    assert len(lines) == 1 + 2 * len(comparing.SHARES)
    assert all(line.count("recall 1.000") == 3 for line in lines)


@pytest.mark.parametrize("passing", [0, 6, 60])
def test_recall_counts_only_entries_that_pass(comparing: ModuleType, passing: int) -> None:
    """A search that returns all passing entries has a recall of 1, one that returns half of them 0.5."""
    data = comparing.made_up(60, 4, 3)
    passes = np.arange(60) < passing

    def search(n: int) -> Sequence[tuple[str, float]]:
        scores = data.vectors @ data.queries[n]
        return [(f"{place:07}", scores[place]) for place in np.argsort(-scores).tolist() if passes[place]]

    assert comparing.recall_of(data, search, passes) == 1
    half = min(passing, comparing.TOP_K) // 2
    assert comparing.recall_of(data, lambda n: search(n)[:half], passes) == (0.5 if passing else 1)
