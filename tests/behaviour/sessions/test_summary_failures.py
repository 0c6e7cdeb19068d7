"""A slow, failing or missing model or store neither delays a turn beyond its limit nor ends it."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import current_thread
from time import perf_counter
from typing import Any, ClassVar

import pytest

from arc_common.exceptions import StoreUnavailableError
from arc_common.messages import Message, Role, ToolCall
from arc_common.testing import CountingObserver, ReplyingChatModel
from arc_common.tokens.budget import SectionBudget, TokenBudget
from tests.support.databases import sqlite_url
from tests.support.summaries import LONG, Model, ids, settings_with, shown, system, talk, turn, verbatim

NO_ROOM = TokenBudget(1_000, 0, sections={"facts": SectionBudget(max_tokens=400)})
"""A budget for the facts of all turns that leave, but not for 30 turns."""

# Slow, failing and missing models


def test_a_slow_model_is_bridged_verbatim(opened: Any) -> None:
    """While everything fits it is shown, and no turn waits or adopts the rules' summary."""
    model = Model(held=True)
    session = opened(model=model).session("s")
    talk(session, 11)
    assert model.asked.wait(LONG)
    for number in range(12, 60):
        session.append(turn(number))
        window = session.context()
        assert verbatim(window) == ids(1, number)
        assert not window.receipt.notes
    assert len(model.requests) == 1
    model.may_answer.set()
    session.summarize()
    window = session.context()
    assert "MODEL " in system(window)
    assert 10 <= len(verbatim(window)) < 34


def test_no_room_and_a_slow_model(opened: Any) -> None:
    """The rules replace it at once, and the receipt says so; its own text comes with the next adoption."""
    model = Model(held=True)
    session = opened(model=model, settings=settings_with(summary={"high_water_tokens": 0})).session("s")
    talk(session, 30)
    assert model.asked.wait(LONG)
    window = session.context("And now?", budget=NO_ROOM)
    assert 10 <= len(verbatim(window)) < 60
    assert "ORD-1001" in shown(window)
    assert "MODEL " not in shown(window)
    assert window.receipt.notes == ("summarised by rules, because the model's summary is missing",)
    model.may_answer.set()
    session.summarize()
    talk(session, 20, first=31)
    session.summarize()
    window = session.context("And now?", budget=TokenBudget(3_000, 0))
    assert "MODEL " in system(window)
    assert not window.receipt.notes


def test_without_room_and_another_writer_the_turn_writes_a_summary(tmp_path: Path, opened: Any) -> None:
    url = sqlite_url(tmp_path)
    with opened(url, settings=settings_with(summary={"enabled": False})) as engine:
        talk(engine.session("s"), 30)
    model = Model()
    window = opened(url, model).session("s").context("And now?", budget=TokenBudget(1_000, 0))
    assert "MODEL told it." in system(window)
    assert window.receipt.notes == ("the turn waited for a summary",)


def test_it_waits_no_longer_than_it_may(tmp_path: Path, opened: Any) -> None:
    """After the time limit the rules' summary is used; the next turn does not wait again."""
    url = sqlite_url(tmp_path)
    with opened(url, settings=settings_with(summary={"enabled": False})) as engine:
        talk(engine.session("s"), 30)
    model = Model(held=True)
    session = opened(url, model, settings=settings_with(summary={"synchronous_timeout_seconds": 1})).session("s")
    begin = perf_counter()
    window = session.context("And now?", budget=NO_ROOM)
    assert perf_counter() - begin < 8  # the model is released only after 20 s
    assert "ORD-1001" in shown(window)
    assert window.receipt.notes == (
        "the turn waited for a summary",
        "summarised by rules, because the model's summary is missing",
    )
    talk(session, 30, first=31)
    window = session.context("And now?", budget=TokenBudget(1_000, 0))
    assert "the turn waited for a summary" not in window.receipt.notes
    assert "summarised by rules, because the model's summary is missing" in window.receipt.notes
    model.may_answer.set()


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(Model(error=RuntimeError("down")), id="raises"),
        pytest.param(None, id="none"),
    ],
)
def test_the_rules_serve(broken: Model | None, opened: Any) -> None:
    """With a failing model or none, the rules' facts and narrative are adopted like any other."""
    session = opened(model=broken).session("s")
    talk(session, 30)
    session.summarize()
    window = session.context("And now?")
    assert len(verbatim(window)) < 35
    facts, _, narrative = system(window).partition("\nSummary:\n")
    assert "user: Question 1: my order is ORD-1001" in facts
    assert "assistant: Answer 1, noted." in narrative


