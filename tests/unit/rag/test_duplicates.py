"""Which texts say the same."""

from hypothesis import given

from arc_common.rag.context_builder import SeenTexts
from tests.support.texts import texts

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


def test_shingles_decide():
    """An added article breaks two of them and makes three: of 198, four leave .905, five .883."""
    for added, is_near in [(0, True), (1, True), (4, True), (5, False), (40, False)]:
        other = [f"the {word.upper()}" if i % 4 == 2 and i // 4 < added else word for i, word in enumerate(WORDS)]
        assert said(" ".join(WORDS)).has(" ".join(other)) is is_near


LEASE = f"""Unless the tenant and the landlord of Mill Street 4 agree otherwise in writing, a small dog may be kept in
the flat; the deposit is due before the keys are handed over, the rent on the first of each month, and whoever moves out
has to paint the walls, to clean the floors and to leave all keys with the caretaker, who lives on the ground floor of
the house and is there from Monday to Friday; {" ".join(WORDS[:100])}."""


def test_one_other_word_says_something_else():
    """However alike two long texts are: negations, names, who does what, and when."""
    cases = [
        ("may be kept", "may not be kept"),
        ("may be kept", "must be kept"),
        ("Mill Street", "Oak Street"),
        ("before the keys", "after the keys"),
        ("the tenant and the landlord", "the landlord and the tenant"),
        ("leave all keys", "leave keys"),
        ("is there from", "isn't there from"),
        ("Street 4", "Street -4"),
        ("deposit is due", "deposit of 5 € is due"),
        ("the caretaker", "저는 관리인"),
    ]
    for said_there, said_here in cases:
        assert said_there in LEASE
        other = LEASE.replace(said_there, said_here)
        assert not said(LEASE).has(other)
        assert not said(other).has(LEASE)


def test_articles_punctuation_and_forms_of_characters_say_nothing():
    """Nor do capitals and line breaks."""
    other = LEASE.replace("the floors", "floors").replace("; ", ". ").replace("a small dog", "**small** dog").upper()
    assert said(LEASE).has(other.replace(" ", "\n"))


def test_other_numbers_say_something_else():
    """However alike two texts are; the same ones written otherwise do not."""
    bill = f"{' '.join(WORDS)} total 1,240 euros"
    assert not said(bill).has(bill.replace("1,240", "1,250"))
    assert said(bill).has(bill.replace("1,240", "1240"))


def test_signs_that_are_part_of_a_word_say_something():
    """However alike two texts are; a line that begins with a dash or ends with one says what it says without."""
    cases = [("3.5 mg", "3-5 mg"), ("1/2 cup", "1.2 cup"), ("v1.2", "v1-2"), ("C#", "C"), ("rated BBB-", "rated BBB")]
    for one, other in cases:
        leaflet = f"{' '.join(WORDS)} {{}} and a word"
        assert not said(leaflet.format(one)).has(leaflet.format(other))
        assert not said(leaflet.format(other)).has(leaflet.format(one))
        assert said(leaflet.format(f"- {one} -")).has(leaflet.format(one))


def test_texts_without_words_are_compared_as_they_are():
    """They have no shingles."""
    assert said("…").has("…")
    assert not said("…").has("!!")
