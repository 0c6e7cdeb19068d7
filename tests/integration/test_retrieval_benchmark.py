"""The short form of the retrieval benchmark: its measures by hand, and a collection of a few texts."""

import gzip
import json
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.support.benchmarks import FOLDER, benchmark

names = st.sampled_from("abcdef")
judged = st.dictionaries(names, st.integers(-1, 4), min_size=1).filter(lambda grades: max(grades.values()) > 0)


@pytest.fixture(scope="module")
def comparing() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.setenv(variable, "1")  # the module sets these itself, but would leave them to later tests
        patch.syspath_prepend(str(FOLDER))
        yield benchmark("retrieval")


quality = benchmark("ranking_quality")


class SpellingEmbedder:
    """Embeds a text as its counts of each letter."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write forty texts and eleven queries; one query has no answer, the others also judge a missing text."""
    animals = ["cat", "dog", "horse", "owl", "wolf", "bear", "eagle", "salmon", "rabbit", "camel"]
    places = ["forest", "harbour", "market", "island"]
    documents = {f"{a}-{p}": f"A {a} was seen near the {p} on day {len(a + p)}." for a in animals for p in places}
    queries = {animal: f"Where near harbour or island did the {animal} go?" for animal in animals}
    grades = {animal: {f"{animal}-harbour": 2, f"{animal}-island": 1, "gone": 3} for animal in animals}
    collection = {
        "documents": documents,
        "queries": {"nothing": "What is not there?", **queries},
        "qrels": {"nothing": {"cat-forest": 0}, **grades},
    }
    file = tmp_path / "ir_small.json.gz"
    file.write_bytes(gzip.compress(json.dumps(collection).encode()))
    return file


def test_ndcg_equals_trec_eval() -> None:
    """Gains are linear over log2(rank + 1); a missed document lowers the value, and a repeated one adds nothing."""
    grades = {"a": 3, "b": 2, "c": 1, "d": 0, "e": -1}
    ideal = 3 + 2 / 1.5849625 + 1 / 2
    assert quality.ndcg(["a", "b", "c"], grades) == pytest.approx(1)
    assert quality.ndcg(["x", "b", "e", "a"], grades) == pytest.approx((2 / 1.5849625 + 3 / 2.3219281) / ideal)
    assert quality.ndcg(["b", "b", "a"], grades) == pytest.approx((2 + 3 / 1.5849625) / ideal)
    assert quality.ndcg(["b", "a"], grades, depth=1) == pytest.approx(2 / 3)
    assert quality.ndcg([], grades) == 0


def test_recall_counts_relevant_documents() -> None:
    """Every document with a grade above 0 is relevant."""
    grades = {"a": 3, "b": 1, "c": 0, "d": -1}
    assert quality.recall(["c", "d", "b"], grades) == 0.5
    assert quality.recall(["c", "d", "b"], grades, depth=2) == 0
    assert quality.recall(["a", "a", "b"], grades, depth=2) == 1


@given(ranking=st.lists(names), grades=judged, place=st.integers(0, 5))
def test_measures_lie_between_0_and_1_and_better_is_not_worse(
    ranking: list[str], grades: dict[str, int], place: int
) -> None:
    """Both measures are between 0 and 1, and a best document ranked first never lowers nDCG."""
    assert 0 <= quality.recall(ranking, grades) <= 1
    before = quality.ndcg(ranking, grades, depth=3)
    best = max(grades, key=grades.__getitem__)
    assert 0 <= before <= quality.ndcg([best, *ranking], grades, depth=3) + 1e-12
    assert quality.ndcg(sorted(grades, key=lambda name: -grades[name]), grades) == pytest.approx(1)


def test_all_contestants_answer_all_queries(comparing: ModuleType, path: Path, tmp_path: Path) -> None:
    """Each installed contestant has measures from 0 to 1 for every query, and the table names all contestants."""
    collection = comparing.Collection.read(path, 8)
    assert len(collection.queries) == 8
    assert "nothing" not in collection.queries
    rows = comparing.compare(collection, comparing.Remembered(SpellingEmbedder(), tmp_path / "vectors"))
    assert {"arc words", "arc vectors", "arc hybrid", "  + keyword", "  + bm25", "rank-bm25, split()"} <= rows.keys()
    for row in rows.values():
        assert len(row.ndcg) == len(row.recall) == len(row.milliseconds) == 8
        assert all(0 <= value <= 1 for value in row.ndcg + row.recall)
    assert rows["arc words"].ndcg == [1.0] * 8
    assert min(rows["arc hybrid"].recall) == 1
    written = StringIO()
    comparing.show(collection, rows, Console(file=written, width=200))
    assert all(name.strip() in written.getvalue() for name in rows)
    assert "arc hybrid less" in written.getvalue()
