"""Leases on sessions: one lasts while its process works on the session, and little longer."""

import json
import os
import sys
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from arc_common.engine.context_engine import ContextEngine
from arc_common.messages import Message
from arc_common.protocols import SessionKey
from arc_common.settings import ArcSettings
from arc_common.stores.conversations import SqlStore
from arc_common.testing import ReplyingChatModel, SlowChatModel
from tests.support.databases import sqlite_url
from tests.support.forks import Fork
from tests.support.summaries import LONG, settings_with, turn

KEY = SessionKey("shared", user_id="user")


class Hangs:
    def complete(self, messages: list[Message]) -> str:
        sys.stdout.write("asked\n")
        Event().wait()
        return ""


def summarize_for_ever(url: str) -> None:
    settings = ArcSettings(
        summary={"leaf_messages": 16}, model_calls={"timeout_seconds": 600}, background={"lease_seconds": 0.5}
    )
    ContextEngine.open(url, chat_model=Hangs(), settings=settings).session("shared", user_id="user").summarize()


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Store a conversation of 60 messages without a summary."""
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url, settings=settings_with(summary={"enabled": False})) as engine:
        engine.session("shared", user_id="user").append([message for number in range(30) for message in turn(number)])
    return url


def test_a_killed_process_is_taken_over_within_seconds(tmp_path: Path, database: str) -> None:
    """If a process is killed while its model answers, `summarize` does its work once the lease has expired."""
    with Fork(tmp_path, [], os.environ, run=lambda: summarize_for_ever(database)) as process:
        assert process.stdout.readline() == "asked\n"
    settings = settings_with(background={"lease_seconds": 0.5})
    with ContextEngine.open(database, chat_model=ReplyingChatModel([_SUMMARY]), settings=settings) as engine:
        session = engine.session("shared", user_id="user")
        begin = time.monotonic()
        session.summarize()
        took = time.monotonic() - begin
        summary = session.summary()
    assert took < 5, took
    assert ArcSettings().background.lease_seconds <= 5  # in production, this and a second or two pass
    assert summary is not None
    assert summary.pending < 16


def test_a_lease_holds_while_a_model_answers(database: str) -> None:
    """During a call several times as long as a lease, no rival can take the lease, and the summary is stored."""
    model = SlowChatModel(ReplyingChatModel([_SUMMARY]))
    rival = SqlStore(database)
    settings = settings_with(background={"lease_seconds": 0.3})
    with ContextEngine.open(database, chat_model=model, settings=settings) as engine:
        session = engine.session("shared", user_id="user")
        at_work = Thread(target=session.summarize)
        at_work.start()
        assert model.asked.wait(LONG)
        until = time.monotonic() + 0.9
        while time.monotonic() < until:
            assert rival.summaries.claim(KEY, owner="rival", seconds=0.3) is None
            time.sleep(0.05)
        model.may_answer.set()
        at_work.join(LONG)
        assert rival.summaries.claim(KEY, owner="rival", seconds=0.5) is not None
    makers = {segment.made_by for segment in rival.summaries.segments(KEY)}
    rival.close()
    assert makers == {"model"}


_SUMMARY = json.dumps({"facts": [], "narrative": "They spoke of orders."})
