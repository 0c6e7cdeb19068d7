"""Maximal marginal relevance: against its definition, and against LangChain's."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from arc_common.exceptions import InvalidInputError
from arc_common.rerankers import jaccard_mmr, query_mmr, vector_mmr

components = st.integers(-4, 4).map(float)
vectors = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(components, min_size=width, max_size=width), max_size=10)
)
shares = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])
term_sets = st.lists(st.sets(st.sampled_from("abcdefg")), max_size=10)


def cosine(a, b):
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.dot(a, b) / lengths) if lengths else 0.0


def jaccard(a, b):
    return len(a & b) / len(a | b) if a | b else 0.0


def assert_as_good(taken, relevance, similarity, top_k, trade_off):
    """At every step, what was taken is as good as the best there was (rounding may choose between equal ones)."""
    assert len(taken) == min(top_k, len(relevance))
    assert len({place for place, _ in taken}) == len(taken)
    for step, (place, value) in enumerate(taken):
        earlier = [other for other, _ in taken[:step]]
        values = {
            i: trade_off * relevance[i] - (1 - trade_off) * (max(similarity(i, j) for j in earlier) if earlier else 0)
            for i in range(len(relevance))
            if i not in earlier
        }
        assert value == pytest.approx(values[place], abs=1e-5)
        assert value == pytest.approx(max(values.values()), abs=1e-5)


@given(vectors, shares, st.integers(1, 12), st.randoms(use_true_random=False))
def test_vectors_are_chosen_as_in_the_paper(rows, trade_off, top_k, random):
    """At every step the candidate with the most marginal relevance, by cosine."""
    relevance = [random.random() for _ in rows]
    taken = vector_mmr(relevance, rows, top_k=top_k, trade_off=trade_off)
    assert_as_good(taken, relevance, lambda i, j: cosine(rows[i], rows[j]), top_k, trade_off)


@given(term_sets, shares, st.integers(1, 12), st.randoms(use_true_random=False))
def test_terms_are_chosen_as_in_the_paper(sets, trade_off, top_k, random):
    """At every step the candidate with the most marginal relevance, by Jaccard."""
    relevance = [random.random() for _ in sets]
    taken = jaccard_mmr(relevance, sets, top_k=top_k, trade_off=trade_off)
    assert_as_good(taken, relevance, lambda i, j: jaccard(sets[i], sets[j]), top_k, trade_off)


def test_the_picks_are_langchains():
    """From the same vectors, in the same order."""
    for seed in range(5):
        for trade_off in [0.2, 0.5, 0.9]:
            generator = np.random.default_rng(seed)
            rows, query = generator.normal(size=(200, 32)), generator.normal(size=32)
            expected = maximal_marginal_relevance(query, rows, lambda_mult=trade_off, k=12)
            assert [place for place, _ in query_mmr(query, rows, top_k=12, trade_off=trade_off)] == expected


def plainly(relevance, similarities, top_k, trade_off):
    """The definition, step by step: all candidates against all taken."""
    taken = []
    while len(taken) < min(top_k, len(relevance)):
        nearest = similarities[:, [place for place, _ in taken]].max(axis=1) if taken else 0
        values = trade_off * relevance - (1 - trade_off) * nearest
        values[[place for place, _ in taken]] = -np.inf
        place = int(np.argmax(values))
        taken.append((place, float(values[place])))
    return taken


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    count=st.integers(1, 200) | st.integers(500, 900),
    kinds=st.integers(1, 300),
    top_k=st.integers(1, 20) | st.just(100),
    trade_off=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    levels=st.integers(1, 40),
    seed=st.integers(0, 99),
)
def test_of_many_the_choice_is_that_of_comparing_all(dtype, count, kinds, top_k, trade_off, levels, seed):
    """To the last bit, with ties at every step: of ±1 in 16 dimensions, and zeros, every cosine is an exact number."""
    generator = np.random.default_rng(seed)
    rows = generator.choice([-1.0, 1.0], size=(kinds, 16)) * 2.0 ** generator.integers(-20, 20, size=(kinds, 1))
    rows[generator.random(kinds) < 0.1] = 0
    rows = rows[generator.integers(0, kinds, size=count)].astype(dtype)
    relevance = generator.integers(-levels, levels, size=count) / 8
    signs = np.sign(rows).astype(np.float64)
    expected = plainly(relevance, signs @ signs.T / 16, top_k, trade_off)
    assert vector_mmr(relevance, rows, top_k=top_k, trade_off=trade_off) == expected
    asked = generator.choice([-1.0, 1.0], size=16)
    expected = plainly(signs @ asked / 16, signs @ signs.T / 16, top_k, trade_off)
    assert query_mmr(asked * 8, rows, top_k=top_k, trade_off=trade_off) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("trade_off", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("width", [1, 7, 384])
def test_what_is_chosen_depends_on_no_company(dtype, trade_off, width):
    """The same picks and values, to the last bit, however many irrelevant ones stand around; of copies the earlier."""
    generator = np.random.default_rng(width)
    rows = generator.normal(size=(40, width)).astype(dtype)[generator.integers(0, 40, size=120)]
    relevance = np.round(generator.random(40), 1)[generator.integers(0, 40, size=120)]
    few = vector_mmr(relevance[:50], rows[:50], top_k=20, trade_off=trade_off or 0.1)
    for count in (51, 64, 333, 500, 501, 800):
        around = np.concatenate([rows[:50], generator.normal(size=(count - 50, width)).astype(dtype)])
        known = np.concatenate([relevance[:50], np.full(count - 50, -1e6)])
        assert vector_mmr(known, around, top_k=20, trade_off=trade_off or 0.1) == few
    chosen = [place for place, _ in vector_mmr(relevance, rows, top_k=120, trade_off=trade_off)]
    copies = {}
    for place in chosen:
        copies.setdefault((rows[place].tobytes(), relevance[place]), []).append(place)
    assert sorted(chosen) == list(range(120))
    assert all(places == sorted(places) for places in copies.values())


@pytest.mark.parametrize(
    ("dtype", "powers"),
    [(np.float64, [-1074, -1030, -540, -100, 0, 300, 505]), (np.float32, [-149, -130, -75, -30, 0, 30, 58])],
)
@given(data=st.data())
def test_lengths_do_not_matter(dtype, powers, data):
    """Down to the smallest numbers there are, and up to those whose squares are numbers."""
    directions = data.draw(st.lists(st.lists(components, min_size=3, max_size=3), min_size=1, max_size=80))
    lengths = data.draw(st.lists(st.sampled_from(powers), min_size=len(directions), max_size=len(directions)))
    asked, length = data.draw(st.lists(components, min_size=3, max_size=3)), data.draw(st.sampled_from(powers))
    rows = np.ldexp(np.array(directions), np.array(lengths)[:, None]).astype(dtype)
    taken = query_mmr(np.ldexp(np.array(asked), length).astype(dtype), rows, top_k=6)
    relevance = [cosine(row, asked) for row in directions]
    assert_as_good(taken, relevance, lambda i, j: cosine(directions[i], directions[j]), 6, 0.5)


def test_how_an_array_lies_in_memory_does_not_matter():
    """Nor is it changed."""
    for order in ["C", "F", "steps", "backwards"]:
        generator = np.random.default_rng(1)
        rows = generator.normal(size=(600, 384))
        lain = {
            "C": rows,
            "F": np.asfortranarray(rows),
            "steps": np.repeat(rows, 2, axis=1)[:, ::2],
            "backwards": rows[::-1].copy()[::-1],
        }[order]
        before = lain.copy()
        assert query_mmr(rows[5], lain, top_k=12) == query_mmr(rows[5], rows.copy(), top_k=12)
        assert (lain == before).all()


def test_without_vecdot_it_is_the_same(monkeypatch):
    """Which numpy 1 has not."""
    generator = np.random.default_rng(2)
    rows, query = generator.normal(size=(600, 24)), generator.normal(size=24)
    expected = query_mmr(query, rows, top_k=12)
    monkeypatch.delattr(np, "vecdot", raising=False)
    assert query_mmr(query, rows, top_k=12) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_array_is_read_not_copied(dtype):
    """Its precision is kept, whatever the query's: converting 1,000 vectors took as long as choosing among them."""
    generator = np.random.default_rng(0)
    rows, query = generator.normal(size=(2000, 96)).astype(dtype), generator.normal(size=96)
    expected = query_mmr(query, rows, top_k=10)
    for asked in (query.astype(np.float32), query, query.tolist()):
        tracemalloc.start()
        taken = query_mmr(asked, rows, top_k=10)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < rows.nbytes / 4
        assert [place for place, _ in taken] == [place for place, _ in expected]


