"""Pending, approved and rejected memories; eviction from a full scope; clocks set back."""

import asyncio
import json
from datetime import timedelta

import pytest

from arc_common import InvalidInputError, MemoryNotFoundError, Message
from arc_common.memories import MemoryStatus, ProposedMemory
from arc_common.memory.long_term.policy import Outcome
from arc_common.memory.long_term.service import MemoryKeeper
from arc_common.settings import ArcSettings
from arc_common.stores import SqlStore
from arc_common.testing import ReplyingChatModel
from tests.support.clocks import START
from tests.support.services import services


@pytest.fixture
def memories(opened, clock):
    return opened(max_per_scope=2, clock=clock).memories(user_id="ann")


def texts(memories, status="ACTIVE"):
    return sorted(memory.text for memory in memories.list(status=status))


def test_what_waits_changes_nothing_that_holds(memories):
    """A pending memory is separate until approved; an identical text is already known."""
    held = memories.add("The user pays invoices from account 12")
    waits = memories.add("The user pays all the invoices from account 12", status="PENDING")
    assert waits.id != held.id
    assert memories.get(held.id) == held
    assert texts(memories, "PENDING") == ["The user pays all the invoices from account 12"]
    assert memories.add("the user pays invoices from account 12.", status="PENDING", sources=[("s", "m")]) == held
    assert memories.context("Which account?").count("account 12") == 1
    again = memories.add("The user pays all the invoices from account 12.", status="PENDING")
    assert again.id == waits.id


def test_what_is_approved_by_hand_holds_as_it_was_entered(memories, clock):
    """It keeps all its fields and holds over contradicting memories, even those stated after it began to wait."""
    waits = memories.add("The user lives in Busan", status="PENDING", importance=0.2, sources=[("s", "1")])
    clock.now += timedelta(days=1)
    seoul = memories.add("The user lives in Seoul")
    clock.now -= timedelta(hours=2)
    added = memories.add("The user lives in Busan", importance=0.7, sources=[("s", "2")], metadata={"by": "me"})
    assert added == memories.get(waits.id)
    assert (added.importance, added.metadata, added.superseded_by) == (0.7, {"by": "me"}, None)
    assert added.sources == (("s", "1"), ("s", "2"))
    assert memories.get(seoul.id).superseded_by == waits.id


def test_approving_and_rejecting(memories):
    """An approved memory replaces contradicting ones; a rejected one is neither found nor shown."""
    seoul = memories.add("The user lives in Seoul")
    busan = memories.add("The user lives in Busan", status="pending")
    assert texts(memories) == ["The user lives in Seoul"]
    assert memories.set_status(busan.id, "active").status is MemoryStatus.ACTIVE
    assert memories.get(seoul.id).superseded_by == busan.id
    assert [one.memory.text for one in memories.search("Where does the user live?")] == ["The user lives in Busan"]
    assert memories.set_status(busan.id, MemoryStatus.ACTIVE) == memories.get(busan.id)
    rejected = asyncio.run(memories.aset_status(busan.id, "REJECTED"))
    assert rejected.status is MemoryStatus.REJECTED
    assert memories.search("Where does the user live?") == []
    with pytest.raises(MemoryNotFoundError, match="nobody"):
        memories.set_status("nobody", "ACTIVE")
    with pytest.raises(InvalidInputError, match=r"memory\.status"):
        memories.set_status(busan.id, "MAYBE")


def test_what_was_said_before_takes_no_place_when_it_is_approved(memories, clock):
    busan = memories.add("The user lives in Busan", status="PENDING")
    clock.now += timedelta(days=1)
    seoul = memories.add("The user lives in Seoul")
    assert memories.set_status(busan.id, "ACTIVE").superseded_by == seoul.id
    assert texts(memories) == ["The user lives in Seoul"]


def test_what_waits_takes_no_place_of_what_holds(memories):
    for text in ("The user keeps bees", "The user plays the harp"):
        memories.add(text, importance=0.9)
    for number, text in enumerate(["The user drives a van", "The user fears heights", "The user reads Proust"]):
        memories.add(text, importance=0.2 + number / 10, status="PENDING")
    assert texts(memories) == ["The user keeps bees", "The user plays the harp"]
    assert texts(memories, "PENDING") == ["The user fears heights", "The user reads Proust"]


