"""Contradictions by rules: hardly ever a false alarm, whatever the language; and by a detector that a user brings."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.memory.long_term.contradictions import Contradictions, claims_of, contradicts, is_negated
from arc_common.testing import CountingObserver

DATA = Path(__file__).parents[2] / "support" / "data"
SETS = sorted(DATA.glob("contradictions*.json"))


def pairs(path: Path) -> list[tuple[str, bool, str, str]]:
    """Language, whether it is a contradiction, the older and the newer text."""
    return [tuple(pair) for pair in json.loads(path.read_text())["pairs"]]


def test_precision():
    """Of each set, none of which the tables were written by; how many contradictions are found is no target."""
    for path in SETS:
        found = [is_one for _, is_one, old, new in pairs(path) if contradicts(new, old)]
        assert not found or sum(found) / len(found) >= 0.97


@pytest.mark.parametrize("language", ["en", "ko"])
def test_some_are_found(language):
    asked = [pair for path in SETS for pair in pairs(path) if pair[0] == language and pair[1]]
    assert len(asked) >= 200
    assert sum(contradicts(new, old) for _, _, old, new in asked) / len(asked) >= 0.15


def test_near_misses_are_none():
    """Other owners, other days, other things of a kind, plans, parts, the same amount said otherwise."""
    near = pairs(DATA / "contradictions_near_misses.json")
    assert len(near) >= 220
    assert [(old, new) for _, _, old, new in near if contradicts(new, old)] == []


def test_no_text_contradicts_itself_and_the_order_makes_no_difference():
    for path in SETS:
        for _, _, old, new in pairs(path):
            assert not contradicts(old, old)
            assert contradicts(old, new) == contradicts(new, old)


def test_what_is_no_contradiction():
    """Several of a kind, the same value, a plan, the past, a part of what was said, other people and things."""
    cases = [
        ("I have a cat called Miso", "I have a dog called Rex"),
        ("My sister's name is Anna", "My sister's name is Mia"),
        ("My sister lives in Seoul", "My sister lives in Busan"),
        ("My order number is 1234", "My order number is 5678"),
        ("Order 12 is shipped", "Order 14 is shipped"),
        ("My work email is a@example.com", "My private email is c@example.com"),
        ("My boss is strict", "My boss is Anna"),
        ("I work 8 hours on Mondays", "I work 4 hours on Fridays"),
        ("I bought shoes for 50 euros", "I bought shoes for 70 euros"),
        ("I live in London", "I live in England"),
        ("User lives in Seoul", "User lives in Seoul, Korea"),
        ("User's budget is 5,000 dollars", "User's budget is $5000"),
        ("User is thinking of moving to Busan", "User lives in Seoul"),
        ("User used to live in Daegu", "User lives in Seoul"),
        ("User likes coffee", "User doesn't drink coffee in the evening"),
        ("User eats meat", "User's wife doesn't eat meat"),
        ("User lives in Seoul", "User moved to the front row"),
        ("My rent is 900 euros", "My rent is due on the 1st"),
        ("", "User lives in Seoul"),
        ("I live in Seoul", "저는 서울에 살아요"),
        ("My email is ann@mail.com", "My work email is ann@office.com"),
        ("My email is ann@mail.com", "My wife's new email is eve@mail.com"),
        ("I got an email from ann@mail.com", "I got an email from eve@mail.com"),
        ("언니는 서울에 산다", "언니는 부산에 산다"),
        ("고양이 이름은 미소다", "강아지 이름은 렉스다"),
        ("사용자는 서울에 산다", "사용자는 부산으로 이사할 계획이다"),
        ("사용자는 삼성전자에 다닌다", "사용자는 헬스장에 다닌다"),
        ("사용자는 커피를 마신다", "사용자는 저녁에 커피를 마시지 않는다"),
    ]
    for old, new in cases:
        assert not contradicts(new, old)


def test_what_is_one():
    """A second value of what has one, words of change, what is denied or given up."""
    cases = [
        ("My email is a@example.com", "My new email is c@example.com"),
        ("My email is a@example.com", "My email changed to c@example.com"),
        ("User: I live in Seoul.", "The user moved to Busan."),
        ("I work at Samsung", "I no longer work at Samsung"),
        ("User plays tennis on Saturdays", "User doesn't play tennis any more"),
        ("The meeting is on Tuesday", "The meeting was moved to Thursday"),
        ("My rent is 900 euros", "My rent is 950 euros"),
        ("User prefers tea over coffee", "User prefers coffee over tea"),
        ("My email is ann@mail.com", "My new email is ann.lee@mail.com"),
        ("My email address is ann@mail.com", "My email changed to ann@mail.org"),
        ("User uses Jira", "User switched from Jira to Linear"),
        ("User is single", "User is married"),
        ("User smokes", "User quit smoking"),
        ("저는 서울에 살아요", "저는 부산으로 이사했어요"),
        ("사용자의 이메일은 a@example.com이다", "사용자의 새 이메일은 c@example.com이다"),
        ("사용자는 담배를 피운다", "사용자는 담배를 끊었다"),
        ("사용자는 고기를 먹는다", "사용자는 고기를 먹지 않는다"),
        ("회의는 월요일이다", "회의가 목요일로 변경됐다"),
    ]
    for old, new in cases:
        assert contradicts(new, old)


def test_negation():
    assert is_negated("User no longer smokes")
    assert is_negated("User hates coffee")
    assert is_negated("User gave up coffee")
    assert is_negated("담배를 피우지 않는다")
    assert not is_negated("User smokes")
    assert not is_negated("담배를 피운다")


class Entailment:
    """A detector that finds a contradiction wherever both texts speak of tea; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: list[bool] | None = None

    def contradicts(self, statement, earlier):
        self.asked += 1
        if self.answers is not None:
            return self.answers
        return ["tea" in statement and "tea" in one for one in earlier]


def test_a_detector_decides_in_place_of_the_rules():
    detector = Entailment()
    decision = Contradictions(detector)
    for _ in range(2):
        assert decision.contradicted("no tea", ["tea at five", "User lives in Seoul"]) == [True, False]
        assert not decision.contradicts("User lives in Busan", "User lives in Seoul")
    assert detector.asked == 2
    assert decision.may_end("anything")


@pytest.mark.parametrize("answers", [[], [True, True]], ids=["too few", "too many"])
def test_a_detector_that_fails_breaks_nothing(answers):
    detector, observer = Entailment(), CountingObserver()
    detector.answers = answers
    decision = Contradictions(detector, observer=observer)
    assert decision.contradicts("User lives in Busan", "User lives in Seoul")
    assert observer.counts == {"memory.contradictions.errors": 1}


@given(st.text(alphabet=st.sampled_from("abc 을를은는이가에서로산다지않 's is in to 12.,안못"), max_size=300))
def test_any_text_is_read(text):
    claims = claims_of(text)
    assert claims == claims_of(text)
    assert len({claim.slot for claim in claims}) == len(claims)
    assert not contradicts(text, text)


def test_a_long_text_is_read_no_further():
    """Nothing makes the rules look at a text again and again; one that did would never end."""
    cases = ["가" * 4_000, "가" * 299, "is in " * 660, "moved to " * 400, "User " + "a " * 1_990]
    for text in cases:
        assert len(claims_of(text)) <= 200
