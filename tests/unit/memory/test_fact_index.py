"""Which facts come back with a question."""

from datetime import UTC, datetime, timedelta

from arc_common.facts import Fact, FactCategory
from arc_common.memory.facts.index import FactIndex

START = datetime(2026, 1, 1, tzinfo=UTC)


def fact(name: str, key: str, value: str, *, importance: float = 0.5, leaf: int = 1) -> Fact:
    """A fact of the ledger."""
    when = START + timedelta(minutes=leaf)
    return Fact(name, key, value, FactCategory.GENERAL, ("m",), importance, leaf, "model", when)


FACTS = [
    fact("rent", "rent", "715 euros a month", importance=0.9),
    fact("dog", "name of the dog", "Waffles"),
    fact("gate", "gate code", "2291"),
    fact("flight", "flight to Lisbon", "leaves at 7:40"),
    fact("colour", "colour of the gate", "green", leaf=40),
    *(fact(f"n{n}", f"note {n}", f"something about subject {n}") for n in range(20)),
]
INDEX = FactIndex(FACTS, count=len)


def found(question: str, **options: object) -> tuple[list[str], int]:
    """The ids that come back, and how many others there are."""
    arguments = {"top_k": 100, "boundary": 40, "adopted": ()} | options
    lines, others = INDEX.search(question, **arguments)  # type: ignore[arg-type]  # by name
    return [line.id for line in lines], others


def test_only_what_the_question_is_about_comes_back() -> None:
    """Nothing else fills the room, however important: that stands with the pinned facts, where it is cached."""
    assert found("What is the code of the gate?") == (["gate"], 24)
    assert found("How was your weekend?") == ([], 25)
    assert found("") == ([], 25)


def test_a_long_message_is_not_about_all_that_shares_a_word_with_it() -> None:
    """A share of what a perfect match would have is asked for, not any match."""
    said = "We walked along the river, had dinner at the harbour, met old friends and came home by a late flight"

    assert found(said) == ([], 25)
    assert found("When does my flight leave?")[0] == ["flight"]


def test_a_statement_needs_a_better_match_than_a_question() -> None:
    """Who only tells something seldom needs anything."""
    said = "I booked a flight to Busan for my sister"

    assert found(f"{said}?")[0] == ["flight"]
    assert found(said) == ([], 25)
    assert found("The flight leaves at 7:40")[0] == ["flight"]


def test_a_pinned_fact_comes_back_too_and_is_not_counted_among_the_others() -> None:
    """There may have been no room for it where it was pinned."""
    assert found("What is the code of the gate?", adopted=("gate", "rent")) == (["gate"], 23)
    assert found("How was your weekend?", adopted=("gate", "rent")) == ([], 23)


def test_what_lies_behind_the_boundary_is_shown_as_it_was_said() -> None:
    """A leaf that is not adopted yet lends no facts."""
    assert found("What is the colour of the gate?")[0][0] == "colour"
    assert "colour" not in found("What is the colour of the gate?", boundary=39)[0]


def test_importance_by_id() -> None:
    """A fact that is gone weighs nothing."""
    assert INDEX.importance(["rent", "gone", "dog"]) == (0.9, 0.0, 0.5)
