"""A caller's budget, limits and caps hold for every section, with a summary and in a long turn."""

import dataclasses
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from arc_common import (
    ArcSettings,
    ConfigurationError,
    ContextEngine,
    HeuristicTokenCounter,
    Message,
    Role,
    ToolCall,
)
from arc_common.messages import exchanges_of
from arc_common.tokens.budget import DEFAULT_SECTIONS, SectionBudget, TokenBudget
from tests.support.databases import sqlite_url

DISHES = ("soup", "rice", "bread", "stew", "salad", "noodle", "curry", "tofu", "bean", "corn")
MARKS = 48
"""Maximum tokens of heading and fence around facts, documents or recalled items."""
QUESTION = "Which dish is in the pantry, and what is the code of locker 3?"


def told(settings: ArcSettings, turns: int = 90) -> ContextEngine:
    """Return an engine with a long conversation full of facts, and some documents."""
    engine = ContextEngine.open(settings=settings)
    session = engine.session("s")
    for number in range(turns):
        dish = DISHES[number % len(DISHES)]
        said = f"The code of locker {number} is QX-{1000 + number}. Dish {number} in the pantry is {dish}."
        session.save_turn(said, f"Noted, {dish} it is. " + "It keeps well when it is dry and cool. " * 4)
    session.add_artifact(
        "The pantry was checked in spring; no dish was lost, and every locker got a new code.", source="list"
    )
    session.summarize()
    engine.documents.add([f"The {dish} dish in the pantry. " + "Cook it slowly. " * 60 for dish in DISHES])
    return engine


@pytest.fixture(scope="module")
def tokens_of() -> Callable[..., dict[str, int]]:
    """Return a function that gives each section's tokens under a budget, in a new session each time."""
    known: dict[str, dict[str, int]] = {}

    def measured(own: TokenBudget | None = None, *, turns: int = 90, running: bool = False, **settings) -> dict:
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
    by_settings = tokens_of(turns=110, budget={"facts": 6_000})
    by_budget = tokens_of(TokenBudget(sections={"facts": SectionBudget(max_tokens=6_000)}), turns=110)
    assert 1_100 < by_settings["facts"] <= 6_000 + MARKS
    assert by_budget["facts"] == by_settings["facts"]


SECTIONS = [name for name in DEFAULT_SECTIONS if name != "current_turn"]


@pytest.mark.parametrize(
    ("name", "limit"), [*((name, "max_tokens") for name in (*SECTIONS, "current_turn")), ("history", "share")]
)
def test_every_section_of_a_callers_budget_is_obeyed(tokens_of, name: str, limit: str) -> None:
    """A section that takes more by default stays within its limit, except for its marks."""
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
    """`min_tokens` are reserved before others get more; higher priorities are served before lower ones."""
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


def test_a_window_that_was_chosen_holds_beside_a_summary() -> None:
    """Contexts and views begin with facts and summary, and the receipt counts the omitted messages."""
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


def test_a_model_by_name_is_refused_where_nobody_can_make_it() -> None:
    """The core engine knows no framework; a model object is accepted instead."""
    settings = ArcSettings(summary={"llm_model": "openai:small"})
    with pytest.raises(ConfigurationError, match=r"summary.llm_model: got 'openai:small', but .*open_engine"):
        ContextEngine.open(settings=settings)

    class Model:
        def complete(self, messages):
            return "{}"

    for given in ({"summary_model": Model(), "settings": settings}, {"chat_model": Model()}):
        ContextEngine.open(**given).close()


CASES = {
    "defaults": {},
    "small": {"leaf_messages": 4, "recent_message_count": 2, "trigger_message_count": 6},
    "nothing recent": {"leaf_messages": 8, "recent_message_count": 0, "trigger_message_count": 4},
    "much recent": {"leaf_messages": 8, "recent_message_count": 30, "trigger_message_count": 4},
    "late": {"leaf_messages": 8, "recent_message_count": 2, "trigger_message_count": 40},
    "by number": {"high_water_tokens": 0},
}


def smallest(summary: dict[str, int]) -> int:
    """Return the smallest cap that is valid with these settings."""
    settings = ArcSettings(summary=summary).summary
    return 2 * settings.leaf_messages + settings.recent_message_count + settings.trigger_message_count


