"""A caller's own budget and limits hold, for every section, also beside a summary."""

import dataclasses
from collections.abc import Callable

import pytest

from arc_common import ArcSettings, ConfigurationError, ContextEngine, Message
from arc_common.tokens.budget import DEFAULT_SECTIONS, SectionBudget, TokenBudget

DISHES = ("soup", "rice", "bread", "stew", "salad", "noodle", "curry", "tofu", "bean", "corn")
MARKS = 48
"""Tokens of the heading and the fence around facts, documents or recollections, at most."""
QUESTION = "Which dish is in the pantry, and what is the code of locker 3?"


def told(settings: ArcSettings, turns: int = 150) -> ContextEngine:
    """An engine with a long conversation full of facts, and some documents."""
    engine = ContextEngine.open(settings=settings)
    session = engine.session("s")
    for number in range(turns):
        dish = DISHES[number % len(DISHES)]
        said = f"The code of locker {number} is QX-{1000 + number}. Dish {number} in the pantry is {dish}."
        session.save_turn(said, f"Noted, {dish} it is. " + "It keeps well when it is dry and cool. " * 4)
    session.summarize()
    engine.documents.add([f"The {dish} dish in the pantry. " + "Cook it slowly. " * 60 for dish in DISHES])
    return engine


@pytest.fixture(scope="module")
def tokens_of() -> Callable[..., dict[str, int]]:
    """Gives what each section takes under a budget, in a session of its own each time."""
    known: dict[str, dict[str, int]] = {}

    def measured(own: TokenBudget | None = None, *, turns: int = 150, running: bool = False, **settings) -> dict:
        asked = f"{own} {turns} {running} {settings}"
        if asked not in known:
            with told(ArcSettings(**settings), turns) as engine:
                session = engine.session("s")
                question: str | None = QUESTION
                if running:
                    steps = [Message("assistant", f"step {n} " * 40) for n in range(30)]
                    session.append([Message("user", QUESTION), *steps])
                    question = None
                window = session.context(question, budget=own)
                known[asked] = {section.name: section.tokens for section in window.sections}
        return known[asked]

    return measured


def test_facts_get_what_the_callers_budget_gives_them(tokens_of) -> None:
    """By a budget as by settings."""
    by_settings = tokens_of(budget={"facts": 6_000})
    by_budget = tokens_of(TokenBudget(sections={"facts": SectionBudget(max_tokens=6_000)}))
    assert 1_500 < by_settings["facts"] <= 6_000 + MARKS
    assert by_budget["facts"] == by_settings["facts"]


SECTIONS = [name for name in DEFAULT_SECTIONS if name != "current_turn"]


@pytest.mark.parametrize("limit", ["max_tokens", "share"])
@pytest.mark.parametrize("name", [*SECTIONS, "current_turn"])
def test_every_section_of_a_callers_budget_is_obeyed(tokens_of, name: str, limit: str) -> None:
    """It takes no more than it may, but for the marks around a block, where it takes more by default."""
    running = name == "current_turn"
    window = TokenBudget(100_000, 0)
    most = 30
    section = SectionBudget(max_tokens=most) if limit == "max_tokens" else SectionBudget(share=most / 100_000)
    usual = tokens_of(window, turns=30, running=running)[name]
    limited = tokens_of(dataclasses.replace(window, sections={name: section}), turns=30, running=running)[name]
    assert limited < usual
    assert limited <= most + MARKS


@pytest.mark.parametrize("field", ["min_tokens", "priority"])
def test_a_section_that_comes_first_is_served_first(tokens_of, field: str) -> None:
    """`min_tokens` are kept free before others get more; a higher priority is served before them."""
    rank = (
        SectionBudget(min_tokens=1_000, max_tokens=1_000)
        if field == "min_tokens"
        else SectionBudget(max_tokens=1_000, priority=99)
    )
    plain = SectionBudget(max_tokens=1_000, priority=-1)
    window = TokenBudget(1_500, 0)
    usual = tokens_of(dataclasses.replace(window, sections={"documents": plain}), turns=30)
    served = tokens_of(dataclasses.replace(window, sections={"documents": rank}), turns=30)
    assert served["documents"] > usual["documents"]


def test_every_field_of_a_budget_is_shown_above() -> None:
    """A field that comes needs its test."""
    assert {field.name for field in dataclasses.fields(SectionBudget)} == {
        "min_tokens",
        "max_tokens",
        "share",
        "priority",
    }
    assert {field.name for field in dataclasses.fields(TokenBudget)} == {
        "context_window", "output_reserve", "sections",
        "relative_error",  # tests/integration/test_filled_requests.py
    }  # fmt: skip


def test_a_window_that_was_chosen_holds_beside_a_summary() -> None:
    """In a context and in a view; facts and summary stand in front, and the receipt counts what is not shown."""
    cases = [
        ({"rolling_window_size": 6}, 6),
        ({"max_turns": 3}, 6),
        ({"window": "messages"}, 20),
        ({"window": "turns"}, 20),
    ]
    for given, most in cases:
        for turns in (5, 30):
            with told(ArcSettings(conversation=given), turns) as engine:
                session = engine.session("s")
                window = session.context("And now?")
                shown = [message for message in window.messages if message.id]
                assert len(shown) == min(most, 2 * turns)
                assert len([message for message in session.window() if message.id]) == min(most, 2 * turns)
                replayed = engine.admin.replay("s", turns).window
                assert len([message for message in replayed.messages if message.id]) <= most + 1


def test_as_many_documents_are_shown_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names that services use."""
    for name, number in (("RAG_FINAL_TOP_K", 2), ("RAG_TOP_K_MAX", 1)):
        monkeypatch.setenv(name, str(number))
        with told(ArcSettings(), 1) as engine:
            window = engine.session("s").context(QUESTION)
        documents = next(section for section in window.sections if section.name == "documents")
        assert len(documents.items) == number


def test_a_model_by_name_is_refused_where_nobody_can_make_it() -> None:
    """An engine of the core knows no framework; a model given in its place is taken."""
    settings = ArcSettings(summary={"llm_model": "openai:small"})
    with pytest.raises(ConfigurationError, match=r"summary.llm_model: got 'openai:small', but .*open_engine"):
        ContextEngine.open(settings=settings)

    class Model:
        def complete(self, messages):
            return "{}"

    for given in ({"summary_model": Model(), "settings": settings}, {"chat_model": Model()}):
        ContextEngine.open(**given).close()
