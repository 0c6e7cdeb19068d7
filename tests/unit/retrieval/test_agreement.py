"""What a search counts beside another: as far as the other bears it out, and as far as that could be expected."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.retrieval.fusion import agreement, credibility

finite = st.floats(allow_nan=False, allow_infinity=False)
found = st.dictionaries(st.sampled_from("abcdef"), finite)
witnesses = st.dictionaries(st.sampled_from("abcdefg"), st.none() | finite)


def test_agreement_is_the_correlation() -> None:
    """Whatever the scales: 1 in agreement, −1 in contradiction, 0 where one of them says nothing."""
    words = {"a": 9.0, "b": 6.0, "c": 3.0}
    assert agreement({"a": 0.9, "b": 0.8, "c": 0.7}, words) == pytest.approx(1)
    assert agreement({"a": 0.7, "b": 0.8, "c": 0.9}, words) == pytest.approx(-1)
    assert agreement({"a": 0.9, "b": 0.1, "c": 0.1}, words) == pytest.approx(0.8660, abs=1e-4)
    assert agreement({"a": 0.5, "b": 0.5}, words) == 0
    assert agreement({"a": 0.5, "b": 0.6}, {}) == 0
    assert agreement({}, words) == 0


def test_what_the_witness_has_not_found_is_nothing_there() -> None:
    """Nor is what has no score; what only the witness has found does not count against anybody."""
    assert agreement({"a": 0.9, "b": 0.1}, {"a": 5.0}) == pytest.approx(1)
    assert agreement({"a": 0.9, "b": 0.1}, {"a": 5.0, "b": None, "z": 99.0}) == pytest.approx(1)


def test_who_is_not_borne_out_counts_less() -> None:
    """By a hundred scores that have nothing to do with the words; in full where they agree."""
    words = {f"d{place:03}": 10.0 / (place + 1) for place in range(100)}
    chance = random.Random(1)
    guessed = {name: chance.random() for name in words}
    assert credibility(guessed, words, answered=1) < 0.5
    assert credibility({name: score / 20 for name, score in words.items()}, words, answered=1) == 1


def test_less_is_asked_where_less_can_be_expected() -> None:
    """Of a witness that answers little, and of few scores."""
    words = {f"d{place:03}": 10.0 / (place + 1) for place in range(100)}
    chance = random.Random(1)
    guessed = {name: chance.random() for name in words}
    shares = [credibility(guessed, words, answered=answered) for answered in (1, 0.5, 0.1, 0)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    few = dict(list(guessed.items())[:4])
    assert credibility(dict.fromkeys(few, 0.5), few, answered=1) == pytest.approx(0.5)
    assert credibility({}, words, answered=1) == 1


@given(scores=found, witness=witnesses, answered=st.floats(0, 1), chance=st.randoms())
def test_any_scores_in_any_order(
    scores: dict[str, float], witness: dict[str, float | None], answered: float, chance: random.Random
) -> None:
    """Bounded for the largest floats too, to the last bit the same in another order, and nothing is changed."""
    before = repr((scores, witness))
    shuffled = dict(chance.sample(list(scores.items()), len(scores)))
    assert -1 <= agreement(scores, witness) <= 1
    assert agreement(shuffled, witness) == agreement(scores, witness)
    assert 0 < credibility(scores, witness, answered=answered) <= 1
    assert repr((scores, witness)) == before
