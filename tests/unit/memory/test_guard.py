"""The fidelity guard: values of sentences that are no facts survive summaries as excerpts."""

from datetime import UTC, datetime

import pytest

from arc_common import ArcSettings, ContextEngine, TokenBudget
from arc_common.facts import FactCategory, ProposedFact
from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.facts.guard import excerpts_of
from arc_common.messages import Message, Role

SAID = {
    "time": ("Could you book a table at Sol for 4 people at 19:30?", "19:30"),
    "size": ("I need the blue jacket in size 42.", "42"),
    "measure": ("The gap under the stairs is 87 cm wide.", "87 cm"),
    "date": ("Please send it on 12 March.", "12 March"),
    "weekday": ("Can you move it to Thursday?", "Thursday"),
    "money": ("Please find me something under $240.", "$240"),
    "id": ("Where is my parcel PX-20418-B?", "PX-20418-B"),
    "prohibition": ("You must not call my office.", "must not call"),
    "Korean": ("3월 12일 저녁 7시로 예약해 주세요.", "3월 12일"),
    "address": ("Could you write to jo@example.org?", "jo@example.org"),
}


def excerpts(text: str, role: Role = Role.USER, *facts: ProposedFact) -> list[str]:
    return [found.value for found in excerpts_of([Message(role, text, id="m1")], facts=facts)]


@pytest.mark.parametrize("kind", SAID)
def test_values_of_sentences_that_are_no_facts_are_kept(kind: str) -> None:
    said, value = SAID[kind]
    messages = [Message(Role.USER, said, id="m1")]
    found = [*extract_facts(messages), *excerpts_of(messages, facts=extract_facts(messages))]
    assert any(value in one.value for one in found)


def test_what_facts_of_the_message_say_is_not_kept_again() -> None:
    said = "Please book me for 7 pm on Friday."
    assert excerpts(said) == [said]
    whole = ProposedFact("booking", "Friday at 7 pm", FactCategory.NUMERIC, ("m1",))
    part = ProposedFact("booking", "at 7 pm", FactCategory.NUMERIC, ("m1",))
    other = ProposedFact("booking", "Friday at 7 pm", FactCategory.NUMERIC, ("m2",))
    assert excerpts(said, Role.USER, whole) == []
    assert excerpts(said, Role.USER, part) == excerpts(said, Role.USER, other) == [said]


def test_small_talk_and_what_others_say_are_not_kept() -> None:
    assert excerpts("That's great, thanks for the two tips!") == []
    assert excerpts("What is the weather like?") == excerpts("[shares a photo of 2 dogs]") == []
    assert excerpts("You could try the 7 pm show.", Role.ASSISTANT) == []
    assert excerpts("I've booked the 7 pm show, reference QX-1207.", Role.ASSISTANT)
    assert excerpts("```\nPlease pay $300 by 9 May.\n```") == []


def test_a_long_sentence_is_cut_to_what_tells() -> None:
    (kept,) = excerpts(f"Please, {'as we talked about it, ' * 12}could you book it for 12 March at 7 pm?")
    assert "12 March at 7 pm" in kept
    assert len(kept) < 100


@pytest.mark.parametrize("kind", SAID)
def test_a_summary_keeps_them(kind: str) -> None:
    """The summary shows the value with its day and speaker; it is no fact, and can be listed."""
    said, value = SAID[kind]
    with ContextEngine.open(settings=ArcSettings(summary={"leaf_messages": 8, "recent_message_count": 2})) as engine:
        session = engine.session("s")
        session.save_turn(said, "Noted.")
        for number in range(20):
            session.save_turn(f"Tell me something about chess opening {'abcdefghijklmnopqrst'[number]}.", "It is old.")
        summary = session.summarize()
        window = session.context("And now?", budget=TokenBudget(5_000, 0))
        assert summary is not None
        kept = "\n".join([summary.narrative, *(fact.line for fact in session.facts())])
        assert value in kept
        assert value in window.messages[0].text
        assert not [fact for fact in session.facts() if fact.is_excerpt]
        listed = [fact for fact in session.facts(include_excerpts=True) if value in fact.value]
        assert len(listed) == 1


def test_excerpts_of_one_day_share_its_heading() -> None:
    with ContextEngine.open(settings=ArcSettings(summary={"leaf_messages": 8, "recent_message_count": 2})) as engine:
        session = engine.session("s")
        for number in range(20):
            said = [f"Please send parcel {number} to dock {number + 40}.", f"Please stack pallet {number + 70} there."]
            session.save_turn(said[number % 2], "Fine.")
        session.summarize()
        shown = session.context("And now?", budget=TokenBudget(5_000, 0)).messages[0].text.split("Summary:")[1]
    day = f"[{datetime.now(UTC):%Y-%m-%d}]"
    assert shown.count(day) == 1
    assert shown.index(day) < shown.index("- user: Please send parcel 0") < shown.index("pallet 71")


def test_an_excerpt_that_is_only_a_value_comes_with_its_question() -> None:
    asked = Message("assistant", "How long should the limit be?", id="a")
    (excerpt,) = excerpts_of([asked, Message(Role.USER, "90 minutes", id="b")], facts=())
    assert excerpt.value == "90 minutes (asked: How long should the limit be?)"
    assert excerpt.sources == ("b", "a")
