"""Fusion: independent of input order, safe without scores, and each method by its formula."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.documents import Document, ScoredDocument
from arc_common.exceptions import InvalidInputError
from arc_common.retrieval.fusion import (
    Ranking,
    deduplicated,
    fused_scores,
    raw_score_fusion,
    reciprocal_rank_fusion,
    reciprocal_ranks,
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
    """Documents with ids and scores."""
    return [ScoredDocument(Document(f"text of {name}", name), score) for name, score in pairs]


def result(documents: list[ScoredDocument]) -> list[tuple[str | None, float | None]]:
    """Ids and scores."""
    return [(one.document.id, one.score) for one in documents]


@pytest.mark.parametrize("fuse", FUSIONS)
@given(given_rankings=rankings, seed=st.integers(0, 99))
def test_the_order_of_the_input_does_not_matter(
    fuse: object, given_rankings: dict[str, list[ScoredDocument]], seed: int
) -> None:
    """Neither that of the rankings nor that of scored documents within one: the same values to the last bit."""
    shuffled = list(given_rankings.items())
    random.Random(seed).shuffle(shuffled)
    again = {name: random.Random(seed).sample(one, len(one)) for name, one in shuffled}
    assert fuse(again) == fuse(given_rankings)  # type: ignore[operator]


@pytest.mark.parametrize("fuse", FUSIONS)
@given(given_rankings=perhaps)
def test_each_document_comes_once_and_nothing_is_changed(
    fuse: object, given_rankings: dict[str, list[ScoredDocument]]
) -> None:
    """Whatever has a score and whatever has none: best first, finite, every one of them, the inputs as they were."""
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
    """The sum of weight / (60 + place); equal scores share the better place."""
    one, two = found(("a", 9.0), ("b", 5.0), ("c", 5.0), ("d", 1.0)), found(("b", 0.9), ("a", 0.1))
    fused = dict(result(reciprocal_rank_fusion({"one": one, "two": two}, weights={"two": 2})))
    assert fused == pytest.approx({"a": 1 / 61 + 2 / 62, "b": 1 / 62 + 2 / 61, "c": 1 / 62, "d": 1 / 64})
    assert dict(result(reciprocal_rank_fusion({"one": one}, k=0))) == {"a": 1, "b": 0.5, "c": 0.5, "d": 0.25}


def test_scores_are_fused_between_each_ranking_s_worst_and_best() -> None:
    """Whatever the scales; what a ranking has not found is worth nothing there."""
    one, two = found(("a", 20.0), ("b", 15.0), ("c", 10.0)), found(("c", 0.9), ("d", 0.7))
    fused = dict(result(score_fusion({"one": one, "two": two}, weights={"one": 3})))
    assert fused == pytest.approx({"a": 0.75, "b": 0.375, "c": 0.25, "d": 0.0})


def test_without_any_scores_places_count() -> None:
    """In the order given; beside scores, none is the worst."""
    fused = dict(result(score_fusion({"one": found(("a", None), ("b", None))})))
    assert fused == {"a": 1, "b": 0.5}
    fused = dict(result(score_fusion({"one": found(("a", None), ("b", 2.0), ("c", 4.0))})))
    assert fused == {"a": 0, "b": 0, "c": 1}
    ranks = dict(result(reciprocal_rank_fusion({"one": found(("a", None), ("b", 2.0))}, k=0)))
    assert ranks == {"a": 0.5, "b": 1}


def test_score_parts_say_where_a_score_comes_from() -> None:
    """What each ranking gave, and the parts that the documents brought; of one found twice in a ranking, the best."""
    words = [replace(found(("a", 3.0))[0], score_parts={"bm25": 3.0}), *found(("a", 1.0), ("b", 0.5))]
    first, second = score_fusion({"words": words, "vectors": found(("a", 0.8))})
    assert first.score_parts == {"bm25": 3.0, "words": 3.0, "vectors": 0.8}
    assert second.score_parts == {"words": 0.5}


def test_deduplicated_keeps_the_best_score() -> None:
    """By id; without one, by text and source. Best first, those without a score last."""
    nameless = [ScoredDocument(Document("t", None, source), 1.5) for source in ("s", "s", "u")]
    kept = deduplicated([*found(("n", None), ("a", 1.0), ("b", 2.0), ("a", 3.0), ("a", None)), *nameless])
    assert [(one.document.id, one.document.source, one.score) for one in kept] == [
        ("a", None, 3.0), ("b", None, 2.0), (None, "s", 1.5), (None, "u", 1.5), ("n", None, None),
    ]  # fmt: skip
    assert deduplicated([]) == []


@pytest.mark.parametrize("fuse", [*FUSIONS, raw_score_fusion])
def test_ids_of_two_sources_are_their_own(fuse: object) -> None:
    """Two stores that both count from 1 hold different documents; the same text under the same id is the same one."""
    one = [ScoredDocument(Document("the harbour", "1"), 0.9), ScoredDocument(Document("the fees", "2"), 0.5)]
    two = [ScoredDocument(Document("the camera", "1"), 0.8), ScoredDocument(Document("the fees", "2"), 0.4)]
    fused = fuse({"one": one, "two": two})  # type: ignore[operator]
    assert sorted(found.document.text for found in fused) == ["the camera", "the fees", "the harbour"]


def test_raw_scores_are_compared_as_they_are() -> None:
    """What is the best of a ranking of bad ones stays bad; a document found twice has its better score."""
    good, bad = found(("a", 0.9), ("b", 0.6)), found(("c", 0.05), ("b", 0.7), ("n", None))
    assert result(raw_score_fusion({"good": good, "bad": bad})) == [("a", 0.9), ("b", 0.7), ("c", 0.05), ("n", None)]


@given(given_rankings=rankings, seed=st.integers(0, 99))
def test_raw_scores_are_fused_in_any_order(given_rankings: dict[str, list[ScoredDocument]], seed: int) -> None:
    """As the other ways."""
    shuffled = list(given_rankings.items())
    random.Random(seed).shuffle(shuffled)
    assert raw_score_fusion(dict(shuffled)) == raw_score_fusion(given_rankings)


def test_an_embedder_that_finds_everything_equally_near_counts_for_little() -> None:
    """A cosine is measured against a perfect match: what words find first stays first."""
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
    """For any scores, floor and ideal, the largest floats too; the order stays."""
    relative = Ranking(given_scores, floor=floor, ideal=ideal).relative()
    assert all(0 <= value <= 1 for value in relative.values())
    ordered = sorted(given_scores, key=given_scores.__getitem__)
    assert all(relative[a] <= relative[b] for a, b in pairwise(ordered))


@given(st.lists(st.builds(Ranking, st.dictionaries(st.sampled_from("abc"), scores)), max_size=4), st.randoms())
def test_rankings_may_come_in_any_order(given_rankings: list[Ranking], chance: random.Random) -> None:
    """A sum is rounded once."""
    shuffled = chance.sample(given_rankings, len(given_rankings))
    assert fused_scores(shuffled) == fused_scores(given_rankings)
    assert reciprocal_ranks(shuffled) == reciprocal_ranks(given_rankings)


def test_nothing_fuses_to_nothing() -> None:
    """No rankings, empty ones, and those that count nothing."""
    for fuse in FUSIONS:
        assert fuse({}) == []  # type: ignore[operator]
        assert fuse({"one": [], "two": []}) == []  # type: ignore[operator]
    assert score_fusion({"one": found(("a", 1.0))}, weights={"one": 0}) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": {"other": 1}}, "other"),
        ({"weights": {"one": -1}}, "weight"),
        ({"weights": {"one": float("nan")}}, "weight"),
        ({"weights": {"one": "1"}}, "weight: got '1'"),
        ({"weights": {"one": None}}, "weight: got None"),
        ({"weights": {"one": 10**400}}, "weight"),
        ({"weights": ["one"]}, "weights"),
        ({"k": "60"}, "k: got '60'"),
        ({"k": None}, "k: got None"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"k": -1}, "k:"),
        ({"k": float("inf")}, "k:"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    """By name."""
    with pytest.raises(InvalidInputError, match=message):
        reciprocal_rank_fusion({"one": found(("a", 1.0))}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("fuse", [*FUSIONS, raw_score_fusion])
@pytest.mark.parametrize(
    "wrong", [None, [None], "text", {"one": None}, {"one": [None]}, {"one": "text"}, {7: []}], ids=repr
)
def test_what_is_no_ranking_is_refused(fuse: object, wrong: object) -> None:
    """By name, and that of the ranking."""
    field = r"rankings\['one'\]" if isinstance(wrong, dict) and "one" in wrong else "rankings"
    with pytest.raises(InvalidInputError, match=field):
        fuse(wrong)  # type: ignore[operator]


@pytest.mark.parametrize("wrong", [None, [None], "text", 7, {}], ids=repr)
def test_what_is_no_documents_is_not_deduplicated(wrong: object) -> None:
    """It is refused by name."""
    with pytest.raises(InvalidInputError, match="documents"):
        deduplicated(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scores": None}, "scores: got None"),
        ({"scores": {"a": "1"}}, r"scores\['a'\]: got '1'"),
        ({"scores": {"a": 10**400}}, r"scores\['a'\]"),
        ({"floor": "0"}, "floor: got '0'"),
        ({"ideal": float("nan")}, "ideal"),
        ({"weight": "1"}, "weight: got '1'"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_a_ranking_of_something_else_is_refused(fields: dict[str, object], message: str) -> None:
    """By the field's name."""
    with pytest.raises(InvalidInputError, match=message):
        Ranking(**({"scores": {"a": 1.0}} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("fuse", FUSIONS)
def test_weights_whose_sum_is_no_float_are_refused(fuse: object) -> None:
    """The largest one alone is a weight as any other."""
    one, two = found(("a", 1.0)), found(("b", 1.0))
    assert len(fuse({"one": one, "two": two}, weights={"one": 1.7e308})) == 2  # type: ignore[operator]
    with pytest.raises(InvalidInputError, match="weights"):
        fuse({"one": one, "two": two}, weights={"one": 1e308, "two": 1e308})  # type: ignore[operator]
