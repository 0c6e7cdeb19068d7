"""The written-out conversation keeps what the demo says about it."""

import pytest

from arc_common.cli.demo.run import Question, ScriptTurn, support_script

script = support_script()
questions = pytest.mark.parametrize(
    ("turn", "question"), script.questions, ids=[f"turn {turn.number}" for turn, _ in script.questions]
)


def test_it_is_long_enough_to_outgrow_a_window() -> None:
    """At least 300 messages that don't repeat each other, some of them Korean, played by two frameworks."""
    assert 2 * len(script.turns) >= 300
    said = [text for turn in script.turns for text in (turn.user, turn.reply) if text]
    assert len(set(said)) == len(said)
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


def test_facts_are_asked_for_early_and_late() -> None:
    """The first question comes while all is short, most at the end, one of them about the newest part."""
    distances = [turn.number - question.stated for turn, question in script.questions]
    assert script.questions[0][0].number < 25
    assert sum(distance > 50 for distance in distances) >= 10
    assert sum(distance < 25 for distance in distances[1:]) == 1


def test_replies_are_told_apart_by_what_they_answer() -> None:
    """No turn's text is the beginning of another's."""
    said = [turn.user for turn in script.turns]
    assert not [(a, b) for a in said for b in said if a is not b and b.startswith(a)]
