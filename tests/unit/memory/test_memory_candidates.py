"""What a scope holds, compared by words, letters and claims; and the same by looking at everything."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from arc_common.memories import MemoryOutline, MemoryStatus
from arc_common.memory.long_term.contradictions import Contradictions, contradicts
from arc_common.memory.long_term.deduplication import Holdings, folded
from arc_common.protocols.memories import MemoryUpdates

NOW = datetime(2026, 1, 1, tzinfo=UTC)

TEXTS = st.one_of(
    st.text("ab ", min_size=1, max_size=12).filter(str.strip),
    st.sampled_from(
        [
            "User lives in Seoul",
            "User lives in Busan",
            "User likes tea",
            "User doesn't like tea",
            "부산에 산다",
            "서울에 산다",
        ]
    ),
)
OUTLINES = st.builds(
    lambda name, text, status, gone: MemoryOutline(name, text, 0.5, status, "x" if gone else None, NOW, None),
    st.sampled_from("abcdefgh"),
    TEXTS,
    st.sampled_from(MemoryStatus),
    st.booleans(),
)
CHANGES = st.lists(
    st.tuples(st.lists(OUTLINES, max_size=12), st.lists(st.sampled_from("abcdefgh"), max_size=3)), max_size=6
)


@given(CHANGES, TEXTS, st.sampled_from([0.5, 0.8, 1.0]))
def test_it_finds_what_a_look_at_everything_finds(changes, text, cutoff):
    """After any changes, known in part or as a whole."""
    held, all_of_it = Holdings(Contradictions()), {}
    for version, (put, removed) in enumerate(changes, 1):
        latest = {outline.id: outline for outline in put}
        gone = [name for name in removed if name not in latest]
        all_of_it = {name: one for name, one in {**all_of_it, **latest}.items() if name not in gone}
        if version % 3 == 0:
            held.apply(MemoryUpdates(version, tuple(all_of_it.values()), is_whole=True))
        else:
            held.change(version, put=latest.values(), removed=gone)
    assert {outline.id: outline for outline in held.outlines} == all_of_it
    assert len(held) == len(all_of_it)
    compared = {name: one for name, one in all_of_it.items() if one.superseded_by is None}
    alike = {name: Levenshtein.normalized_similarity(folded(text), folded(one.text)) for name, one in compared.items()}
    expected = {name for name, score in alike.items() if score > cutoff}
    found = held.similar(text, cutoff=cutoff)
    assert set(found) <= expected
    assert len(found) == min(5, len(expected))
    assert [alike[name] for name in found] == sorted(alike.values(), reverse=True)[: len(found)]
    same = {name for name, one in compared.items() if folded(one.text) == folded(text)}
    assert (held.same_text(text) in same) if same else (held.same_text(text) is None)
    opposed = {name for name, one in compared.items() if one.holds and contradicts(text, one.text)}
    assert set(held.contradicted(text)) == opposed


def test_updates_in_part_leave_the_others():
    """Only what is named changes."""
    held = Holdings(Contradictions())
    one, other = (MemoryOutline(name, name, 0.5, MemoryStatus.ACTIVE, None, NOW, None) for name in "ab")
    held.apply(MemoryUpdates(1, (one, other), is_whole=True))
    held.apply(MemoryUpdates(2, (), is_whole=False))
    assert (held.version, len(held)) == (2, 2)
    held.apply(MemoryUpdates(3, (other,), is_whole=True))
    assert [outline.id for outline in held.outlines] == ["b"]
    assert held.get("a") is None
