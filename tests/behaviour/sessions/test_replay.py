"""A stored turn is shown again as the model saw it, without changing anything."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from arc_common import (
    ArcSettings,
    BudgetExceededError,
    ContextEngine,
    InvalidInputError,
    Message,
    SessionNotFoundError,
    TokenBudget,
    ToolCall,
)
from arc_common.engine.replay import BEYOND, LATER, NOT_ADOPTED, NOT_STORED
from arc_common.prompts.context import without_insertions
from tests.support.databases import sqlite_url


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(minutes=1)
        return self.now


def opened(url=None, clock=None, **settings):
    numbers = count(1)
    clock = clock or Clock()
    return ContextEngine.open(url, settings=ArcSettings(**settings), clock=clock, new_id=lambda: f"m{next(numbers)}")


@pytest.fixture
def engine(tmp_path):
    with opened(sqlite_url(tmp_path)) as engine:
        yield engine


def said(window):
    """Return a request's messages without their ids."""
    return [(message.role, message.content, message.tool_calls) for message in window.messages]


def talk(session, turns, *, first=1):
    """Append turns like an application; return the request of each."""
    shown = {}
    for n in range(first, first + turns):
        question = f"Question {n}: my order ORD-{n:04} has {n} lamps. When does it come?"
        shown[n] = session.context(question)
        session.save_turn(question, f"Answer {n}: on day {n}.")
        session.summarize()
        session.recall(question)  # makes a turn's recall independent of thread timing
    return shown


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"context": {"placement": "system"}},
        {"context": {"facts_role": "user"}},
        {"conversation": {"max_turns": 3}},
        {"context": {"compression": ["truncate"]}, "budget": {"context_window": 1_000}},
    ],
    ids=["default", "volatile first", "facts with the user", "few turns", "compressed"],
)
def test_a_short_conversation_is_replayed_as_it_was(settings):
    with opened(**settings) as engine:
        shown = talk(engine.session("s"), 8)
        for n, window in shown.items():
            again = engine.admin.replay("s", n)
            assert (again.number, again.count) == (n, 8)
            assert said(again.window) == said(window)
            assert again.window.total_tokens == window.total_tokens
            assert again.window.receipt.notes == (NOT_STORED,)


def test_turns_since_the_adoption_are_replayed_with_facts_and_summary(engine):
    """They are equal message by message; for all others, a note says that they differ."""
    shown = talk(engine.session("s"), 25)
    replayed = {n: engine.admin.replay("s", n).window for n in shown if n % 2}
    notes = {n: window.receipt.notes for n, window in replayed.items()}
    since = [n for n, said_of_it in notes.items() if said_of_it == (NOT_STORED,)]
    assert since[0] < since[-1] == 25
    for n in since:
        *history, (role, question, calls) = said(shown[n])
        *again, (role_again, question_again, calls_again) = said(replayed[n])
        assert again == history
        asked = without_insertions(question)  # recall searches the present index, including this turn
        assert (role_again, without_insertions(question_again), calls_again) == (role, asked, calls)
    facts = {section.name: section.items for section in engine.admin.replay("s").window.sections}["facts"]
    assert any("ORD-0001" in item.text for item in facts)
    assert {said_of_it[1:] for said_of_it in notes.values()} == {(BEYOND,), (LATER,), ()}


def test_a_turn_that_summaries_reach_beyond_shows_the_turns_before_it(engine):
    shown = talk(engine.session("s"), 22)
    early = engine.admin.replay("s", 5).window
    assert BEYOND in early.receipt.notes
    assert said(early) == said(shown[5])
    assert "ORD-0006" not in str(early.messages)
    assert all(section.name not in ("facts", "summary") or not section.items for section in early.sections)


def test_summaries_adopted_after_a_turn_are_said_to_be_newer(engine):
    """They are shown if they end before the turn and so contain nothing later."""
    session = engine.session("s")
    for n in range(1, 21):
        session.save_turn(f"Question {n}: order ORD-{n:04}?", f"Answer {n}.")
    session.summarize()
    session.context("now")
    window = engine.admin.replay("s", 20).window
    assert LATER in window.receipt.notes
    assert window.messages[0].role == "system"
    assert "ORD-0020" in window.messages[-1].text
    assert "Answer 20" not in str(window.messages)


def test_a_turn_with_tools_is_shown_as_before_its_last_answer(engine):
    call = ToolCall("look_up", {"id": 1}, id="c1")
    turn = [
        Message("user", "where is it?"),
        Message("assistant", "let me see", tool_calls=(call,)),
        Message("tool", "in Busan", tool_call_id="c1"),
        Message("assistant", "It is in Busan."),
    ]
    session = engine.session("s")
    session.append([Message("user", "hi"), Message("assistant", "hello"), *turn])
    assert [text for _, text, _ in said(engine.admin.replay("s").window)] == [
        *("hi", "hello", "where is it?", "let me see", "in Busan"),
    ]
    session.append([Message("user", "thanks"), Message("assistant", "welcome")])
    assert [text for _, text, _ in said(engine.admin.replay("s", 2).window)][2:] == [
        *("where is it?", "let me see", "in Busan"),
    ]


