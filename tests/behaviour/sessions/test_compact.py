"""`session.compact()` replaces all but the recent messages by facts and a summary, at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arc_common import Compaction, ContextEngine, EngineClosedError, Message, SessionNotFoundError, ToolCall
from arc_common.engine.session import Session
from arc_common.exceptions import ModelCallError
from tests.support.databases import on_sqlite
from tests.support.summaries import Model, settings_with, shown, system, turn, verbatim

Opened = Callable[..., ContextEngine]


LATE = settings_with(summary={"trigger_message_count": 18})
"""Settings that adopt a summary only after 18 messages."""
CHAT = "Well then. " * 150


def talk(session: Session, turns: int, *, first: int = 1) -> None:
    """Append turns with more words than facts."""
    session.append(
        [message for n in range(first, first + turns) for message in turn(n, f"my order is ORD-{1000 + n}. {CHAT}")]
    )


def compacted(session: Session, way: str) -> Compaction:
    return session.compact() if way == "compact" else asyncio.run(session.acompact())


@on_sqlite
@pytest.mark.parametrize(("model", "way"), [(None, "compact"), (Model(), "acompact")], ids=["rules", "model"])
def test_the_next_request_is_small(opened: Opened, database: str, model: Model | None, way: str) -> None:
    """Although nothing is due, only recent messages stay verbatim; originals are stored; other processes agree."""
    engine = opened(database, model, settings=LATE)
    session = engine.session("s")
    talk(session, 9)
    before = session.context("And?")
    assert len(verbatim(before)) == 18 + 1
    done = compacted(session, way)
    window = session.context("And?")
    assert verbatim(window)[:-1] == [f"{who}{n}" for n in range(5, 10) for who in "qa"]
    assert done.messages == 8
    assert done.tokens_after < done.tokens_before
    assert done.notes == ()
    assert "ORD-1001" in system(window)
    assert ("MODEL" in system(window)) == (model is not None)
    assert window.total_tokens < before.total_tokens
    assert len(session.messages()) == 18
    again = opened(database, model, settings=LATE).session("s").context("And?")
    assert (system(again), verbatim(again)[:-1]) == (system(window), verbatim(window)[:-1])


def test_a_second_time_there_is_nothing_to_do(opened: Opened) -> None:
    """After more messages, the new summary continues the old one."""
    session = opened(settings=LATE).session("s")
    talk(session, 9)
    first = session.compact()
    assert session.compact() == Compaction(0, first.tokens_after, first.tokens_after)
    talk(session, 5, first=10)
    second = session.compact()
    window = session.context("And?")
    assert verbatim(window)[-11:-1] == [f"{who}{n}" for n in range(10, 15) for who in "qa"]
    assert first.messages + second.messages == 28 - len(verbatim(window)[:-1])
    assert second.tokens_after < second.tokens_before
    assert all(f"ORD-{1000 + n}" in shown(window) for n in range(1, 15))


def test_a_long_conversation_is_compacted_in_leaves_of_the_usual_size(opened: Opened) -> None:
    """Both due and other messages are summarised."""
    session = opened(settings=settings_with(summary={"high_water_mark": 10_000})).session("s")
    talk(session, 45)
    done = session.compact()
    assert done.tokens_after < done.tokens_before / 5
    window = session.context("And?")
    told = sum(section.tokens for section in window.sections if section.name in ("facts", "summary", "history"))
    assert done.tokens_after == pytest.approx(told, rel=0.02)
    kept = verbatim(window)[:-1]
    assert done.messages == 90 - len(kept)
    assert 10 <= len(kept) < 10 + 16


def test_the_running_turn_stays_whole(opened: Opened) -> None:
    """An agent's tool may compact in the middle of a turn."""
    session = opened(settings=settings_with(summary={"recent_message_count": 0})).session("s")
    talk(session, 3)
    asked = Message("user", "What is my newest order?", id="q")
    call = Message("assistant", "", id="c", tool_calls=(ToolCall("compact_conversation", {}, "k"),))
    session.append([asked, call])
    assert session.compact().messages == 6
    session.append(Message("tool", "Done.", tool_call_id="k", id="r"))
    assert verbatim(session.context()) == ["q", "c", "r"]


def test_a_model_that_fails_is_named(opened: Opened) -> None:
    """The rules' summary is used instead."""
    session = opened(model=Model(error=ModelCallError("no credit")), settings=LATE).session("s")
    talk(session, 9)
    done = session.compact()
    assert done.messages == 8
    assert done.notes == ("summarised by rules, because the model's summary is missing",)
    assert "ORD-1001" in shown(session.context("And?"))


@pytest.mark.parametrize(
    ("session_id", "turns", "settings"),
    [("s", 0, {}), (None, 0, {}), ("s", 1, {}), ("s", 9, {"summary": {"enabled": False}})],
    ids=["empty", "no id", "one turn", "no summaries"],
)
def test_with_nothing_to_gain_nothing_is_compacted(
    opened: Opened, session_id: str | None, turns: int, settings: dict[str, Any]
) -> None:
    session = opened(settings=settings_with(**settings)).session(session_id)
    if turns:
        talk(session, turns)
    done = session.compact()
    assert (done.messages, done.notes) == (0, ())
    assert done.tokens_before == done.tokens_after


def test_only_the_owner_can_compact(opened: Opened) -> None:
    engine = opened()
    talk(engine.session("s", user_id="ann"), 9)
    with pytest.raises(SessionNotFoundError):
        engine.session("s", user_id="eve").compact()
    session = engine.session("s", user_id="ann")
    engine.close()
    with pytest.raises(EngineClosedError):
        session.compact()