def test_a_clock_that_was_set_back(memories, clock):
    seoul = memories.add("The user lives in Seoul")
    clock.now -= timedelta(hours=2)
    busan = memories.add("The user lives in Busan")
    assert busan.superseded_by is None
    assert memories.get(seoul.id).superseded_by == busan.id
    assert busan.valid_from == seoul.valid_from
    before = memories.add("The user lives in Daegu", valid_from=clock.now - timedelta(days=1))
    assert before.superseded_by == busan.id


@pytest.mark.parametrize("at_once", [True, False])
def test_a_clock_that_was_set_back_within_a_session(opened, clock, *, at_once):
    """The order of messages decides, in one reading or two, in any order of the model's answer."""
    first, last = (f'{{"content": "The user lives in {city}.", "importance": 0.9}}' for city in ("Seoul", "Busan"))
    model = ReplyingChatModel([f"[{last}, {first}]"] if at_once else [f"[{first}]", f"[{last}]"])
    engine = opened(model, clock=clock)
    session = engine.session("s", user_id="ann")
    one = Message("user", "I live in Seoul.", created_at=START)
    other = Message("user", "I live in Busan.", created_at=START - timedelta(hours=2))
    if at_once:
        session.append([one, Message("user", "And:"), other, Message("assistant", "ok")])
    else:
        for message in (one, other):
            session.append([message, Message("assistant", "ok")])
            assert engine.flush(20)
    assert engine.flush(20)
    assert texts(engine.memories(user_id="ann")) == ["The user lives in Busan."]


def test_a_model_s_conclusion_in_words_of_its_own_waits(opened):
    """Words can't distinguish it from nonsense, so it is shown only after approval."""
    listed = [
        {"type": "insight", "content": "The user is a wizard.", "importance": 0.9},
        {"type": "preference", "content": "The user prefers short answers.", "importance": 0.9},
    ]
    engine = opened(model=ReplyingChatModel([json.dumps(listed)]))
    memories = engine.memories(user_id="ann")
    memories.extract("I hate long answers.")
    assert texts(memories) == ["The user prefers short answers."]
    assert texts(memories, "PENDING") == ["The user is a wizard."]
    asked = "Is the user a wizard with short answers?"
    assert "is a wizard." not in engine.session("s", user_id="ann").context(asked).messages[-1].text


@pytest.fixture
def gathered(url, clock, memories):
    """Return a function that adds extracted memories from another process."""
    store = SqlStore(url)
    keeper = MemoryKeeper(services(store, settings=ArcSettings(memory={"max_per_scope": 2}), clock=clock))
    yield lambda text, **values: keeper.add(memories.scope, ProposedMemory(text, **values))
    keeper.access_times.close()
    store.close()


def test_gathering_goes_round_no_review(memories, gathered):
    waits = memories.add("The user keeps bees", status="PENDING")
    assert gathered("The user keeps bees").memory.id == waits.id
    assert gathered("The user keeps the bees").memory.status is MemoryStatus.PENDING
    memories.set_status(waits.id, "REJECTED")
    assert gathered("The user keeps bees").outcome is Outcome.REJECTED
    assert texts(memories) == texts(memories, "PENDING") == []


def test_the_weakest_leaves_also_if_it_is_the_new_one(memories, gathered):
    """Extracted memories evict nothing stronger; those added by hand stay."""
    for text, importance in (("The user keeps bees", 0.9), ("The user plays the harp", 0.8)):
        memories.add(text, importance=importance)
    assert gathered("The user saw a film", importance=0.0).outcome is Outcome.FULL
    assert texts(memories) == ["The user keeps bees", "The user plays the harp"]
    assert gathered("The user is allergic to nuts", importance=1.0).outcome is Outcome.NEW
    assert texts(memories) == ["The user is allergic to nuts", "The user keeps bees"]
    film = memories.add("The user saw a film", importance=0.0)
    assert memories.get(film.id) == film
    assert texts(memories) == ["The user is allergic to nuts", "The user saw a film"]


def test_what_takes_a_place_needs_no_other(memories, gathered):
    memories.add("The user lives in Seoul", importance=0.9)
    memories.add("The user keeps bees", importance=0.9)
    assert gathered("The user lives in Busan", importance=0.1).outcome is Outcome.NEW
    assert texts(memories) == ["The user keeps bees", "The user lives in Busan"]
