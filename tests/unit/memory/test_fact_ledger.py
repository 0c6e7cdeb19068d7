"""The facts ledger: its changes by a leaf, and the facts that are pinned or recalled."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import ContextEngine
from arc_common.facts import Fact, FactCategory, ProposedFact
from arc_common.memory.facts.index import FactIndex
from arc_common.memory.facts.ledger import adopted_facts, folded, merged, related
from arc_common.messages import Message, Role
from arc_common.protocols.summaries import Commit, Maker, Segment
from arc_common.trust import Trust

START = datetime(2026, 1, 1, tzinfo=UTC)


def proposed(key: str, value: str, **fields: object) -> ProposedFact:
    return ProposedFact(key, value, FactCategory.STATE, **{"sources": ("m1",), **fields})  # type: ignore[arg-type]  # by name


def known(fact_id: str, key: str, value: str, *, leaf: int = 1, maker: str = "model", **fields: object) -> Fact:
    fact = Fact(fact_id, key, value, FactCategory.STATE, (f"m{leaf}",), 0.5, leaf, maker, START)
    return replace(fact, **fields)  # type: ignore[arg-type]  # by name


def stored(
    proposals: Sequence[tuple[ProposedFact, Maker]],
    ledger: Sequence[Fact],
    *,
    leaf: int = 17,
    removed: Sequence[str] = (),
    ungrounded: Sequence[ProposedFact] = (),
) -> Commit:
    numbers = count(1)
    return merged(
        Segment(0, leaf, leaf + 15, "n", 1, "model"), proposals, known=ledger, removed_keys=removed,
        said=lambda _: (START, "user", Trust.USER), new_id=lambda: f"new{next(numbers)}", ungrounded=ungrounded,
    )  # fmt: skip


def test_a_fact_as_it_is_kept() -> None:
    commit = stored([(proposed("home", "Berlin", importance=0.7), "rules")], [])
    [fact] = commit.facts
    assert fact == Fact("new1", "home", "Berlin", FactCategory.STATE, ("m1",), 0.7, 17, "rules", START, "user")
    assert commit.ends == ()


def test_what_is_not_grounded_changes_nothing() -> None:
    """It is stored with a mark; facts with the same key or value continue to hold."""
    earlier = [known("old", "home", "Berlin"), known("other", "pet", "cat")]
    commit = stored([], earlier, ungrounded=[proposed("Home", "berlin"), proposed("home", "Atlantis")], removed=[])
    assert [(fact.value, fact.grounded, fact.is_current) for fact in commit.facts] == [
        ("berlin", False, False),
        ("Atlantis", False, False),
    ]
    assert commit.ends == ()


@pytest.mark.parametrize(
    ("maker", "earlier", "superseded"),
    [
        pytest.param("model", known("old", "Home  Town", "Berlin"), True, id="model, another value"),
        pytest.param("model", known("old", "home town", "Berlin", maker="rules"), True, id="model over rules"),
        pytest.param("rules", known("old", "home town", "Berlin"), False, id="rules, another value"),
        pytest.param("rules", known("old", "home town", "LISBON"), True, id="rules, the same again"),
        pytest.param("model", known("old", "work town", "Lisbon"), False, id="another key"),
        pytest.param("model", known("old", "home town", "Berlin", superseded_by="x"), False, id="superseded already"),
        pytest.param("model", known("old", "home town", "Berlin", removed=True), False, id="removed already"),
        pytest.param("model", known("old", "home town", "Berlin", leaf=17), False, id="of this leaf"),
        pytest.param("model", known("old", "home town", "Berlin", leaf=33), False, id="of a later leaf"),
    ],
)
def test_superseding(maker: Maker, earlier: Fact, superseded: bool) -> None:
    """A model's key decides, a rule's key does not, and an earlier statement never supersedes a later one."""
    commit = stored([(proposed("home town", "Lisbon"), maker)], [earlier])
    assert (("old", "new1") in commit.ends) is superseded
    assert [fact.value for fact in commit.facts] == ["Lisbon"]


@pytest.mark.parametrize(
    ("later", "taken"),
    [
        pytest.param(known("late", "home town", "Porto", leaf=33), "late", id="a model's"),
        pytest.param(known("late", "home town", "Porto", leaf=33, maker="rules"), None, id="the rules', other value"),
        pytest.param(known("late", "home town", "Lisbon", leaf=33, maker="rules"), "late", id="the rules', the same"),
    ],
)
def test_an_old_leaf_read_again(later: Fact, taken: str | None) -> None:
    assert stored([(proposed("home town", "Lisbon"), "model")], [later]).ends == ((("new1", taken),) if taken else ())


def test_the_same_twice_in_a_leaf() -> None:
    proposals: list[tuple[ProposedFact, Maker]] = [
        (proposed("Home", "berlin"), "rules"),
        (proposed("home", "Berlin "), "model"),
        (proposed("home", "Rome"), "model"),
    ]
    commit = stored(proposals, [])
    assert [(fact.value, fact.made_by) for fact in commit.facts] == [("Berlin ", "model"), ("Rome", "model")]


def test_removed_keys() -> None:
    """Earlier facts with the key end, or are superseded if this leaf has one; later facts stay."""
    ledger = [known("a", "gift", "book"), known("b", "Home", "Rome"), known("c", "gift", "pen", leaf=33)]
    commit = stored([(proposed("home", "Berlin"), "model")], ledger, removed=["GIFT", "home", "unheard of"])
    assert commit.ends == (("b", "new1"), ("a", None))


@given(st.text(max_size=30))
def test_folding_twice_is_folding_once(text: str) -> None:
    assert folded(folded(text)) == folded(text) == folded(f"  {text}\n")


def characters(text: str) -> int:
    return len(text)


def test_related_facts() -> None:
    """Facts that share most words come first; those that share none, or don't fit, are left out."""
    facts = [
        known("a", "order", "blue bicycle"), known("b", "bicycle colour", "blue order"), known("c", "dog", "Rex"),
        known("d", "order", "tea"),
    ]  # fmt: skip
    text = "Where is my order of the blue bicycle, and its colour?"
    assert [fact.id for fact in related(facts, text, max_tokens=1_000, count=characters)] == ["b", "a", "d"]
    assert [fact.id for fact in related(facts, text, max_tokens=45, count=characters)] == ["b"]
    assert related(facts, text, max_tokens=0, count=characters) == []


