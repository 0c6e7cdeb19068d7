"""The verbatim tail of a conversation and its adopted view are read once and always equal the store's."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from arc_common.exceptions import SessionNotFoundError
from arc_common.memory.summaries.adoption import AdoptedViews
from arc_common.memory.summaries.reader import TailReader
from arc_common.messages import Message, Role, ToolCall
from arc_common.protocols import CountedMessage, SessionKey
from arc_common.protocols.summaries import SessionState
from arc_common.stores import SqlStore
from arc_common.testing.conversation_store_contract import START, counted
from tests.contracts.summary_store_contract import a_view

KEY = SessionKey("session", user_id="user")


class Watched:
    """A summary store that records the reads of states."""

    def __init__(self, store: SqlStore) -> None:
        self._summaries = store.summaries
        self.read: list[int] = []

    def state(self, key: SessionKey, *, limit: int, after: int = 0) -> SessionState:
        state = self._summaries.state(key, limit=limit, after=after)
        self.read.append(len(state.messages))
        return state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._summaries, name)


def batch(first: int, last: int) -> list[CountedMessage]:
    return [counted(f"m{n}", str(n), role="user" if n % 2 else "assistant") for n in range(first, last + 1)]


def ids(messages: Sequence[Any]) -> list[str]:
    return [stored.message.id for stored in messages]


def test_each_message_is_read_once() -> None:
    """After the first turn, only new messages are read, also after an adoption; an edit makes a turn read all again."""
    store = SqlStore()
    watched = Watched(store)
    reader = TailReader(watched)
    store.append(KEY, batch(1, 30))
    assert ids(reader.read(KEY, room=10_000, most=99).state.messages) == [f"m{n}" for n in range(1, 31)]
    store.append(KEY, batch(31, 32))
    tail = reader.read(KEY, room=10_000, most=99)
    assert (len(tail.state.messages), tail.tokens, tail.complete) == (32, 320, True)
    assert store.summaries.adopt(KEY, a_view(1, 20), epoch=tail.state.epoch)
    tail = reader.read(KEY, room=10_000, most=99)
    assert (ids(tail.state.messages), tail.tokens) == ([f"m{n}" for n in range(21, 33)], 120)
    assert watched.read == [30, 2, 0]
    store.append(KEY, [counted("m25", "changed")])
    assert "changed" in [stored.message.text for stored in reader.read(KEY, room=10_000, most=99).state.messages]
    assert watched.read == [30, 2, 0, 0, 12]


def test_reading_continues_while_more_fits() -> None:
    """Reading continues while more fits; with more tokens later, everything is read again."""
    store = SqlStore()
    watched = Watched(store)
    reader = TailReader(watched)
    store.append(KEY, batch(1, 1_500))
    tail = reader.read(KEY, room=2_000, most=9_999)
    assert (len(tail.state.messages), tail.complete) == (256, False)
    tail = reader.read(KEY, room=9_000, most=9_999)
    assert (len(tail.state.messages), tail.complete) == (1_024, False)
    tail = reader.read(KEY, room=20_000, most=9_999)
    assert (len(tail.state.messages), tail.complete) == (1_500, True)
    before = len(watched.read)
    assert reader.read(KEY, room=100, most=10) == tail
    assert watched.read[before:] == [0]
    assert len(TailReader(store.summaries).read(KEY, room=20_000, most=300).state.messages) == 1_024


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(1, 40))])
def test_a_caching_reader_always_equals_the_store(seed: int) -> None:
    """After any changes, a reader with a cache returns the same as one without."""
    rng = random.Random(seed)
    store = SqlStore("sqlite://")
    reader = TailReader(store.summaries)
    made = 0
    for _ in range(120):
        what = rng.choice(["append"] * 6 + ["edit", "remove", "cap", "adopt", "adopt", "clear", "delete"])
        state = store.summaries.state(KEY, limit=999)
        there = [stored.message.id or "" for stored in state.messages]
        if what == "append" or not there:
            count = rng.choice([1, 2, 3, 300])
            store.append(KEY, batch(made + 1, made + count))
            made += count
        elif what == "edit":
            store.append(KEY, [counted(rng.choice(there), f"edited {rng.random()}")])
        elif what == "remove":
            store.remove(KEY, rng.sample(there, 1))
        elif what == "cap":
            made += 1
            store.append(KEY, batch(made, made), max_messages=rng.choice([5, 50]))
        elif what == "adopt":
            boundary = rng.choice(state.messages).seq
            version = state.view.version + 1 if state.view else 1
            assert store.summaries.adopt(KEY, a_view(version, boundary), epoch=state.epoch)
        elif what == "clear" and rng.random() < 0.3:
            store.delete(KEY, keep_session=True)
        elif what == "delete" and rng.random() < 0.3:
            store.delete(KEY)
        kept = reader.read(KEY, room=1_000_000, most=10_000)
        assert kept == TailReader(store.summaries).read(KEY, room=1_000_000, most=10_000)
        assert kept.complete
    store.close()


def test_changing_returned_messages_does_no_harm() -> None:
    """Changed metadata and arguments are restored in the next turn."""
    store = SqlStore()
    call = ToolCall("look", {"deep": {"n": 1}}, id="c1")
    message = Message(Role.ASSISTANT, "Hm.", tool_calls=(call,), id="a", created_at=START, metadata={"tags": ["x"]})
    store.append(KEY, [CountedMessage(message, 10, "test/1")])
    reader = TailReader(store.summaries)
    for _ in range(3):
        [stored] = reader.read(KEY, room=100, most=99).state.messages
        assert stored.message.metadata == {"tags": ["x"]}
        assert stored.message.tool_calls == (call,)
        stored.message.metadata["tags"].append("y")
        stored.message.tool_calls[0].arguments["deep"]["n"] = 2  # type: ignore[index]  # a mapping here


def test_the_cache_is_bounded() -> None:
    """The least recently used sessions leave the cache; one that is too large is never cached."""
    store = SqlStore()
    watched = Watched(store)
    reader = TailReader(watched, most_kept=6_000)
    keys = [SessionKey(f"s{n}", user_id="user") for n in range(3)]
    for key in keys:
        store.append(key, batch(1, 4))
        reader.read(key, room=1_000, most=99)
    reader.read(keys[2], room=1_000, most=99)
    reader.read(keys[0], room=1_000, most=99)
    assert watched.read == [4, 4, 4, 0, 4]
    store.append(keys[0], batch(5, 40))
    for _ in range(2):
        reader.read(keys[0], room=1_000, most=99)
    assert watched.read[5:] == [36, 40]


def test_another_user_finds_nothing() -> None:
    store = SqlStore()
    store.append(KEY, batch(1, 4))
    reader = TailReader(store.summaries)
    reader.read(KEY, room=1_000, most=99)
    with pytest.raises(SessionNotFoundError):
        reader.read(SessionKey("session", user_id="other"), room=1_000, most=99)
    store.delete(KEY)
    store.append(SessionKey("session", user_id="other"), batch(1, 2))
    with pytest.raises(SessionNotFoundError):
        reader.read(KEY, room=1_000, most=99)


def test_a_forgotten_session_is_read_again() -> None:
    store = SqlStore()
    watched = Watched(store)
    reader = TailReader(watched)
    store.append(KEY, batch(1, 4))
    reader.read(KEY, room=1_000, most=99)
    reader.forget(KEY)
    reader.read(KEY, room=1_000, most=99)
    assert watched.read == [4, 4]


VIEWED = SessionKey("session", user_id="user")


def a_store() -> tuple[SqlStore, int]:
    """Return a store with a session of eight messages, and its epoch."""
    store = SqlStore()
    store.append(VIEWED, [counted(f"m{n}") for n in range(1, 9)])
    return store, store.summaries.state(VIEWED, limit=0).epoch


def test_of_two_that_adopt_at_once_one_does() -> None:
    store, epoch = a_store()
    views = AdoptedViews(store.summaries)
    first, second = a_view(1, 4), a_view(1, 8)
    assert views.adopt(VIEWED, first, epoch=epoch) is first
    assert views.adopt(VIEWED, second, epoch=epoch) is first


def test_a_view_applies_before_and_after_it_is_stored() -> None:
    """A turn sees it instead of the store's view until it is stored; a second save changes nothing."""
    store, epoch = a_store()
    views = AdoptedViews(store.summaries)
    before = store.summaries.state(VIEWED, limit=9)
    views.adopt(VIEWED, a_view(1, 4), epoch=epoch)
    known = views.newest(VIEWED)
    assert known is not None
    assert known.is_ahead_of(before)
    assert (views.waiting(), views.is_stored(VIEWED, epoch=epoch)) == ([VIEWED], False)
    assert views.save(VIEWED)
    assert views.save(VIEWED)
    assert (views.waiting(), views.is_stored(VIEWED, epoch=epoch)) == ([], True)
    after = store.summaries.state(VIEWED, limit=9)
    assert after.view == a_view(1, 4)
    assert not known.is_ahead_of(after)
    assert known.is_ahead_of(before)  # a turn whose state was read before the view was stored


