"""The contract of every `SummaryStore`, as tests that a backend inherits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from arc_common.exceptions import SessionNotFoundError
from arc_common.facts import Fact, FactCategory
from arc_common.messages import Role
from arc_common.protocols import ConversationStore, CountedMessage, SessionKey, StoredMessage
from arc_common.protocols.conversations import Store
from arc_common.protocols.summaries import Commit, Lease, Outline, Segment, SessionState, SummaryStore, View
from arc_common.testing.conversation_store_contract import START, counted, ids, is_refused


class Clock:
    """A clock that only advances on request."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        """Return the current time."""
        return self.now

    def pass_by(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += timedelta(seconds=seconds)


def a_leaf(start: int, end: int, *, level: int = 0, **fields: Any) -> Segment:
    """Create a finished segment."""
    made = {
        "narrative": f"from {start} to {end}", "tokens": 7, "made_by": "model", "sources": (("m1", "abc"),), "parts": 0,
        "created_at": START, **fields,
    }  # fmt: skip
    return Segment(level, start, end, **made)


def a_fact(fact_id: str, leaf: int = 1, *, minute: int = 0, **fields: Any) -> Fact:
    """Create a fact that holds."""
    made = {
        "key": f"key of {fact_id}", "value": f"value of {fact_id}", "category": FactCategory.GENERAL, "sources": (),
        "importance": 0.5, "made_by": "model", "valid_from": START + timedelta(minutes=minute), **fields,
    }  # fmt: skip
    return Fact(fact_id, segment=leaf, **made)


def a_view(version: int = 1, boundary: int = 4, **fields: Any) -> View:
    """Create an adopted view."""
    made = {
        "covered": boundary, "facts": ("- key: value",), "fact_ids": ("f1",), "narrative": "It began.",
        "instructions": ("Be brief.",), "correction": 1.25, "adopted_at": START, "unshown": 2, "unshown_tokens": 90,
        **fields,
    }  # fmt: skip
    return View(version, boundary, **made)


def names(facts: Sequence[Fact]) -> list[str]:
    """Return the facts' ids."""
    return [fact.id for fact in facts]


def stretches(segments: Sequence[Segment]) -> list[tuple[int, int, int]]:
    """Return the segments' levels and places."""
    return [(segment.level, segment.start, segment.end) for segment in segments]


def is_bare(summaries: SummaryStore, key: SessionKey) -> bool:
    """Return whether a session has neither segments nor facts."""
    return not summaries.segments(key) and not summaries.facts(key, include_superseded=True, include_ungrounded=True)


_PLACES: dict[str, tuple[Segment, Segment, bool]] = {
    "model for rules": (a_leaf(1, 4, made_by="rules"), a_leaf(1, 4), True),
    "rules for model": (a_leaf(1, 4), a_leaf(1, 4, made_by="rules"), False),
    "model twice": (a_leaf(1, 4), a_leaf(1, 4, narrative="again"), False),
    "rules twice": (a_leaf(1, 4, made_by="rules"), a_leaf(1, 4, made_by="rules", narrative="again"), False),
    "longer leaf": (a_leaf(1, 4, made_by="rules"), a_leaf(1, 8), False),
    "shorter leaf": (a_leaf(1, 8, made_by="rules"), a_leaf(1, 4), False),
    "overlap behind": (a_leaf(1, 8), a_leaf(5, 12), False),
    "overlap before": (a_leaf(5, 12), a_leaf(1, 8), False),
    "one message in both": (a_leaf(8, 12), a_leaf(1, 8), False),
    "one message in both, behind": (a_leaf(1, 8), a_leaf(8, 12), False),
    "beside": (a_leaf(1, 4), a_leaf(5, 8), True),
    "shorter era": (a_leaf(1, 8, level=2), a_leaf(1, 4, level=2), False),
    "era by rules over model": (a_leaf(1, 8, level=2), a_leaf(1, 12, level=2, made_by="rules"), False),
    "era grows": (a_leaf(1, 8, level=2, made_by="rules"), a_leaf(1, 12, level=2, made_by="rules"), True),
    "era around an era": (a_leaf(5, 8, level=2), a_leaf(1, 12, level=2), False),
}
"""For each case a stored segment, a new one, and whether the new one is stored."""

_CALLS: list[Callable[[SummaryStore, SessionKey], object]] = [
    lambda summaries, key: summaries.state(key, limit=1),
    lambda summaries, key: summaries.segments(key),
    lambda summaries, key: summaries.segments(key, part="all"),
    lambda summaries, key: summaries.segments(key, within=a_leaf(1, 4, level=1)),
    lambda summaries, key: summaries.segments(key, part="unfinished", limit=1),
    lambda summaries, key: summaries.claim(key, owner="a", seconds=1),
    lambda summaries, key: summaries.commit(key, Commit(a_leaf(1, 4)), lease=None, epoch=0),
    lambda summaries, key: summaries.adopt(key, a_view(), epoch=0),
    lambda summaries, key: summaries.facts(key),
    lambda summaries, key: summaries.facts(key, keys=["a"]),
]
"""Calls that another user may attempt."""


