"""Division of a request's tokens between its sections."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import Document, HeuristicTokenCounter, Message, TokenBudget
from arc_common.context import Costs, Layers, Request
from arc_common.context.allocation import Allocator, HistoryRoom, wanted_tokens
from arc_common.context.request import Draft
from arc_common.protocols.summaries import View

QUERY = Message("user", "What does it cost?")


def allocator(tokens: int, wanted: dict[str, int]) -> Allocator:
    """Return the allocator of a request of so many tokens that contains only its question."""
    costs = Costs(HeuristicTokenCounter(), {})
    draft = Draft(Request(query=QUERY), QUERY)
    return Allocator(draft, budget=TokenBudget(tokens, 0), schemas=0, wanted=wanted, costs=costs)


def test_a_draft_is_filled_with_what_fits_as_it_stands_there():
    """The best come first, framing is counted, and nothing is taken before `fill`."""
    share = allocator(4_000, {"documents": 600})
    documents = [Document(f"Part {n}. {'word ' * 40}", id=f"d{n}") for n in range(9)]

    filled = share.filled(documents, lambda kept: replace(share.draft, documents=kept), sizes=[40] * 9, room=250)

    assert 2 <= len(filled.documents) < 7
    assert [document.id for document in filled.documents] == [f"d{n}" for n in range(len(filled.documents))]
    assert not share.draft.documents
    assert 0 < share.added(filled) <= 250
    assert share.fill(filled) > 0
    assert share.draft is filled
    assert share.added(filled) == 0


def test_if_nothing_fits_the_draft_is_unchanged():
    share = allocator(4_000, {})
    assert share.filled([Document("word " * 400)], lambda _: share.draft, sizes=[400], room=100) is share.draft


@pytest.mark.parametrize(
    ("layers", "name"),
    [
        (Layers(facts=("- price: 7 euros",)), "facts"),
        (Layers(narrative="They spoke of prices."), "summary"),
        (Layers(idle_note="Note: 9 days."), "recalled"),
    ],
    ids=["facts", "summary", "a note"],
)
def test_sections_want_tokens_for_their_content(layers, name):
    wanted = wanted_tokens(
        Request(query=QUERY), layers, before=[], running=[], costs=Costs(HeuristicTokenCounter(), {})
    )
    assert [section for section, tokens in wanted.items() if tokens] == [name]


def view(*, facts: int, narrative: int, stale: bool = False) -> View:
    """Return a view with about so many tokens of facts and of narrative."""
    lines = tuple(f"fact {n}: it is so" for n in range(facts // 6))
    return View(1, 9, 9, lines, lines, "told " * narrative, (), 1.0, datetime(2026, 1, 1, tzinfo=UTC), stale=stale)


@given(st.integers(1, 200_000), st.integers(-50, 4_000), st.integers(0, 900), st.integers(0, 500))
def test_room_for_messages_is_what_a_view_really_leaves(tokens, fixed, facts, narrative):
    """It lies between the tokens left by a full view and by none, and never exceeds what is left."""
    costs = Costs(HeuristicTokenCounter(), {})
    budget = TokenBudget(tokens, 0)
    room = HistoryRoom(budget, tokens - fixed, costs, 0.8)
    one = view(facts=facts, narrative=narrative)
    more = room.more_beside(one)
    assert 0 <= more <= room.more_beside(None)
    taken = costs.text("\n".join(one.facts)) + costs.text(one.narrative)
    most = budget.max_tokens("facts") + budget.lent_to_facts() + budget.max_tokens("summary")
    if more and taken <= most:
        recalled = budget.max_tokens("recalled") - max(costs.text("\n".join(one.facts)) - budget.max_tokens("facts"), 0)
        assert room.least + more + taken + recalled <= tokens - fixed


def test_short_facts_and_summaries_leave_their_room_to_messages():
    """Each unused token goes to messages; a stale view leaves no more than any view."""
    room = HistoryRoom(TokenBudget(4_000, 0), 3_900, Costs(HeuristicTokenCounter(), {}), 0.8)
    assert room.least == 3_900 - 600 - 500 - 800
    beside = [room.more_beside(one) for one in (None, view(facts=60, narrative=60), view(facts=300, narrative=300))]
    assert beside[0] == 600 + 500 - 96
    assert beside[0] > beside[1] > beside[2] > 0
    assert room.more_beside(view(facts=60, narrative=60, stale=True)) == 0
