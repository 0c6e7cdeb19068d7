"""Progress of memory extraction over restarts, failures, edits and other processes."""

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from arc_common import ContextEngine, Message
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import CountedMessage
from arc_common.settings import ArcSettings
from arc_common.stores.conversations import SqlStore
from arc_common.testing import CountingObserver, ReplyingChatModel, SlowChatModel
from tests.support.databases import indexed, observed, rows, unwritable

NOW = datetime(2026, 1, 1, tzinfo=UTC)

LONG = 20.0
"""Seconds that no step of a test takes."""

SEOUL = '[{"content": "The user lives in Seoul.", "importance": 0.9}]'
BUSAN = '[{"content": "The user lives in Busan.", "importance": 0.9}]'


def settle(engine):
    assert engine.flush(LONG)


def say(engine, *messages, session="s"):
    roles = ["user", "assistant"]
    made = [one if isinstance(one, Message) else Message(roles[n % 2], one) for n, one in enumerate(messages)]
    return engine.session(session, user_id="ann").append(made)


def texts(engine):
    return sorted(memory.text for memory in engine.memories(user_id="ann").list())


def shown(engine, question):
    window = engine.session("other", user_id="ann").context(question)
    return "\n".join(message.text for message in window.messages)


@pytest.mark.parametrize("end", ["edit", "remove", "delete"])
def test_what_another_process_removes_leaves_prompts(opened, url, end):
    first = opened()
    say(first, Message("user", "My passport number is M1234567.", id="m1"), "Noted.")
    settle(first)
    assert "M1234567" in shown(first, "What is my passport number?")
    second = opened()
    session = second.session("s", user_id="ann")
    if end == "edit":
        session.append(Message("user", "[removed]", id="m1"))
    else:
        session.remove(["m1"]) if end == "remove" else session.delete()
    for engine in (first, second):
        if end != "edit":  # an edit removes the old text at once
            settle(engine)
        assert "M1234567" not in shown(engine, "What is my passport number?")
    assert indexed(url, "memory", user_id="ann") == []


def test_the_new_words_of_an_edit_are_remembered(opened):
    """The editing process extracts them; saving them again unchanged does not."""
    first = opened()
    say(first, Message("user", "I love hiking in the mountains.", id="m1"), "Great!")
    settle(first)
    first.close()
    second = opened()
    for _ in range(2):
        say(second, Message("user", "I love sailing on lakes.", id="m1"))
        settle(second)
        assert texts(second) == ["I love sailing on lakes"]
        for memory in second.memories(user_id="ann").list():
            second.memories(user_id="ann").delete(memory.id)
        say(second, Message("user", "I love sailing on lakes.", id="m1"))
        settle(second)
        assert texts(second) == []
        say(second, Message("user", "I love hiking in the mountains.", id="m1"))
        settle(second)
        assert texts(second) == ["I love hiking in the mountains"]


@pytest.mark.parametrize("forked", [False, True], ids=["one branch", "forked"])
@pytest.mark.parametrize("reader", ["process", "worker"])
def test_the_new_words_of_another_process_are_remembered(opened, url, reader, forked):
    """The next process that works on the session extracts them, and no later messages again."""
    first = opened()
    say(first, Message("user", "I love hiking in the mountains.", id="m1"), "Great!", "I live in Seoul.", "Nice!")
    settle(first)
    (seoul,) = [one for one in first.memories(user_id="ann").list() if "Seoul" in one.text]
    first.memories(user_id="ann").delete(seoul.id)
    if forked:
        first.session("s", user_id="ann").fork(name="idea")
    first.close()
    with opened(enabled=False) as other:
        say(other, Message("user", "I love sailing on lakes.", id="m1"))
    next_ = opened()
    if reader == "worker":
        next_.admin.work()
    else:
        next_.session("s", user_id="ann").context("hm")
        settle(next_)
    on_fork = ["I love hiking in the mountains"] if forked else []  # still on the other branch
    assert texts(next_) == [*on_fork, "I love sailing on lakes"]
    assert rows(url, "SELECT unread_edits FROM arc_conversations") == [(None,)]


def test_edits_that_nobody_follows_for_long(opened, url):
    """After any number of edits, the newest text is extracted, and unedited messages are not read again."""
    with opened() as first:
        for number, place in enumerate(("mountains", "hills", "woods")):
            say(first, Message("user", f"I love hiking in the {place}.", id=f"m{number}"), "Great!")
        settle(first)
        (hills,) = [one for one in first.memories(user_id="ann").list() if "hills" in one.text]
        first.memories(user_id="ann").delete(hills.id)
    store, key = SqlStore(url), SessionKey("s", "default", "ann")
    for number in range(2_000):
        said = Message("user", f"Draft {number}." if number < 1_999 else "I love sailing on lakes.", id="m0")
        store.append(key, [CountedMessage(replace(said, created_at=NOW), 5, "test")])
        if number == 1_998:
            store.append(key, [CountedMessage(Message("user", "I love rowing.", id="m2", created_at=NOW), 5, "test")])
    store.close()
    assert rows(url, "SELECT length(unread_edits) < 17000, length(edits) < 17000 FROM arc_conversations") == [(1, 1)]
    engine = opened()
    engine.session("s", user_id="ann").context("hm")
    settle(engine)
    assert texts(engine) == ["I love rowing", "I love sailing on lakes"]
    found = engine.session("s", user_id="ann").recall("sailing on lakes", top_k=1)
    assert [hit.message.id for hit in found] == ["m0"]
    assert rows(url, "SELECT unread_edits, edits FROM arc_conversations") == [(None, None)]