facts_drawn = st.lists(
    st.builds(
        lambda n, key, value, importance, minutes: known(
            f"f{n}", key, value, importance=importance, valid_from=START + timedelta(minutes=minutes)
        ),
        st.integers(0, 10**6),
        st.sampled_from(["order", "Order", "home", "주문"]),
        st.text(min_size=1, max_size=20).filter(str.strip),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.integers(0, 3),
    ),
    max_size=30,
    unique_by=lambda fact: fact.id,
)


@given(facts_drawn, st.integers(0, 300), st.randoms(use_true_random=False))
def test_pinned_facts_fit_and_depend_on_no_order(facts: list[Fact], most: int, chance: Random) -> None:
    """They fit the limit without repetition, and the order of the input does not matter."""
    chosen = adopted_facts(facts, max_tokens=most, count=characters)
    assert sum(len(fact.line) + 1 for fact in chosen) <= most
    assert len({folded(fact.line) for fact in chosen}) == len(chosen)
    shuffled = list(facts)
    chance.shuffle(shuffled)
    again = adopted_facts(shuffled, max_tokens=most, count=characters)
    assert [(folded(f.line), f.importance, f.valid_from) for f in again] == [
        (folded(f.line), f.importance, f.valid_from) for f in chosen
    ]


def test_which_facts_are_pinned() -> None:
    """The most important are chosen, then the newest, and shown in their order; one that is too long is skipped."""

    def fact(name: str, importance: float, minute: int, value: str = "v") -> Fact:
        return known(name, "", f"{value} {name}", importance=importance, valid_from=START + timedelta(minutes=minute))

    facts = [fact("a", 0.5, 1), fact("b", 0.5, 2), fact("c", 0.9, 0), fact("d", 1.0, 3, "long " * 20)]
    shown: Callable[[int], list[str]] = lambda most: [  # noqa: E731 - shorter than a def
        fact.id for fact in adopted_facts(facts, max_tokens=most, count=characters)
    ]
    line = len(f"{fact('a', 0, 0).line}\n")
    assert shown(2 * line) == ["c", "b"]
    assert shown(3 * line) == ["c", "a", "b"]
    assert shown(600) == ["c", "a", "b", "d"]


