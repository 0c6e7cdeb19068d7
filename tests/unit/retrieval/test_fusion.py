"""Fused rankings are independent of input order, safe without scores, and follow each method's formula."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.retrieval.fusion import (
    Ranking,
    agreement,
    credibility,
    deduplicated,
    fused_scores,
    lifted,
    reciprocal_rank_fusion,
    score_fusion,
)

FUSIONS = [score_fusion, reciprocal_rank_fusion]

scores = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(allow_nan=False, allow_infinity=False))
documents = st.builds(Document, st.sampled_from(["x", "y"]), st.sampled_from([None, "a", "b", "c", "d"]))
scored = st.builds(ScoredDocument, documents, scores)
rankings = st.dictionaries(st.sampled_from(["words", "vectors", "third"]), st.lists(scored, max_size=6), max_size=3)
perhaps = st.dictionaries(
    st.sampled_from(["words", "vectors"]),
    st.lists(st.builds(ScoredDocument, documents, st.none() | scores), max_size=6),
    max_size=2,
)


def found(*pairs: tuple[str, float | None]) -> list[ScoredDocument]:
    """Return documents with these ids and scores."""
    return [ScoredDocument(Document(f"text of {name}", name), score) for name, score in pairs]


def result(documents: list[ScoredDocument]) -> list[tuple[str | None, float | None]]:
    """Return ids and scores."""
    return [(one.document.id, one.score) for one in documents]


@pytest.mark.parametrize("fuse", FUSIONS)
@given(given_rankings=rankings, seed=st.integers(0, 99))
def test_the_order_of_the_input_does_not_matter(
    fuse: object, given_rankings: dict[str, list[ScoredDocument]], seed: int
) -> None:
    """Shuffled rankings and shuffled scored documents give bit-identical values."""
    shuffled = list(given_rankings.items())
    random.Random(seed).shuffle(shuffled)
    again = {name: random.Random(seed).sample(one, len(one)) for name, one in shuffled}
    assert fuse(again) == fuse(given_rankings)  # type: ignore[operator]


@pytest.mark.parametrize("fuse", FUSIONS)
@given(given_rankings=perhaps)
def test_each_document_comes_once_and_nothing_is_changed(
    fuse: object, given_rankings: dict[str, list[ScoredDocument]]
) -> None:
    """Results are complete, finite and best first, with or without scores; inputs are not modified."""
    before = repr(given_rankings)
    fused = fuse(given_rankings)  # type: ignore[operator]
    keys = [(one.document.id, one.document.text, one.document.source) for one in fused]
    assert len(set(keys)) == len(keys)
    own = [one.document for ranking in given_rankings.values() for one in deduplicated(ranking)]
    assert set(keys) == {(document.id, document.text, document.source) for document in own}
    values = [one.score for one in fused]
    assert values == sorted(values, reverse=True)
    assert repr(given_rankings) == before


def test_reciprocal_ranks_are_cormack_s() -> None:
    """The score is the sum of weight / (60 + rank); equal scores share the better rank."""
    one, two = found(("a", 9.0), ("b", 5.0), ("c", 5.0), ("d", 1.0)), found(("b", 0.9), ("a", 0.1))
    fused = dict(result(reciprocal_rank_fusion({"one": one, "two": two}, weights={"two": 2})))
    assert fused == pytest.approx({"a": 1 / 61 + 2 / 62, "b": 1 / 62 + 2 / 61, "c": 1 / 62, "d": 1 / 64})
    assert dict(result(reciprocal_rank_fusion({"one": one}, k=0))) == {"a": 1, "b": 0.5, "c": 0.5, "d": 0.25}


def test_scores_are_fused_between_each_ranking_s_worst_and_best() -> None:
    """Scales don't matter; a document missing from a ranking gets 0 there."""
    one, two = found(("a", 20.0), ("b", 15.0), ("c", 10.0)), found(("c", 0.9), ("d", 0.7))
    fused = dict(result(score_fusion({"one": one, "two": two}, weights={"one": 3})))
    assert fused == pytest.approx({"a": 0.75, "b": 0.375, "c": 0.25, "d": 0.0})


