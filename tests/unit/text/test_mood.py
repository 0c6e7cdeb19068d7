"""Moods: which parts of a sentence are stated."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.text.languages.registry import detect
from arc_common.text.sentences import Mood, parts_of

WORDS = ["I", "asked", "if", ",", "what", "?", "since", "we", "는지", "몰라요"]


def moods(sentence: str) -> list[tuple[str, Mood]]:
    return [(part.text.strip(), part.mood) for part in parts_of(sentence, detect(sentence))]


def test_a_part_has_the_mood_of_its_form() -> None:
    """Statements as they stand; questions, reported questions and suppositions are left out."""
    cases = [
        ("We have three servers.", [("We have three servers.", Mood.STATED)]),
        ("We have three, don't we?", [("We have three, don't we?", Mood.CONFIRMED)]),
        ("Could you deliver it on Friday?", [("Could you deliver it on Friday?", Mood.REQUESTED)]),
        ("Could you explain it?", []),
        ("I'm in Rome, is it far?", [("I'm in Rome,", Mood.STATED)]),
        ("I'm in Rome and was wondering if it is far.", [("I'm in Rome", Mood.STATED)]),
        ("Imagine we had three servers.", []),
        ("If I live in Rome, what do I pay?", []),
        ("If I live in Rome, what do I pay", []),
        ("I keep bees, but if I live in Rome, may I?", [("I keep bees,", Mood.STATED)]),
        ("If it rains, we stay in.", [("If it rains, we stay in.", Mood.STATED)]),
        (
            "If it rains, could you call me?",
            [("If it rains,", Mood.STATED), ("could you call me?", Mood.REQUESTED)],
        ),
        ("How much would I pay on Friday?", []),
        ("If I lived in Rome, I'd pay less.", []),
        ("If I am late, I'd like a room.", [("If I am late, I'd like a room.", Mood.STATED)]),
        ("로마에 살면, 세금이 얼마예요?", []),
        ("如果我住在罗马，要交多少税？", []),
        ("저는 로마에 있는데 여기서 먼가요?", [("저는 로마에 있는데", Mood.STATED)]),
        ("금요일에 가져다주실 수 있나요?", [("금요일에 가져다주실 수 있나요?", Mood.REQUESTED)]),
        ("我要去798艺术区，门票是多少？", [("我要去798艺术区，", Mood.STATED)]),
        ("", [("", Mood.STATED)]),
    ]
    for sentence, expected in cases:
        assert moods(sentence) == expected


@given(st.text(max_size=200) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_parts_are_verbatim_and_in_order(sentence: str) -> None:
    """Whatever the text."""
    at = 0
    for part in parts_of(sentence, detect(sentence)):
        at = sentence.index(part.text, at) + len(part.text)


@pytest.mark.parametrize(
    "piece", ["if we had ", "would ", "I asked ", "not sure ", "인지 ", "할지 ", "만약 ", "a, ", "哪", "?"]
)
def test_hostile_sentences_cost_linear_time(piece: str) -> None:
    """Longer than any sentence that comes here."""
    sentence = piece * (20_000 // len(piece)) + "?"
    start = time.process_time()
    parts_of(sentence, detect(sentence))
    assert time.process_time() - start < 2