def test_a_model_s_note_of_a_pinned_sentence_is_not_pinned_beside_it() -> None:
    """A note with other words, or with a number that is only part of another one, is pinned."""
    sentence = known("s", "", "Court is set for the 22nd, room 7", maker="rules", importance=0.9)
    notes = [known("day", "when is court", "the 22nd"), known("who", "judge", "Amari"), known("part", "floor", "22")]
    elsewhere = known("other", "when is court", "the 22nd", sources=("m2",))

    shown = adopted_facts([sentence, *notes, elsewhere], max_tokens=500, count=characters)

    assert {fact.id for fact in shown} == {"s", "who", "part", "other"}


def test_a_note_in_korean_is_found_before_its_particle() -> None:
    sentence = known("s", "", "수요일 정오까지 서류 내야 해요", maker="rules", importance=0.9)

    assert adopted_facts([sentence, known("n", "언제", "수요일 정오")], max_tokens=500, count=characters) == [sentence]


@pytest.mark.parametrize(
    ("texts", "held"),
    [
        pytest.param([f"My order number is {n}." for n in range(1000, 1040)], ["My order number is 1039"], id="number"),
        pytest.param(
            [f"제 전화 번호는 {n}이에요." for n in range(1000, 1040)], ["제 전화 번호는 1039이에요"], id="Korean"
        ),
        pytest.param(
            ["My order number is 1234.", "My second order number is 5678."],
            ["My order number is 1234", "My second order number is 5678"],
            id="two orders",
        ),
        pytest.param(
            ["My budget is 500 dollars.", "My budget is 800 dollars.", "My budget is 500 dollars."],
            ["My budget is 500 dollars"],
            id="back again",
        ),
        pytest.param(
            ["My email is ann@mail.com.", "My new email is ann.lee@mail.com."],
            ["My new email is ann.lee@mail.com"],
            id="new one",
        ),
        pytest.param(
            ["My phone number is 555-1111.", "My phone number has changed to 555-2222."],
            ["My phone number has changed to 555-2222"],
            id="has changed to",
        ),
        pytest.param(
            ["I work at Bosch.", "I quit Bosch; I now work at Siemens."],
            ["I quit Bosch; I now work at Siemens"],
            id="left for another",
        ),
        pytest.param(["I'm allergic to nuts.", "I'm not allergic to nuts."], ["I'm not allergic to nuts"], id="denied"),
        pytest.param(["My cat is Miso.", "My new cat is Rex."], ["My cat is Miso", "My new cat is Rex"], id="one more"),
        pytest.param(
            [
                "I have a cat called Miso.",
                "I have a dog called Rex.",
                "My sister's name is Anna.",
                "My sister's name is Julia.",
            ],
            [
                "I have a cat called Miso",
                "I have a dog called Rex",
                "My sister's name is Anna",
                "My sister's name is Julia",
            ],
            id="several",
        ),
    ],
)
def test_a_single_value_said_later_ends_the_one_before(texts: list[str], held: list[str]) -> None:
    with ContextEngine.open() as engine:
        session = engine.session("s")
        for text in texts:
            session.append([Message(Role.USER, text), Message(Role.ASSISTANT, "Noted.")])
        for number in range(30):
            session.append([Message(Role.USER, f"Hm, {number}?"), Message(Role.ASSISTANT, "Well.")])
        session.summarize()
        assert sorted(fact.value for fact in session.facts()) == sorted(held)
        history = {fact.value for fact in session.facts(include_superseded=True)}
        assert history == {text.rstrip(".") for text in texts}


BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def fact(name: str, key: str, value: str, *, importance: float = 0.5, leaf: int = 1) -> Fact:
    when = BEGIN + timedelta(minutes=leaf)
    return Fact(name, key, value, FactCategory.GENERAL, ("m",), importance, leaf, "model", when)


FACTS = [
    fact("rent", "rent", "715 euros a month", importance=0.9),
    fact("dog", "name of the dog", "Waffles"),
    fact("gate", "gate code", "2291"),
    fact("flight", "flight to Lisbon", "leaves at 7:40"),
    fact("colour", "colour of the gate", "green", leaf=40),
    *(fact(f"n{n}", f"note {n}", f"something about subject {n}") for n in range(20)),
]
INDEX = FactIndex(FACTS, count=len)


def found(question: str, **options: object) -> tuple[list[str], int]:
    """Return the ids of recalled facts and the number of the others."""
    arguments = {"top_k": 100, "boundary": 40, "adopted": ()} | options
    lines, others = INDEX.search(question, **arguments)  # type: ignore[arg-type]  # by name
    return [line.id for line in lines], others


