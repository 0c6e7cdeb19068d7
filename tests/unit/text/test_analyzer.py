"""The analyzer: matches in all scripts, and their cost."""

import itertools
import json
import re
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arc_common.text import analyze, analyze_query, analyzer, han_characters, is_general, query_words

anything = st.text(st.characters(), max_size=200)
words = st.text(st.characters(categories=["Ll", "Lu", "Lo", "Nd"]), min_size=1, max_size=12)


marks = st.text(st.sampled_from("nNtTsSdé'’-./@,_1٣가茶の "), max_size=12)


@example("N'T")
@given(anything | marks)
def test_any_text_gives_the_same_terms_again(text):
    terms = analyze(text)
    assert terms == analyze(text)
    for term in terms:
        assert 0 < len(term) <= 64
        assert not any(map(str.isspace, term))


@given(st.lists(words.filter(lambda word: len(word) > 1 and not re.search("[Ạ-ỹƠơƯư]", word)), max_size=8))
def test_words_are_analysed_each_for_itself(given_words):
    """A text's terms are those of its words in order, so that added text never changes them, except in Vietnamese."""
    assert analyze(" ".join(given_words)) == [term for word in given_words for term in analyze(word)]


@given(st.lists(st.sampled_from(["茶", "井", "龙，", "(の", "ก", "。", "tea", "龙井", "차", "-", "3"]), max_size=8))
def test_characters_that_stand_alone_come_in_pairs_too(given_words):
    pairs, before = [], ""
    for terms in filter(None, map(analyze, given_words)):
        alone = terms[0] if len(terms) == 1 and terms[0] in {"茶", "井", "龙", "の", "ก"} else ""
        pairs += [before + alone] if before and alone else []
        before = alone
    together = analyze(" ".join(given_words))
    assert sorted(together) == sorted([*pairs, *(term for word in given_words for term in analyze(word))])
    assert analyze("\u3000".join(given_words)) == together


def test_a_query_of_single_characters_finds_the_word():
    for query in ["龙 井 茶", "龙、井、茶", "龙　井　茶？", "「龙」「井」「茶」", "龙-井 茶"]:
        asked = analyze_query(query)
        assert {"龙井", "井茶"} & set(asked) & set(analyze("西湖的龙井茶很有名"))
        assert set(analyze("龙井茶")) & set(analyze(query))
        assert analyze_query(query, drop_stop_words=False) == analyze(query)


def test_han_characters_are_those_of_the_text():
    assert han_characters("東京の茶、⽕曜 and 한글 tea") == ["東", "京", "茶", "火", "曜"]
    assert han_characters("tea") == []


def remembered():
    """Return the words that the analyzer's caches hold."""
    return {key for held in vars(analyzer).values() if isinstance(held, dict) for key in held if isinstance(key, str)}


def test_ordinary_words_alone_are_remembered():
    """No code, address or long number is cached, and caching does not change terms."""
    secrets = ["ord-77314", "lena@postbox.example", "010-5550-7788", "1,284,000.00", "a" * 40]
    secrets += ["hunter2hunter", "k7xq2", "12-34"]
    text = " ".join(["an ordinary well-known house, isn't it? 1,240 - $37.6 in the 1970s", *secrets])
    first = analyze(text)
    assert {"house,", "isn't", "1,240", "$37.6", "well-known", "-", "1970s"} <= remembered()
    assert not remembered() & set(secrets)
    assert analyze(text) == first == analyze(text.upper())


@pytest.mark.torture
def test_the_words_remembered_are_bounded():
    many = " ".join("".join(letters) for letters in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=3))
    for prefix in "qrst":
        analyze(" ".join(prefix + word for word in many.split()))
    assert 1 << 15 <= len(remembered()) <= 1 << 17


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_normal_forms_are_the_same_text(text):
    """Composed, decomposed and compatibility forms give the same terms."""
    assert analyze(unicodedata.normalize("NFC", text)) == analyze(unicodedata.normalize("NFD", text))
    assert analyze(unicodedata.normalize("NFKC", text)) == analyze(text)


@given(st.text(st.characters(max_codepoint=0x24F, categories=["Ll", "Lu", "Zs"], exclude_characters="ŉ"), max_size=40))
def test_case_does_not_matter(text):
    assert analyze(text.casefold()) == analyze(text)


@given(anything)
def test_a_query_asks_for_nothing_that_its_text_would_not_have(text):
    """A query's terms are among the text's, unless a dropped word stood between two characters."""
    if not any(0x3040 <= ord(c) <= 0x9FFF for c in unicodedata.normalize("NFKC", text)):
        assert set(analyze_query(text)) <= set(analyze(text))
    assert analyze_query(text, drop_stop_words=False) == analyze(text)
    assert bool(analyze_query(text)) == bool(analyze(text))