def test_an_edit_discards_an_unsaved_view() -> None:
    """Afterwards it is neither shown nor stored, and does not block another view."""
    store, epoch = a_store()
    views = AdoptedViews(store.summaries)
    views.adopt(VIEWED, a_view(1, 4), epoch=epoch)
    known = views.newest(VIEWED)
    store.append(VIEWED, [counted("m2", "changed")])
    state = store.summaries.state(VIEWED, limit=0)
    assert known is not None
    assert not known.is_ahead_of(state)
    assert views.is_stored(VIEWED, epoch=state.epoch)
    assert not views.save(VIEWED)
    assert (views.newest(VIEWED), store.summaries.state(VIEWED, limit=0).view) == (None, None)
    views.adopt(VIEWED, a_view(1, 6), epoch=state.epoch)
    assert views.save(VIEWED)


def test_a_view_of_another_process_wins_if_stored_first() -> None:
    store, epoch = a_store()
    here, there = AdoptedViews(store.summaries), AdoptedViews(store.summaries)
    here.adopt(VIEWED, a_view(1, 4), epoch=epoch)
    there.adopt(VIEWED, a_view(1, 6), epoch=epoch)
    assert there.save(VIEWED)
    assert not here.save(VIEWED)
    assert here.newest(VIEWED) is None
    assert store.summaries.state(VIEWED, limit=0).view == a_view(1, 6)


def test_forgetting_a_view() -> None:
    store, epoch = a_store()
    views = AdoptedViews(store.summaries)
    views.adopt(VIEWED, a_view(1, 4), epoch=epoch)
    views.forget(VIEWED)
    assert views.newest(VIEWED) is None
    assert views.save(VIEWED)
    assert store.summaries.state(VIEWED, limit=0).view is None
