"""The written-out conversation keeps what the demo says about it."""

import pytest

from arc_common.demo.run import WINDOW
from arc_common.demo.script import Question, ScriptTurn, support_script

script = support_script()
questions = pytest.mark.parametrize(
    ("turn", "question"), script.questions, ids=[f"turn {turn.number}" for turn, _ in script.questions]
)


def test_it_is_long_enough_to_outgrow_a_window() -> None:
    """At least 60 messages, some of them Korean, played by two frameworks."""
    assert 2 * len(script.turns) >= 60
    assert any("가" <= letter <= "힣" for turn in script.turns for letter in turn.user)
    assert 1 < script.handover < len(script.turns)


@questions
def test_a_fact_is_stated_once_and_by_the_user(turn: ScriptTurn, question: Question) -> None:
    """The value stands in the turn that is named, and in no other written text: nothing gives it away later."""
    written = {(each.number, text) for each in script.turns for text in (each.user, each.reply or "")}
    holding = {number for number, text in written if question.value_in(text)}
    assert holding == {question.stated}
    assert question.value_in(script.turns[question.stated - 1].user)


@questions
def test_a_question_does_not_hold_its_answer(turn: ScriptTurn, question: Question) -> None:
    """Nobody can answer by repeating the question."""
    assert question.value_in(turn.user) is None
    assert question.value_in(script.system) is None


def test_all_but_one_of_the_facts_have_left_the_window() -> None:
    """One recent fact is asked for as well: the sliding window is not made to look worse than it is."""
    recent = [turn for turn, question in script.questions if 2 * (turn.number - question.stated) <= WINDOW]
    assert len(recent) == 1
    assert len(script.questions) >= 6


def test_replies_are_told_apart_by_what_they_answer() -> None:
    """No turn's text is the beginning of another's."""
    said = [turn.user for turn in script.turns]
    assert not [(a, b) for a in said for b in said if a is not b and b.startswith(a)]