def test_an_unanswered_question_is_the_newest_turn(engine):
    session = engine.session("s")
    session.append([Message("user", "hi"), Message("assistant", "hello"), Message("user", "and now?")])
    assert said(engine.admin.replay("s").window) == said(session.context())


def test_calls_without_results_are_an_answer_too(engine):
    """The model made them and is called again only with their results."""
    call = ToolCall("look_up", {"id": 1}, id="c1")
    session = engine.session("s")
    session.append([Message("user", "where is it?"), Message("assistant", "let me see", tool_calls=(call,))])
    assert [text for _, text, _ in said(engine.admin.replay("s").window)] == ["where is it?"]


@pytest.mark.parametrize("placement", ["user", "system"])
def test_a_long_rest_is_noted_as_it_was(placement):
    clock = Clock()
    with opened(clock=clock, context={"placement": placement}) as engine:
        session = engine.session("s")
        session.save_turn("hi", "hello")
        clock.now += timedelta(days=9)
        shown = session.context("back")
        session.save_turn("back", "welcome")
        clock.now += timedelta(days=90)
        assert said(engine.admin.replay("s", 2).window) == said(shown)
        assert "last active 9 days ago" in str(shown.messages)
        assert "last active" not in str(engine.admin.replay("s", 1).window.messages)


def everything(tmp_path):
    with closing(sqlite3.connect(tmp_path / "arc.db")) as connection:
        return list(connection.iterdump())


def test_nothing_is_changed(engine, tmp_path):
    session = engine.session("s")
    for n in range(30):
        session.save_turn(f"Question {n}: order ORD-{n:04}?", f"Answer {n}.")
    session.summarize()
    assert NOT_ADOPTED in engine.admin.replay("s").window.receipt.notes
    assert engine.flush()
    before = engine.admin.debug("s"), session.messages(), everything(tmp_path)
    first = [engine.admin.replay("s", n) for n in (None, 1, 15)]
    assert engine.flush()
    assert (engine.admin.debug("s"), session.messages(), everything(tmp_path)) == before
    assert [engine.admin.replay("s", n) for n in (None, 1, 15)] == first
    assert before[0].receipt is None


def test_the_budget_holds(engine):
    talk(engine.session("s"), 10)
    window = engine.admin.replay("s", budget=TokenBudget(200, 0)).window
    assert window.total_tokens <= 200 == window.receipt.input_tokens
    assert window.receipt.nearest
    with pytest.raises(BudgetExceededError):
        engine.admin.replay("s", budget=TokenBudget(10, 0))


def test_an_unknown_turn_is_named(engine):
    talk(engine.session("s"), 3)
    for turn in (0, -1, 4, True, "1", 1.0):
        with pytest.raises(InvalidInputError, match="from 1 to 3"):
            engine.admin.replay("s", turn)


def test_a_turn_is_also_found_by_the_id_of_its_question(engine):
    session = engine.session("s")
    talk(session, 3)
    questions = [message for message in session.messages() if message.role == "user"]
    again = engine.admin.replay("s", questions[1].id)
    assert (again.number, again.window) == (2, engine.admin.replay("s", 2).window)


def test_a_session_without_a_question_has_no_turn(engine):
    engine.session("s").append([Message("assistant", "Welcome!"), Message("user", "  ")])
    with pytest.raises(InvalidInputError, match="user message"):
        engine.admin.replay("s")
    engine.session("mine", user_id="ann").save_turn("hi", "hello")
    for session_id, user in (("nobody", None), ("mine", "eve")):
        with pytest.raises(SessionNotFoundError):
            engine.admin.replay(session_id, user_id=user)


def test_debug_lists_the_segments_of_a_summary(engine):
    """It lists each segment's messages and shown text; nothing if summaries are off."""
    session = engine.session("s")
    session.append(Message("user", "Hello."))
    progress = engine.admin.debug("s").progress
    assert progress is not None
    assert (progress.segments, progress.view, progress.pending) == ((), None, 1)
    talk(session, 25)
    progress = engine.admin.debug("s").progress
    assert progress is not None
    assert progress.view is not None
    assert progress.segments[0].start == 1
    assert any("ORD-0001" in one.narrative or "Answer 1" in one.narrative for one in progress.segments)
    with opened(summary={"enabled": False}) as plain:
        plain.session("s").append(Message("user", "Hello."))
        assert plain.admin.debug("s").progress is None
