"""Detection of texts that seek information."""

import pytest

from arc_common.text.sentences import seeks


def test_looks_for_something() -> None:
    cases = [
        "What is my dog called?",
        "what's my dog called",
        "whats my dogs name",
        "Hi there! what time is my flight",
        "Ok, and when was the deadline",
        "don't we have a dog",
        "Is that so?",
        "and the budget?",
        "remind me of my hotel booking",
        "Tell me about my dog",
        "my booking number please",
        "Book the same hotel as last time",
        "summarize what we decided about the roof",
        "do the usual",
        "I'd like to know where we left off",
        "I forgot my order number",
        "I can't remember the code",
        "I moved to Busan. Which hotel was it",
        "내 강아지 이름 알려줘",
        "내 강아지 이름이 뭐였지",
        "비밀번호 까먹었어",
        "我的狗叫什么",
        "告诉我我的狗的名字",
        "犬の名前を教えて",
        "犬の名前は何ですか",
        "Quel est le nom de mon chien",
        "Dime el nombre de mi perro",
        "wie heißt mein Hund",
        "напомни номер заказа",
        "как зовут мою собаку",
        "in which city do I live",
        "get me the number",
        "the deadline was when",
        "you said something about insurance",
        "recap",
        "Dame el número",
        "donde nos vemos",
        "no recuerdo el nombre",
        "as-tu mon adresse",
        "donne-moi le numéro",
        "j'ai oublié le code",
        "habe ich eine Allergie",
        "gib mir die Nummer",
        "ich habe den Code vergessen",
        "в каком городе я живу",
        "не помню имя",
        "помнишь мою собаку",
        "가격은",
        "기억이 안 나",
        "벌써 예약했나",
        "预算来着",
        "总结一下",
        "行不行",
        "能否便宜一点",
        "住所を見せて",
        "犬の名前は",
        "名前が思い出せない",
    ]
    for text in cases:
        assert seeks(text)


def test_only_states_something() -> None:
    cases = [
        "",
        "I moved to Busan last week.",
        "My sister is called Mina.",
        "We decided on the red paint.",
        "It was fun when we went there.",
        "Wow, Melanie! Can't wait to see it.",
        "I have had a great day",
        "Thanks, that's all.",
        "I like it; really.",
        "https://a.example/c?d=e is my page",
        "저는 부산으로 이사했어요.",
        "네 감사합니다",
        "我住在上海。",
        "犬を飼っています。",
        "Das Haus ist rot.",
        "Vivo en Madrid.",
        "Он живет в Москве.",
        "I won't quit, no matter what.",
        "오늘 정말 좋았어요 ㅋㅋㅋ",
        "슬퍼요 ㅠㅠ",
        "어머니",
        "佐々木です。",
        "こんにちは",
        "どうもありがとう",
        "ＡＢＣ社です。",
        "邀请了朋友",
        "几乎没有人",
    ]
    for text in cases:
        assert not seeks(text)


@pytest.mark.parametrize("text", ["ما اسم كلبي", "मेरे कुत्ते का नाम", "ชื่อสุนัขของฉัน"])
def test_what_arc_has_no_rules_for_counts_as_looking(text: str) -> None:
    assert seeks(text)
