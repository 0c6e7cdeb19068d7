"""Decisions about new memories, eviction and ranking."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.memories import Memory, MemoryStatus, ProposedMemory, Wording
from arc_common.memory.long_term.contradictions import Contradictions
from arc_common.memory.long_term.deduplication import Holdings
from arc_common.memory.long_term.policy import (
    MOST_WORDINGS,
    Decision,
    Outcome,
    decide,
    leaving,
    merged,
    ranked,
    recency,
)
from arc_common.protocols.records import RecordUpdates

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def a_memory(memory_id, text="text", *, days=0, **values):
    """Return a memory stated so many days ago."""
    said = NOW - timedelta(days=days)
    return Memory(memory_id, text, said, said, **values)


def holding(*memories):
    held = Holdings(Contradictions())
    held.apply(RecordUpdates(1, tuple(memories), is_whole=True))
    return held


def decided(text, *memories, alike=(), similarity=0.8, by_hand=False, **values):
    return decide(
        ProposedMemory(text, **values),
        holding(*memories),
        now=NOW,
        merge_similarity=similarity,
        alike=alike,
        by_hand=by_hand,
    )


SEOUL = a_memory("seoul", "User lives in Seoul", days=10)


def test_the_same_words_are_known():
    assert decided("user lives  in seoul.", SEOUL) == Decision(Outcome.KNOWN, "seoul")


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("User likes coffee in the mornings", "User likes coffee in the morning"),
        ("The user's favourite composer is Bach", "The user's favorite composer is Bach"),
        ("사용자는 아침에 커피를 마시는 것을 좋아한다", "사용자가 아침에 커피를 마시는 것을 좋아한다"),
    ],
)
def test_almost_the_same_words_are_merged(new, old):
    assert decided(new, a_memory("a", old)) == Decision(Outcome.MERGED, "a")
    assert decided(new, a_memory("a", old), similarity=1.0).outcome is Outcome.NEW


def test_what_means_the_same_is_merged():
    """Vectors decide, if numbers, names and negations agree and nothing contradicts."""
    old = a_memory("a", "User enjoys long walks")
    assert decided("What the user does on days off is hiking", old, alike=["a"]) == Decision(Outcome.MERGED, "a")
    assert decided("User doesn't enjoy hikes", old, alike=["a"]).outcome is Outcome.NEW
    assert decided("User is moving with Anna", a_memory("a", "User is moving with Tom"), alike=["a"]).twin is None
    assert decided("User lives in Busan", SEOUL, alike=["seoul"]) == Decision(Outcome.NEW, superseded=("seoul",))
    assert decided("anything", alike=["gone"]) == Decision(Outcome.NEW)


def test_what_was_said_later_holds():
    assert decided("User lives in Busan", SEOUL) == Decision(Outcome.NEW, superseded=("seoul",))
    earlier = NOW - timedelta(days=20)
    assert decided("User lives in Busan", SEOUL, valid_from=earlier) == Decision(Outcome.NEW, superseded_by="seoul")


def test_only_what_holds_is_superseded():
    history = replace(SEOUL, superseded_by="x")
    pending = replace(SEOUL, status=MemoryStatus.PENDING)
    assert decided("User lives in Busan", history) == Decision(Outcome.NEW)
    assert decided("User lives in Busan", pending) == Decision(Outcome.NEW)
    assert decided("User lives in Busan", SEOUL, status=MemoryStatus.PENDING) == Decision(Outcome.NEW)
    assert decided("User lives in Seoul", history) == Decision(Outcome.NEW)


def test_what_was_rejected_is_not_stored_again():
    rejected = replace(SEOUL, status=MemoryStatus.REJECTED)
    assert decided("User lives in Seoul", rejected) == Decision(Outcome.REJECTED, "seoul")
    assert decided("The user lives in Seoul", rejected) == Decision(Outcome.REJECTED, "seoul")
    assert decided("User lives in Seoul", rejected, by_hand=True) == Decision(Outcome.NEW)


def test_merging_raises_importance_and_loses_nothing():
    old = a_memory("a", "short", days=5, importance=0.5, sources=(("s", "1"),), metadata={"a": 1, "b": 1})
    new = ProposedMemory("longer", importance=0.6, sources=(("s", "1"), ("t", "1")), metadata={"b": 2})
    assert merged(old, new, now=NOW) == replace(
        old,
        text="longer",
        importance=0.64,
        sources=(("s", "1"), ("t", "1")),
        valid_from=NOW,
        metadata={"a": 1, "b": 2},
        wordings=(Wording("longer", new.sources), Wording("short", old.sources)),
    )
    assert merged(old, ProposedMemory("x", importance=9), now=NOW).importance == 1.0


def test_whose_words_they_are_goes_with_the_words():
    own = {"said_by": "user"}
    old = a_memory("a", "I keep bees", metadata=own)
    assert merged(old, ProposedMemory("User keeps bees!"), now=NOW).metadata == {}
    assert merged(old, ProposedMemory("Bees"), now=NOW).metadata == own
    assert merged(a_memory("a", "User keeps bees"), ProposedMemory("I keep bees", metadata=own), now=NOW).metadata == {}


ways = st.sampled_from(["I bake", "I bake bread", "I bake bread daily", "I bake.", "I often bake rye bread daily"])
origins = st.none() | st.tuples(st.sampled_from("st"), st.sampled_from("12345"))


@given(st.lists(st.tuples(ways, origins), min_size=1, max_size=12), st.sets(origins))
def test_words_last_as_long_as_what_says_them(said, gone):
    """The order of statements and removals does not matter; text entered by hand (`None`) stays."""
    proposed = [ProposedMemory(text, sources=(origin,) if origin else ()) for text, origin in said]
    memory = proposed[0].stored_as("m", NOW)
    for one in proposed[1:]:
        memory = merged(memory, one, now=NOW, known=one.text == memory.text)
    assert len(memory.text) >= max(len(text) for text, _ in said) - 1  # "I bake." says what "I bake" says
    left = memory.without(lambda source: source in gone)
    kept = [text for text, origin in said if origin is None or origin not in gone]
    if not kept:
        assert left is None
        return
    assert {wording.text.rstrip(".") for wording in left.said} <= {text.rstrip(".") for text in kept}
    assert len(left.text) >= max(map(len, kept)) - 1
    assert not set(left.sources) & (gone - {None})


def test_of_the_ways_to_say_it_so_many_are_kept():
    by_hand = ProposedMemory("I bake", sources=())
    memory = merged(a_memory("a", "I bake " * 20, sources=(("s", "0"),)), by_hand, now=NOW)
    for number in range(1, MOST_WORDINGS + 5):
        memory = merged(memory, ProposedMemory(f"I bake {number}", sources=(("s", str(number)),)), now=NOW)
    assert len(memory.said) == MOST_WORDINGS
    assert memory.text == "I bake " * 20
    assert "I bake" in {wording.text for wording in memory.said}
    assert memory.sources[-1] == ("s", str(MOST_WORDINGS + 4))


def test_the_same_words_add_their_source_and_nothing_else():
    old = a_memory("a", importance=0.5, sources=(("s", "1"),))
    said = ProposedMemory("text", importance=0.9, sources=(("t", "1"),))
    assert merged(old, said, now=NOW, known=True) == replace(old, sources=(("s", "1"), ("t", "1")))
    by_hand = replace(old, sources=())
    assert merged(by_hand, said, now=NOW, known=True) is by_hand
    assert merged(old, ProposedMemory("text"), now=NOW, known=True) == replace(by_hand, importance=0.55)
    assert merged(old, replace(said, reinforces=False), now=NOW) is old


importances = st.floats(0, 1)


@given(importances, st.lists(importances, max_size=20))
def test_importance_only_grows_and_stays_below_one(first, others):
    memory = a_memory("a", importance=first)
    for importance in others:
        after = merged(memory, ProposedMemory("text", importance=importance), now=NOW)
        assert max(memory.importance, importance) - 1e-4 <= after.importance <= 1.0
        memory = after


def test_the_weakest_leave():
    """Unimportant and long unmentioned memories leave; protected ones stay."""
    held = [
        a_memory("weak", importance=0.1, days=200),
        a_memory("old", importance=0.5, days=400),
        a_memory("new", importance=0.5),
        a_memory("strong", importance=0.9, days=200),
    ]
    assert leaving(held, now=NOW, most=4) == []
    assert leaving(held, now=NOW, most=2) == ["weak", "old"]
    assert leaving(held, now=NOW, most=2, keep={"weak"}) == ["old", "strong"]


def test_history_has_a_bound_of_its_own():
    held = [a_memory("now"), *(a_memory(f"h{days}", days=days, superseded_by="now") for days in (3, 1, 2))]
    assert leaving(held, now=NOW, most=2) == ["h3"]


@given(
    st.lists(st.tuples(importances, st.integers(0, 900), st.sampled_from(MemoryStatus), st.booleans()), max_size=20),
    st.integers(1, 10),
)
def test_leaving_keeps_the_bound(drawn, most):
    """The numbers of valid, pending and superseded memories stay within the bound, and none leaves without need."""
    held = [
        a_memory(str(n), importance=importance, days=days, status=status, superseded_by="x" if gone else None)
        for n, (importance, days, status, gone) in enumerate(drawn)
    ]
    gone = leaving(held, now=NOW, most=most)
    assert len(set(gone)) == len(gone)
    for status in MemoryStatus:
        kind = [
            one.id for one in held if (MemoryStatus.REJECTED if one.superseded_by is not None else one.status) is status
        ]
        assert len([name for name in kind if name not in gone]) == min(len(kind), most)


def test_ranking_by_relevance_importance_and_recency():
    """Each of the three decides if the others are equal; memories that don't hold are skipped."""
    held = [
        a_memory("plain", importance=0.5, days=100),
        a_memory("relevant", importance=0.5, days=100),
        a_memory("important", importance=0.9, days=100),
        a_memory("recent", importance=0.5, days=1),
        a_memory("was", superseded_by="plain"),
    ]
    relevance = {"plain": 0.5, "relevant": 0.9, "important": 0.5, "recent": 0.5, "was": 1.0}
    found = ranked(held, relevance, now=NOW, limit=9)
    assert [one.memory.id for one in found][-1] == "plain"
    assert {one.memory.id for one in found} == {"plain", "relevant", "important", "recent"}
    assert ranked(held, relevance, now=NOW, limit=1) == found[:1]
    for one in found:
        assert set(one.score_parts) == {"relevance", "importance", "recency"}
        assert 0 <= one.score <= 1


def test_recency():
    """It halves in thirty days after the last mention or return, and is at most 1."""
    assert recency(a_memory("a", days=30), NOW) == pytest.approx(0.5)
    assert recency(a_memory("a", days=90, last_accessed_at=NOW - timedelta(days=60)), NOW) == pytest.approx(0.25)
    assert recency(a_memory("a", days=-5), NOW) == 1.0