def test_without_any_scores_places_count() -> None:
    fused = dict(result(score_fusion({"one": found(("a", None), ("b", None))})))
    assert fused == {"a": 1, "b": 0.5}
    fused = dict(result(score_fusion({"one": found(("a", None), ("b", 2.0), ("c", 4.0))})))
    assert fused == {"a": 0, "b": 0, "c": 1}
    ranks = dict(result(reciprocal_rank_fusion({"one": found(("a", None), ("b", 2.0))}, k=0)))
    assert ranks == {"a": 0.5, "b": 1}


def test_score_parts_say_where_a_score_comes_from() -> None:
    """They contain each ranking's score and the documents' own parts, the best of duplicates."""
    words = [replace(found(("a", 3.0))[0], score_parts={"bm25": 3.0}), *found(("a", 1.0), ("b", 0.5))]
    first, second = score_fusion({"words": words, "vectors": found(("a", 0.8))})
    assert first.score_parts == {"bm25": 3.0, "words": 3.0, "vectors": 0.8}
    assert second.score_parts == {"words": 0.5}


def test_deduplicated_keeps_the_best_score() -> None:
    nameless = [ScoredDocument(Document("t", None, source), 1.5) for source in ("s", "s", "u")]
    kept = deduplicated([*found(("n", None), ("a", 1.0), ("b", 2.0), ("a", 3.0), ("a", None)), *nameless])
    assert [(one.document.id, one.document.source, one.score) for one in kept] == [
        ("a", None, 3.0), ("b", None, 2.0), (None, "s", 1.5), (None, "u", 1.5), ("n", None, None),
    ]  # fmt: skip
    assert deduplicated([]) == []


@pytest.mark.parametrize("fuse", FUSIONS)
def test_ids_of_two_sources_are_their_own(fuse: object) -> None:
    """Stores that both number from 1 hold different documents; only equal texts with equal ids are the same."""
    one = [ScoredDocument(Document("the harbour", "1"), 0.9), ScoredDocument(Document("the fees", "2"), 0.5)]
    two = [ScoredDocument(Document("the camera", "1"), 0.8), ScoredDocument(Document("the fees", "2"), 0.4)]
    fused = fuse({"one": one, "two": two})  # type: ignore[operator]
    assert sorted(found.document.text for found in fused) == ["the camera", "the fees", "the harbour"]


def test_an_embedder_that_finds_everything_equally_near_counts_for_little() -> None:
    """A cosine is measured against a perfect match, so the best lexical match stays first."""
    words = Ranking({"right": 9.0, "other": 6.0}, floor=0.0)
    blind = Ranking({"wrong": 0.862, "other": 0.861, "right": 0.85}, ideal=1.0)
    assert _best(fused_scores([words, blind])) == "right"
    sharp = Ranking({"wrong": 0.95, "other": 0.2, "right": 0.1}, ideal=1.0)
    assert _best(fused_scores([replace(words, weight=0.5), sharp])) == "wrong"


def _best(scores: dict[str, float]) -> str:
    return max(scores, key=scores.__getitem__)


@given(st.dictionaries(st.sampled_from("abc"), scores, min_size=1), st.none() | scores, st.none() | scores)
def test_relative_scores_lie_between_0_and_1(
    given_scores: dict[str, float], floor: float | None, ideal: float | None
) -> None:
    """This holds for any scores, floor and ideal, even the largest floats; the order is kept."""
    relative = Ranking(given_scores, floor=floor, ideal=ideal).relative()
    assert all(0 <= value <= 1 for value in relative.values())
    ordered = sorted(given_scores, key=given_scores.__getitem__)
    assert all(relative[a] <= relative[b] for a, b in pairwise(ordered))


def test_nothing_fuses_to_nothing() -> None:
    for fuse in FUSIONS:
        assert fuse({}) == []  # type: ignore[operator]
        assert fuse({"one": [], "two": []}) == []  # type: ignore[operator]
    assert score_fusion({"one": found(("a", 1.0))}, weights={"one": 0}) == []