def test_a_cap_below_what_summaries_need_is_refused() -> None:
    for summary in CASES.values():
        cap = smallest(summary) - 1
        with pytest.raises(ConfigurationError) as caught:
            ArcSettings(summary=summary, storage={"max_messages_per_session": cap})
        assert f"storage.max_messages_per_session: got {cap}, expected at least {cap + 1}" in str(caught.value)
        assert "before their facts are read" in str(caught.value)
        assert ArcSettings(summary={**summary, "enabled": False}, storage={"max_messages_per_session": 1})


ALL = list(product(CASES, [False, True], [True, False]))
SHORT = {("small", False, True), ("small", True, False), ("nothing recent", True, True), ("by number", False, False)}


@pytest.mark.parametrize(
    ("case", "long_turns", "with_replies"),
    [pytest.param(*one, marks=() if one in SHORT else pytest.mark.torture) for one in ALL],
)
def test_no_fact_is_lost_at_the_smallest_cap(tmp_path: Path, case: str, long_turns: bool, with_replies: bool) -> None:
    """Facts are extracted before the cap removes messages, and the next reply shows them, even in long turns."""
    summary = CASES[case]
    settings = ArcSettings(
        summary=summary,
        storage={"max_messages_per_session": smallest(summary)},
        budget={"facts": 20_000},
        conversation={"max_turns": 1_000},
    )
    length = settings.summary.leaf_messages // 2 if long_turns else 2
    turns = 2 * smallest(summary) // length
    with ContextEngine.open(sqlite_url(tmp_path), settings=settings) as engine:
        session = engine.session("s")
        for number in range(turns):
            said = f"The code of locker {number} is QX-{1000 + number}."
            if with_replies:
                window = session.context(said)
                shown = "\n".join(message.text for message in window.messages)
                assert [old for old in range(number) if f"QX-{1000 + old}" not in shown] == []
            session.append([Message("user", said), *(Message("assistant", f"Step {n}.") for n in range(1, length))])
            session.summarize()
        shown = "\n".join(message.text for message in session.context("And now?").messages)
        known = shown + "\n".join(fact.value for fact in session.facts())
        assert [old for old in range(turns) if f"QX-{1000 + old}" not in known] == []
        assert len(session.messages()) <= smallest(summary)


BEFORE = 30


@pytest.fixture(scope="module", params=[100, 700], ids=["longer than a leaf", "longer than what is read"])
def running(request, tmp_path_factory) -> Path:
    """Return a file of sixty messages, a question and steps after it, summarised as far as possible."""
    folder = tmp_path_factory.mktemp("running")
    with ContextEngine.open(
        sqlite_url(folder), settings=ArcSettings(), token_counter=HeuristicTokenCounter()
    ) as engine:
        session = engine.session("s")
        for n in range(BEFORE):
            session.save_turn(f"question {n}", f"answer {n}")
        session.append(Message("user", "find them all", id="question"))
        for n in range(request.param // 2):
            call = ToolCall("look_up", {"n": n}, id=f"c{n}")
            result = Message("tool", "found it here " * 20, tool_call_id=call.id)
            session.append([Message("assistant", None, tool_calls=(call,)), result])
        session.summarize()
    return folder / "arc.db"


@pytest.fixture
def session(running, tmp_path):
    """Return the session in a copy of it."""
    url = f"sqlite:///{shutil.copy(running, tmp_path)}"
    with ContextEngine.open(url, token_counter=HeuristicTokenCounter()) as engine:
        yield engine.session("s")


@pytest.mark.parametrize("tokens", [400, 4_000, 20_000])
def test_a_long_running_turn_keeps_its_question_and_its_newest_step(session, tokens):
    window = session.context(budget=TokenBudget(tokens, 0))
    asked = [message.text for message in window.messages if message.role is Role.USER]
    assert asked[-1].startswith("find them all")
    assert window.messages[-1].text.startswith("found it here")
    assert window.total_tokens <= tokens
    exchanges, orphans = exchanges_of(window.messages)
    assert not orphans
    assert all(exchange.complete for exchange in exchanges)
    left_out = [one for one in window.receipt.nearest if not one.reason.startswith("merged into")]
    assert window.total_tokens > 0.9 * tokens or not left_out


@pytest.mark.parametrize("reserved", [0, 390, 500])
def test_an_adapters_view_of_a_long_turn_keeps_its_question_and_newest_step(session, reserved):
    view = session.window(max_tokens=400, reserved=reserved, keep_newest=True)
    asked = [message.text for message in view if message.role is Role.USER]
    assert asked[-1] == "find them all"
    assert view[-1].text.startswith("found it here")


def test_every_field_of_a_budget_is_shown_above() -> None:
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
