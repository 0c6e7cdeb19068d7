"""What background work costs for each message: how often its text is read by rules, and how often is written."""

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from sqlalchemy import create_engine, event

from arc_common.engine.context_engine import ContextEngine
from arc_common.messages import Message, Role
from arc_common.settings import ArcSettings
from arc_common.text import analyze
from arc_common.text.sentences import parts_of
from tests.support.databases import sqlite_url

TURNS = 40
"""Fewer than a scope holds memories: a full one forgets one for each that comes."""


def told(number: int) -> list[Message]:
    """A statement that is worth a fact and a memory, and its answer."""
    return [
        Message(Role.USER, f"My locker at the {number}th station has the code LK-{1000 + 7 * number}."),
        Message(Role.ASSISTANT, f"Noted, and your reference number is RF-{number}, valid from now on."),
    ]


def lived(url: str) -> Counter[str]:
    """The statements with which the background worked off a conversation, by their first words."""
    database, statements = create_engine(url), Counter[str]()
    me = threading.get_ident()

    def note(sql: str) -> None:
        if threading.get_ident() != me:
            statements[" ".join(sql.split()[:3])] += 1

    event.listen(database, "connect", lambda connection, _: connection.set_trace_callback(note))
    with ContextEngine.open(database, settings=ArcSettings(storage={"synchronous": "normal"})) as engine:
        session = engine.session("s", user_id="ann")
        session.append([message for number in range(TURNS) for message in told(number)])
        session.summarize()
        assert engine.flush(60)
        assert len(session.facts()) > TURNS / 2
        assert len(engine.memories(user_id="ann").list()) > TURNS / 2
    database.dispose()
    return statements


def test_a_text_is_read_by_rules_once(tmp_path: Path) -> None:
    """For facts and for memories together."""
    read = Counter[str]()

    def count(frame: FrameType, happened: str, _: object) -> None:
        if happened == "call" and frame.f_code is parts_of.__code__:
            read[frame.f_locals["sentence"]] += 1

    threading.setprofile(count)
    try:
        lived(sqlite_url(tmp_path))
    finally:
        threading.setprofile(None)
    assert len(read) >= TURNS
    assert set(read.values()) == {1}, read.most_common(3)


def test_there_are_few_transactions_and_queries(tmp_path: Path) -> None:
    """Of 80 messages with 80 facts and 40 memories: a write for five messages, five queries for four."""
    statements = lived(sqlite_url(tmp_path))
    messages = 2 * TURNS
    assert statements["BEGIN IMMEDIATE"] <= messages / 5, statements
    assert sum(number for sql, number in statements.items() if sql.startswith("SELECT")) <= 5 * messages / 4, statements


def test_what_another_process_has_indexed_is_not_analysed_again(tmp_path: Path) -> None:
    """Of 200 messages that another engine saved and indexed meanwhile, the next one reads the last few."""
    url = sqlite_url(tmp_path)
    with ContextEngine.open(url) as one, ContextEngine.open(url) as other:
        one.session("s").append(told(0))
        one.session("s").summarize()
        other.session("s").append([message for number in range(100) for message in told(number)])
        other.session("s").summarize()
        one.session("s").append(told(100))
        analysed = 0

        def count(frame: FrameType, happened: str, _: object) -> None:
            nonlocal analysed
            analysed += happened == "call" and frame.f_code is analyze.__code__ and _is_indexing(frame)

        sys.setprofile(count)
        try:
            one.session("s").summarize()
        finally:
            sys.setprofile(None)
    assert 0 < analysed < 100


def _is_indexing(frame: FrameType) -> bool:
    return frame.f_back is not None and frame.f_back.f_code.co_filename.endswith("memory/recall/index.py")
