"""The texts most similar to another; and the same by comparing all of them."""

from hypothesis import example, given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from arc_common.memory.long_term.similar_texts import SimilarTexts

PARTS = st.sampled_from(["a", "ab", "ba", "b ", "가나", "나가", "é", "!", "🎉"])
TEXTS = st.builds(
    lambda parts, times: "".join(parts) * times, st.lists(PARTS, max_size=8), st.sampled_from([1, 2, 200])
)
"""Of few letters, so that many are similar; of some kinds there are more than are counted."""


@given(
    st.lists(st.tuples(st.sampled_from("abcdefghijklmnopqrst"), TEXTS | st.none())),
    TEXTS,
    st.sampled_from([0.0, 0.5, 0.8, 1.0]),
)
@example([("a", "x" * 75), ("b", "y" * 14 + "x" * 61)], "x" * 75, 0.8)
def test_it_finds_what_comparing_all_finds(changes, text, above):
    """After any additions and removals: the five best, of equal ones the smaller id."""
    held, all_of_them = SimilarTexts(), {}
    for name, new in changes:
        if name in all_of_them:
            held.remove(name)
            del all_of_them[name]
        if new is not None:
            held.add({name: new})
            all_of_them[name] = new
    assert len(held) == len(all_of_them)
    scores = {name: Levenshtein.normalized_similarity(text, one) for name, one in all_of_them.items()}
    expected = sorted((-score, name) for name, score in scores.items() if score > above)
    assert held.nearest(text, above=above, limit=5) == [name for _, name in expected[:5]]


def test_only_what_can_be_similar_is_compared():
    """Of a thousand texts of other letters none is; neither is one of another length."""
    held = SimilarTexts()
    held.add({str(number): f"{'qwertzuiop'[number % 10] * 40} {number}" for number in range(1_000)})
    held.add({"longer": "the user keeps bees in the garden behind the house", "as long": "the user keeps bees"})
    assert held.comparable("the user keeps bees", above=0.8) == [1_001]
    assert len(held.comparable("the user keeps bees", above=0.0)) == 1_002
