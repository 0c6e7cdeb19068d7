"""A conversation near its limit, by settings."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from arc_common import (
    ArcSettings,
    ContextEngine,
    HeuristicTokenCounter,
    InvalidInputError,
    Message,
    TokenBudget,
    ToolCall,
)
from arc_common.tokens.compression import ScorePruning

BUDGET = TokenBudget(400, 0)


def opened(strategies=(), **arguments):
    """Open an engine without summaries and with these strategies."""
    settings = ArcSettings(
        summary={"enabled": False}, conversation={"window": "tokens"}, context={"compression": strategies}
    )
    return ContextEngine.open(settings=settings, token_counter=HeuristicTokenCounter(), **arguments)


def looked_up(n):
    return [
        Message("user", f"question {n}", id=f"q{n}"),
        Message("assistant", None, tool_calls=(ToolCall("look_up", {}, id=f"c{n}"),), id=f"c{n}"),
        Message("tool", "found " * 30, tool_call_id=f"c{n}", id=f"r{n}"),
        Message("assistant", f"answer {n}", id=f"a{n}"),
    ]


def test_a_strategy_is_tried_before_turns_leave():
    """With cleared tool results, more turns are shown; the receipt lists the cleared ones."""
    shown = {}
    for strategies in ((), ("clear_tool_results",)):
        with opened(strategies) as engine:
            session = engine.session("s")
            for n in range(8):
                session.append(looked_up(n))
            window = session.context("and now?", budget=BUDGET)
            assert window.total_tokens <= 400
            shown[strategies] = sum(message.text.startswith("question") for message in window.messages)
            cleared = [miss for miss in window.receipt.nearest if miss.reason == "tool result cleared"]
            assert bool(cleared) == bool(strategies)
    assert shown[("clear_tool_results",)] > shown[()]


def test_below_the_threshold_nothing_is_compressed():
    with opened(("clear_tool_results", "truncate")) as engine:
        session = engine.session("s")
        session.append(said := looked_up(1))
        window = session.context("and now?", budget=BUDGET)
        assert [message.text for message in window.messages[:-1]] == [message.text for message in said]
        assert not window.receipt.nearest


def test_strategies_begin_at_the_threshold():
    totals = {}
    for strategies in ((), ("clear_tool_results",)):
        with opened(strategies) as engine:
            session = engine.session("s")
            for n in range(5):
                session.append(looked_up(n))
            totals[strategies] = session.context("and now?", budget=BUDGET).total_tokens
    assert totals[("clear_tool_results",)] <= 320 < totals[()] <= 400


def test_a_strategy_of_ones_own_takes_the_place_of_the_settings():
    with opened(("clear_tool_results",), compression=ScorePruning()) as engine:
        session = engine.session("s")
        for n in range(8):
            session.append(looked_up(n))
        window = session.context("and now?", budget=BUDGET)
        assert not any(message.text.startswith("[cleared") for message in window.messages)
    with pytest.raises(InvalidInputError, match="compression"):
        ContextEngine.open(compression="rolling")  # type: ignore[arg-type]


def test_near_the_limit_there_is_one_warning_for_each_session(caplog):
    caplog.set_level(logging.WARNING, "arc.context")
    with opened() as engine:
        for name in ("one", "two"):
            session = engine.session(name)
            session.append(looked_up(0))
            session.context("and now?", budget=BUDGET)
            assert not caplog.records
            for n in range(1, 8):
                session.append(looked_up(n))
            for _ in range(3):
                session.context("and now?", budget=BUDGET)
            (record,) = caplog.records
            assert record.getMessage().startswith("Approaching token limit: ")
            assert int(record.getMessage().split()[3]) > 320
            caplog.clear()


def test_the_warning_comes_at_the_threshold_and_below_the_limit(caplog):
    """It is logged once the conversation exceeds 80 % of the input, although all of it is shown."""
    with opened() as engine:
        session = engine.session("s")
        totals = []
        while not caplog.records:
            session.save_turn("well?", "yes")
            totals.append(session.context("and now?", budget=BUDGET).total_tokens)
    assert totals[-2] <= 320 < totals[-1] < 400
    assert caplog.messages == [
        f"Approaching token limit: {totals[-1]} tokens (session 's'); older turns will be summarised or left out"
    ]


def test_each_window_is_logged_at_debug_without_what_was_said(caplog):
    caplog.set_level(logging.DEBUG, "arc.context")
    with opened() as engine:
        engine.session("s").context("a secret question")
    (record,) = caplog.records
    assert record.name == "arc.context"
    assert '"total_tokens"' in record.getMessage()
    assert "secret" not in record.getMessage()


@pytest.mark.parametrize(
    ("days", "longest", "note"),
    [
        (6.9, 7.0, None),
        (9.5, 7.0, "Note: This conversation was last active 9 days ago."),
        (9.5, None, None),
        (1.5, 1.0, "Note: This conversation was last active 1 day ago."),
    ],
    ids=["rested shortly", "rested long", "switched off", "by setting"],
)
def test_a_conversation_resumed_after_a_long_rest_gets_a_note(days, longest, note):
    """It follows the user's text, so that the prefix stays; a running turn has it, too."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    settings = ArcSettings(conversation={"resume_note_days": longest})
    with ContextEngine.open(settings=settings, clock=lambda: now) as engine:
        session = engine.session("s")
        session.save_turn("hello", "hi")
        now += timedelta(days=days)
        assert session.context("back again").messages[-1].text == "\n\n".join(filter(None, ["back again", note]))
        session.append(
            [Message("user", "back again"), Message("assistant", None, tool_calls=(ToolCall("f", {}, id="1"),))]
        )
        window = session.context()
        assert window.messages[-2].text == "\n\n".join(filter(None, ["back again", note]))
        assert [item.text for section in window.sections for item in section.items if item.kind == "note"] == [
            text for text in [note] if text
        ]


def test_a_view_of_a_resumed_conversation_begins_with_the_note():
    """The question may be stored or follow; the note ends with the turn and is omitted if it does not fit."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with ContextEngine.open(clock=lambda: now) as engine:
        session = engine.session("s")
        session.save_turn("hello", "hi")
        assert [message.text for message in session.window()] == ["hello", "hi"]
        now += timedelta(days=9.5)
        note = "Note: This conversation was last active 9 days ago."
        assert [message.text for message in session.window()] == [note, "hello", "hi"]
        assert [message.text for message in session.window(max_tokens=20)] == ["hello", "hi"]
        assert [message.text for message in session.window(include_summary=False)] == ["hello", "hi"]
        session.append([Message("user", "back again")])
        assert [message.text for message in session.window()] == [note, "hello", "hi", "back again"]
        session.append([Message("assistant", "welcome")])
        assert [message.text for message in session.window()] == ["hello", "hi", "back again", "welcome"]
