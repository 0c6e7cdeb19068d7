"""Memories are removed with their sources, despite other processes and kills."""

import json
from datetime import UTC, datetime

import pytest

from arc_common import ContextEngine, Message
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.stores.conversations import SqlStore
from arc_common.testing import ReplyingChatModel, SlowChatModel
from tests.support.databases import indexed, observed, rows
from tests.unit.memory.test_message_index import Letters

LONG = 20.0
"""Seconds that no step of a test takes."""

WITHOUT_VECTOR = """
    SELECT entries.entry_id FROM arc_index_entries entries
    JOIN arc_index_scopes scopes ON scopes.scope = entries.scope
    LEFT JOIN arc_index_vectors vectors ON vectors.id = entries.id
    WHERE scopes.kind = 'memory' AND vectors.id IS NULL
"""
TERMS = "SELECT terms FROM arc_index_texts WHERE scope IN (SELECT scope FROM arc_index_scopes WHERE kind = 'message')"
KEY = SessionKey("s", user_id="ann")
OTHER = SessionKey("other", user_id="ann")


def say(engine, key, text, message_id="m"):
    session = engine.session(key.session_id, user_id="ann")
    session.append([Message("user", text, id=message_id), Message("assistant", "I see.")])
    assert engine.flush(LONG)


def removed(url, how):
    """Remove the message "m" of the session and do nothing else, like a process that dies right afterwards."""
    store = SqlStore(url, clock=lambda: datetime.now(UTC))
    if how == "remove":
        assert store.remove(KEY, ["m"]) == 1
    elif how == "edit":
        said = Message("user", "Other words.", id="m", created_at=datetime(2026, 1, 1, tzinfo=UTC))
        store.append(KEY, [CountedMessage(said, 3, "test")])
    else:
        assert store.delete(KEY, keep_session=how == "clear")
    store.close()


def remembered(url):
    """Return the texts of Ann's memories in the search index."""
    return set(indexed(url, "memory", user_id="ann"))


@pytest.mark.parametrize(("how", "embeds"), [("remove", True), ("clear", False), ("delete", True), ("edit", False)])
def test_what_holds_in_its_place_is_found_at_once(opened, url, how, embeds):
    """The superseded memory, and the remaining one of two wordings, hold; nothing else of the message is left."""
    engine = opened(embedder=Letters() if embeds else None)
    say(engine, OTHER, "I live in Seoul. I work in the largest hospital of the whole city.", "o")
    say(engine, KEY, "I live in Busan. I work in the largest hospital of the whole city as a nurse.")
    assert any("nurse" in text for text in remembered(url))
    removed(url, how)
    expected = {"I live in Seoul", "I work in the largest hospital of the whole city"}
    assert {memory.text for memory in engine.memories(user_id="ann").list()} == expected
    assert remembered(url) == expected
    engine.memories(user_id="ann").add("I keep bees.")
    found = [one.memory.text for one in engine.memories(user_id="ann").search("Where in Seoul do I live?")]
    assert found[0] == "I live in Seoul"
    engine.session("s", user_id="ann").delete()
    if embeds:
        assert rows(url, WITHOUT_VECTOR) == []


@pytest.mark.parametrize("how", ["delete", "edit"])
def test_of_two_that_hold_again_one_gives_way(opened, url, how):
    """Both were superseded by the removed one: the later holds; of equal texts, one."""
    engine = opened()
    for name, month, city in (("a", 1, "Seoul"), ("b", 3, "Jeju"), ("s", 5, "Busan"), ("c", 2, "Seoul")):
        said = Message("user", f"I live in {city}.", id="m", created_at=datetime(2026, month, 1, tzinfo=UTC))
        engine.session(name, user_id="ann").append([said, Message("assistant", "I see.")])
        assert engine.flush(LONG)
    assert [memory.text for memory in engine.memories(user_id="ann").list()] == ["I live in Busan"]
    session = engine.session("s", user_id="ann")
    if how == "remove":
        session.remove(["m"])
    elif how == "edit":
        session.append([Message("user", "Thanks.", id="m")])
        assert engine.flush(LONG)
    else:
        getattr(session, how)()
    assert [memory.text for memory in engine.memories(user_id="ann").list()] == ["I live in Jeju"]
    assert remembered(url) == {"I live in Jeju", "I live in Seoul"}  # superseded memories may hold on a branch


@pytest.mark.parametrize("how", ["delete", "remove"])
def test_an_id_that_is_used_again_brings_nothing_back(opened, how):
    """While a model reads, the session is removed and the id reused; the new text is read in turn."""
    answers = [f"The user {text}." for text in ("plays the cello", "lives in Busan")]
    replies = [json.dumps([{"type": "fact", "content": text, "importance": 0.9}]) for text in answers]
    model = SlowChatModel(ReplyingChatModel(replies))
    engine = opened(model)
    session = engine.session("s", user_id="ann")
    session.append([Message("user", "I play the cello: the user plays the cello.", id="m"), Message("assistant", "k")])
    assert model.asked.wait(LONG)
    session.remove(["m"]) if how == "remove" else getattr(session, how)()
    said = "I live in Busan: the user lives in Busan."
    session.append([Message("user", said, id="m"), Message("assistant", "k")])
    model.may_answer.set()
    assert engine.flush(LONG)
    assert {memory.text for memory in engine.memories(user_id="ann").list()} == {"The user lives in Busan."}


def test_what_is_deleted_by_hand_leaves_whatever_another_process_adds_meanwhile(tmp_path):
    """The other process adds a memory between the decision and the transaction of the deletion."""
    url = f"sqlite:///{tmp_path}/arc.db"
    others = iter([lambda: other.memories(user_id="ann").add("I keep bees.")])
    steps = []

    def before(sql):
        if steps and sql == "BEGIN IMMEDIATE":
            next(others, lambda: None)()

    database = observed(url, before)
    with ContextEngine.open(database) as one, ContextEngine.open(url) as other:
        milo = one.memories(user_id="ann").add("My dog is called Milo.")
        steps.append("deletion")
        one.memories(user_id="ann").delete(milo.id)
        assert next(others, None) is None  # the addition came in between
        assert remembered(url) == {"I keep bees."}
    database.dispose()


def test_the_old_words_of_an_edit_leave_recall_at_once(tmp_path):
    """A few new messages may wait to be indexed, an edit does not."""
    url = f"sqlite:///{tmp_path}/arc.db"
    with ContextEngine.open(url) as engine:
        session = engine.session("s", user_id="ann")
        session.append([Message("user", "My code is zyxcode.", id="m"), Message("assistant", "I see.")])
        session.recall("code")
        assert any("zyxcod" in terms for (terms,) in rows(url, TERMS))
        session.append([Message("user", "Something else.", id="m")])
        assert engine.flush(LONG)
        assert rows(url, TERMS)
        assert not [terms for (terms,) in rows(url, TERMS) if "zyxcod" in terms]
