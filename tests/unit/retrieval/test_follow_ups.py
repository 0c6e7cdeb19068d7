"""Follow-up questions: which they are, and what they leave out."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import Message
from arc_common.text import analyze
from arc_common.text.languages.coreference import is_standalone, last_turns, topic_words

LEANING = """
How much does it cost?
What about Busan?
Why?
And the battery?
Can I get a refund for the second one?
How far is the station from there?
What did Anna say about it?
is that safe for children?
Which of those have a balcony?
Tell me more
What is the capital?
Price?
ok, and when do they open?
그건 얼마예요?
부산은요?
그럼 배송은 얼마나 걸려요?
얼마예요?
거기 주차 되나요?
그 회사 대표는 누구예요?
더 자세히 알려줘
이 제품 보증 기간은 얼마인가요?
네, 그런데 반품도 되나요?
두 번째 거는 어때요?
다른 색도 있나요?
他是谁？
那上海呢？
それはいくらですか？
じゃあ、大阪は？
"""
STANDALONE = """
Is it possible to return a camera?
How long does it take to fly to Seoul?
What time is it in Tokyo?
Does Samsung make its own chips?
What did Anna Kim do after she left Busan?
The book that I bought is damaged, what can I do?
Are there any trains to Busan?
Opening hours of the library
What is photosynthesis?
Who wrote Dune?
서울에서 부산까지 기차로 얼마나 걸려요?
환불 정책 알려주세요
광합성이 뭐예요?
이순신은 언제 태어났나요?
여름 휴가에 좋은 바닷가 추천해줘
北京的人口是多少？
東京タワーの高さは？
"""


def lines(text):
    return text.strip().splitlines()


def chat(*texts):
    return [Message("user" if i % 2 == 0 else "assistant", text) for i, text in enumerate(texts)]


@pytest.mark.parametrize("question", lines(LEANING))
def test_these_lean_on_the_conversation(question):
    """By a pronoun, an opening, or for want of words."""
    assert not is_standalone(question)


@pytest.mark.parametrize("question", lines(STANDALONE))
def test_these_stand_alone(question):
    """Though some have words that elsewhere point back."""
    assert is_standalone(question)


@pytest.mark.parametrize(
    ("question", "history", "expected"),
    [
        pytest.param(
            "How much does it cost?",
            ["Tell me about the Nova X2 camera", "The Nova X2 has 24 megapixels."],
            "Nova X2 camera",
            id="pronoun",
        ),
        pytest.param(
            "What about Busan?",
            ["What is the population of Seoul?", "It has 9.4 million people."],
            "population",
            id="another name takes a name's place",
        ),
        pytest.param(
            "And the iPhone 15?",
            ["How big is the battery of the iPhone 14?", "3,279 mAh."],
            "big battery",
            id="another number takes a number's place",
        ),
        pytest.param(
            "What's the address of the second one?",
            ["Which cities have offices?", "We have offices in Seoul and Busan."],
            "cities offices Seoul Busan",
            id="names in the answer",
        ),
        pytest.param(
            "why?",
            ["Can I wash the alpaca sweater at 60 degrees?", "No.", "What about 30?", "Yes, gently."],
            "wash alpaca sweater 60 degrees 30",
            id="a follow-up of a follow-up",
        ),
        pytest.param(
            "Is it waterproof?",
            ["Do you sell umbrellas?", "Yes.", "Tell me about the Nova X2 camera", "It is new."],
            "Nova X2 camera",
            id="not further back than the topic",
        ),
        pytest.param(
            "그건 얼마예요?",
            ["노바 X2 카메라에 대해 알려주세요", "노바 X2는 미러리스 카메라입니다."],
            "노바 X2 카메라에",
            id="Korean demonstrative",
        ),
        pytest.param("면적은요?", ["서울 인구는 얼마예요?", "많아요."], "서울 인구는", id="Korean ellipsis"),
        pytest.param(
            "그럼 반품은 어떻게 해요?",
            ["스마트워치를 어제 주문했어요", "네, 확인했습니다."],
            "스마트워치를 어제 주문했어요",
            id="Korean opening",
        ),
    ],
)
def test_topics_are_carried_over(question, history, expected):
    """As they were written, in their order."""
    assert " ".join(topic_words(question, chat(*history))) == expected


words = st.sampled_from(
    ["it", "camera", "Nova", "X2", "그건", "카메라는", "why?", "what about", "…", "the", "它", "60%", "\x00", "ß"]
)
texts = st.lists(words, max_size=8).map(" ".join) | st.text(max_size=30)
histories = st.lists(st.builds(Message, st.sampled_from(["user", "assistant", "tool", "system"]), texts), max_size=6)


@given(texts, histories, st.integers(1, 5))
def test_what_is_carried_over_was_said_and_is_new(question, history, most):
    """No word that the question has, none twice, no more than asked for."""
    carried = topic_words(question, history, max_words=most)
    assert len(carried) <= most
    assert len(set(carried)) == len(carried)
    for word in carried:
        assert any(word in message.text for message in history)
        assert not set(analyze(word)) <= set(analyze(question))


@given(histories, st.integers(0, 4))
def test_the_last_turns_begin_with_a_question(history, most):
    """At most so many questions, what was said around them, nothing of tools and systems."""
    said = last_turns(history, most)
    assert sum(message.role == "user" for message in said) <= most
    assert all(message.role in ("user", "assistant") for message in said)
    assert (
        said == [message for message in history if message in said and message.text.strip()][-len(said) :] or not said
    )


@pytest.mark.parametrize("text", ["it " * 100_000, "that" * 100_000, "그 " * 100_000, "A" * 300_000, " " * 300_000])
def test_giant_questions_take_no_time(text):
    """Only their beginning is read."""
    start = time.process_time()
    is_standalone(text)
    topic_words(text, chat(text, text))
    assert time.process_time() - start < 2