def test_an_edit_behind_which_the_store_fails(opened, url):
    """Memories of the old text are removed with it; the new text is read with the session's next work."""
    observer, begun = CountingObserver(), count()
    is_edit = False

    def before(sql):
        if is_edit and sql == "BEGIN IMMEDIATE" and next(begun) in (1, 2):  # the transactions after the edit's own
            raise sqlite3.OperationalError("disk I/O error")

    database = observed(url, before)
    engine = opened(observer=observer, database=database)
    say(engine, Message("user", "I love hiking in the mountains.", id="m1"), "Great!")
    settle(engine)
    is_edit = True
    say(engine, Message("user", "I love sailing on lakes.", id="m1"))
    settle(engine)
    assert texts(engine) == []
    assert observer.counts["memory.extraction.errors"] == 2
    say(engine, "hm")
    settle(engine)
    assert texts(engine) == ["I love sailing on lakes"]
    engine.close()
    database.dispose()


def test_what_a_process_did_not_read_the_next_one_does(opened):
    model = SlowChatModel(ReplyingChatModel([SEOUL]))
    with opened(model) as engine:
        say(engine, "I live in Seoul.", "Nice!")
        assert model.asked.wait(LONG)
    model.may_answer.set()
    later = opened(ReplyingChatModel([SEOUL]))
    say(later, "Hello again")
    settle(later)
    assert texts(later) == ["The user lives in Seoul."]


def test_a_turn_has_read_what_other_sessions_left(opened):
    with opened(enabled=False) as engine:
        for number, place in enumerate(["the mountains", "deserts"]):
            say(engine, f"I love hiking in {place}.", "Great!", session=f"s{number}")
        engine.session("s9", user_id="eve").append([Message("user", "I love tea."), Message("assistant", "k")])
    later = opened()
    shown(later, "What do I love?")
    settle(later)
    assert texts(later) == ["I love hiking in deserts", "I love hiking in the mountains"]
    assert later.memories(user_id="eve").list() == []


def test_what_a_store_refused_is_read_again(opened, url):
    engine = opened()
    assert texts(engine) == []
    with unwritable(url, "arc_records"):
        say(engine, "I love hiking in the mountains.", "Great!")
        settle(engine)
        assert texts(engine) == []
    say(engine, "Anything else?", "No.")
    settle(engine)
    assert texts(engine) == ["I love hiking in the mountains"]


def test_all_of_a_long_append_is_read(opened):
    model = ReplyingChatModel(["[]"])
    engine = opened(model)
    say(engine, *(text for n in range(100) for text in (f"note number {n}", "ok")))
    settle(engine)
    asked = "\n".join(message.text for request in model.requests for message in request)
    assert all(f"note number {n}\n" in asked or f"note number {n}<" in asked for n in range(100))
    assert 4 <= len(model.requests) <= 6


def test_a_memory_that_was_deleted_does_not_come_back(opened):
    """After a restart, saving the same messages again calls no model."""
    said = [Message("user", "I live in Seoul.", id="m1"), Message("assistant", "Nice!", id="m2")]
    first = opened(ReplyingChatModel([SEOUL]))
    say(first, *said)
    settle(first)
    (memory,) = first.memories(user_id="ann").list()
    first.memories(user_id="ann").delete(memory.id)
    first.close()
    model = ReplyingChatModel([SEOUL])
    second = opened(model)
    say(second, *said)
    settle(second)
    assert (texts(second), model.requests) == ([], [])


def test_a_cap_on_the_session_is_no_obstacle(tmp_path):
    """Messages that left unread are skipped, even if they leave a wide gap."""
    url = f"sqlite:///{tmp_path}/arc.db"
    caps = {"storage": {"max_messages_per_session": 4}, "summary": {"enabled": False}}
    with ContextEngine.open(url, settings=ArcSettings(**caps, memory={"enabled": False})) as engine:
        session = engine.session("s", user_id="ann")
        for number in range(150):
            session.append([Message("user", f"hm {number}"), Message("assistant", "ok")])
        session.append([Message("user", "I love tea."), Message("assistant", "ok")])
    with ContextEngine.open(url, settings=ArcSettings(**caps)) as engine:
        engine.session("s", user_id="ann").append([Message("user", "hello")])
        settle(engine)
        assert texts(engine) == ["I love tea"]
        assert rows(url, "SELECT remembered_seq FROM arc_branches") == [(302,)]


def test_two_processes_that_read_the_same_store_it_once(opened):
    slow = SlowChatModel(ReplyingChatModel(['[{"content": "Seoul is where the user lives.", "importance": 0.9}]']))
    one, two = opened(slow), opened(ReplyingChatModel([SEOUL, "[]"]))
    say(one, "I live in Seoul.", "Nice!")
    assert slow.asked.wait(LONG)
    say(two, "Good", "ok")
    settle(two)
    slow.may_answer.set()
    settle(one)
    assert texts(one) == ["The user lives in Seoul."]


@pytest.mark.parametrize("deleted", [False, True], ids=["edited", "deleted and begun anew"])
def test_new_words_that_come_while_the_old_ones_are_read(opened, deleted):
    """Another process writes them and exits; the working process reads them."""
    model = SlowChatModel(ReplyingChatModel([SEOUL, BUSAN]))
    engine = opened(model)
    say(engine, Message("user", "I live in Seoul.", id="m1"), "Nice!")
    assert model.asked.wait(LONG)
    with opened(enabled=False) as other:
        if deleted:
            other.session("s", user_id="ann").delete()
        say(other, Message("user", "I live in Busan.", id="m1"), "Nice!")
    model.may_answer.set()
    settle(engine)
    assert texts(engine) == ["The user lives in Busan."]