def test_of_equal_ones_the_earlier_is_taken():
    """Also when everything is the same."""
    assert [place for place, _ in vector_mmr([1.0] * 4, [[1.0, 0.0]] * 4, top_k=4)] == [0, 1, 2, 3]
    assert [place for place, _ in jaccard_mmr([0.5] * 3, [{"a"}] * 3, top_k=3)] == [0, 1, 2]


def test_no_candidates():
    """Nothing is taken from nothing."""
    assert vector_mmr([], [], top_k=3) == query_mmr([1.0], [], top_k=3) == jaccard_mmr([], [], top_k=3) == []


@pytest.mark.parametrize(
    ("relevance", "rows", "field"),
    [
        pytest.param([1.0, 1.0], [[1.0, 0.0], [1.0]], "vectors", id="dimensions differ"),
        pytest.param([1.0], [[float("nan")]], "vectors", id="NaN"),
        pytest.param([1.0], [[1e300]], "vectors", id="too large"),
        pytest.param([1.0], np.array([[1e300]]), "vectors", id="too large an array"),
        pytest.param([1.0], np.array([[np.nan]]), "vectors", id="NaN in an array"),
        pytest.param([1.0], [["x"]], "vectors", id="text"),
        pytest.param([1.0], [1.0], "vectors", id="no vectors"),
        pytest.param([1.0], None, "vectors", id="None"),
        pytest.param([1.0], [[[1.0]]], "vectors", id="too deep"),
        pytest.param([1.0], iter([[1.0]]), "vectors", id="an iterator"),
        pytest.param([1.0], [[10**400]], "vectors", id="no float"),
        pytest.param([float("inf")], [[1.0]], "relevance", id="infinite relevance"),
        pytest.param([10**400], [[1.0]], "relevance", id="relevance that is no float"),
        pytest.param(["high"], [[1.0]], "relevance", id="relevance in words"),
        pytest.param(None, [[1.0]], "relevance", id="no relevance"),
        pytest.param([[1.0, 2.0]], [[1.0]], "relevance", id="two each"),
        pytest.param([1.0, 2.0], [[1.0]], "relevance", id="too many"),
    ],
)
def test_bad_numbers_are_refused(relevance, rows, field):
    """By name, before anything is taken."""
    with pytest.raises(InvalidInputError, match=field):
        vector_mmr(relevance, rows, top_k=1)


@pytest.mark.parametrize("query", [[1.0], [float("nan"), 1.0], ["x", "y"]])
def test_a_bad_query_vector_is_refused(query):
    """Another dimension, no number, or no finite one."""
    with pytest.raises(InvalidInputError, match="query_vector"):
        query_mmr(query, [[1.0, 0.0]], top_k=1)


@pytest.mark.parametrize(
    "wrong", [None, 5, [None], [5], ({one} for one in "a")], ids=["None", "5", "[None]", "[5]", "iterator"]
)
def test_what_is_no_sets_of_terms_is_refused(wrong):
    """By name."""
    with pytest.raises(InvalidInputError, match="term_sets"):
        jaccard_mmr([1.0], wrong, top_k=1)
