"""BM25 by the formula, and the inverted index through any history of changes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.protocols.search_index import LexicalCandidates
from arc_common.retrieval.bm25 import BM25
from arc_common.retrieval.inverted import InvertedIndex

texts = st.dictionaries(st.sampled_from("abcde"), st.sampled_from([0.5, 1, 3]), max_size=4)
changes = st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), texts)), max_size=30)


def candidates(frequency: float, *, length: float = 4, holders: int = 1, count: int = 10) -> LexicalCandidates:
    """One candidate of one term, in texts of 4 terms each."""
    return LexicalCandidates(
        ("a",), np.array([[frequency]]), np.array([length]), np.array([holders]), count, 4.0 * count
    )


def score(*args: float, k1: float = 1.5, b: float = 0.75, weight: float = 1, **fields: float) -> float:
    """Its score."""
    return float(BM25(k1, b).scores(candidates(*args, **fields), [weight])[0])  # type: ignore[arg-type]


def test_the_score_is_the_formula_s() -> None:
    """Of a text of mean length: idf × tf / (tf + k1)."""
    assert score(2) == pytest.approx(np.log(1 + 9.5 / 1.5) * 2 / 3.5)
    assert score(2, length=8) == pytest.approx(np.log(1 + 9.5 / 1.5) * 2 / (2 + 1.5 * 1.75))
    assert score(2, weight=0.3) == pytest.approx(0.3 * score(2))


def test_the_full_score_is_that_of_a_text_with_every_term() -> None:
    """Once, at mean length; a term that no text has counts too."""
    both = LexicalCandidates((), np.zeros((0, 2)), np.zeros(0), np.array([1, 0]), 10, 40.0)
    rarities = np.log(1 + 9.5 / 1.5), np.log(1 + 10.5 / 0.5)
    assert BM25(k1=1.5).full_score(both, [1.0, 0.5]) == pytest.approx((rarities[0] + 0.5 * rarities[1]) / 2.5)
    assert BM25(k1=1.5).full_score(candidates(1), [1.0]) == pytest.approx(score(1))


def test_the_parameters_do_what_they_say() -> None:
    """k1 = 0 counts a term once; b = 0 does not look at the length; rarer terms weigh more, common ones still count."""
    assert score(1, k1=0) == score(9, k1=0) > 0
    assert score(0, k1=0) == 0
    assert score(1, length=1, b=0) == score(1, length=99, b=0)
    assert score(1, length=1) > score(1, length=99)
    assert score(1, holders=1) > score(1, holders=9) > score(1, holders=10) > 0


@pytest.mark.parametrize(
    "wrong",
    [
        *({"k1": value} for value in (-1, float("nan"), float("inf"), None, "1", [1])),
        *({"b": value} for value in (1.1, -0.1, None, "1", [1])),
    ],
    ids=repr,
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """By name."""
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        BM25(**wrong)


def test_empty_texts_score_nothing() -> None:
    """Also where all of them are empty and have no mean length."""
    empty = LexicalCandidates(("a",), np.zeros((1, 1)), np.zeros(1), np.zeros(1, dtype=np.int64), 1, 0.0)
    assert BM25().scores(empty, [1.0]).tolist() == [0]


@given(changes=changes, query=st.sets(st.sampled_from("abcdx"), min_size=1))
def test_after_any_changes_it_is_as_if_made_anew(changes: list[tuple[int, dict | None]], query: set[str]) -> None:
    """Rows, statistics and order are those of an index that was given what is left, asked in between or not."""
    weights = dict.fromkeys(sorted(query), 1.0)
    index, left = InvertedIndex(BM25()), {}
    for n, (row, terms) in enumerate(changes):
        if terms is None:
            index.remove(row)
            left.pop(row, None)
        else:
            index.put(row, terms, sum(terms.values()))
            left[row] = terms
        if n % 3 == 0:
            index.best(weights, 2, allowed=None)
    anew = InvertedIndex(BM25())
    for row in sorted(left):
        anew.put(row, left[row], sum(left[row].values()))
    assert {row: index.terms(row) for row in left} == left
    assert (index.count, index.total_length) == (anew.count, anew.total_length) == (len(left), index.total_length)
    assert index.document_frequencies(weights).tolist() == anew.document_frequencies(weights).tolist()
    rows = index.best(weights, 100, allowed=None)
    assert set(rows.tolist()) == {row for row, terms in left.items() if query & set(terms)}
    assert index.frequencies(weights, rows).tolist() == [
        [left[row].get(t, 0) for t in weights] for row in rows.tolist()
    ]
    assert set(index.best(weights, 2, allowed=None)) == set(anew.best(weights, 2, allowed=None))


def test_changing_a_row_costs_its_own_terms_only() -> None:
    """Nothing is kept of terms that no row has any more, and nothing is worked out that nobody asks for."""
    index = InvertedIndex(BM25())
    for row in range(50):
        index.put(row, {"common": 1.0, f"only{row}": 1.0}, 2.0)
    index.best({"common": 1.0}, 5, allowed=None)
    assert set(index._impacts) == {"common"}
    for row in range(49):
        index.remove(row)
    assert set(index._postings) == {"common", "only49"}
    assert index._impacts == {}
