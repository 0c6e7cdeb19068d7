"""The short form of the index's comparison with bare SQL, with too few entries for a graph."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "index_sql.py"


@pytest.fixture(scope="module")
def comparing() -> ModuleType:
    """Load `benchmarks/index_sql.py`."""
    spec = importlib.util.spec_from_file_location("index_sql", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["index_sql"] = module
    spec.loader.exec_module(module)
    return module


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
