"""What is one memory and what are two: by their words, and by their meaning."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.memory.long_term.deduplication import folded, may_be_the_same


def test_what_has_another_value_is_another_memory():
    """However near letters or vectors are: the one would be lost."""
    cases = [
        ("The meeting is on 3 May at 3 pm", "The meeting is on 5 May at 3 pm"),
        ("The code is 7-7-3", "The code is 7-3-3"),
        ("The user's flight departs from ICN to GMP", "The user's flight departs from GMP to ICN"),
        ("The user's flight departs from icn to gmp", "The user's flight departs from gmp to icn"),
        ("The user flies with KE123 on Friday", "The user flies with KE132 on Friday"),
        ("Anna and Tom are the user's guests", "Tom and Anna are the user's hosts"),
        ("The store room is kept at 5 degrees", "The store room is kept at -5 degrees"),
        ("The user owes the landlord $500", "The user owes the landlord €500"),
        ("The user writes programs in C", "The user writes programs in C++"),
        ("The user takes the pills before meals", "The user takes the pills after meals"),
        ("The user's plan is nearly ready", "The user's plane is nearly ready"),
        ("The user works at the harbour", "The user worked at the harbour"),
        ("The user works as a nurse in Ulsan", "The user's wife works as a nurse in Ulsan"),
        ("The user has a lawyer in the family", "The user is a lawyer in the family"),
        ("The user prefers tea to coffee", "The user prefers coffee to tea"),
        ("The user's dog is afraid of the cat", "The user's cat is afraid of the dog"),
        ("The user likes tea", "The user loves coffee"),
        ("The user lives by the harbour", "The user works by the harbour"),
        ("The class is every monday evening", "The class is every friday evening"),
        ("사용자는 땅콩 알레르기가 있다", "사용자는 새우 알레르기가 있다"),
        ("팀 회의는 매주 월요일이다", "팀 회식은 매주 금요일이다"),
        ("회의는 월요일", "회식은 금요일"),
        ("서울에서 부산까지 간다", "부산에서 서울까지 간다"),
        ("사용자의 아들은 대학생이다", "사용자의 아들은 대학원생이다"),
        ("用户住在北京", "用户住在上海"),
    ]
    for one, other in cases:
        for by_meaning in (False, True):
            assert not may_be_the_same(one, other, by_meaning=by_meaning)
            assert not may_be_the_same(other, one, by_meaning=by_meaning)


def test_other_spellings_are_one_memory():
    """So is what only adds to it."""
    cases = [
        ("The user likes coffee in the mornings", "User likes coffee in the morning."),
        ("The user's favourite composer is Bach", "The user's favorite composer is Bach"),
        ("The user organises fairs", "The user organizes fairs"),
        ("The user's budget is 1,240 won", "The user's budget is 1240 won"),
        ("The user moved house", "The user moved house because of the noise"),
        ("사용자는 아침에 커피를 마신다", "사용자가 아침에 커피를 마신다"),
    ]
    for one, other in cases:
        assert may_be_the_same(one, other)
        assert may_be_the_same(other, one, by_meaning=True)


def test_other_words_for_it_are_one_memory_by_meaning_alone():
    """What the words leave open, vectors may decide."""
    cases = [
        ("The user loves hiking", "The user is fond of hiking"),
        ("The user lives in Seoul", "The user resides in Seoul"),
        ("The user loves hiking in the mountains", "The user enjoys mountain hikes"),
        ("The user works as a nurse", "The user is a nurse by profession"),
        ("The user enjoys long walks", "What the user does on days off is hiking"),
        ("사용자는 매운 음식을 좋아한다", "사용자는 매운 음식을 좋아합니다"),
    ]
    for one, other in cases:
        assert may_be_the_same(one, other, by_meaning=True)
        assert not may_be_the_same(one, other)


def test_a_denial_is_not_what_it_denies():
    """By letters and by meaning."""
    assert not may_be_the_same("The user eats meat", "The user doesn't eat meat", by_meaning=True)
    assert not may_be_the_same("사용자는 고기를 먹는다", "사용자는 고기를 안 먹는다", by_meaning=True)


TEXTS = st.text(st.sampled_from("ab AB12.-'가나는 C+"), max_size=30) | st.text(max_size=30)


@given(TEXTS, TEXTS, st.booleans())
def test_it_is_the_same_from_both_sides(one, other, by_meaning):
    """And each text says what it says itself."""
    assert may_be_the_same(one, other, by_meaning=by_meaning) == may_be_the_same(other, one, by_meaning=by_meaning)
    assert may_be_the_same(one, one, by_meaning=by_meaning)


@given(TEXTS)
def test_folding_is_done_once(text):
    """A folded text stays as it is."""
    assert folded(folded(text)) == folded(text)


@pytest.mark.parametrize("unit", [" ", ". ", " .", "1,", "1-", "A ", "a'", "+", "가 ", "is of "])
def test_hostile_texts_are_compared_in_linear_time(unit):
    """Ten times the text takes no more than some ten times as long."""

    def seconds(length):
        text = "a" + unit * (length // len(unit)) + "x"
        taken = []
        for place in range(3):
            began = time.thread_time()
            folded(text)
            may_be_the_same(text, f"{text}{place}")
            taken.append(time.thread_time() - began)
        return min(taken)

    assert seconds(40_000) < 40 * seconds(4_000) + 0.05
