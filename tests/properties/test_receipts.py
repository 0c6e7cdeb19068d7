"""Receipts add up: items to sections, sections to the total, and the total to the request."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from arc_common import ArcSettings, BudgetExceededError, ContextEngine, Message, Role, TokenBudget
from arc_common.context import Item, Layers, RecalledLine, Receipt, Section
from arc_common.tokens.counters import default_token_counter, message_tokens
from tests.support.conversations import random_conversation, random_text
from tests.support.window_cases import Case, case_of
from tests.support.window_rules import BrokenWindowError, built, check_account, check_tokens

CASES = [200, pytest.param(2_000, marks=pytest.mark.torture)]
VIEWS = [30, pytest.param(500, marks=pytest.mark.torture)]


def with_all_kinds(case: Case) -> Case:
    """Add memories, artifacts and recalled messages to the case."""
    rng = Random(case.seed)

    def lines(kind: str, most: int) -> tuple[RecalledLine, ...]:
        texts = [f"- {random_text(rng, most_words=12)}" for _ in range(int(rng.random() ** 2 * most))]
        start = datetime(2026, 3, 1, tzinfo=UTC)
        return tuple(
            RecalledLine(f"{kind}-{i}", text, case.counter.count(text), order=(start + timedelta(days=i), "s", i))
            for i, text in enumerate(texts)
        )

    layers: Layers = replace(
        case.layers, memories=lines("m", 9), artifacts=lines("a", 6), messages=lines("said", 9), recalled=lines("f", 9)
    )
    return replace(case, layers=layers)


@pytest.mark.parametrize("cases", CASES)
def test_the_receipt_of_any_request_adds_up(cases: int) -> None:
    """Budgets range from those in which hardly anything fits to those in which everything does."""
    seen: set[str] = set()
    for seed in range(cases):
        case = with_all_kinds(case_of(seed))
        try:
            window = built(case)
        except BudgetExceededError:
            continue
        check_account(window.receipt)
        check_tokens(case, window)
        assert window.receipt.sections == window.sections
        seen.update(section.name for section in window.sections if section.tokens)
        seen.update(item.kind for section in window.sections for item in section.items)
    assert seen >= {
        "system",
        "tools",
        "facts",
        "summary",
        "history",
        "user_message",
        "recalled",
        "documents",
        "current_turn",
    }
    assert seen >= {
        "message",
        "fact",
        "summary",
        "memory",
        "artifact",
        "recalled",
        "document",
        "tool",
        "schema",
        "note",
    }


@pytest.fixture(scope="module")
def engine() -> Iterator[ContextEngine]:
    with ContextEngine.open(settings=ArcSettings(summary={"trigger_message_count": 4})) as opened:
        yield opened


@pytest.mark.parametrize("views", VIEWS)
def test_the_receipt_of_any_view_adds_up(engine: ContextEngine, views: int) -> None:
    """Views have facts, a summary, recalled items and all kinds of limits."""
    counter = default_token_counter()
    summarised = 0
    for seed in range(views):
        rng = Random(seed)
        session = engine.session(f"s{seed}")
        said = [Message(Role.USER, f"My order number is {n}-{seed}. I live in Basel.") for n in range(seed % 3 * 8)]
        session.append([*said, *(replace(message, id=f"{seed}-{message.id}") for message in random_conversation(seed))])
        if said:
            session.summarize()
        limit = int(20 * 10 ** (rng.random() * 2))
        reserved = int(rng.random() * limit * 1.2) if rng.random() < 0.4 else 0
        try:
            shown = session.window(
                max_tokens=limit if rng.random() < 0.9 else None,
                reserved=reserved,
                max_turns=3 if rng.random() < 0.2 else None,
                keep_newest=rng.random() < 0.5,
                query="Where do I live?" if rng.random() < 0.5 else "",
            )
        except BudgetExceededError:
            continue
        receipt = engine.admin.debug(f"s{seed}").receipt
        assert receipt is not None
        check_account(receipt)
        assert receipt.total_tokens == reserved + sum(message_tokens(counter, message) for message in shown)
        summarised += any(item.kind in ("fact", "summary") for part in receipt.sections for item in part.items)
    assert summarised > views / 10


@pytest.mark.parametrize("tokens", [200, 300, 400, 500, 700, 900, 1_500, 3_000])
def test_the_receipt_of_a_replayed_turn_adds_up(engine: ContextEngine, tokens: int) -> None:
    """This is the output of `arc inspect --tokens`; small windows lend facts the tokens of memories."""
    session = engine.session("replayed")
    if not session.messages(limit=1):
        for n in range(60):
            text = f"My server number {n} runs at port {9000 + n} and must never be restarted on day {n}."
            session.save_turn(text, f"Noted: server {n}.")
        session.summarize()
    shown = engine.admin.replay("replayed", budget=TokenBudget(tokens, 0))
    check_account(shown.window.receipt)
    assert all(section.items for section in shown.window.sections if section.tokens)
    live = session.context("Which port has server 7?", budget=TokenBudget(tokens + 200, 200))
    check_account(live.receipt)


def test_a_block_of_blank_documents_adds_up_too() -> None:
    """Their frames have tokens, their texts none."""
    with ContextEngine.open() as engine:
        window = engine.session(None).context("hi", documents=["", ""])
    check_account(window.receipt)


@pytest.mark.parametrize(
    "sections",
    [
        (Section("facts", 5, 9, (Item("fact", "a", tokens=4),)),),
        (Section("facts", 5, 9),),
        (Section("facts", 5, 9, (Item("fact", "a"),)),),
        (Section("facts", 5, 4, (Item("fact", "a", tokens=5),)),),
        (),
    ],
    ids=["too little", "no item", "not counted", "over its limit", "no section"],
)
def test_a_receipt_that_does_not_add_up_is_found(sections: tuple[Section, ...]) -> None:
    """The rule itself can fail."""
    with pytest.raises(BrokenWindowError):
        check_account(Receipt((), sections=sections, total_tokens=5, input_tokens=9))
