"""Same, similar and contradicting memories in a scope."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from arc_common.memories import Memory, MemoryStatus
from arc_common.memory.long_term.contradictions import Contradictions, contradicts
from arc_common.memory.long_term.deduplication import Holdings, folded, may_be_the_same
from arc_common.protocols.records import RecordUpdates


def test_what_has_another_value_is_another_memory():
    cases = [
        ("The meeting is on 3 May at 3 pm", "The meeting is on 5 May at 3 pm"),
        ("The code is 7-7-3", "The code is 7-3-3"),
        ("The user's flight departs from ICN to GMP", "The user's flight departs from GMP to ICN"),
        ("The user's flight departs from icn to gmp", "The user's flight departs from gmp to icn"),
        ("The user flies with KE123 on Friday", "The user flies with KE132 on Friday"),
        ("Anna and Tom are the user's guests", "Tom and Anna are the user's hosts"),
        ("The store room is kept at 5 degrees", "The store room is kept at -5 degrees"),
        ("The user owes the landlord $500", "The user owes the landlord €500"),
        ("The user writes programs in C", "The user writes programs in C++"),
        ("The user takes the pills before meals", "The user takes the pills after meals"),
        ("The user's plan is nearly ready", "The user's plane is nearly ready"),
        ("The user works at the harbour", "The user worked at the harbour"),
        ("The user works as a nurse in Ulsan", "The user's wife works as a nurse in Ulsan"),
        ("The user has a lawyer in the family", "The user is a lawyer in the family"),
        ("The user prefers tea to coffee", "The user prefers coffee to tea"),
        ("The user's dog is afraid of the cat", "The user's cat is afraid of the dog"),
        ("The user likes tea", "The user loves coffee"),
        ("The user lives by the harbour", "The user works by the harbour"),
        ("The class is every monday evening", "The class is every friday evening"),
        ("사용자는 땅콩 알레르기가 있다", "사용자는 새우 알레르기가 있다"),
        ("팀 회의는 매주 월요일이다", "팀 회식은 매주 금요일이다"),
        ("회의는 월요일", "회식은 금요일"),
        ("서울에서 부산까지 간다", "부산에서 서울까지 간다"),
        ("사용자의 아들은 대학생이다", "사용자의 아들은 대학원생이다"),
        ("用户住在北京", "用户住在上海"),
    ]
    for one, other in cases:
        for by_meaning in (False, True):
            assert not may_be_the_same(one, other, by_meaning=by_meaning)
            assert not may_be_the_same(other, one, by_meaning=by_meaning)


def test_other_spellings_are_one_memory():
    cases = [
        ("The user likes coffee in the mornings", "User likes coffee in the morning."),
        ("The user's favourite composer is Bach", "The user's favorite composer is Bach"),
        ("The user organises fairs", "The user organizes fairs"),
        ("The user's budget is 1,240 won", "The user's budget is 1240 won"),
        ("The user moved house", "The user moved house because of the noise"),
        ("사용자는 아침에 커피를 마신다", "사용자가 아침에 커피를 마신다"),
    ]
    for one, other in cases:
        assert may_be_the_same(one, other)
        assert may_be_the_same(other, one, by_meaning=True)


def test_other_words_for_it_are_one_memory_by_meaning_alone():
    cases = [
        ("The user loves hiking", "The user is fond of hiking"),
        ("The user lives in Seoul", "The user resides in Seoul"),
        ("The user loves hiking in the mountains", "The user enjoys mountain hikes"),
        ("The user works as a nurse", "The user is a nurse by profession"),
        ("The user enjoys long walks", "What the user does on days off is hiking"),
        ("사용자는 매운 음식을 좋아한다", "사용자는 매운 음식을 좋아합니다"),
    ]
    for one, other in cases:
        assert may_be_the_same(one, other, by_meaning=True)
        assert not may_be_the_same(one, other)


def test_a_denial_is_not_what_it_denies():
    assert not may_be_the_same("The user eats meat", "The user doesn't eat meat", by_meaning=True)
    assert not may_be_the_same("사용자는 고기를 먹는다", "사용자는 고기를 안 먹는다", by_meaning=True)


TEXTS = st.text(st.sampled_from("ab AB12.-'가나는 C+"), max_size=30) | st.text(max_size=30)


@given(TEXTS, TEXTS, st.booleans())
def test_it_is_the_same_from_both_sides(one, other, by_meaning):
    assert may_be_the_same(one, other, by_meaning=by_meaning) == may_be_the_same(other, one, by_meaning=by_meaning)
    assert may_be_the_same(one, one, by_meaning=by_meaning)


@given(TEXTS)
def test_folding_is_done_once(text):
    assert folded(folded(text)) == folded(text)


NOW = datetime(2026, 1, 1, tzinfo=UTC)

HELD_TEXTS = st.one_of(
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
MEMORIES = st.builds(
    lambda name, text, status, gone: Memory(name, text, NOW, NOW, status=status, superseded_by="x" if gone else None),
    st.sampled_from("abcdefgh"),
    HELD_TEXTS,
    st.sampled_from(MemoryStatus),
    st.booleans(),
)
CHANGES = st.lists(
    st.tuples(st.lists(MEMORIES, max_size=12), st.lists(st.sampled_from("abcdefgh"), max_size=3)), max_size=6
)


@given(CHANGES, HELD_TEXTS, st.sampled_from([0.5, 0.8, 1.0]))
def test_it_finds_what_a_look_at_everything_finds(changes, text, cutoff):
    held, all_of_it = Holdings(Contradictions()), {}
    for version, (put, removed) in enumerate(changes, 1):
        latest = {memory.id: memory for memory in put}
        gone = [name for name in removed if name not in latest]
        all_of_it = {name: one for name, one in {**all_of_it, **latest}.items() if name not in gone}
        if version % 3 == 0:
            held.apply(RecordUpdates(version, tuple(all_of_it.values()), is_whole=True))
        else:
            held.change(version, put=latest.values(), removed=gone)
    assert {memory.id: memory for memory in held.values()} == all_of_it
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
    opposed = {name for name, one in compared.items() if one.is_current and contradicts(text, one.text)}
    assert set(held.contradicted(text)) == opposed


def test_updates_in_part_leave_the_others():
    held = Holdings(Contradictions())
    one, other = (Memory(name, name, NOW, NOW) for name in "ab")
    held.apply(RecordUpdates(1, (one, other), is_whole=True))
    held.apply(RecordUpdates(2, (), is_whole=False))
    assert (held.version, len(held)) == (2, 2)
    held.apply(RecordUpdates(3, (other,), is_whole=True))
    assert [memory.id for memory in held.values()] == ["b"]
    assert held.get("a") is None
