"""Maximal marginal relevance against its definition, and the reranker that uses it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from arc_common.exceptions import InvalidInputError
from arc_common.rerankers import DiversityReranker, jaccard_mmr, query_mmr, vector_mmr
from tests.support.scored_documents import ids, scored

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
    """Check that each pick is as good as the best at that step; rounding may choose between equal ones."""
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
    relevance = [random.random() for _ in rows]
    taken = vector_mmr(relevance, rows, top_k=top_k, trade_off=trade_off)
    assert_as_good(taken, relevance, lambda i, j: cosine(rows[i], rows[j]), top_k, trade_off)


@given(term_sets, shares, st.integers(1, 12), st.randoms(use_true_random=False))
def test_terms_are_chosen_as_in_the_paper(sets, trade_off, top_k, random):
    relevance = [random.random() for _ in sets]
    taken = jaccard_mmr(relevance, sets, top_k=top_k, trade_off=trade_off)
    assert_as_good(taken, relevance, lambda i, j: jaccard(sets[i], sets[j]), top_k, trade_off)


def test_the_picks_are_langchains():
    for seed in range(5):
        for trade_off in [0.2, 0.5, 0.9]:
            generator = np.random.default_rng(seed)
            rows, query = generator.normal(size=(200, 32)), generator.normal(size=32)
            expected = maximal_marginal_relevance(query, rows, lambda_mult=trade_off, k=12)
            assert [place for place, _ in query_mmr(query, rows, top_k=12, trade_off=trade_off)] == expected


def plainly(relevance, similarities, top_k, trade_off):
    """Return the picks by definition: all candidates against all picks, step by step."""
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
def test_irrelevant_candidates_change_no_pick(dtype, trade_off, width):
    """Irrelevant candidates change no pick and no bit of a value; of copies the earlier is picked."""
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
    [(np.float64, [-1074, -1030, -540, -100, 0, 300, 1020]), (np.float32, [-149, -130, -75, -30, 0, 30, 120])],
)
@given(data=st.data())
def test_lengths_do_not_matter(dtype, powers, data):
    directions = data.draw(st.lists(st.lists(components, min_size=3, max_size=3), min_size=1, max_size=80))
    lengths = data.draw(st.lists(st.sampled_from(powers), min_size=len(directions), max_size=len(directions)))
    asked, length = data.draw(st.lists(components, min_size=3, max_size=3)), data.draw(st.sampled_from(powers))
    rows = np.ldexp(np.array(directions), np.array(lengths)[:, None]).astype(dtype)
    taken = query_mmr(np.ldexp(np.array(asked), length).astype(dtype), rows, top_k=6)
    relevance = [cosine(row, asked) for row in directions]
    assert_as_good(taken, relevance, lambda i, j: cosine(directions[i], directions[j]), 6, 0.5)


def test_how_an_array_lies_in_memory_does_not_matter():
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


def test_of_equal_ones_the_earlier_is_taken():
    assert [place for place, _ in vector_mmr([1.0] * 4, [[1.0, 0.0]] * 4, top_k=4)] == [0, 1, 2, 3]
    assert [place for place, _ in jaccard_mmr([0.5] * 3, [{"a"}] * 3, top_k=3)] == [0, 1, 2]


def test_no_candidates():
    assert vector_mmr([], [], top_k=3) == query_mmr([1.0], [], top_k=3) == jaccard_mmr([], [], top_k=3) == []


def test_bad_numbers_are_refused_by_name():
    for rows in (
        [[1.0, 0.0], [1.0]], [[float("nan")]], np.array([[np.nan]]), [["x"]], [1.0],
        None, [[[1.0]]], iter([[1.0]]), [[10**400]],
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match="vectors"):
            vector_mmr([1.0] * len(rows) if isinstance(rows, list) else [1.0], rows, top_k=1)
    for relevance in ([float("inf")], [10**400], ["high"], None, [[1.0, 2.0]], [1.0, 2.0]):
        with pytest.raises(InvalidInputError, match="relevance"):
            vector_mmr(relevance, [[1.0]], top_k=1)
    for query in ([1.0], [float("nan"), 1.0], ["x", "y"]):
        with pytest.raises(InvalidInputError, match="query_vector"):
            query_mmr(query, [[1.0, 0.0]], top_k=1)
    for terms in (None, 5, [None], [5]):
        with pytest.raises(InvalidInputError, match="term_sets"):
            jaccard_mmr([1.0], terms, top_k=1)


DOCUMENTS = scored(
    ("harbour lantern quartz", 1.0), ("harbour lantern quartz too", 0.9), ("apples and pears", 0.6), ("nothing", 0.0)
)


def test_what_says_the_same_gives_way():
    """A near copy of the best comes after new content; irrelevant documents stay last."""
    assert ids(DiversityReranker().rerank("q", DOCUMENTS)) == ["d0", "d2", "d1", "d3"]
    assert ids(DiversityReranker(trade_off=1).rerank("q", DOCUMENTS)) == ["d0", "d1", "d2", "d3"]


class Embedder:
    """Knows two directions: fruit, and everything else."""

    name = "fruit"

    def __init__(self):
        self.asked = []

    def embed(self, texts):
        self.asked.append(list(texts))
        return [[1.0, 0.2] if "apple" in text else [0.2, 1.0] for text in texts]


def test_without_scores_the_query_is_embedded():
    embedder = Embedder()
    unscored = scored(*((found.document.text, None) for found in DOCUMENTS))
    assert ids(DiversityReranker(embedder=embedder, top_k=1).rerank("apples?", unscored)) == ["d2"]
    assert embedder.asked[0] == ["apples?"]
    embedder.asked.clear()
    DiversityReranker(embedder=embedder).rerank("apples?", DOCUMENTS)
    assert embedder.asked == [[found.document.text for found in DOCUMENTS]]


def test_without_scores_and_embedder_the_terms_decide():
    unscored = scored(*((found.document.text, None) for found in DOCUMENTS))
    assert ids(DiversityReranker(top_k=1).rerank("which pears are there?", unscored)) == ["d2"]


def test_the_threshold_is_for_the_score_before():
    assert ids(DiversityReranker(min_score=0.6).rerank("q", DOCUMENTS)) == ["d0", "d2", "d1"]


def test_the_score_never_rises():
    """Opposite vectors score higher by their difference, but the order still follows the scores."""

    class Opposite(Embedder):
        def embed(self, texts):
            return [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]

    ranked = DiversityReranker(embedder=Opposite()).rerank("q", DOCUMENTS)
    scores = [found.score for found in ranked]
    assert scores == sorted(scores, reverse=True)
    assert ranked[1].score_parts["mmr"] > ranked[0].score_parts["mmr"]


def test_an_embedder_that_gives_something_else_is_an_error():
    """Otherwise vectors of other documents would be compared, or none."""

    class Odd:
        name = "odd"

        def __init__(self, made):
            self.made = made

        def embed(self, texts):
            return self.made

    unscored = scored(*((found.document.text, None) for found in DOCUMENTS))
    for made in (
        None, [], [[1.0, 0.0]] * 3, [[1.0, 0.0]] * 5, [[float("nan"), 0.0]] * 4, ["a vector"] * 4, [[[1.0]]] * 4,
    ):  # fmt: skip
        for documents in (DOCUMENTS, unscored):
            with pytest.raises(InvalidInputError, match="vector"):
                DiversityReranker(embedder=Odd(made)).rerank("q", documents)


def test_what_is_no_embedder_is_refused():
    with pytest.raises(InvalidInputError, match="embedder"):
        DiversityReranker(embedder=len)
