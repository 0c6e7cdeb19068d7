"""Memories extracted in the background from saved messages."""

import sqlite3
from types import SimpleNamespace

import pytest

from arc_common import Message
from arc_common.protocols import SessionKey
from arc_common.protocols.search_index import Scope
from arc_common.testing import CountingObserver, ReplyingChatModel, SlowChatModel
from tests.support.databases import indexed, observed

LONG = 20.0
"""Seconds that no step of a test takes."""

KEY = SessionKey("s", user_id="ann")
SEOUL = '[{"content": "The user lives in Seoul.", "importance": 0.9}]'


def saved(engine, *texts, key=KEY):
    """Append alternating messages, extract memories, and return the stored messages."""
    roles = ["user", "assistant"]
    session = engine.session(key.session_id, user_id=key.user_id, caller_id=key.caller_id)
    stored = session.append([Message(roles[n % 2], text) for n, text in enumerate(texts)])
    assert engine.flush(LONG)
    return stored


def shown(engine, query, key=KEY):
    """Return the memories shown for a query, or merged into an item that says the same."""
    session = engine.session(key and key.session_id, user_id=key and key.user_id)
    window = session.context(query)
    items = [item for section in window.sections for item in section.items]
    return [one.id for one in (*items, *window.receipt.nearest) if one.kind == "memory"]


def texts(engine, **whose):
    return [memory.text for memory in engine.memories(**whose).list()]


def test_a_value_is_remembered_with_the_question_before_it(opened):
    """An earlier turn asked the question, which gives the value its meaning."""
    engine = opened()
    saved(engine, "My line is down.", "What is your customer number?")
    saved(engine, "HB-4471902", "Thanks.")
    assert "HB-4471902 (in reply to: What is your customer number?)" in texts(engine, user_id="ann")


X = "works in the largest university hospital of the city of Busan"


def test_what_was_added_by_hand_in_other_words_stays(opened):
    for name, first in enumerate((True, False)):
        engine = opened()
        user = f"user{name}"
        key = SessionKey("s", user_id=user)
        given = f"I {X.replace('works', 'work')}."
        if first:
            engine.memories(user_id=user).add(given)
        saved(engine, f"{given[:-1]} as a nurse.", "I see.", key=key)
        if not first:
            engine.memories(user_id=user).add(given)
        assert texts(engine, user_id=user) == [f"{given[:-1]} as a nurse"]
        engine.session("s", user_id=user).delete()
        assert texts(engine, user_id=user) == [given]


def test_an_exchange_is_read_in_the_background(opened):
    engine = opened(ReplyingChatModel([SEOUL]))
    stored = saved(engine, "I live in Seoul.", "Nice!")
    (memory,) = engine.memories(user_id="ann").list()
    assert memory.text == "The user lives in Seoul."
    assert memory.sources == (("s", stored[0].id),)
    assert memory.valid_from == stored[0].created_at


def test_a_message_is_read_once_and_with_its_answer(opened):
    model = ReplyingChatModel(["[]"])
    engine = opened(model)
    stored = saved(engine, "I live in Seoul.")
    assert not model.requests
    answered = engine.session("s", user_id="ann").append(Message("assistant", "Nice!"))
    engine.session("s", user_id="ann").append([*stored, *answered])
    assert engine.flush(LONG)
    engine.session("s", user_id="ann").append([*stored, *answered])
    assert engine.flush(LONG)
    assert len(model.requests) == 1
    assert "I live in Seoul." in model.requests[0][1].text
    assert "Nice!" in model.requests[0][1].text


def test_user_messages_without_answers_are_read_in_the_end(opened):
    model = ReplyingChatModel(["[]"])
    engine = opened(model)
    session = engine.session("s", user_id="ann")
    for number in range(8):
        session.append(Message("user", f"note {number}"))
    assert engine.flush(LONG)
    assert len(model.requests) == 1


def test_what_comes_meanwhile_is_one_request(opened):
    inner = ReplyingChatModel(["[]"])
    model = SlowChatModel(inner)
    engine = opened(model)
    session = engine.session("s", user_id="ann")
    session.append([Message("user", "first"), Message("assistant", "ok")])
    assert model.asked.wait(LONG)
    for number in range(5):
        session.append([Message("user", f"then {number}"), Message("assistant", "ok")])
    model.may_answer.set()
    assert engine.flush(LONG)
    assert len(inner.requests) == 2
    assert all(f"then {number}" in inner.requests[1][1].text for number in range(5))


