"""How a request's sections share what there is, one after the other."""

from dataclasses import replace

import pytest

from arc_common import Document, HeuristicTokenCounter, Message, TokenBudget
from arc_common.assembly import Costs, Layers, Request
from arc_common.assembly.draft import Draft
from arc_common.assembly.sharing import Sharing, wishes
from arc_common.tokens.counting import REQUEST_OVERHEAD

QUERY = Message("user", "What does it cost?")


def sharing(tokens: int, wanted: dict[str, int]) -> Sharing:
    """Of a request of so many tokens with nothing in it but its question."""
    costs = Costs(HeuristicTokenCounter(), {})
    draft = Draft(Request(query=QUERY), QUERY)
    return Sharing(draft, budget=TokenBudget(tokens, 0), schemas=0, wanted=wanted, costs=costs)


def test_what_a_section_leaves_is_lent_to_the_next():
    """And what it took is gone."""
    share = sharing(1_000, {"documents": 600, "history": 5_000})
    left = share.left
    assert share.room("documents") == 600
    share.close("documents", tokens=100, allotted=600)
    assert share.left == left - 100
    assert share.room("history") == left - 100
    assert share.sections["documents"].tokens == 100


def test_a_draft_is_filled_with_what_fits_as_it_stands_there():
    """Best first; framing is counted, and nothing is taken over before `fill`."""
    share = sharing(4_000, {"documents": 600})
    documents = [Document(f"Part {n}. {'word ' * 40}", id=f"d{n}") for n in range(9)]

    filled = share.filled(
        documents, lambda kept: replace(share.draft, documents=kept), size=lambda document: 40, room=250
    )

    assert 2 <= len(filled.documents) < 7
    assert [document.id for document in filled.documents] == [f"d{n}" for n in range(len(filled.documents))]
    assert not share.draft.documents
    assert 0 < share.added(filled) <= 250
    assert share.fill(filled) > 0
    assert share.draft is filled
    assert share.added(filled) == 0


def test_nothing_that_fits_leaves_the_draft_as_it_is():
    """Not even the best."""
    share = sharing(4_000, {})
    assert share.filled([Document("word " * 400)], lambda _: share.draft, size=lambda _: 400, room=100) is share.draft


@pytest.mark.parametrize(
    ("layers", "name"),
    [
        (Layers(facts=("- price: 7 euros",)), "facts"),
        (Layers(narrative="They spoke of prices."), "narrative"),
        (Layers(idle_note="Note: 9 days."), "memory"),
    ],
    ids=["facts", "summary", "a note"],
)
def test_what_sections_could_use(layers, name):
    """That alone."""
    wanted = wishes(Request(query=QUERY), layers, before=[], running=[], costs=Costs(HeuristicTokenCounter(), {}))
    assert [section for section, tokens in wanted.items() if tokens] == [name]


def test_all_that_is_left_at_first_is_the_input_without_what_is_fixed():
    """Framing included."""
    costs = Costs(HeuristicTokenCounter(), {})
    assert sharing(1_000, {}).left == 1_000 - REQUEST_OVERHEAD - costs.message(QUERY)
