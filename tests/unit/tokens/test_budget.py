"""Guarantees of the allocator for any sections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import InvalidInputError, SectionBudget, TokenBudget
from arc_common.tokens.budget import DEFAULT_SECTIONS

names = sorted(DEFAULT_SECTIONS)
amounts = st.integers(0, 10_000)


@st.composite
def section_budgets(draw):
    """Draw a section with any min_tokens, max_tokens, share and priority."""
    max_tokens = draw(st.none() | amounts)
    return SectionBudget(
        min_tokens=draw(st.integers(0, max_tokens if max_tokens is not None else 2_000)),
        max_tokens=max_tokens,
        share=draw(st.none() | st.floats(0, 1)),
        priority=draw(st.integers(-5, 5)),
    )


budgets = st.builds(
    TokenBudget,
    context_window=st.integers(1, 20_000),
    output_reserve=st.none() | st.just(0),
    sections=st.dictionaries(st.sampled_from(names), section_budgets() | amounts),
)
wants = st.dictionaries(st.sampled_from(names), amounts)


@given(budgets, wants, amounts)
def test_an_allotment_is_within_what_there_is_what_is_wanted_and_each_limit(budget, wanted, available):
    allotted = budget.allot(wanted, available)
    assert allotted.keys() == wanted.keys()
    assert sum(allotted.values()) <= available
    assert all(0 <= allotted[name] <= min(wanted[name], budget.max_tokens(name)) for name in wanted)


@given(budgets, wants, amounts)
def test_what_a_section_leaves_is_lent_to_the_next(budget, wanted, available):
    allotted = budget.allot(wanted, available)
    if sum(allotted.values()) < available:
        assert all(allotted[name] == min(wanted[name], budget.max_tokens(name)) for name in wanted)


@given(budgets, wants, amounts)
def test_least_tokens_are_served_before_anything_else(budget, wanted, available):
    least = {name: min(wanted[name], budget.max_tokens(name), budget.section(name).min_tokens) for name in wanted}
    allotted = budget.allot(wanted, available)
    if sum(least.values()) <= available:
        assert all(allotted[name] >= least[name] for name in wanted)


@given(budgets, wants, amounts)
def test_above_the_least_a_section_gets_nothing_while_one_of_higher_priority_wants_more(budget, wanted, available):
    allotted = budget.allot(wanted, available)
    for low in wanted:
        for high in wanted:
            if budget.section(high).priority > budget.section(low).priority:
                satisfied = allotted[high] == min(wanted[high], budget.max_tokens(high))
                assert satisfied or allotted[low] <= budget.section(low).min_tokens


@given(budgets, wants, amounts)
def test_an_allotment_does_not_depend_on_the_order_of_the_wishes(budget, wanted, available):
    assert budget.allot(dict(reversed(wanted.items())), available) == budget.allot(wanted, available)


def test_turns_leave_first_then_documents_then_the_running_turn():
    budget = TokenBudget(4_000, 0)
    wanted = {"documents": 1_000, "history": 3_000, "current_turn": 1_000}
    assert budget.allot(wanted, 4_000) == {"documents": 1_000, "history": 2_000, "current_turn": 1_000}
    assert budget.allot(wanted, 2_000) == {"documents": 1_000, "history": 0, "current_turn": 1_000}
    assert budget.allot(wanted, 1_500) == {"documents": 500, "history": 0, "current_turn": 1_000}
    assert budget.allot(wanted, 800) == {"documents": 0, "history": 0, "current_turn": 800}


def test_a_floor_holds_history_against_documents():
    budget = TokenBudget(4_000, 0, {"history": SectionBudget(min_tokens=500)})
    assert budget.allot({"documents": 4_000, "history": 3_000}, 1_000) == {"documents": 500, "history": 500}


def test_the_defaults_are_the_designs():
    large = TokenBudget(128_000)
    assert [large.max_tokens(name) for name in ("documents", "recalled", "summary", "facts")] == [
        4_000,
        800,
        500,
        1_000,
    ]
    assert large.max_tokens("history") == large.input_tokens
    assert TokenBudget(4_000, 0).max_tokens("facts") == 600


def test_a_number_is_a_limit():
    budget = TokenBudget(4_000, 0, {"documents": 100})
    assert budget.section("documents") == SectionBudget(max_tokens=100, priority=DEFAULT_SECTIONS["documents"].priority)


def test_wrong_sections_are_refused():
    cases = [
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 2, "max_tokens": 1}, "min_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"share": 2}, "share"),
        ({"share": True}, "share"),
        ({"share": float("nan")}, "share"),
        ({"priority": "high"}, "priority"),
    ]
    for wrong, field in cases:
        with pytest.raises(InvalidInputError, match=field):
            SectionBudget(**wrong)


def test_wrong_budgets_are_refused():
    cases = [{"docs": 1}, {"documents": -1}, {"documents": "4k"}, [("documents", 1)]]
    for wrong in cases:
        with pytest.raises(InvalidInputError, match="sections"):
            TokenBudget(sections=wrong)


@pytest.mark.parametrize(
    ("budget", "lent"),
    [
        (TokenBudget(4_000, 0), 400),
        (TokenBudget(2_000, 0), 250),
        (TokenBudget(6_000, 0), 100),
        (TokenBudget(16_000, 0), 0),
        (TokenBudget(4_000, 0, {"recalled": 0}), 0),
        (TokenBudget(4_000, 0, {"facts": 0}), 0),
        (TokenBudget(4_000, 0, {"facts": SectionBudget(share=0.1)}), 0),
    ],
    ids=["small", "smaller", "nearly full", "large", "no memory", "no facts", "no max_tokens"],
)
def test_facts_borrow_of_memory_until_their_limit_is_reached(budget, lent):
    assert budget.lent_to_facts() == lent