@pytest.mark.parametrize("end", ["delete", "remove"])
def test_what_was_removed_meanwhile_does_not_come_back(opened, url, end):
    model, observer = SlowChatModel(ReplyingChatModel([SEOUL])), CountingObserver()
    engine = opened(model, observer)
    session = engine.session("s", user_id="ann")
    stored = session.append([Message("user", "I live in Seoul."), Message("assistant", "Nice!")])
    assert model.asked.wait(LONG)
    if end == "remove":
        session.remove([stored[0].id])
    else:
        getattr(session, end)()
    model.may_answer.set()
    assert engine.flush(LONG)
    assert texts(engine, user_id="ann") == []
    assert indexed(url, "memory", user_id="ann") == []
    assert not observer.counts["memory.saved.count"]


def test_what_waits_of_a_session_that_is_removed_is_not_read(opened):
    model = ReplyingChatModel([SEOUL])
    engine = opened(model)
    session = engine.session("s", user_id="ann")
    session.append(Message("user", "I live in Seoul."))
    session.delete()
    session.append(Message("assistant", "Nice!"))
    assert engine.flush(LONG)
    assert texts(engine, user_id="ann") == []


@pytest.fixture
def watched(opened, url):
    """Return a function that opens an engine whose memory statements are recorded, and fail while it is `broken`."""
    databases = []

    def open_engine(observer=None):
        state = SimpleNamespace(statements=[], broken=False, before=lambda sql: None)

        def before(sql):
            state.before(sql)
            if "arc_records" in sql and "arc_records.pinned = 1" not in sql:  # pins are part of the session's state
                state.statements.append(sql)
                if state.broken:
                    raise sqlite3.OperationalError("disk I/O error")

        databases.append(observed(url, before))
        return opened(observer=observer, database=databases[-1]), state

    yield open_engine
    for database in databases:
        database.dispose()


def test_what_was_removed_at_the_last_moment_does_not_come_back(watched, opened, url):
    """Another process removes it after its message was checked and before its memory is stored."""
    engine, state = watched()
    other, background = opened(), []

    def delete(sql):
        if background and sql == "BEGIN IMMEDIATE" and background.pop():
            other.session("s", user_id="ann").delete()

    session = engine.session("s", user_id="ann")
    session.append(Message("user", "I love hiking in the mountains."))
    assert engine.flush(LONG)
    state.before = delete
    background.extend([True, False])  # the first transaction appends the answer, the second stores the memory
    session.append(Message("assistant", "Great!"))
    assert engine.flush(LONG)
    assert background == []
    assert not session.exists()
    assert texts(engine, user_id="ann") == []
    assert indexed(url, "memory", user_id="ann") == []


@pytest.mark.parametrize(
    ("scope", "user", "expected"),
    [
        ("caller", "ann", Scope("default")),
        ("user", "ann", Scope("default", "ann")),
        ("session", "ann", Scope("default", "ann", "s")),
        ("caller", None, Scope("default")),
        ("user", None, Scope("default", None, "s")),
        ("session", None, Scope("default", None, "s")),
    ],
)
def test_whose_memories_a_session_has(opened, scope, user, expected):
    key = SessionKey("s", user_id=user)
    engine = opened(scope=scope)
    saved(engine, "I love hiking in the mountains.", "Great!", key=key)
    engine.session("s", user_id=user).remember()  # sessions without a user are not read automatically
    assert engine.flush(LONG)
    whose = {"user_id": expected.user_id, "session_id": expected.session_id}
    assert shown(engine, "hiking", key) == [memory.id for memory in engine.memories(**whose).list()]
    assert texts(engine, **whose) == ["I love hiking in the mountains"]


def test_memories_of_a_turn_never_raise(watched):
    observer = CountingObserver()
    engine, state = watched(observer)
    engine.memories(user_id="ann").add("User likes hiking")
    state.broken = True
    assert shown(engine, "hiking") == []
    assert observer.counts["memory.errors"] == 1
