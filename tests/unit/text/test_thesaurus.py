"""The thesaurus: words that may replace a question's."""

from hypothesis import given
from hypothesis import strategies as st

from arc_common.text import alternatives, analyze
from arc_common.text.thesaurus import _lines


def test_a_word_stands_for_others_of_its_concept():
    cases = [
        ("job", "nurse"),
        ("Which dog?", "beagle"),
        ("직업이 뭐예요?", "약사"),
        ("nurse", "occupation"),
        ("On which day?", "Mondays"),
        ("rehearse", "practice"),
        ("아버지가", "아빠"),
        ("개는", "강아지"),
        ("좋아하시나요", "취향"),
    ]
    for asked, answer in cases:
        terms = set(analyze(answer))
        assert any(terms.issuperset(word.terms) for words in alternatives(asked) for word in words)


def test_what_means_the_same_weighs_more_than_what_belongs():
    weights = {word.terms: word.weight for words in alternatives("dog") for word in words}
    assert 1.0 > weights[("puppi",)] > weights[("beagl",)] > 0.0
    assert ("dog",) not in weights


def test_other_words_stand_for_themselves_only():
    """Unknown words, stop words, numbers and codes have no alternatives."""
    assert alternatives("quaternion") == alternatives("where is it") == alternatives("A-7731, 42") == []
    assert len(alternatives("the dog, dogs and the dog")) <= 2


@given(st.text(max_size=80))
def test_any_text_is_accepted(query):
    found = alternatives(query)
    assert found == alternatives(query)
    for word in (word for words in found for word in words):
        assert word.terms
        assert not (len(word.terms) == 1 and "가" <= word.terms[0] <= "힣" and len(word.terms[0]) == 1)


def test_every_word_of_the_thesaurus_can_be_found():
    """Each is one word to the analyzer, and each concept has a name."""
    for line in _lines():
        names, _, members = line.partition(":")
        assert names.split(), line
        for word in (*names.split(), *members.split()):
            assert analyze(word), (word, line)
