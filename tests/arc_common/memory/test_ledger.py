"""The pinned facts are chosen and ordered by what they say, never by their ids."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.facts import Fact, FactCategory
from arc_common.memory.ledger import pinned

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def fact(value: str, *, fact_id: str, minute: int = 0, importance: float = 0.5) -> Fact:
    return Fact(
        id=fact_id,
        key="k",
        value=value,
        category=FactCategory.GENERAL,
        sources=("m",),
        importance=importance,
        segment=1,
        made_by="rules",
        valid_from=NOON + timedelta(minutes=minute),
    )


@given(st.permutations(["f1", "f2", "f3", "f4"]))
def test_the_same_conversation_pins_the_same_lines(ids: list[str]) -> None:
    """Ids are random: what one message says stands in the same order, and the same of it is left out, every time."""
    facts = [fact(value, fact_id=fact_id) for value, fact_id in zip("abcd", ids, strict=True)]
    chosen = pinned(facts, max_tokens=3, count=lambda _: 1)
    assert [one.value for one in chosen] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("room", "values"),
    [(3, ["first", "second", "third"]), (2, ["first", "third"]), (1, ["first"]), (0, [])],
    ids=["all", "two", "one", "none"],
)
def test_the_most_important_and_then_the_newest_are_pinned(room: int, values: list[str]) -> None:
    """They are shown in the order in which they were said."""
    facts = [
        fact("third", fact_id="1", minute=2),
        fact("second", fact_id="2", minute=1),
        fact("first", fact_id="3", importance=0.9),
    ]
    assert [one.value for one in pinned(facts, max_tokens=room, count=lambda _: 1)] == values