def test_bad_options_are_refused() -> None:
    """The error names the option."""
    wrong_weights = [
        {"other": 1}, {"one": -1}, {"one": float("nan")}, {"one": "1"}, {"one": None}, {"one": 10**400}, ["one"],
    ]  # fmt: skip
    cases = [("weight", {"weights": wrong}) for wrong in wrong_weights]
    cases += [("k", {"k": wrong}) for wrong in ("60", None, -1, float("inf"))]
    cases += [("top_k", {"top_k": wrong}) for wrong in (0, True)]
    for name, options in cases:
        with pytest.raises(InvalidInputError, match=name):
            reciprocal_rank_fusion({"one": found(("a", 1.0))}, **options)  # type: ignore[arg-type]
    for name, wrong in [
        ("scores: got None", {"scores": None}),
        (r"scores\['a'\]: got '1'", {"scores": {"a": "1"}}),
        (r"scores\['a'\]", {"scores": {"a": 10**400}}),
        ("floor: got '0'", {"floor": "0"}),
        ("ideal", {"ideal": float("nan")}),
        ("weight: got '1'", {"weight": "1"}),
    ]:
        with pytest.raises(InvalidInputError, match=name):
            Ranking(**({"scores": {"a": 1.0}} | wrong))  # type: ignore[arg-type]