def test_a_conversation_that_is_one_turn(opened: Any) -> None:
    """Without a turn boundary there is no leaf: messages are shown or leave by the window's rules."""
    session = opened(None, Model()).session("s")
    session.append(Message(Role.USER, "Go.", id="q"))
    for n in range(30):
        call = ToolCall("look", {"n": n}, id=f"c{n}")
        session.append(
            [
                Message(Role.ASSISTANT, None, tool_calls=(call,), id=f"a{n}"),
                Message(Role.TOOL, "found " * 20, tool_call_id=f"c{n}", id=f"t{n}"),
            ]
        )
    session.summarize()
    assert len(verbatim(session.context())) == 61
    window = session.context(budget=TokenBudget(600, 0))
    assert window.total_tokens <= 600
    assert window.receipt.notes == ("some older messages are not summarised yet: the newest turns are shown",)


# Failing stores


@pytest.mark.parametrize("table", ["arc_segments", "arc_facts"])
def test_summaries_that_cannot_be_read(table: str, tmp_path: Path, opened: Any) -> None:
    """Turns and saves continue with what is available; receipt and counter report the failure."""
    counts = CountingObserver()
    session = opened(sqlite_url(tmp_path), observer=counts).session("s")
    talk(session, 30)
    session.summarize()
    with closing(sqlite3.connect(tmp_path / "arc.db")) as connection:
        connection.execute(f"DROP TABLE {table}")
    window = session.context("And now?")
    assert verbatim(window)[-11:] == [*ids(26, 30), None]
    assert any("summaries were left out" in note for note in window.receipt.notes)
    talk(session, 5, first=31)
    assert verbatim(session.context())[-10:] == ids(31, 35)
    with pytest.raises(StoreUnavailableError):
        session.summarize()
    assert counts.counts["summary.errors"] == 2
    assert table == "arc_facts" or counts.counts["background.errors"] >= 1


def test_a_view_that_cannot_be_read(tmp_path: Path, opened: Any) -> None:
    session = opened(sqlite_url(tmp_path)).session("s")
    talk(session, 30)
    session.summarize()
    session.context()
    with closing(sqlite3.connect(tmp_path / "arc.db")) as connection:
        connection.execute("UPDATE arc_views SET body = 'no JSON'")
        connection.commit()
    window = session.context("And now?")
    assert verbatim(window) == [*ids(21, 30), None]
    assert window.receipt.notes == ("summaries were left out: JSONDecodeError",)
    assert verbatim(session.context()) == [message.id for message in session.window() if message.id]


# Long runs


@pytest.mark.parametrize("turns", [80, pytest.param(1_000, marks=pytest.mark.torture)])
def test_hundreds_of_turns_with_a_slow_model(opened: Any, turns: int) -> None:
    """One call hangs throughout; each turn still ends, and none calls the model itself."""

    class Watched(Model):
        threads: ClassVar[set[str]] = set()

        def complete(self, messages: Sequence[Message]) -> str:
            self.threads.add(current_thread().name)
            return super().complete(messages)

    model = Watched(held=True)
    session = opened(None, model).session("s")
    for number in range(1, turns + 1):
        session.append(turn(number))
        window = session.context("And now?")
        assert verbatim(window)[-11:] == [*ids(number - 4, number), None][-11:] or number < 5
    assert model.asked.wait(LONG)  # background work yields to appends
    assert len(model.requests) == 1
    assert model.threads == {"arc-model"}
    assert "ORD-1001" in shown(session.context("What was my order ORD-1001?"))
    model.may_answer.set()


@pytest.mark.parametrize(
    "nonsense",
    [
        "][",
        "Brave explorers crossed frozen mountains, chasing ancient dragons beneath stormy clouds.",
        "Question 1 came from Busan, Italy. It cost 77 dollars.",
    ],
    ids=["no words", "other words", "names and numbers"],
)
def test_a_small_model_s_nonsense_reaches_no_prompt(opened: Any, nonsense: str) -> None:
    """The rules' excerpt replaces a narrative without support."""
    model = ReplyingChatModel([json.dumps({"facts": {"STATE": ["home: Atlantis"]}, "narrative": nonsense})])
    session = opened(model=model, settings=settings_with(summary={"high_water_tokens": 0})).session("s")
    talk(session, 30)
    assert session.summarize() is not None
    window = session.context("And now?")
    summary = system(window).rpartition("\nSummary:\n")[2]
    assert model.requests
    assert "noted" in summary
    assert not [word for word in (*nonsense.split(), "Atlantis") if word in summary and word not in ("Question", "1")]
    assert "Atlantis" not in system(window)
