"""Facts by rules: what a writer states in their own name, and what is found in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.facts import FactCategory
from arc_common.memory.facts.extraction import extract_facts, own_words, without_forgotten, without_quoted
from arc_common.messages import ARC_MARK, ContentPart, Message, Role
from arc_common.text.languages.english import ENGLISH
from arc_common.text.languages.language import find
from tests.support.planted_facts import FACT_SETS, build_conversation, load_facts


def folded(text: str) -> str:
    return " ".join(text.casefold().split())


def values(text: str, role: str = "user") -> list[str]:
    return [fact.value for fact in extract_facts([Message(Role(role), text)])]


def test_planted_facts_are_found_between_small_talk() -> None:
    """Nearly all facts of a long conversation are found, and little else is taken for one."""
    for name in FACT_SETS:
        planted = load_facts(name)
        for seed in (1, 2):
            conversation = build_conversation(planted, seed=seed)
            found = extract_facts(conversation)
            said = [folded(fact.value) for fact in found]
            assert sum(any(folded(fact.value) in value for value in said) for fact in planted) >= 56
            assert len(found) <= 75


def test_the_facts_of_a_conversation_fit_their_share() -> None:
    """A fact is a line of about 20 tokens, and no two of one conversation share a key, which would supersede one."""
    for name in FACT_SETS:
        found = extract_facts(build_conversation(load_facts(name), seed=3))
        lines = [f"- {fact.key}: {fact.value}" for fact in found]
        assert max(len(line) for line in lines) <= 150
        assert sum(len(line) for line in lines) / len(lines) <= 75
        assert len({fact.key.casefold() for fact in found}) == len(found)


@pytest.mark.parametrize(
    ("text", "value", "category"),
    [
        pytest.param(
            "Can you deliver it to 12 Elm Street before Friday?",
            "12 Elm Street before Friday",
            FactCategory.ENTITY,
            id="in a question",
        ),
        pytest.param(
            "My sister Hana lives in Busan.", "sister Hana lives in Busan", FactCategory.ENTITY, id="relation"
        ),
        pytest.param("제 동생 하나가 부산에 살아요.", "동생 하나가 부산에 살아요", None, id="relation in Korean"),
        pytest.param(
            "Please don't call before noon.", "don't call before noon", FactCategory.CONDITION, id="prohibition"
        ),
        pytest.param(
            "절대 견과류는 안 돼요.", "절대 견과류는 안 돼요", FactCategory.CONDITION, id="prohibition in Korean"
        ),
        pytest.param(
            "Only ship it if the seal is intact.", "if the seal is intact", FactCategory.CONDITION, id="condition"
        ),
        pytest.param("Let's go with the oak table.", "the oak table", FactCategory.DECISION, id="decision"),
        pytest.param(
            "회의는 화요일에 하기로 했어요.", "화요일에 하기로 했어요", FactCategory.DECISION, id="decision in Korean"
        ),
        pytest.param("It costs $1,240.50 with tax.", "$1,240.50", FactCategory.NUMERIC, id="money"),
        pytest.param(
            "Write to Ana.Silva+x@mail.example.org, please.",
            "Ana.Silva+x@mail.example.org",
            FactCategory.ENTITY,
            id="e-mail",
        ),
        pytest.param("订单号是 AB-20931,请查一下。", "AB-20931", FactCategory.NUMERIC, id="code in Chinese"),
        pytest.param("我对花生过敏。", "我对花生过敏", FactCategory.CONDITION, id="allergy in Chinese"),
        pytest.param("予約は3月14日でお願いします。", "3月14日", FactCategory.NUMERIC, id="date in Japanese"),
        pytest.param(
            "Mein Termin ist am 2026-03-14 um 15:30.", "2026-03-14", FactCategory.NUMERIC, id="date in another language"
        ),
    ],
)
def test_a_statement_is_a_fact(text: str, value: str, category: FactCategory | None) -> None:
    facts = extract_facts([Message(Role.USER, text, id="m1")])
    assert len(facts) == 1
    assert value in facts[0].value
    assert facts[0].sources == ("m1",)
    assert category is None or facts[0].category is category


def test_courtesies_and_questions_give_nothing() -> None:
    cases = [
        "Thank you so much for your help!",
        "Hi, how are you doing today?",
        "What do you think about it?",
        "That makes sense, I'll have another look later.",
        "정말 고맙습니다, 좋은 하루 보내세요!",
        "이건 어떻게 하는 건가요?",
        "谢谢你的帮助!",
        "ありがとうございます。",
        "Is the kiln in the cellar still broken?",
        "Cheers, Caroline!",
        "[shares a photo of two desserts with 3 spoons]",
        "👍🎉",
        "",
    ]
    for text in cases:
        assert values(text) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Is it 500 dollars?", id="yes or no"),
        pytest.param("You close at 6 pm on Monday?", id="in the order of a statement"),
        pytest.param("Do you know Dr. Okafor on Canal Street?", id="with a name"),
        pytest.param("Can you recommend 10 operators in Budapest?", id="for information"),
        pytest.param("what if we had 3 servers", id="supposed"),
        pytest.param("If I were rich I would buy a house in Lisbon.", id="against the facts"),
        pytest.param("I wish we had a kitchen with 3 windows.", id="wished"),
        pytest.param("he asked whether we have a dog", id="reported"),
        pytest.param("I'm not sure if the appointment is on 5 May.", id="uncertain"),
        pytest.param("500달러인가요?", id="yes or no in Korean"),
        pytest.param("서버가 세 대라면 어떨까요?", id="supposed in Korean"),
        pytest.param("만약 서버가 3대 있었다면 더 빨랐을 텐데요.", id="against the facts in Korean"),
        pytest.param("그 사람이 우리 집에 개가 있냐고 물어봤어요.", id="reported in Korean"),
        pytest.param("회의가 3시인지 모르겠어요.", id="uncertain in Korean"),
    ],
)
def test_what_is_asked_or_supposed_is_not_stated(text: str) -> None:
    assert values(text) == []


def test_what_is_stated_beside_a_question_is_kept() -> None:
    """In front of it, as its reason, behind a reported one; so are conditions laid down, and what is to be done."""
    cases = [
        ("I'm vegan, can you recommend a place in Rome?", "I'm vegan"),
        ("My flight leaves at 9:45, which gate is it?", "My flight leaves at 9:45"),
        ("Which milk is best, since my daughter is allergic to lactose?", "since my daughter is allergic to lactose"),
        ("I asked when the museum opens, and they told me 9:30.", "they told me 9:30"),
        ("My sister asked how much it costs, but my budget is 300 euros.", "my budget is 300 euros"),
        ("It's 500 dollars, right?", "It's 500 dollars, right?"),
        ("If it rains, we move to the hall.", "If it rains, we move to the hall"),
        ("저는 비건인데 식당 추천해 주실 수 있나요?", "저는 비건인데"),
        ("예산은 300만 원인데 얼마나 나올지 모르겠어요.", "예산은 300만 원인데"),
        ("비가 오면 강당에서 하기로 해요.", "비가 오면 강당에서 하기로 해요"),
        ("막배는 자정에 떠나요.", "막배는 자정에 떠나요"),
        ("5월 5일에 배송해 주실 수 있나요?", "5월 5일에 배송해 주실 수 있나요?"),
    ]
    for text, value in cases:
        assert values(text) == [value]


def test_long_quotations_are_not_what_the_speaker_states() -> None:
    pasted = "The Westbourne Terrace appraisal of 1912 values the property at 4,200 pounds."
    assert values(f'Please make this shorter: "{pasted}"') == []
    assert values(f'My lawyer wrote: "{pasted}"')
    assert values('I play in a band called "The Spikers" on Fridays.')


def test_assistants_give_what_concerns_the_listener() -> None:
    """What was promised or done for them, labelled ids, and what is definite about their own affairs."""
    cases = [
        "Your confirmation number is 5589-0032-K.",
        "I've booked the table for 7:15 pm.",
        "Your parcel has been left at the florist's.",
        "You got 46 out of 50 on the practice test.",
        "수요일 오후 3시에 다시 전화드리겠습니다.",
        "소아과 예약은 목요일 오전 10시 20분으로 잡아 드렸어요.",
        "부가세 신고는 7월 25일까지 마치셔야 합니다.",
    ]
    for text in cases:
        assert values(text, "assistant") == [text.rstrip(".")]


def test_assistants_give_no_knowledge_and_no_advice() -> None:
    cases = [
        "The museum has 240 rooms and opened in 1890. I will keep it in mind.",
        "If your car recommends oil changes every 5,000 miles, follow that.",
        "You will love the way it looks in your kitchen.",
        "You can try ten minutes of yoga in the morning.",
        "There are 3 restaurants that you may like.",
        "요가를 10분 해 보는 것도 방법입니다.",
    ]
    for text in cases:
        assert values(text, "assistant") == []


@pytest.mark.parametrize("role", ["tool", "system"])
def test_tools_and_systems_give_nothing(role: str) -> None:
    """What tools return and what the system says is no fact of the conversation."""
    assert values("The order number is PX-20418-B and the total is $99.", role) == []


def test_what_arc_wrote_is_not_read_again() -> None:
    assert extract_facts([Message(Role.USER, "Order number PX-20418-B", metadata={ARC_MARK: True})]) == []


def test_code_is_not_prose() -> None:
    found = values("My deadline is Friday.\n```\nprice = 4200\nnever_call('Hana')\n```\nThe budget is 900 euros.")
    assert found == ["My deadline is Friday", "The budget is 900 euros"]


def test_parts_without_text_are_passed_over() -> None:
    parts = (ContentPart("image", url="https://x.example/1.png"), ContentPart("text", text="My badge is K-2210."))
    assert [fact.value for fact in extract_facts([Message(Role.USER, parts)])] == ["My badge is K-2210"]


def test_doubtful_statements_don_t_pile_up() -> None:
    """Of plain descriptions, which may be facts or talk, a message gives one."""
    found = values(
        "The lantern glows in amber twilight. The violin hums beside velvet curtains. A copper kettle is an heirloom."
    )
    assert len(found) == 1


@pytest.mark.parametrize(("role", "few", "many"), [("user", 4, 6), ("assistant", 2, 2)])
def test_a_message_gives_a_few_facts(role: str, few: int, many: int) -> None:
    """Four, and of a long message of the user's one more for every 120 tokens; of an assistant's two."""
    orders = [f"Your order number is ORD-{n}." for n in range(1, 41)]
    assert [len(values(" ".join(orders[:n]), role)) for n in (1, 8, 40)] == [1, few, many]


def test_matches_are_where_they_stand() -> None:
    """A capital that has two small characters does not shift what is found behind it."""
    clause = "İİİİ but never touch the kiln"
    never = next(found for found in find(ENGLISH.signals, clause) if found.signal.name == "prohibition")
    assert clause[never.start : never.end] == "never"


def test_the_same_statement_is_one_fact_with_both_sources() -> None:
    said = "My badge number is K-2210."
    facts = extract_facts([Message(Role.USER, said, id="a"), Message(Role.USER, said.upper().title(), id="b")])
    assert [fact.sources for fact in facts] == [("a", "b")]


def test_a_later_value_has_the_key_of_the_earlier() -> None:
    old, new = extract_facts(
        [Message(Role.USER, "My budget is 900 euros."), Message(Role.USER, "My budget is 1,200 euros now.")]
    )
    assert old.key == new.key == "budget"


@given(
    st.lists(
        st.one_of(
            st.text(max_size=200),
            st.sampled_from(
                [
                    "My sister Hana ",
                    "never ",
                    "12 Elm Street, ",
                    "if it rains, ",
                    "제 동생 ",
                    "\n",
                    "PX-20418-B",
                    "İ",
                    "요 ",
                ]
            ),
        ),
        max_size=12,
    )
)
def test_values_are_verbatim_and_repeatable(pieces: list[str]) -> None:
    """Whatever the text: each value is a part of it, importance is in its range, and a second run says the same."""
    text = "".join(pieces)
    messages = [Message(Role.USER, text, id="m")]
    facts = extract_facts(messages)
    for fact in facts:
        assert fact.value in text
        assert fact.key.strip()
        assert 0.0 <= fact.importance <= 1.0
    assert extract_facts(messages) == facts


def test_facts_of_an_endless_text_are_few_and_short() -> None:
    for piece in ("한두 ", "my x ", "never, ", "Aa "):
        assert all(len(fact.value) < 400 for fact in extract_facts([Message(Role.USER, piece * 4_000)]))


def test_requests_to_forget_are_not_read():
    cases = [
        "Please forget that I live in Seoul",
        "Could you please forget that I live in Seoul?",
        "I'd like you to forget about my allergy.",
        "You can forget I like tea.",
        "Don't remember that I live in Seoul.",
        "Stop remembering what I eat.",
        "Delete the memory that I live in Seoul.",
        "Remove from your notes that I live in Seoul.",
        "잊어줘: 나는 서울에 산다",
        "나는 서울에 산다는 걸 잊어줘",
        "제가 서울에 산다는 건 잊어 주세요.",
        "서울에 산다는 기억 지워줘",
        "저에 대한 기억을 모두 삭제해 주세요",
        "서울에 산다는 건 기억하지 마세요",
    ]
    for text in cases:
        assert without_forgotten(text) == ""
        assert (
            " ".join(without_forgotten(f"I keep bees. {text}\nI keep goats.").split()) == "I keep bees. I keep goats."
        )


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Forget what I said, I live in Busan now.", "I live in Busan now."),
        ("Please forget that I live in Seoul because I moved.", "I moved."),
        ("서울 얘기는 잊어 주세요, 지금은 부산에 살아요.", "지금은 부산에 살아요."),
    ],
)
def test_what_is_stated_instead_stays(text, stated):
    assert without_forgotten(text) == stated


def test_other_words_stay():
    cases = [
        "Don't forget that I live in Seoul.",
        "I forget names easily.",
        "I forgot my keys in Rome.",
        "Forget it.",
        "Remember that I live in Seoul.",
        "Delete the meeting on Friday.",
        "Remove the contact from the website.",
        "서울에 산다는 거 잊지 마세요.",
        "저는 자꾸 약을 잊어버려요.",
        "고객 정보를 삭제했어요.",
        "",
    ]
    for text in cases:
        assert without_forgotten(text) == text
        assert own_words(text) == text


def test_a_text_to_be_worked_on_is_not_its_writer_s():
    """In quotation marks, behind a colon, or on the next lines up to an empty one."""
    cases = [
        ('Translate: "I live in Seoul." I keep bees.', "Translate:  I keep bees."),
        ('Please translate "I live in Seoul" into French', "Please translate into French"),
        ("Translate the following into Korean: I live in Seoul.", "Translate the following into Korean:"),
        ("Hi! Could you fix the grammar: I lives in Seoul", "Hi! Could you fix the grammar:"),
        ("Summarize this:\nI live in Seoul.\nI like it.\n\nI keep bees.", "Summarize this: I keep bees."),
        ("Translate the text below.\n\nI live in Seoul.", "Translate the text below."),
        ("Here is my letter, please correct it:\n\nI live in Seoul.", "Here is my letter, please correct it:"),
        ("Example: I live in Seoul.", "Example:"),
        ("Check this out: I live in Seoul now!", "Check this out: I live in Seoul now!"),
        ("번역해줘: 나는 서울에 살아", "번역해줘:"),
        ("이 문장을 교정해줘 - 나는 서울에 살아", "이 문장을 교정해줘 -"),
        ("다음 글을 번역해 주세요.\n나는 서울에 살아.", "다음 글을 번역해 주세요."),
        ('"나는 서울에 산다"를 번역해줘', "를 번역해줘"),
        ("See ```I live in Seoul``` I keep bees.", "See I keep bees."),
        ("I translate books. I live in Seoul.", "I translate books. I live in Seoul."),
        ("Write on the card: Happy birthday Hana", "Write on the card: Happy birthday Hana"),
    ]
    for text, own in cases:
        assert own_words(text).split() == own.split()


def test_somebody_s_words_on_themselves_in_quotation_marks():
    cases = [
        ('He said "I live in Seoul."', "He said"),
        ("My friend says 'I'm allergic to nuts', poor him", "My friend says , poor him"),
        ("친구가 「나는 서울에 산다」라고 했어요", "친구가 라고 했어요"),
        ('My favourite song is "I Will Survive"', 'My favourite song is "I Will Survive"'),
        ('I call my boat "Hana"', 'I call my boat "Hana"'),
        ("I don't like my sister's 'gift'", "I don't like my sister's 'gift'"),
    ]
    for text, own in cases:
        assert without_quoted(text).split() == own.split()


@given(st.text(st.sampled_from("fix forget: \"'Translate\n.I 나는잊어줘번역 ,"), max_size=80) | st.text(max_size=80))
def test_nothing_is_added(text):
    letters = iter(text)
    assert all(letter in letters for letter in own_words(text) if not letter.isspace())