class SummaryStoreContract:
    """Inherit from this class and provide the fixture `store`, whose sessions number their messages from 1."""

    @pytest.fixture
    def clock(self) -> Clock:
        """Return the store's clock."""
        return Clock()

    @pytest.fixture
    def store(self, clock: Clock) -> Store:
        """Return the store to test."""
        raise NotImplementedError

    @pytest.fixture
    def key(self) -> SessionKey:
        """Return a session that no other test uses."""
        return SessionKey("session", caller_id=f"caller-{uuid4()}", user_id="user")

    @pytest.fixture(autouse=True)
    def talk(self, store: Store, key: SessionKey) -> list[StoredMessage]:
        """Store messages m1 … m32 in places 1 … 32, of 10 tokens each, alternately from user and assistant."""
        roles = ("assistant", "user")
        return store.append(key, [counted(f"m{n}", str(n), role=roles[n % 2]) for n in range(1, 33)])

    def put(self, store: Store, key: SessionKey, segment: Segment, *facts: Fact, **more: Any) -> bool:
        """Commit without a lease, at the current epoch."""
        epoch = store.summaries.state(key, limit=0).epoch
        return store.summaries.commit(key, Commit(segment, facts, **more), lease=None, epoch=epoch)

    def claim(self, store: Store, key: SessionKey, owner: str = "a") -> Lease:
        """Take the lease for a minute."""
        lease = store.summaries.claim(key, owner=owner, seconds=60)
        assert lease is not None
        return lease

    # The state

    def test_nothing_there(self, store: Store, key: SessionKey) -> None:
        """A session that does not exist is empty, gives no lease and accepts no commit."""
        summaries, key = store.summaries, replace(key, session_id="nowhere")
        assert summaries.state(key, limit=5, outlines=5) == SessionState()
        assert summaries.segments(key) == summaries.segments(key, part="unfinished", limit=5) == []
        assert summaries.segments(key, within=a_leaf(1, 4, level=1)) == []
        assert summaries.facts(key) == summaries.facts(key, keys=["a"]) == []
        assert summaries.segments(key, part="all") == []
        assert summaries.claim(key, owner="a", seconds=1) is None
        assert summaries.commit(key, Commit(a_leaf(1, 4)), lease=None, epoch=0) is False
        assert summaries.adopt(key, a_view(), epoch=0) is False
        assert store.get(key) is None

    def test_state_before_and_behind_an_adoption(
        self, store: Store, key: SessionKey, talk: list[StoredMessage]
    ) -> None:
        """A state has the newest messages after the boundary, limited at the old end, and the session's totals."""
        summaries = store.summaries
        state = summaries.state(key, limit=5)
        assert (state.view, state.message_count, state.total_tokens) == (None, 32, 320)
        assert list(state.messages) == talk[-5:]
        assert summaries.adopt(key, a_view(boundary=20), epoch=state.epoch)
        state = summaries.state(key, limit=100)
        assert state.view == a_view(boundary=20)
        assert list(state.messages) == talk[20:]
        assert list(summaries.state(key, limit=3).messages) == talk[-3:]
        assert summaries.state(key, limit=0).messages == ()

    def test_a_state_of_what_is_new(self, store: Store, key: SessionKey, talk: list[StoredMessage]) -> None:
        """Only messages after both the given place and the view's boundary are returned, limited like others."""
        summaries = store.summaries
        assert list(summaries.state(key, limit=9, after=29).messages) == talk[29:]
        assert list(summaries.state(key, limit=2, after=20).messages) == talk[-2:]
        assert summaries.state(key, limit=9, after=32).messages == ()
        assert summaries.adopt(key, a_view(boundary=30), epoch=summaries.state(key, limit=0).epoch)
        state = summaries.state(key, limit=9, after=20)
        assert list(state.messages) == talk[30:]
        assert (state.view, state.message_count) == (a_view(boundary=30), 32)

    def test_any_text_comes_back(self, store: Store, key: SessionKey, clock: Clock) -> None:
        """Text that databases refuse, and every field, comes back unchanged; a segment without a time gets one."""
        odd = "a\x00b\ud800 안녕 🎉 %s :x {y} '"
        segment = a_leaf(1, 4, narrative=odd, sources=(("m1", "x"), ("m2", "y")))
        fact = a_fact(
            "f1", key=odd, value=odd, sources=("m1", "m2"), importance=0.1 + 0.2, category=FactCategory.NUMERIC
        )
        view = a_view(facts=(odd,), narrative=odd, instructions=(odd, ""), fact_ids=(), correction=0.1 + 0.2)
        assert self.put(store, key, segment, fact)
        assert store.summaries.adopt(key, view, epoch=store.summaries.state(key, limit=0).epoch)
        assert store.summaries.segments(key) == [segment]
        assert store.summaries.facts(key) == [fact] == store.summaries.facts(key, keys=[odd])
        assert store.summaries.state(key, limit=0).view == view
        clock.pass_by(77)
        assert self.put(store, key, a_leaf(5, 8, created_at=None))
        assert store.summaries.segments(key)[1].created_at == clock.now

    def test_outlines(self, store: Store, key: SessionKey) -> None:
        """Outlines describe the oldest messages after a place, also before the boundary, and the newest messages."""
        state = store.summaries.state
        newest = (Outline(31, Role.USER, 10), Outline(32, Role.ASSISTANT, 10))
        assert state(key, limit=0, after=30, outlines=9).outlines == newest
        assert store.summaries.adopt(key, a_view(boundary=20), epoch=state(key, limit=0).epoch)
        both = state(key, limit=2, after=4, outlines=3)
        assert [one.seq for one in both.outlines] == [5, 6, 7]
        assert [one.seq for one in both.messages] == [31, 32]
        assert (both.message_count, both.view) == (32, a_view(boundary=20))

    # Segments

    def test_a_block_stands_for_its_leaves(self, store: Store, key: SessionKey) -> None:
        """A segment covers those below it, which remain stored as its parts."""
        for start in (1, 5, 9, 13, 17):
            assert self.put(store, key, a_leaf(start, start + 3))
        assert self.put(store, key, a_leaf(1, 16, level=1, parts=4))
        assert stretches(store.summaries.segments(key)) == [(1, 1, 16), (0, 17, 20)]
        parts = store.summaries.segments(key, within=store.summaries.segments(key)[0])
        assert stretches(parts) == [(0, 1, 4), (0, 5, 8), (0, 9, 12), (0, 13, 16)]

    def test_a_running_era_grows(self, store: Store, key: SessionKey) -> None:
        """It replaces itself, keeps its parts, and covers the added ones; four eras are covered by the next level."""
        for start in (1, 5, 9):
            self.put(store, key, a_leaf(start, start + 3, level=1))
        assert self.put(store, key, a_leaf(1, 4, level=2, parts=1))
        assert self.put(store, key, a_leaf(1, 8, level=2, parts=2, narrative="more"))
        assert stretches(store.summaries.segments(key)) == [(2, 1, 8), (1, 9, 12)]
        assert store.summaries.segments(key)[0].narrative == "more"
        assert stretches(store.summaries.segments(key, within=a_leaf(1, 8, level=2))) == [(1, 1, 4), (1, 5, 8)]
        assert self.put(store, key, a_leaf(9, 12, level=2, parts=1))
        assert self.put(store, key, a_leaf(1, 12, level=3, parts=2))
        assert stretches(store.summaries.segments(key)) == [(3, 1, 12)]

    def test_what_may_take_a_place(self, store: Store, key: SessionKey, talk: list[StoredMessage]) -> None:
        """A range is stored once, by the most capable author, without overlaps; a rejected commit changes nothing."""
        messages = [CountedMessage(one.message, one.tokens, one.counter) for one in talk]
        for name, (there, new, is_stored) in _PLACES.items():
            own = replace(key, session_id=name)
            store.append(own, messages)
            fact = a_fact("new", new.start)
            assert self.put(store, own, there), name
            before = store.summaries.state(own, limit=0)
            assert self.put(store, own, new, *([fact] if new.level == 0 else [])) is is_stored, name
            assert (new in store.summaries.segments(own)) is is_stored, name
            if not is_stored:
                assert store.summaries.segments(own) == [there], name
                assert store.summaries.facts(own) == [], name
                assert store.summaries.state(own, limit=0) == before, name

    def test_unfinished(self, store: Store, key: SessionKey) -> None:
        """Empty segments come first, then those by rules, covered or not, by age, leaves before blocks; or all."""
        leaves = a_leaf(1, 4, made_by="rules"), a_leaf(5, 8), a_leaf(9, 12)
        for segment in (*leaves, *(a_leaf(1, 8, level=level, made_by="rules") for level in (1, 2))):
            self.put(store, key, segment)
        assert stretches(store.summaries.segments(key, part="unfinished", limit=9)) == [(0, 1, 4), (1, 1, 8)]
        store.append(key, [counted("m10", "changed", role="assistant")])
        unfinished = [(0, 9, 12), (0, 1, 4), (1, 1, 8)]
        assert stretches(store.summaries.segments(key, part="unfinished", limit=9)) == unfinished
        assert stretches(store.summaries.segments(key, part="unfinished", limit=2)) == unfinished[:2]
        every = store.summaries.segments(key, part="all")
        assert stretches(every) == [(0, 1, 4), (1, 1, 8), (2, 1, 8), (0, 5, 8), (0, 9, 12)]
        assert [one.covered for one in every] == [True, True, False, True, False]
        assert [one.stale for one in every] == [False, False, False, False, True]

    # Facts

    def test_known_facts_are_not_read_again(self, store: Store, key: SessionKey) -> None:
        """A fact that the caller holds comes back as given, in its order; the others are read."""
        self.put(store, key, a_leaf(1, 4), a_fact("low", importance=0.1), a_fact("top", importance=0.9), a_fact("gone"))
        self.put(store, key, a_leaf(5, 8), a_fact("new", 5), ends=(("gone", "new"),))
        known = {"top": a_fact("top"), "gone": a_fact("gone")}
        top, new, low = store.summaries.facts(key, known=known)
        assert top is known["top"]
        assert names([new, low]) == ["new", "low"]

    def test_what_is_not_grounded_never_holds(self, store: Store, key: SessionKey) -> None:
        """An ungrounded fact is kept marked, shown on request only, and changed or removed only by its own leaf."""
        summaries = store.summaries
        invented = a_fact("invented", sources=("m1",), grounded=False)
        said, more = a_fact("said"), a_fact("more")
        self.put(store, key, a_leaf(1, 4, made_by="rules"), said, more, invented)
        assert names(summaries.facts(key)) == ["said", "more"]
        assert summaries.facts(key, keys=["key of invented"]) == []
        assert summaries.facts(key, keys=["key of invented"], leaf=5) == []
        assert not invented.is_current
        self.put(store, key, a_leaf(5, 8), ends=(("invented", None), ("said", None)))
        gone = replace(said, removed=True)
        assert summaries.facts(key, include_superseded=True) == [gone, more]
        assert summaries.facts(key, include_ungrounded=True) == [more, invented]
        assert summaries.facts(key, include_superseded=True, include_ungrounded=True) == [gone, more, invented]
        assert summaries.facts(key, include_ungrounded=True, limit=1) == [more]
        self.put(store, key, a_leaf(1, 4), a_fact("again"))
        assert names(summaries.facts(key, include_ungrounded=True)) == ["again"]
        self.put(store, key, a_leaf(9, 12), a_fact("other", 9, sources=("m2",), grounded=False))
        store.append(key, [counted("m2", "changed", role="assistant")])
        assert summaries.facts(key, include_superseded=True, include_ungrounded=True) == []

    def test_the_order_of_facts(self, store: Store, key: SessionKey) -> None:
        """The most important facts come first, then the newest; a limit cuts the end. Each has a place in its leaf."""
        self.put(store, key, a_leaf(1, 4), a_fact("old"), a_fact("top", importance=0.9), a_fact("new", minute=5))
        self.put(store, key, a_leaf(5, 8), a_fact("later leaf", 5), a_fact("low", 5, importance=0.0, minute=9))
        assert names(store.summaries.facts(key)) == ["top", "new", "later leaf", "old", "low"]
        assert names(store.summaries.facts(key, limit=2)) == ["top", "new"]
        first = [fact for fact in store.summaries.facts(key) if fact.segment == 1]
        assert names(sorted(first, key=lambda fact: fact.place)) == ["old", "top", "new"]
        assert store.summaries.facts(key, limit=0) == []

    def test_facts_that_say_one_of_some_values(self, store: Store, key: SessionKey) -> None:
        """Facts found by rules are filtered by value; a model's facts are always included."""
        values = ("Oslo", " OSLO", "Rome")
        found = [a_fact(f"r{n}", key="city", value=value, made_by="rules") for n, value in enumerate(values)]
        self.put(store, key, a_leaf(1, 4), *found, a_fact("m", key="City", value="Bern"), a_fact("other", value="oslo"))
        asked = store.summaries.facts(key, keys=["city"], saying=["oslo "])
        assert sorted(names(asked)) == ["m", "r0", "r1"]
        assert asked == store.summaries.facts(key, keys=["city"], saying=["oslo "], leaf=5)
        assert names(store.summaries.facts(key, keys=["city"], saying=[])) == ["m"]

    def test_a_new_value_supersedes(self, store: Store, key: SessionKey) -> None:
        """A fact that no longer holds is kept, marked, and shown on request only."""
        self.put(store, key, a_leaf(1, 4), a_fact("a", key="City", value="Rome"), a_fact("b"), a_fact("c"))
        before = store.summaries.state(key, limit=0).facts_version
        new = a_fact("d", 5, key=" city  ", value="Oslo")
        assert self.put(store, key, a_leaf(5, 8), new, ends=(("a", "d"), ("b", None)))
        assert names(store.summaries.facts(key)) == ["d", "c"]
        every = {fact.id: fact for fact in store.summaries.facts(key, include_superseded=True)}
        assert (every["a"].superseded_by, every["a"].removed, every["a"].is_current) == ("d", False, False)
        assert (every["b"].superseded_by, every["b"].removed, every["b"].is_current) == (None, True, False)
        assert store.summaries.facts(key, keys=["CITY", "nothing"]) == [new]
        assert store.summaries.state(key, limit=0).facts_version > before

    def test_redoing_a_leaf_redoes_its_facts(self, store: Store, key: SessionKey) -> None:
        """Its facts are replaced; facts that they ended hold again unless the new ones end them, too."""
        self.put(store, key, a_leaf(1, 4), a_fact("a"), a_fact("b"), a_fact("c"))
        first = a_leaf(5, 8, made_by="rules")
        self.put(store, key, first, a_fact("d", 5), ends=(("a", "d"), ("b", "d"), ("c", None)))
        assert names(store.summaries.facts(key)) == ["d"]
        unread = store.summaries.facts(key, keys=[f"key of {name}" for name in "abcd"], leaf=5)
        assert unread == [a_fact("c"), a_fact("b"), a_fact("a")]
        assert self.put(store, key, a_leaf(5, 8), a_fact("e", 5), ends=(("a", "e"),))
        assert names(store.summaries.facts(key)) == ["e", "c", "b"]
        every = {fact.id: fact.superseded_by for fact in store.summaries.facts(key, include_superseded=True)}
        assert every == {"a": "e", "b": None, "c": None, "e": None}

    def test_a_chain_of_values_loses_its_middle(self, store: Store, key: SessionKey) -> None:
        """The oldest value does not hold again while the newest does."""
        self.put(store, key, a_leaf(1, 4), a_fact("rome"))
        self.put(store, key, a_leaf(5, 8), a_fact("oslo", 5), ends=(("rome", "oslo"),))
        self.put(store, key, a_leaf(9, 12), a_fact("bern", 9), ends=(("oslo", "bern"),))
        store.remove(key, ["m6"])
        every = {fact.id: fact.superseded_by for fact in store.summaries.facts(key, include_superseded=True)}
        assert every == {"rome": "bern", "bern": None}
        store.remove(key, ["m10"])
        assert store.summaries.facts(key, include_superseded=True) == [a_fact("rome")]

    def test_a_removed_value_loses_its_beginning(self, store: Store, key: SessionKey) -> None:
        """A fact superseded by a value that was later removed holds again only once the removal is undone."""
        self.put(store, key, a_leaf(1, 4), a_fact("rome"))
        self.put(store, key, a_leaf(5, 8), a_fact("oslo", 5), ends=(("rome", "oslo"),))
        self.put(store, key, a_leaf(9, 12), ends=(("oslo", None),))
        store.remove(key, ["m6"])
        assert store.summaries.facts(key) == []
        assert store.summaries.facts(key, include_superseded=True) == [a_fact("rome", removed=True)]
        store.remove(key, ["m10"])
        assert store.summaries.facts(key) == [a_fact("rome")]

    def test_marks_of_unknown_facts_and_of_its_own_do_nothing(self, store: Store, key: SessionKey) -> None:
        """A leaf can end only facts of other leaves."""
        self.put(store, key, a_leaf(1, 4), a_fact("a"), ends=(("a", "x"), ("no", "x"), ("a", None), ("no", None)))
        assert store.summaries.facts(key) == [a_fact("a")]

    def test_a_leaf_read_again_is_ended_where_its_successors_are_seen(self, store: Store, key: SessionKey) -> None:
        """Both facts of a key hold on a fork that sees nothing that ends them, and neither holds on the others."""
        summaries = store.summaries
        self.put(store, key, a_leaf(1, 4, made_by="rules"))
        fork, beside = (replace(key, branch=store.branch(key, "fork", at="m4")[0].id) for _ in range(2))
        store.append(beside, [counted("m33", role="user"), counted("m34")])
        self.put(store, key, a_leaf(5, 8), a_fact("late", 5, key="pet"))
        self.put(store, beside, a_leaf(5, 6), a_fact("aside", 5, key="pet", minute=1))
        later = summaries.facts(key, keys=["pet"], leaf=1)
        assert sorted(names(later)) == ["aside", "late"]
        pets = [a_fact(name, key="pet", made_by=maker) for name, maker in (("cat", "model"), ("dog", "rules"))]
        ends = tuple((pet.id, one.id) for pet in pets for one in later)
        assert self.put(store, key, a_leaf(1, 4), *pets, ends=ends)
        assert [names(summaries.facts(one)) for one in (key, beside)] == [["late"], ["aside"]]
        assert sorted(names(summaries.facts(fork))) == ["cat", "dog"]
        every = summaries.facts(beside, include_superseded=True)
        assert {fact.id: fact.superseded_by for fact in every} == {"aside": None, "cat": "aside", "dog": "aside"}

    def test_a_leaf_is_read_again_as_it_was_before_it(self, store: Store, key: SessionKey) -> None:
        """It ends the facts that held at its first reading, even if a later leaf ended them; forks may lie between."""
        self.put(store, key, a_leaf(1, 4), a_fact("cat"))
        self.put(store, key, a_leaf(5, 8, made_by="rules"))
        self.put(store, key, a_leaf(9, 12), a_fact("dog", 9), ends=(("cat", "dog"),))
        wanted = ["key of cat", "key of dog"]
        assert sorted(names(store.summaries.facts(key, keys=wanted, leaf=5))) == ["cat", "dog"]
        assert names(store.summaries.facts(key, leaf=5)) == ["cat"]
        self.put(store, key, a_leaf(5, 8), a_fact("fish", 5), ends=(("cat", "fish"),))
        fork = replace(key, branch=store.branch(key, "fork", at="m8")[0].id)
        assert names(store.summaries.facts(fork)) == ["fish"]

    def test_what_was_merged_into_another_ledger_is_refused(self, store: Store, key: SessionKey) -> None:
        """Another leaf may have come between reading the known facts and storing the new ones."""
        version = store.summaries.state(key, limit=0).facts_version
        assert self.put(store, key, a_leaf(1, 4), a_fact("cat"), facts_version=version)
        assert not self.put(store, key, a_leaf(5, 8), a_fact("dog", 5), facts_version=version)
        assert names(store.summaries.facts(key)) == ["cat"]

    # Edits

    @pytest.fixture
    def told(
        self,
        store: Store,
        key: SessionKey,
        talk: list[StoredMessage],
    ) -> list[Segment]:
        """Store six leaves of four messages, in a block, an era and alone; a fact of each leaf; a view up to 24."""
        leaves = [a_leaf(start, start + 3) for start in range(1, 25, 4)]
        for leaf in leaves:
            self.put(store, key, leaf, a_fact(f"f{leaf.start}", leaf.start, sources=(f"m{leaf.start}",)))
        self.put(store, key, a_leaf(1, 8, level=1, parts=2))
        self.put(store, key, a_leaf(9, 16, level=1, parts=2))
        self.put(store, key, a_leaf(1, 16, level=2, parts=2))
        view = a_view(boundary=20, covered=20, fact_ids=("f1", "f21"))
        assert store.summaries.adopt(key, view, epoch=store.summaries.state(key, limit=0).epoch)
        return leaves

    @pytest.mark.parametrize(
        ("change", "left"),
        [
            (lambda store, key: store.append(key, [counted("m6", "changed", role="assistant")]), 20),
            (lambda store, key: store.append(key, [counted("m6", "x", role="user"), counted("n")]), 20),
            (lambda store, key: store.remove(key, ["m6"]), 19),
        ],
        ids=["edit", "edit beside a new message", "remove"],
    )
    def test_what_was_made_from_a_changed_message_is_undone(
        self,
        store: Store,
        key: SessionKey,
        told: list[Segment],
        change: Callable[[ConversationStore, SessionKey], object],
        left: int,
    ) -> None:
        """Its leaf becomes empty, segments above are removed, the others stay; the view loses its text."""
        before = store.summaries.state(key, limit=0)
        change(store, key)
        empty = Segment(0, 5, 8, "", 0, None)
        block = a_leaf(9, 16, level=1, parts=2)
        assert store.summaries.segments(key) == [told[0], empty, block, *told[4:]]
        assert store.summaries.segments(key, part="unfinished", limit=9) == [empty]
        assert names(store.summaries.facts(key)) == ["f21", "f17", "f13", "f9", "f1"]
        state = store.summaries.state(key, limit=0)
        assert state.epoch != before.epoch
        assert state.facts_version > before.facts_version
        assert before.view is not None
        stale = replace(before.view, covered=left, stale=True, facts=(), fact_ids=(), narrative="", instructions=())
        assert state.view == replace(stale, unshown=0, unshown_tokens=0)
        assert self.put(store, key, a_leaf(5, 8, made_by="rules"), a_fact("f5 anew", 5))
        assert self.put(store, key, a_leaf(1, 8, level=1, parts=2))
        assert stretches(store.summaries.segments(key)) == [(1, 1, 8), (1, 9, 16), (0, 17, 20), (0, 21, 24)]
        assert store.summaries.adopt(key, a_view(2, 20), epoch=state.epoch)

    @pytest.mark.usefixtures("told")
    def test_a_change_behind_everything_undoes_nothing(self, store: Store, key: SessionKey) -> None:
        """New and known messages change nothing; an edit of a message without derived data changes only the epoch."""
        cover, before = store.summaries.segments(key), store.summaries.state(key, limit=0)
        store.append(key, [counted("m6", "6", role="assistant"), counted("new")])
        store.remove(key, ["nowhere"])
        state = store.summaries.state(key, limit=0)
        assert (state.epoch, state.view, state.facts_version) == (before.epoch, before.view, before.facts_version)
        before = state
        store.append(key, [counted("m30", "changed", role="assistant")])
        state = store.summaries.state(key, limit=0)
        assert state.epoch != before.epoch
        assert replace(state, epoch=before.epoch, total_tokens=before.total_tokens) == before
        assert store.summaries.segments(key) == cover
        assert len(store.summaries.facts(key)) == 6

    @pytest.mark.usefixtures("told")
    def test_the_view_goes_stale_by_a_fact_behind_its_boundary(self, store: Store, key: SessionKey) -> None:
        """A view with f21, of a leaf after its boundary, becomes stale; a view without anything of the leaf stays."""
        store.append(key, [counted("m22", "changed", role="assistant")])
        state = store.summaries.state(key, limit=0)
        assert state.view is not None
        assert (state.view.stale, state.view.boundary, state.view.covered, state.view.facts) == (True, 20, 20, ())
        assert store.summaries.adopt(key, a_view(2, 20), epoch=state.epoch)
        store.remove(key, ["m23"])
        assert store.summaries.state(key, limit=0).view == a_view(2, 20)

    @pytest.mark.usefixtures("told")
    def test_a_leaf_that_quotes_a_changed_message_is_undone_too(self, store: Store, key: SessionKey) -> None:
        """A fact merged from two messages is removed with either of them, and its leaf is read again."""
        self.put(store, key, a_leaf(25, 28), a_fact("both", 25, sources=("m2", "m26")))
        store.remove(key, ["m2"])
        assert stretches(store.summaries.segments(key, part="unfinished", limit=9)) == [(0, 1, 4), (0, 25, 28)]
        assert "both" not in names(store.summaries.facts(key, include_superseded=True))

    @pytest.mark.usefixtures("told")
    def test_a_leaf_without_messages_goes(self, store: Store, key: SessionKey) -> None:
        """A leaf without any messages left is removed."""
        store.remove(key, ["m5", "m6", "m7"])
        assert (0, 5, 8) in stretches(store.summaries.segments(key))
        store.remove(key, ["m8"])
        assert stretches(store.summaries.segments(key)) == [(0, 1, 4), (1, 9, 16), (0, 17, 20), (0, 21, 24)]
        assert store.summaries.segments(key, part="unfinished", limit=9) == []

    @pytest.mark.usefixtures("told")
    def test_a_cap_takes_messages_but_not_what_was_read_from_them(self, store: Store, key: SessionKey) -> None:
        """Summaries and facts of messages beyond the cap stay, since they could not be made again."""
        before = store.summaries.state(key, limit=0)
        cover = store.summaries.segments(key)
        store.append(key, [counted("new")], max_messages=4)
        state = store.summaries.state(key, limit=99)
        assert (state.epoch, state.view, state.message_count) == (before.epoch, before.view, 3)
        assert ids(state.messages) == ["m31", "m32", "new"]
        assert store.summaries.segments(key) == cover
        assert len(store.summaries.facts(key)) == 6
        assert store.summaries.segments(key, part="unfinished", limit=9) == []

    @pytest.mark.usefixtures("told")
    @pytest.mark.parametrize("wipe", ["clear", "delete"])
    def test_nothing_survives_a_wipe(self, store: Store, key: SessionKey, wipe: str) -> None:
        """Segments, facts and view are gone; work begun for the old session is refused in the new one."""
        lease = self.claim(store, key)
        store.delete(key, keep_session=wipe == "clear")
        state = store.summaries.state(key, limit=9)
        assert (state.view, state.messages, state.message_count) == (None, (), 0)
        assert is_bare(store.summaries, key)
        store.append(key, [counted(f"m{n}") for n in range(1, 33)])
        again = self.claim(store, key)
        assert again.epoch != lease.epoch
        for held in (lease, None):
            late = Commit(a_leaf(1, 4), (a_fact("late"),))
            assert store.summaries.commit(key, late, lease=held, epoch=lease.epoch) is False
        assert store.summaries.adopt(key, a_view(), epoch=lease.epoch) is False
        assert is_bare(store.summaries, key)

    # The lease

    def test_one_holds_the_lease(self, store: Store, key: SessionKey, clock: Clock) -> None:
        """A released or expired lease passes to another owner with a higher fence; its owner keeps the fence."""
        summaries = store.summaries
        first = self.claim(store, key)
        assert first.epoch == summaries.state(key, limit=0).epoch
        assert summaries.claim(key, owner="b", seconds=60) is None
        clock.pass_by(50)
        assert summaries.claim(key, owner="a", seconds=60) == first
        clock.pass_by(59)
        assert summaries.claim(key, owner="b", seconds=60) is None
        clock.pass_by(1)
        second = self.claim(store, key, "b")
        assert second.fence > first.fence
        summaries.release(key, first)
        assert summaries.claim(key, owner="a", seconds=60) is None
        summaries.release(key, second)
        third = self.claim(store, key)
        assert third.fence > second.fence

    def test_a_lease_that_another_took_commits_nothing(self, store: Store, key: SessionKey, clock: Clock) -> None:
        """An expired lease stays valid until another owner takes it; from then on it is refused."""
        summaries = store.summaries
        old = self.claim(store, key)
        clock.pass_by(61)
        assert summaries.commit(key, Commit(a_leaf(1, 4)), lease=old, epoch=old.epoch)
        new = self.claim(store, key, "b")
        assert not summaries.commit(key, Commit(a_leaf(5, 8), (a_fact("f", 5),)), lease=old, epoch=old.epoch)
        assert stretches(summaries.segments(key)) == [(0, 1, 4)]
        assert summaries.facts(key) == []
        assert summaries.commit(key, Commit(a_leaf(5, 8)), lease=new, epoch=new.epoch)
        summaries.release(key, new)
        assert not summaries.commit(key, Commit(a_leaf(9, 12)), lease=new, epoch=new.epoch)
        third = self.claim(store, key)
        assert not summaries.commit(key, Commit(a_leaf(9, 12)), lease=old, epoch=old.epoch)
        assert summaries.commit(key, Commit(a_leaf(9, 12)), lease=third, epoch=third.epoch)

    @pytest.mark.parametrize(
        "change",
        [
            lambda store, key: store.append(key, [counted("m2", "changed", role="assistant")]),
            lambda store, key: store.append(key, [counted("m31", "changed")]),
            lambda store, key: store.remove(key, ["m2"]),
            lambda store, key: store.delete(key, keep_session=True),
            lambda store, key: store.delete(key),
        ],
        ids=["edit", "edit elsewhere", "remove", "clear", "delete"],
    )
    def test_what_was_begun_before_a_change_is_refused(
        self, store: Store, key: SessionKey, change: Callable[[ConversationStore, SessionKey], object]
    ) -> None:
        """Results made from messages that changed meanwhile are refused."""
        lease = self.claim(store, key)
        change(store, key)
        late = Commit(a_leaf(1, 4), (a_fact("f"),))
        assert store.summaries.commit(key, late, lease=lease, epoch=lease.epoch) is False
        assert store.summaries.commit(key, late, lease=None, epoch=lease.epoch) is False
        assert store.summaries.adopt(key, a_view(), epoch=lease.epoch) is False
        assert is_bare(store.summaries, key)
        assert store.summaries.state(key, limit=0).view is None

    def test_adoptions_follow_each_other(self, store: Store, key: SessionKey) -> None:
        """Only one of two concurrent adoptions succeeds."""
        summaries = store.summaries
        epoch = summaries.state(key, limit=0).epoch
        assert summaries.adopt(key, a_view(2), epoch=epoch) is False
        assert summaries.adopt(key, a_view(1), epoch=epoch) is True
        assert summaries.adopt(key, a_view(1, 8), epoch=epoch) is False
        assert summaries.adopt(key, a_view(2, 8), epoch=epoch + 1) is False
        assert summaries.adopt(key, a_view(2, 8), epoch=epoch) is True
        assert summaries.state(key, limit=0).view == a_view(2, 8)

    # Owners and bad input

    @pytest.mark.usefixtures("told")
    def test_another_user_finds_nothing(self, store: Store, key: SessionKey) -> None:
        """Another user cannot find the session; another caller has a session of its own."""
        theirs = SessionKey(key.session_id, key.caller_id, "somebody else")
        found = [
            n for n, call in enumerate(_CALLS) if not is_refused(SessionNotFoundError, call, store.summaries, theirs)
        ]
        assert found == []
        other = SessionKey(key.session_id, f"{key.caller_id}-other", key.user_id)
        store.append(other, [counted(f"m{n}") for n in range(1, 9)])
        assert is_bare(store.summaries, other)
        self.put(store, other, a_leaf(1, 4), a_fact("f1"))
        store.delete(other, keep_session=True)
        assert len(store.summaries.facts(key)) == 6

    def test_branches_share_what_was_read_before_the_fork(self, store: Store, key: SessionKey) -> None:
        """A leaf before the fork is read once for both branches; a later one and its facts belong to one branch."""
        assert self.put(store, key, a_leaf(1, 4), a_fact("f1", key="city"))
        (fork,) = store.branch(key, "fork", at="m8")
        there = replace(key, branch=fork.id)
        store.append(there, [counted(f"n{n}") for n in range(4)])
        assert self.put(store, there, a_leaf(5, 8), a_fact("f2", 5))
        assert self.put(store, key, a_leaf(9, 12), a_fact("f3", 9, key="city"), ends=(("f1", "f3"),))
        assert self.put(store, there, a_leaf(9, 12, parts=3), a_fact("f4", 9))
        assert store.summaries.segments(there)[-1].parts == 3
        for one, facts in ((key, {"f2", "f3"}), (there, {"f1", "f2", "f4"})):
            assert stretches(store.summaries.segments(one)) == [(0, 1, 4), (0, 5, 8), (0, 9, 12)]
            assert set(names(store.summaries.facts(one))) == facts
        store.remove(key, ["m10"])
        assert [leaf.stale for leaf in store.summaries.segments(key)] == [False, False, True]
        assert [leaf.stale for leaf in store.summaries.segments(there)] == [False, False, False]

    def test_a_leaf_is_not_shared_with_a_branch_that_has_another_over_its_end(
        self, store: Store, key: SessionKey
    ) -> None:
        (fork,) = store.branch(key, "fork", at="m8")
        there = replace(key, branch=fork.id)
        store.append(there, [counted(f"n{n}") for n in range(4)])
        assert self.put(store, there, a_leaf(8, 12))
        assert self.put(store, key, a_leaf(5, 8))
        assert stretches(store.summaries.segments(key)) == [(0, 5, 8)]
        assert stretches(store.summaries.segments(there)) == [(0, 8, 12)]

    def test_a_view_follows_its_branch(self, store: Store, key: SessionKey) -> None:
        """A fork shows the view adopted before it, and of later ones only its own."""
        epoch = store.summaries.state(key, limit=0).epoch
        assert store.summaries.adopt(key, a_view(1, 2), epoch=epoch)
        (fork,) = store.branch(key, "fork")
        there = replace(key, branch=fork.id)
        store.append(key, [counted("m33")])
        assert store.summaries.adopt(there, a_view(2, 4), epoch=epoch)
        assert store.summaries.adopt(key, a_view(2, 5), epoch=epoch)
        for one, boundary in ((key, 5), (there, 4)):
            state = store.summaries.state(one, limit=50)
            assert state.view is not None
            assert (state.view.boundary, state.messages[0].seq) == (boundary, boundary + 1)

    def test_an_edit_undoes_what_a_deleted_fork_wrote(self, store: Store, key: SessionKey) -> None:
        """A leaf that a fork shared is still undone once the fork is gone."""
        (fork,) = store.branch(key, "fork")
        there = replace(key, branch=fork.id)
        assert self.put(store, there, a_leaf(1, 4), a_fact("f1"))
        store.branch(there, "delete")
        store.append(key, [counted("m3", "edited", role="user")])
        assert [leaf.stale for leaf in store.summaries.segments(key)] == [True]
        assert store.summaries.facts(key) == []
