"""Grounding of facts in their source, and the values of an exchange that a summary must keep."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arc_common import ArcSettings, ContextEngine, TokenBudget
from arc_common.facts import Fact, FactCategory, ProposedFact
from arc_common.memory.facts.extraction import excerpts_of, extract_facts
from arc_common.memory.facts.fidelity import invents, is_grounded, is_revoked, missing_facts, without_inventions
from arc_common.messages import Message, Role

ENGLISH = (
    "Hi! My sister Hana lives in Busan and I come out in hives if there's any penicillin. The total was 1,240.50 euros "
    "for three bags. Don't call before noon. The order is PX-20418-B. Ring 0176 5550 0123."
)
KOREAN = (
    "제 동생 하나가 부산에서 올라와요. 견과류 알레르기가 있습니다. 주문번호는 A20-55731이고 예산은 최대 "
    "320만 원이에요. 노트북 열두 대가 필요합니다."
)


def fact(value: str, key: str = "k") -> ProposedFact:
    return ProposedFact(key, value, FactCategory.GENERAL)


def test_what_the_source_says_is_grounded() -> None:
    """Paraphrases with the names, numbers and informative words of the source pass, whatever their formatting."""
    cases = [
        ("Hana", ENGLISH),
        ("User's sister Hana lives in Busan", ENGLISH),
        ("allergic to penicillin", ENGLISH),
        ("1240.50 euros", ENGLISH),
        ("3 bags", ENGLISH),
        ("1240 euros", "1,240.00 euros"),
        ("twelve laptops", "We need 12 laptops."),
        ("px20418b", ENGLISH),
        ("must not be called before noon", ENGLISH),
        ("017655500123", ENGLISH),
        ("동생 하나", KOREAN),
        ("사용자는 견과류 알레르기가 있음", KOREAN),
        ("A20-55731", KOREAN),
        ("예산 320만원", KOREAN),
        ("노트북 12대", KOREAN),
        ("사용자는 서울에 산다", "저는 서울에 살아요."),
        ("사용자는 서울에 거주한다", "저는 서울에 살아요."),
        ("사용자는 서울에 살고 있다", "나는 서울에 살아"),
        ("사용자는 의사이다", "저는 의사예요."),
        ("사용자는 간호사다", "저는 간호사입니다."),
        ("사용자는 작년에 결혼했다", "작년에 결혼했어요."),
        ("사용자의 딸은 피아노를 배운다", "우리 딸이 피아노를 배우고 있어요."),
        ("사용자는 다음 달에 이사할 예정이다", "다음 달에 이사해요."),
        ("The user resides in Seoul", "I live in Seoul."),
    ]
    for value, source in cases:
        assert is_grounded(value, source)


def test_inventions_are_not_grounded() -> None:
    """A different number, id, name or thing is rejected, even if all words around it are right."""
    cases = [
        ("allergic to peanuts", ENGLISH),
        ("allergic to penicillin, strawberries and kiwis", ENGLISH),
        ("1,250 euros", ENGLISH),
        ("PX-20418-C", ENGLISH),
        ("PX-204", ENGLISH),
        ("Lives in Seoul", ENGLISH),
        ("The user's brother is called Viktor", ENGLISH),
        ("Favourite food is lasagne", ENGLISH),
        ("땅콩 알레르기", KOREAN),
        ("예산 330만원", KOREAN),
        ("서울에 거주", KOREAN),
        ("사용자는 부산에 산다", "저는 서울에 살아요."),
        ("사용자는 간호사다", "저는 의사예요."),
        ("사용자는 커피를 마신다", "저는 홍차를 마셔요."),
        ("", ENGLISH),
        ("?!", ENGLISH),
        ("Hana", ""),
    ]
    for value, source in cases:
        assert not is_grounded(value, source)


def test_a_conclusion_invents_what_nobody_named() -> None:
    cases = [
        ("The user is health-conscious", False),
        ("The user prefers concise replies", False),
        ("사용자는 간결한 답변을 선호한다", False),
        ("The user wants to be like their sister Hana", False),
        ("The user wants to be like their sister Hanna", True),
        ("The user wants replies of 3 lines", False),
        ("The user wants replies of 5 lines", True),
        ("The user relies on order PX-20418-C", True),
        ("사용자는 5줄로 된 답변을 선호한다", True),
    ]
    for statement, is_invented in cases:
        assert invents(statement, ENGLISH) == is_invented


@example("STATUS")
@given(st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N", "Z", "P"]), max_size=80))
def test_a_text_with_words_grounds_itself(text: str) -> None:
    """A verbatim quotation of the source is grounded if it contains a word."""
    if any(character.isascii() and character.isalnum() for character in text):
        assert is_grounded(text, f"so: {text} .")


def test_missing_are_those_nobody_says() -> None:
    """A fact is kept if no other fact has its numbers, names and words."""
    found = [
        fact("The deposit is 1,240 euros"),
        fact("my sister Hana"),
        fact("절대 경비실에 맡기지 말아 주세요"),
        fact("the kiln is broken"),
    ]
    said = "We spoke about Hana, the user's sister."
    kept = [fact("1240 euros", "deposit"), fact("경비실에는 맡기지 말 것, 절대", "배송"), fact(said)]
    assert missing_facts(found, facts=kept) == [found[3]]
    assert missing_facts(found, facts=[]) == found
    assert missing_facts([], facts=kept) == []


def test_words_of_different_facts_don_t_add_up() -> None:
    found = [fact("the blue kiln costs 900 euros"), fact("a green kiln cracked inside the cellar")]
    assert missing_facts(found, facts=[fact("the blue kiln"), fact("900 euros"), fact("green kiln")]) == found


def test_what_is_ruled_out_is_not_said_by_what_leaves_that_out() -> None:
    cases = [
        ("Never put walnuts in the Saturday buns", "Saturday buns: put walnuts in the Saturday buns", True),
        ("Never put walnuts in the Saturday buns", "Saturday buns: no walnuts in them", False),
        ("No walnuts in the buns", "allergy: walnuts in buns", True),
        ("The walnuts go in the buns", "buns: walnuts in the buns", False),
        ("절대 호두는 빵에 넣지 마세요", "빵: 호두는 빵에 넣기", True),
        ("절대 호두는 빵에 넣지 마세요", "주의: 절대 호두는 빵에 넣지 않기", False),
    ]
    for said, model, is_missing in cases:
        key, _, value = model.partition(": ")
        fact = ProposedFact("buns", said, FactCategory.CONDITION)
        assert bool(missing_facts([fact], facts=[ProposedFact(key, value, FactCategory.GENERAL)])) is is_missing


def test_a_fact_is_taken_back_by_what_denies_or_ends_it() -> None:
    cases = [
        ("Please cancel the delivery to 12 High Street.", True),
        ("The delivery doesn't go to 12 High Street any more.", True),
        ("We moved: the delivery goes to 9 Mill Lane now.", True),
        ("I don't know what to do about the street.", False),
        ("The delivery to 12 High Street was quick.", False),
        ("No, nothing else.", False),
        ("", False),
    ]
    for text, is_one in cases:
        fact = Fact(
            id="f",
            key="delivery",
            value="The delivery goes to 12 High Street",
            category=FactCategory.STATE,
            sources=("m1",),
            importance=0.5,
            segment=1,
            made_by="model",
            valid_from=datetime(2026, 1, 1, tzinfo=UTC),
        )
        assert is_revoked(fact, text) is is_one


def test_a_narrative_keeps_the_sentences_that_invent_nothing() -> None:
    source = "user: Hana wants 12 chairs by Friday.\nassistant: Noted, Hana."
    told = "They spoke of chairs. Hana wants 12. Tom wants 40. It was friendly, and Hana agreed to $77,777."
    assert without_inventions(told, source) == "They spoke of chairs. Hana wants 12."
    assert without_inventions("The code is swordfish-99.", source) == without_inventions("", source) == ""
    for heading in ("The facts", "Summary:", "**Narrative**"):
        assert without_inventions(heading, source) == ""
    assert without_inventions("Hana wants 12 chairs by", source) == "Hana wants 12 chairs by"
    assert (
        without_inventions("둘은 의자 12개를 이야기했다. 가격은 500만 원이다.", "의자 12개요.")
        == "둘은 의자 12개를 이야기했다."
    )


SAID = {
    "time": ("Could you book a table at Sol for 4 people at 19:30?", "19:30"),
    "size": ("I need the blue jacket in size 42.", "42"),
    "measure": ("The gap under the stairs is 87 cm wide.", "87 cm"),
    "date": ("Please send it on 12 March.", "12 March"),
    "weekday": ("Can you move it to Thursday?", "Thursday"),
    "money": ("Please find me something under $240.", "$240"),
    "id": ("Where is my parcel PX-20418-B?", "PX-20418-B"),
    "prohibition": ("You must not call my office.", "must not call"),
    "Korean": ("3월 12일 저녁 7시로 예약해 주세요.", "3월 12일"),
    "address": ("Could you write to jo@example.org?", "jo@example.org"),
}


def excerpts(text: str, role: Role = Role.USER, *facts: ProposedFact) -> list[str]:
    return [found.value for found in excerpts_of([Message(role, text, id="m1")], facts=facts)]


@pytest.mark.parametrize("kind", SAID)
def test_values_of_sentences_that_are_no_facts_are_kept(kind: str) -> None:
    said, value = SAID[kind]
    messages = [Message(Role.USER, said, id="m1")]
    found = [*extract_facts(messages), *excerpts_of(messages, facts=extract_facts(messages))]
    assert any(value in one.value for one in found)


def test_what_facts_of_the_message_say_is_not_kept_again() -> None:
    said = "Please book me for 7 pm on Friday."
    assert excerpts(said) == [said]
    whole = ProposedFact("booking", "Friday at 7 pm", FactCategory.NUMERIC, ("m1",))
    part = ProposedFact("booking", "at 7 pm", FactCategory.NUMERIC, ("m1",))
    other = ProposedFact("booking", "Friday at 7 pm", FactCategory.NUMERIC, ("m2",))
    assert excerpts(said, Role.USER, whole) == []
    assert excerpts(said, Role.USER, part) == excerpts(said, Role.USER, other) == [said]


def test_small_talk_and_what_others_say_are_not_kept() -> None:
    assert excerpts("<3") == []
    assert excerpts("That's great, thanks for the two tips!") == []
    assert excerpts("Tuesday! Let's see.") == []
    assert excerpts("Hey Ann, I'm good.") == excerpts("Wow, Ben, that is rough for us.") == []
    assert excerpts("What is the weather like?") == excerpts("[shares a photo of 2 dogs]") == []
    assert excerpts("write part 2") == excerpts("24평이면 얼마죠") == []
    assert excerpts("book it for Friday")
    assert excerpts("You could try the 7 pm show.", Role.ASSISTANT) == []
    assert excerpts("I've booked the 7 pm show, reference QX-1207.", Role.ASSISTANT)
    assert excerpts("```\nPlease pay $300 by 9 May.\n```") == []


def test_a_long_sentence_is_cut_to_what_tells() -> None:
    (kept,) = excerpts(f"Please, {'as we talked about it, ' * 12}could you book it for 12 March at 7 pm?")
    assert "12 March at 7 pm" in kept
    assert len(kept) < 100


@pytest.mark.parametrize("kind", SAID)
def test_a_summary_keeps_them(kind: str) -> None:
    """The summary shows the value with its day and speaker; it is not a fact but can be listed."""
    said, value = SAID[kind]
    with ContextEngine.open(settings=ArcSettings(summary={"leaf_messages": 8, "recent_message_count": 2})) as engine:
        session = engine.session("s")
        session.save_turn(said, "Noted.")
        for number in range(20):
            session.save_turn(f"Tell me something about chess opening {'abcdefghijklmnopqrst'[number]}.", "It is old.")
        summary = session.summarize()
        window = session.context("And now?", budget=TokenBudget(5_000, 0))
        assert summary is not None
        kept = "\n".join([summary.narrative, *(fact.line for fact in session.facts())])
        assert value in kept
        assert value in window.messages[0].text
        assert not [fact for fact in session.facts() if fact.is_excerpt]
        listed = [fact for fact in session.facts(include_excerpts=True) if value in fact.value]
        assert len(listed) == 1


def test_excerpts_of_one_day_share_its_heading() -> None:
    with ContextEngine.open(settings=ArcSettings(summary={"leaf_messages": 8, "recent_message_count": 2})) as engine:
        session = engine.session("s")
        for number in range(20):
            said = [f"Please send parcel {number} to dock {number + 40}.", f"Please stack pallet {number + 70} there."]
            session.save_turn(said[number % 2], "Fine.")
        session.summarize()
        shown = session.context("And now?", budget=TokenBudget(5_000, 0)).messages[0].text.split("Summary:")[1]
    day = f"[{datetime.now(UTC):%Y-%m-%d}]"
    assert shown.count(day) == 1
    assert shown.index(day) < shown.index("- user: Please send parcel 0") < shown.index("pallet 71")


def test_an_excerpt_that_is_only_a_value_comes_with_its_question() -> None:
    asked = Message("assistant", "How long should the limit be?", id="a")
    (excerpt,) = excerpts_of([asked, Message(Role.USER, "90 minutes", id="b")], facts=())
    assert excerpt.value == "90 minutes (in reply to: How long should the limit be?)"
    assert excerpt.sources == ("b", "a")


def test_an_excerpt_that_only_the_conversation_explains_matters_less() -> None:
    said = "Then start it on 3 August.", "Please start the line on 3 August.", "He must not change the contract 4711."
    unclear, clear, forbidden = (excerpts_of([Message(Role.USER, one, id="m")], facts=())[0] for one in said)
    assert unclear.importance < clear.importance < forbidden.importance