def test_only_what_the_question_is_about_comes_back() -> None:
    """Unrelated facts don't fill the section, however important: pinned facts cover those in the cached prefix."""
    assert found("What is the code of the gate?") == (["gate"], 24)
    assert found("How was your weekend?") == ([], 25)
    assert found("") == ([], 25)


def test_a_long_message_is_not_about_all_that_shares_a_word_with_it() -> None:
    """A minimum share of a perfect match's score is required."""
    said = "We walked along the river, had dinner at the harbour, met old friends and came home by a late flight"

    assert found(said) == ([], 25)
    assert found("When does my flight leave?")[0] == ["flight"]


def test_a_statement_needs_a_better_match_than_a_question() -> None:
    said = "I booked a flight to Busan for my sister"

    assert found(f"{said}?")[0] == ["flight"]
    assert found(said) == ([], 25)
    assert found("The flight leaves at 7:40")[0] == ["flight"]


def test_a_pinned_fact_comes_back_too_and_is_not_counted_among_the_others() -> None:
    assert found("What is the code of the gate?", adopted=("gate", "rent")) == (["gate"], 23)
    assert found("How was your weekend?", adopted=("gate", "rent")) == ([], 23)


def test_what_lies_behind_the_boundary_is_shown_as_it_was_said() -> None:
    assert found("What is the colour of the gate?")[0][0] == "colour"
    assert "colour" not in found("What is the colour of the gate?", boundary=39)[0]


def test_importance_by_id() -> None:
    assert INDEX.importance(["rent", "gone", "dog"]) == (0.9, 0.0, 0.5)


def test_a_fact_that_is_half_overtaken_is_followed_by_the_later_one() -> None:
    """This holds even if only one more line fits, and if only the older one matches the question."""

    def said(name: str, value: str, day: int) -> Fact:
        return known(name, "", value, maker="rules", leaf=day, sources=(name,), valid_from=START + timedelta(days=day))

    facts = [
        said("out", "We fly out on 9 August", 1), said("cat", "We have a cat", 2),
        said("change", "We changed it to 10 August", 3),
    ]  # fmt: skip
    shown = adopted_facts(facts, max_tokens=1_000, count=characters)
    assert [fact.id for fact in shown] == ["out", "change", "cat"]
    for importance in (0.5, 0.9):
        both = [replace(facts[0], importance=importance), facts[2]]
        assert [fact.id for fact in adopted_facts(both, max_tokens=50, count=characters)] == ["change"]
    lines, _ = FactIndex(facts, count=len).search("When do we fly out?", top_k=5, boundary=40, adopted=())
    assert [line.id for line in lines] == ["out", "change"]


def test_a_fact_is_shown_as_its_sentence_with_day_and_speaker() -> None:
    """A key is shown only if a model's value is meaningless without it."""
    fact = replace(known("a", "flight: code", "Our flight is TP 1234", maker="rules"), said_by="user")
    assert fact.line == f"- {START:%Y-%m-%d}, user: Our flight is TP 1234"
    assert (
        known("a", "delivery address", "12 High Street").line == f"- {START:%Y-%m-%d}: delivery address: 12 High Street"
    )
    assert known("a", "home of ", "We moved to Porto", maker="rules").text == "We moved to Porto"
    assert known("a", "address", "The address is 12 High Street").text == "The address is 12 High Street"


def test_an_assistants_restatement_ends_no_users_fact() -> None:
    """An assistant's statement ends a user's fact only with words of change."""
    own = Fact("f1", "email", "My email is a@x.org.", FactCategory.NUMERIC, ("m1",), 0.8, 1, "rules", START, "user")

    def ended(value: str, trust: Trust) -> bool:
        return ("f1", "f2") in merged(
            Segment(0, 17, 32, "n", 1, "rules"),
            [(ProposedFact("email", value, FactCategory.NUMERIC, ("m20",)), "rules")],
            known=[own], said=lambda _: (START, "user", trust), new_id=lambda: "f2",
        ).ends  # fmt: skip

    assert ended("My email is b@x.org.", Trust.USER)
    assert not ended("My email is b@x.org.", Trust.ASSISTANT)
    assert ended("The email is now b@x.org.", Trust.ASSISTANT) == ended("The email is now b@x.org.", Trust.USER)
