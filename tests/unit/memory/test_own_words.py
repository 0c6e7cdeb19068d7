"""What of a message its writer states in their own name."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.memory.facts.extraction import own_words, without_forgotten, without_quoted


def test_what_is_to_be_forgotten_is_not_read():
    """Whoever reads it again would remember it."""
    cases = [
        "Please forget that I live in Seoul",
        "Could you please forget that I live in Seoul?",
        "I'd like you to forget about my allergy.",
        "You can forget I like tea.",
        "Don't remember that I live in Seoul.",
        "Stop remembering what I eat.",
        "Delete the memory that I live in Seoul.",
        "Remove from your notes that I live in Seoul.",
        "잊어줘: 나는 서울에 산다",
        "나는 서울에 산다는 걸 잊어줘",
        "제가 서울에 산다는 건 잊어 주세요.",
        "서울에 산다는 기억 지워줘",
        "저에 대한 기억을 모두 삭제해 주세요",
        "서울에 산다는 건 기억하지 마세요",
    ]
    for text in cases:
        assert without_forgotten(text) == ""
        assert (
            " ".join(without_forgotten(f"I keep bees. {text}\nI keep goats.").split()) == "I keep bees. I keep goats."
        )


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Forget what I said, I live in Busan now.", "I live in Busan now."),
        ("Please forget that I live in Seoul because I moved.", "I moved."),
        ("서울 얘기는 잊어 주세요, 지금은 부산에 살아요.", "지금은 부산에 살아요."),
    ],
)
def test_what_is_stated_instead_stays(text, stated):
    """Behind a request to forget."""
    assert without_forgotten(text) == stated


def test_other_words_stay():
    """To the letter."""
    cases = [
        "Don't forget that I live in Seoul.",
        "I forget names easily.",
        "I forgot my keys in Rome.",
        "Forget it.",
        "Remember that I live in Seoul.",
        "Delete the meeting on Friday.",
        "Remove the contact from the website.",
        "서울에 산다는 거 잊지 마세요.",
        "저는 자꾸 약을 잊어버려요.",
        "고객 정보를 삭제했어요.",
        "",
    ]
    for text in cases:
        assert without_forgotten(text) == text
        assert own_words(text) == text


def test_a_text_to_be_worked_on_is_not_its_writer_s():
    """In quotation marks, behind a colon, or on the next lines up to an empty one."""
    cases = [
        ('Translate: "I live in Seoul." I keep bees.', "Translate:  I keep bees."),
        ('Please translate "I live in Seoul" into French', "Please translate into French"),
        ("Translate the following into Korean: I live in Seoul.", "Translate the following into Korean:"),
        ("Hi! Could you fix the grammar: I lives in Seoul", "Hi! Could you fix the grammar:"),
        ("Summarize this:\nI live in Seoul.\nI like it.\n\nI keep bees.", "Summarize this: I keep bees."),
        ("Translate the text below.\n\nI live in Seoul.", "Translate the text below."),
        ("Here is my letter, please correct it:\n\nI live in Seoul.", "Here is my letter, please correct it:"),
        ("Example: I live in Seoul.", "Example:"),
        ("Check this out: I live in Seoul now!", "Check this out: I live in Seoul now!"),
        ("번역해줘: 나는 서울에 살아", "번역해줘:"),
        ("이 문장을 교정해줘 - 나는 서울에 살아", "이 문장을 교정해줘 -"),
        ("다음 글을 번역해 주세요.\n나는 서울에 살아.", "다음 글을 번역해 주세요."),
        ('"나는 서울에 산다"를 번역해줘', "를 번역해줘"),
        ("See ```I live in Seoul``` I keep bees.", "See I keep bees."),
        ("I translate books. I live in Seoul.", "I translate books. I live in Seoul."),
        ("Write on the card: Happy birthday Hana", "Write on the card: Happy birthday Hana"),
    ]
    for text, own in cases:
        assert own_words(text).split() == own.split()


def test_somebody_s_words_on_themselves_in_quotation_marks():
    """Are not the writer's; titles and names stay."""
    cases = [
        ('He said "I live in Seoul."', "He said"),
        ("My friend says 'I'm allergic to nuts', poor him", "My friend says , poor him"),
        ("친구가 「나는 서울에 산다」라고 했어요", "친구가 라고 했어요"),
        ('My favourite song is "I Will Survive"', 'My favourite song is "I Will Survive"'),
        ('I call my boat "Hana"', 'I call my boat "Hana"'),
        ("I don't like my sister's 'gift'", "I don't like my sister's 'gift'"),
    ]
    for text, own in cases:
        assert without_quoted(text).split() == own.split()


@given(st.text(st.sampled_from("fix forget: \"'Translate\n.I 나는잊어줘번역 ,"), max_size=80) | st.text(max_size=80))
def test_nothing_is_added(text):
    """What is left is what was there, in its order."""
    letters = iter(text)
    assert all(letter in letters for letter in own_words(text) if not letter.isspace())


@pytest.mark.parametrize(
    "unit",
    [
        "forget ",
        "please ",
        "Translate ",
        "번역",
        "'I a",
        '"I a',
        "「나는",
        "잊어줘 ",
        "Translate:\n",
        "fix the ",
        "delete ",
        "no ",
        "다음 ",
    ],
)
def test_hostile_texts_are_read_in_linear_time(unit):
    """Ten times the text takes no more than some ten times as long."""

    def seconds(length):
        text = unit * (length // len(unit)) + "x"
        taken = []
        for _ in range(3):
            began = time.thread_time()
            without_quoted(own_words(text))
            taken.append(time.thread_time() - began)
        return min(taken)

    assert seconds(60_000) < 40 * seconds(6_000) + 0.05