def test_what_is_no_ranking_is_refused() -> None:
    """The error names the ranking."""
    for fuse in FUSIONS:
        for wrong in ({"one": None}, {"one": [None]}, {"one": "text"}):
            with pytest.raises(InvalidInputError, match=r"rankings\['one'\]"):
                fuse(wrong)  # type: ignore[arg-type]
        for wrong in (None, [None], "text", {7: []}):
            with pytest.raises(InvalidInputError, match="rankings"):
                fuse(wrong)  # type: ignore[arg-type]
    for wrong in (None, [None], "text", 7, {}):
        with pytest.raises(InvalidInputError, match="documents"):
            deduplicated(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("fuse", FUSIONS)
def test_weights_whose_sum_is_no_float_are_refused(fuse: object) -> None:
    one, two = found(("a", 1.0)), found(("b", 1.0))
    assert len(fuse({"one": one, "two": two}, weights={"one": 1.7e308})) == 2  # type: ignore[operator]
    with pytest.raises(InvalidInputError, match="weights"):
        fuse({"one": one, "two": two}, weights={"one": 1e308, "two": 1e308})  # type: ignore[operator]


finite = st.floats(allow_nan=False, allow_infinity=False)
finite_scores = st.dictionaries(st.sampled_from("abcdef"), finite)
witnesses = st.dictionaries(st.sampled_from("abcdefg"), st.none() | finite)


def test_agreement_is_the_correlation() -> None:
    """It ignores scales: 1 is agreement, −1 contradiction, and 0 if one of them is constant."""
    words = {"a": 9.0, "b": 6.0, "c": 3.0}
    assert agreement({"a": 0.9, "b": 0.8, "c": 0.7}, words) == pytest.approx(1)
    assert agreement({"a": 0.7, "b": 0.8, "c": 0.9}, words) == pytest.approx(-1)
    assert agreement({"a": 0.9, "b": 0.1, "c": 0.1}, words) == pytest.approx(0.8660, abs=1e-4)
    assert agreement({"a": 0.5, "b": 0.5}, words) == 0
    assert agreement({"a": 0.5, "b": 0.6}, {}) == 0
    assert agreement({}, words) == 0


def test_what_the_witness_has_not_found_scores_0_there() -> None:
    assert agreement({"a": 0.9, "b": 0.1}, {"a": 5.0}) == pytest.approx(1)
    assert agreement({"a": 0.9, "b": 0.1}, {"a": 5.0, "b": None, "z": 99.0}) == pytest.approx(1)


def test_a_ranking_without_support_counts_less() -> None:
    words = {f"d{place:03}": 10.0 / (place + 1) for place in range(100)}
    chance = random.Random(1)
    guessed = {name: chance.random() for name in words}
    assert credibility(guessed, words, answered=1) < 0.5
    assert credibility({name: score / 20 for name, score in words.items()}, words, answered=1) == 1


def test_less_support_is_needed_where_less_can_be_expected() -> None:
    words = {f"d{place:03}": 10.0 / (place + 1) for place in range(100)}
    chance = random.Random(1)
    guessed = {name: chance.random() for name in words}
    shares = [credibility(guessed, words, answered=answered) for answered in (1, 0.5, 0.1, 0)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    few = dict(list(guessed.items())[:4])
    assert credibility(dict.fromkeys(few, 0.5), few, answered=1) == pytest.approx(0.5)
    assert credibility({}, words, answered=1) == 1


@given(scores=finite_scores, witness=witnesses, answered=st.floats(0, 1), chance=st.randoms())
def test_any_scores_in_any_order(
    scores: dict[str, float], witness: dict[str, float | None], answered: float, chance: random.Random
) -> None:
    """The result is bounded, bit-identical in another order, and inputs are not modified."""
    before = repr((scores, witness))
    shuffled = dict(chance.sample(list(scores.items()), len(scores)))
    assert -1 <= agreement(scores, witness) <= 1
    assert agreement(shuffled, witness) == agreement(scores, witness)
    assert 0 < credibility(scores, witness, answered=answered) <= 1
    assert repr((scores, witness)) == before


numbers = st.floats(-1, 1, allow_subnormal=False)
Texts = dict[str, tuple[float, tuple[float, float, float] | None]]
texts_with_scores = st.dictionaries(
    st.text(max_size=3), st.tuples(st.floats(0, 1), st.none() | st.tuples(numbers, numbers, numbers)), max_size=12
)


def unit(*numbers: float) -> NDArray[np.float32]:
    vector = np.array(numbers, dtype=np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length > 1e-3 else np.array([1, 0, 0], dtype=np.float32)


@given(texts_with_scores, st.floats(0, 1))
def test_no_score_falls_and_none_passes_the_best(texts: Texts, trust: float) -> None:
    """There is one score per text in any order; without trust or a vector it is unchanged."""
    scores = {key: score for key, (score, _) in texts.items()}
    vectors = {key: unit(*vector) for key, (_, vector) in texts.items() if vector is not None}
    before = dict(scores)
    result = lifted(scores, vectors, trust=trust)
    assert result.keys() == scores.keys()
    assert scores == before
    for key, score in result.items():
        assert before[key] <= score <= max(before.values()) + 1e-12
        assert key in vectors or score == before[key]
    assert lifted(dict(reversed(scores.items())), dict(reversed(vectors.items())), trust=trust) == result
    assert lifted(scores, vectors, trust=0) == scores


def test_a_text_is_lifted_towards_what_is_near_and_answers_better() -> None:
    """Each neighbour counts a quarter of its cosine; neighbours with lower scores don't count."""
    scores = {"best": 0.8, "beside": 0.4, "behind": 0.2, "far": 0.2, "opposite": 0.2}
    vectors = {"best": unit(1, 0, 0), "beside": unit(1, 0, 0), "behind": unit(0.6, 0.8, 0), "far": unit(0, 0, 1)}
    result = lifted(scores, vectors | {"opposite": unit(-1, 0, 0)}, trust=1)
    assert result["best"] == 0.8
    assert result["beside"] == pytest.approx((0.4 + 0.25 * 0.8) / 1.25)
    assert result["behind"] == pytest.approx((0.2 + 0.15 * 0.8 + 0.15 * 0.4) / 1.3)
    assert result["far"] == result["opposite"] == 0.2
    half = lifted(scores, vectors, trust=0.5)
    assert half["beside"] == pytest.approx((0.4 + 0.125 * 0.8) / 1.125)


def test_only_the_nearest_have_a_say() -> None:
    scores = {"asked": 0.5} | {f"near{n}": 0.6 for n in range(5)} | {f"far{n}": 1.0 for n in range(20)}
    vectors = {"asked": unit(1, 0, 0)} | {f"near{n}": unit(1, 0, 0) for n in range(5)}
    vectors |= {f"far{n}": unit(1, 1, 0) for n in range(20)}
    assert lifted(scores, vectors, trust=1)["asked"] == pytest.approx((0.5 + 1.25 * 0.6) / 2.25)


def test_equal_texts_stay_equal() -> None:
    rng = np.random.default_rng(0)
    vectors = {f"{n:03}": unit(*rng.normal(size=384)) for n in range(90)}
    equal = [f"{n:03}" for n in rng.choice(90, 4, replace=False)]
    vectors |= dict.fromkeys(equal, vectors[equal[0]])
    scores = {key: float(rng.random()) for key in vectors} | dict.fromkeys(equal, 0.1)
    result = lifted(scores, vectors, trust=1)
    assert len({result[key] for key in equal}) == 1