def test_what_means_the_same_matches():
    cases = [
        ("The order is ORD-7731.", "7731"),
        ("The order is ORD-7731.", "ord7731"),
        ("The order is ORD7731", "ORD-7731?"),
        ("it cost $1,240", "1240"),
        ("es kostet 1.240 Euro", "1240"),
        ("it cost 1,240.00 in all", "1240"),
        ("the gap is 87cm wide", "87 cm"),
        ("call 010-5550-7788", "01055507788"),
        ("version 3.11.7 of it", "3.11.7"),
        ("write to lena.fischer@postbox.example", "fischer"),
        ("see https://shop.example.com/items/7719", "items 7719"),
        ("e-mail me", "email"),
        ("the children grew", "child growing"),
        ("the user lives in Seoul", "live"),
        ("she leaves at nine", "leave"),
        ("orders were cancelled", "cancelling orders"),
        ("Björn's café", "bjorn cafe"),
        ("Ｆｕｌｌ　Ｗｉｄｔｈ", "full width"),
        ("主人公は東京に住む", "東京"),
        ("北京全聚德的电话", "全聚德"),
        ("주문번호는 A20-55731이고", "주문번호"),
        ("книги на столе", "книгами"),
        ("हिन्दी में किताबें", "किताब"),
        ("٣٤ كتاب", "34"),
        ("ภาษาไทย", "ภาษา"),
    ]
    for text, query in cases:
        assert set(analyze(query)) <= set(analyze(text))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_vietnamese_tones_tell_words_apart_and_may_be_left_out(form):
    """A query with tones has a term that only the same word has; one without tones finds all."""
    soup, town = (unicodedata.normalize(form, text) for text in ("Tôi ăn phở bò", "Một góc phố cổ ở Hà Nội"))
    with_tones, without = set(analyze_query("phở")), set(analyze_query("pho bo"))
    assert with_tones <= set(analyze(soup))
    assert not with_tones <= set(analyze(town))
    assert without <= set(analyze(soup))
    assert set(analyze_query("duong")) <= set(analyze("đi đường Hà Nội ở Việt Nam"))


def test_accents_of_other_languages_stay_folded():
    assert analyze("café São Paulo mañana") == analyze("cafe Sao Paulo manana")


def test_what_differs_stays_apart():
    cases = [
        ("ORD-7731", "ORD-7732"),
        ("3.14", "314"),
        ("0.125", "0125"),
        ("café", "cave"),
        ("東京", "京都"),
        ("강", "강물"),
    ]
    for one, other in cases:
        assert set(analyze(one)) != set(analyze(other))


def test_a_korean_word_of_one_syllable_finds_longer_ones_but_itself_better():
    """It shares a term with all words that begin with it, since verbs are inflected, and has one of its own."""
    assert set(analyze("좋")) & set(analyze("재즈가 좋더라"))
    assert set(analyze("강")) & set(analyze("강물을"))
    assert set(analyze("강")) <= set(analyze("저 강 너머"))
    assert not set(analyze("강")) <= set(analyze("강물을"))


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("What is the order number?", ["order", "number"]),
        ("주문번호가 뭐예요?", ["주", "주문", "문번", "번호"]),
        ("세탁하는 데 뭐가 필요해요?", ["세", "세탁", "탁하", "필", "필요", "요해", "해요"]),
        ("电话是什么？", ["电话"]),
        ("東京はどこですか", ["東京"]),
        ("Who is it?", ["who", "is", "it"]),
    ],
    ids=["english", "korean", "bound-noun", "chinese", "japanese", "nothing-else"],
)
def test_question_words_leave_queries(query, kept):
    assert analyze_query(query) == kept


def test_stems_stay_what_stored_indexes_hold():
    """A release of Snowball that stems otherwise would leave stored messages unfound."""
    texts = "generously παιδιών книгами लड़कियों பாடங்கள்"
    assert analyze(texts) == ["generous", "πα", "книг", "लड़क", "பாடம்"]
    assert {"wohnungen", "wohnung"} < set(analyze("die wohnungen sind nicht mit der heizung"))


def test_threads_agree():
    """Each thread has its own stemmer, which stores the current word."""
    texts = [" ".join(f"configur{chr(97 + i % 26)}{chr(97 + j % 26)}ings" for j in range(50)) for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(analyze, texts))
    code = "import json, sys; from arc_common.text import analyze; print(json.dumps(analyze(json.load(sys.stdin))))"
    for text, terms in list(zip(texts, together, strict=True))[:2]:
        alone = subprocess.run(
            [sys.executable, "-c", code], input=json.dumps(text), check=True, capture_output=True, text=True
        )
        assert json.loads(alone.stdout) == terms


def test_the_words_of_a_query_are_what_it_asks_for():
    assert query_words("Where's the Blue-Lantern, please? 그 등대는 어디 있나요? 在哪里") == ["blue-lantern", "등대는"]
    assert query_words("") == query_words("where is it?") == []


def test_general_nouns_name_nothing():
    assert all(map(is_general, ["", "What is it?", "What does the place have to be?", "Who are these people?"]))
    assert not any(map(is_general, ["Which place serves ramen?", "고향이 어디야?", "那个地方在哪里", "ORD-7731"]))
