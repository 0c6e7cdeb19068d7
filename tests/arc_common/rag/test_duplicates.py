"""Which texts say the same."""

import pytest
from hypothesis import given

from arc_common.rag.duplicates import SeenTexts
from tests.arc_common.rag.texts import texts

WORDS = [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)]


def said(*earlier, threshold=0.9):
    seen = SeenTexts(threshold=threshold)
    for text in earlier:
        seen.add(text)
    return seen


@given(texts, texts)
def test_a_text_says_what_it_says(text, other):
    """It is its own copy, in capitals too; and whether another is one does not depend on which came first."""
    assert said(text).has(text)
    assert said(text, threshold=None).has(f"  {text}\n")
    assert said(text).has(other) == said(other).has(text)


@pytest.mark.parametrize(("changed", "is_near"), [(0, True), (1, True), (3, True), (4, False), (40, False)])
def test_shingles_decide(changed, is_near):
    """A changed word costs three of them on each side: of 198, three words leave .914, four .886."""
    other = [word.upper() if i % 50 != 25 or i // 50 >= changed else "other" for i, word in enumerate(WORDS)]
    if changed > 4:
        other[:changed] = ["other"] * changed
    assert said(" ".join(WORDS)).has(" ".join(other)) is is_near


def test_other_numbers_say_something_else():
    """However alike two texts are; the same ones written otherwise do not."""
    bill = f"{' '.join(WORDS)} total 1,240 euros"
    assert not said(bill).has(bill.replace("1,240", "1,250"))
    assert said(bill).has(bill.replace("1,240", "1240"))


def test_texts_without_words_are_compared_as_they_are():
    """They have no shingles."""
    assert said("…").has("…")
    assert not said("…").has("!!")
