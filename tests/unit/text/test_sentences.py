"""Splitting into sentences and clauses."""

import time

from hypothesis import given
from hypothesis import strategies as st

from arc_common.text.sentences import MAX_SENTENCE, clauses_of, rough_tokens, sentence_spans, sentences_of


def test_sentences_end_where_they_end() -> None:
    """Sentences are not split at abbreviations, initials and decimals."""
    cases = [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("See Dr. Okafor at 9:45 a.m. today. Then go.", ["See Dr. Okafor at 9:45 a.m. today.", "Then go."]),
        ("It is 3.5 kg. Done", ["It is 3.5 kg.", "Done"]),
        ("The code is 55-K. Next one", ["The code is 55-K.", "Next one"]),
        ("- milk\n+ eggs\n2) bread", ["milk", "eggs", "bread"]),
        ("1. Walk. 2. Rest at noon. 180. the hall", ["Walk.", "Rest at noon.", "180.", "the hall"]),
        ("One card\n\n**3. Storage:**\n## 4. Ports", ["One card", "**3. Storage:**", "4. Ports"]),
        ("Am 18. April. Im 3. Stock, am 3. einen Termin.", ["Am 18. April.", "Im 3. Stock, am 3. einen Termin."]),
        ("Wir kommen am 25. Wir freuen uns.", ["Wir kommen am 25.", "Wir freuen uns."]),
        ("25. April passt mir.", ["25. April passt mir."]),
        ("Ich will am 25. April da sein. 26. Mai?", ["Ich will am 25. April da sein.", "26. Mai?"]),
        (
            "I paid 40. Tag it. We will be 12. August is fine.",
            ["I paid 40.", "Tag it.", "We will be 12.", "August is fine."],
        ),
        ("I am 41. my knee hurts. I paid 30. We left.", ["I am 41.", "my knee hurts.", "I paid 30.", "We left."]),
        ("저는 서울에 살아요 동생은 부산에 있어요", ["저는 서울에 살아요", "동생은 부산에 있어요"]),
        (
            "이메일이 바뀌었어요 ann@b.example\n예약했어요 MS-4471",
            ["이메일이 바뀌었어요 ann@b.example", "예약했어요 MS-4471"],
        ),
        ("我叫李明。住在北京！好吗？", ["我叫李明。", "住在北京！", "好吗？"]),
        ("母は東京です。父は「元気だ。」と言った。", ["母は東京です。", "父は「元気だ。」", "と言った。"]),
        ("   \n \n", []),
    ]
    for text, expected in cases:
        assert sentences_of(text) == expected


@given(st.text(max_size=400))
def test_sentences_are_parts_of_the_text(text: str) -> None:
    """Each sentence occurs in the text, in order; only white space and list marks are lost."""
    place = 0
    for sentence in sentences_of(text):
        assert sentence.strip() == sentence != ""
        place = text.index(sentence, place) + len(sentence)
    letters = [character for character in text if character.isalpha()]
    kept = [character for sentence in sentences_of(text) for character in sentence if character.isalpha()]
    assert kept == letters


@given(st.text(alphabet="ab. \n-!한요。", max_size=200))
def test_spans_are_where_the_sentences_are(text: str) -> None:
    spans = sentence_spans(text)
    assert [place for span in spans for place in span] == sorted(place for span in spans for place in span)
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in spans)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert len(spans) >= len(sentences_of(text))


@given(st.text(alphabet="ab,;:—() ，、 한", max_size=200))
def test_clauses_are_spans_in_order(sentence: str) -> None:
    """Clauses don't overlap, are not empty, and don't begin or end with white space."""
    last = 0
    for start, end in clauses_of(sentence):
        assert last <= start < end <= len(sentence)
        assert sentence[start:end].strip() == sentence[start:end]
        last = end


def test_an_endless_sentence_is_cut() -> None:
    start = time.perf_counter()
    pieces = sentences_of("한" * 1_000_000) + sentences_of("word " * 200_000)
    assert max(map(len, pieces)) <= MAX_SENTENCE
    assert time.perf_counter() - start < 5


def test_rough_tokens_knows_wide_scripts() -> None:
    assert rough_tokens("배송지는 서울입니다") > rough_tokens("the place") > 0
