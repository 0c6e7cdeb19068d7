"""Edited, removed and cleared content leaves prompt, summary and facts, even while a model works on it."""

import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import create_engine

from arc_common.context import ContextWindow
from arc_common.engine.context_engine import ContextEngine
from arc_common.engine.session import Session
from arc_common.exceptions import EngineClosedError
from arc_common.messages import Message, Role
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.support.databases import sqlite_url
from tests.support.summaries import LONG, Model, settings_with, shown, system, talk, turn


def everything(session: Session, window: ContextWindow) -> str:
    """Return all text about a conversation outside its originals."""
    facts = "\n".join(fact.line for fact in session.facts(include_superseded=True))
    summary = session.summary()
    return "\n".join([shown(window), facts, summary.narrative if summary else ""])


@pytest.mark.parametrize("adopted", [False, True], ids=["not yet adopted", "adopted"])
@pytest.mark.parametrize("how", ["edit", "remove"])
def test_what_was_removed_is_nowhere(how: str, adopted: bool, opened: Any) -> None:
    """An edited or removed message leaves no word in prompt, summary and facts, at once and later."""
    session = opened().session("s")
    talk(session, 3)
    session.append(turn(4, "the vault code is VC-4711"))
    talk(session, 30, first=5)
    session.summarize()
    if adopted:
        assert "VC-4711" in everything(session, session.context())
    assert "VC-4711" in everything(session, session.context("And now?", history=[]))
    if how == "edit":
        session.append(Message(Role.USER, "Question 4: the vault code is VC-0815.", id="q4"))
    else:
        session.remove(["q4"])
    for _ in range(2):
        window = session.context("What is the vault code?")
        assert "VC-4711" not in everything(session, window)
        assert ("VC-0815" in everything(session, window)) == (how == "edit")
        assert "ORD-1002" in everything(session, window)
        session.summarize()
    ledger = session.facts()
    assert len({(fact.key, fact.value) for fact in ledger}) == len(ledger)


def test_an_answer_has_its_question_also_where_a_leaf_begins(opened: Any) -> None:
    """Each pair of questions and answers is in two leaves; a removed question leaves the fact."""
    session = opened(settings=settings_with(summary={"leaf_messages": 2})).session("s")
    for number in range(8):
        asked = Message(Role.ASSISTANT, f"Which number has order {number}?", id=f"b{number}")
        session.append([Message(Role.USER, f"HB-20{number}", id=f"u{number}"), asked])
    talk(session, 12)
    session.summarize()
    answers = {fact.value for fact in session.facts()}
    assert {f"HB-20{number} (in reply to: Which number has order {number - 1}?)" for number in range(1, 8)} <= answers
    session.remove(["b2"])
    session.summarize()
    assert "order 2" not in everything(session, session.context("And now?"))
    assert "order 3" in everything(session, session.context("And now?"))


def test_after_the_end_was_removed_the_newest_messages_stand_verbatim(opened: Any) -> None:
    """This holds even if all remaining messages were summarised."""
    session = opened().session("s")
    talk(session, 60)
    session.summarize()
    session.context("And now?")
    session.remove([str(message.id) for message in session.messages()[40:]])
    for _ in range(2):
        window = session.context("And now?")
        history = [section for section in window.sections if section.name == "history"]
        assert history[0].items
        assert window.messages[-2].text == session.messages()[-1].text
        session.summarize()


@pytest.mark.parametrize("how", ["edit", "remove", "clear", "delete"])
def test_what_was_removed_while_a_summary_is_made(how: str, opened: Any) -> None:
    model = Model(held=True, facts=[{"key": "vault code", "value": "VC-4711", "category": "NUMERIC"}])
    session = opened(model=model).session("s")
    session.append(turn(1, "the vault code is VC-4711"))
    talk(session, 12, first=2)
    assert model.asked.wait(LONG)
    assert "VC-4711" in model.requests[0]
    if how == "edit":
        session.append(Message(Role.USER, "Question 1: never mind.", id="q1"))
    elif how == "remove":
        session.remove(["q1"])
    elif how == "clear":
        session.clear()
    else:
        session.delete()
    model.may_answer.set()
    session.summarize()
    window = session.context("What is the vault code?")
    assert "VC-4711" not in everything(session, window)
    assert (session.summary() is None) == (how in ("clear", "delete"))
    assert all("VC-4711" not in request for request in model.requests[1:])
    if how in ("clear", "delete"):
        assert len(window.messages) == 1
        talk(session, 12, first=20)
        session.summarize()
        assert "MODEL " in system(session.context())
        assert "VC-4711" not in everything(session, session.context())


def is_closed(engine: ContextEngine) -> bool:
    try:
        engine.session("s").exists()
    except EngineClosedError:
        return True
    return False


def test_closed_while_a_summary_is_made(tmp_path: Path, opened: Any) -> None:
    """The model's late answer is not stored, although another engine still has the database open."""
    database = create_engine(sqlite_url(tmp_path))
    model = Model(held=True)
    engine = opened(database, model)
    talk(engine.session("s"), 12)
    assert model.asked.wait(LONG)
    closing = Thread(target=engine.close)
    closing.start()
    while not is_closed(engine):
        time.sleep(0.001)
    time.sleep(0.2)
    model.may_answer.set()
    closing.join(LONG)
    assert engine.flush(LONG)
    with ContextEngine.open(database, token_counter=HeuristicTokenCounter(), settings=settings_with()) as other:
        summary = other.session("s").summary()
    assert summary is not None
    assert "MODEL" not in summary.narrative
    database.dispose()
