"""The calibrated counter is close to a real tokenizer for every script and content, and learns from real counts."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arc_common.exceptions import InvalidInputError
from arc_common.protocols import TokenCounter
from arc_common.tokens.calibration import (
    COEFFICIENTS,
    CalibratedTokenCounter,
    Correcting,
    Correction,
    corrected,
    features,
)
from arc_common.tokens.counters import HeuristicTokenCounter, default_token_counter, local_encoding

COUNTER = CalibratedTokenCounter()
ANY_TEXT = st.text(st.characters(), max_size=80) | st.text(
    st.sampled_from("aAzZ9éß .,\n\t\0中國한あアжіыگ🎉👍🏽🇰\u200d☀\ud800（"), max_size=80
)

SAMPLES = {
    "English": "Please change the delivery address of my order to the office, and tell me when it will arrive. "
    "I would rather not wait until Monday if there is a faster way to do it.",
    "German": "Bitte ändern Sie die Lieferadresse meiner Bestellung und teilen Sie mir mit, wann das Paket ankommt. "
    "Wenn es eine schnellere Möglichkeit gibt, möchte ich nicht bis Montag warten.",
    "Spanish": "Por favor, cambie la dirección de entrega de mi pedido y dígame cuándo va a llegar. Si hay una forma "
    "más rápida de hacerlo, prefiero no esperar hasta el lunes.",
    "Polish": "Proszę zmienić adres dostawy mojego zamówienia i powiedzieć mi, kiedy przyjdzie. Jeśli jest szybszy "
    "sposób, wolałbym nie czekać do poniedziałku.",
    "Russian": "Пожалуйста, измените адрес доставки моего заказа и скажите, когда он придёт. Если есть более быстрый "
    "способ, я бы не хотел ждать до понедельника.",
    "Ukrainian": "Будь ласка, змініть адресу доставки мого замовлення і скажіть, коли воно прийде. Якщо є швидший "
    "спосіб, я не хотів би чекати до понеділка.",
    "Arabic": "من فضلك غيّر عنوان توصيل طلبي إلى المكتب وأخبرني متى سيصل. إذا كانت هناك طريقة أسرع فأنا أفضل ألا أنتظر "
    "حتى يوم الاثنين.",
    "Hebrew": "אנא שנו את כתובת המשלוח של ההזמנה שלי למשרד ואמרו לי מתי היא תגיע. אם יש דרך מהירה יותר, אני מעדיף לא "
    "לחכות עד יום שני.",
    "Greek": "Παρακαλώ αλλάξτε τη διεύθυνση παράδοσης της παραγγελίας μου και πείτε μου πότε θα φτάσει. Αν υπάρχει "
    "ταχύτερος τρόπος, προτιμώ να μην περιμένω μέχρι τη Δευτέρα.",
    "Hindi": "कृपया मेरे ऑर्डर का डिलीवरी पता बदलकर कार्यालय का कर दें और मुझे बताएं कि यह "
    "कब आएगा। अगर कोई तेज़ तरीका है तो मैं सोमवार तक इंतज़ार नहीं करना चाहूंगा।",
    "Thai": "กรุณาเปลี่ยนที่อยู่จัดส่งของคำสั่งซื้อของฉันเป็นที่ทำงาน และแจ้งให้ฉันทราบว่าจะมาถึงเมื่อไหร่ ถ้ามีวิธีที่เร็วกว่านี้ฉันไม่อยากรอจนถึงวันจันทร์",
    "Korean": "제 주문의 배송지를 사무실로 바꿔 주시고 언제 도착하는지 알려 주세요. "
    "더 빠른 방법이 있다면 월요일까지 기다리고 싶지 않습니다.",
    "Chinese": "请把我的订单的送货地址改成办公室，并告诉我什么时候能到。如果有更快的办法，我不想等到星期一。",
    "Traditional Chinese": "請把我的訂單的送貨地址改成辦公室，並告訴我什麼時候會到。"
    "如果有更快的辦法，我不想等到星期一。",
    "Japanese": "注文の配送先を会社に変更して、いつ届くか教えてください。"
    "もっと早い方法があるなら、月曜日まで待ちたくありません。",
    "JSON": '[{"id": 48213, "status": "shipped", "total": 129.95, "items": [{"sku": "AB-1029", "quantity": 2}], '
    '"address": {"street": "12 Main Street", "city": "London", "postcode": "SW1A 1AA"}, "gift": false}]',
    "Python": "def total(items: list[Item], *, tax: float = 0.2) -> float:\n    net = sum(item.price * item.quantity "
    "for item in items)\n    if net < 0:\n        raise ValueError(net)\n    return round(net * (1 + tax), 2)\n",
    "Markdown": "## Next steps\n\n1. **Check the order** in the portal.\n2. Change the address:\n   - open *Orders*\n"
    "   - press `Edit`\n\n| Item | Price |\n|------|-------|\n| Lamp | 12.50 |\n",
    "hex": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "uuid": "request 3f2b8c1e-7d94-4a51-9c0e-51b7d8f6a2c4 failed after c56a4180-65aa-42ec-a945-5fd21dec0538",
    "base64": "TG9yZW0gaXBzdW0gZG9sb3Igc2l0IGFtZXQsIGNvbnNlY3RldHVyIGFkaXBpc2NpbmcgZWxpdCwgc2VkIGRv",
    "emoji": "🎉🎊😀😂👍🏽👩‍💻🇰🇷🇩🇪❤️✅🚀🔥",
}


def test_a_single_text_is_near_a_real_tokenizer() -> None:
    """Even short texts of each script and kind are at most 30 % below o200k_base and 50 % above."""
    encoding = local_encoding("o200k_base", None)
    assert encoding is not None
    for name, text in SAMPLES.items():
        exact = len(encoding.encode_ordinary(text))
        assert 0.7 * exact <= COUNTER.count(text) <= 1.5 * exact, name


def test_all_scripts_together_are_within_a_tenth() -> None:
    encoding = local_encoding("o200k_base", None)
    assert encoding is not None
    exact = sum(len(encoding.encode_ordinary(text)) for text in SAMPLES.values())
    assert sum(COUNTER.count_batch(list(SAMPLES.values()))) == pytest.approx(exact, rel=0.1)


def test_every_coefficient_belongs_to_a_feature() -> None:
    """No coefficient remains of a removed feature."""
    seen = {name for text in [*SAMPLES.values(), "\tcoşkun ğ"] for name in features(text)}
    seen |= {name for code in range(0x80, 0x20000, 5) for name in features(f"{chr(code) * 3} {chr(code)}")}
    assert {name for name in COEFFICIENTS if not name.startswith("russian")} <= seen
    assert all(value > 0 for value in COEFFICIENTS.values())


@given(ANY_TEXT)
@example(" ")
def test_any_text_has_a_positive_count(text: str) -> None:
    """Surrogates, NUL and unassigned characters count like any others; only the empty text is 0."""
    assert (COUNTER.count(text) == 0) == (text == "")
    assert COUNTER.count(text) == CalibratedTokenCounter().count(text)


@given(ANY_TEXT, ANY_TEXT)
def test_joined_texts_cost_about_their_sum(first: str, second: str) -> None:
    """Joining merges runs and may change the language and kind of the text, but little else."""
    joined, apart = COUNTER.count(first + second), COUNTER.count(first) + COUNTER.count(second)
    assert 0.4 * apart - 4 <= joined <= 2.2 * apart + 4


@given(st.lists(ANY_TEXT, max_size=5))
def test_a_batch_is_its_texts(texts: list[str]) -> None:
    assert COUNTER.count_batch(texts) == [COUNTER.count(text) for text in texts]


@given(st.text(st.characters(max_codepoint=127), min_size=1, max_size=80))
def test_the_ascii_path_agrees_with_the_other(text: str) -> None:
    """One character of another script adds its own cost and changes no other feature."""
    plain, mixed = features(text), features(text + "ก")
    assert {name: mixed.get(name, 0) for name in plain} == pytest.approx(plain)
    assert mixed["thai_run"] == 1


@given(st.lists(st.one_of(ANY_TEXT, st.sampled_from([*SAMPLES.values(), "x", "ş ğ", "\r"])), min_size=1, max_size=30))
def test_a_text_is_counted_by_its_lines(lines: list[str]) -> None:
    """Cached lines add up to exactly the cost of the whole text's features."""
    text = "\n".join(lines)
    whole = sum(COEFFICIENTS.get(name, 0.0) * value for name, value in features(text).items())
    expected = max(1, math.ceil(round(whole, 6))) if text else 0
    assert COUNTER.count(text) == expected
    COUNTER.count_batch(lines)
    assert COUNTER.count(text) == expected


def test_a_million_of_one_character_are_many_tokens() -> None:
    """A degenerate text can't evade a budget: tokenizers merge at most some 128 characters."""
    for character in list(" \n\ta=1A中가é"):
        assert COUNTER.count(character * 1_000_000) >= 7_000


def test_it_is_the_default() -> None:
    """The engine's default needs no vocabulary and names itself."""
    counter = default_token_counter()
    assert isinstance(counter, TokenCounter)
    assert counter.name == "calibrated/2"


def test_no_character_counts_as_nothing() -> None:
    """Characters that the fit did not see have a weight, too: twenty of any are at least four tokens."""
    assert [hex(code) for code in range(0x80, 0x20000, 5) if COUNTER.count(chr(code) * 20) < 4] == []


def test_full_width_forms_and_digits_of_other_scripts_keep_the_error() -> None:
    """The real count exceeds the estimate by at most the stated error; the estimate is at most twice the real count."""
    cases = [
        "ＴＡＮＡＫＡ　ＴＡＲＯ　ＴＥＬ　０３－１２３４－５６７８　",
        "ご注文番号はＡＢＣ１２３４です。ＵＲＬはこちら。",
        "ﾃﾞｰﾀをﾀﾞｳﾝﾛｰﾄﾞ ",
        "١٢٣٤ ",
        "२०२६ ๓๑ ௧௨ ",
    ]
    for text in cases:
        encoding = local_encoding("o200k_base", None)
        assert encoding is not None
        exact = len(encoding.encode_ordinary(text * 20))
        assert exact / (1 + COUNTER.relative_error) <= COUNTER.count(text * 20) <= 2 * exact


def test_terse_text_keeps_the_error() -> None:
    """For digits, punctuation, white space and single letters, too, the real count is within the stated error."""
    cases = [
        "1,0,3,7,2,9,14,4,1,0,25,8\n",
        "[0.4821, -0.1093, 0.7714, -0.9],\n",
        "+82-10-4821-3391\n",
        "  - id: 12\n    on: true\n    v: [1, 36]\n",
        '<r i="1"><a>12</a><b/></r>',
        r"^(?:[A-Z0-9._%+-]{1,9})@(?:\w+\.)+[a-z]{2,}$|(?<=\d)(?=(\d{3})+\b) ",
        "ㅋㅋㅋㅋ ㅇㅇ 헐 ㄴㄴ ㅠㅠ ㅇㅋ 머해 ",
        "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם ",
    ]
    for text in cases:
        encoding = local_encoding("o200k_base", None)
        assert encoding is not None
        assert len(encoding.encode_ordinary(text * 20)) <= (1 + COUNTER.relative_error) * COUNTER.count(text * 20)


def test_counts_never_change_and_the_factor_only_when_adopted() -> None:
    """Observing changes nothing; adopting changes the correction but no count."""
    counter = CalibratedTokenCounter()
    before = counter.count("a stored message")
    counter.observe(10_000, 13_000)
    assert counter.correction == Correction(0, 1.0)
    assert corrected(counter, 1_000) == 1_000
    assert counter.adopt_correction() == counter.correction == Correction(1, 1.25)
    assert corrected(counter, 1_000) == 1_250
    assert counter.count("a stored message") == before


def test_the_version_tells_whether_the_factor_changed() -> None:
    usage = CalibratedTokenCounter()
    assert usage.adopt_correction() == Correction(0, 1.0)
    usage.observe(8_000, 10_000)
    assert usage.adopt_correction() is usage.adopt_correction()
    usage.observe(8_000, 6_000)
    assert usage.adopt_correction() == Correction(2, 1.0)


def test_one_short_request_moves_little() -> None:
    usage = CalibratedTokenCounter()
    usage.observe(100, 200)
    assert usage.adopt_correction().factor == pytest.approx(1.048)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=8))
def test_the_factor_stays_within_its_bounds(pairs: list[tuple[int, int]]) -> None:
    usage = CalibratedTokenCounter()
    for estimated, reported in pairs:
        usage.observe(estimated, reported)
    assert 0.5 <= usage.adopt_correction().factor <= 2


@pytest.mark.parametrize("pair", [(5_000, 0), (0, 5_000)], ids=["nothing reported", "nothing estimated"])
def test_a_zero_says_nothing(pair: tuple[int, int]) -> None:
    """A report of 0, or an empty request, is ignored."""
    usage = CalibratedTokenCounter()
    usage.observe(*pair)
    assert usage.adopt_correction() == Correction()


def test_bad_figures_are_refused() -> None:
    """An invalid count is rejected by name, and nothing is learned."""
    for value in [-1, 1.5, None, True]:
        usage = CalibratedTokenCounter()
        with pytest.raises(InvalidInputError, match="reported_tokens"):
            usage.observe(10_000, value)  # type: ignore[arg-type]  # that is the test
        assert usage.adopt_correction() == Correction()


def test_corrected_rounds_up_and_leaves_other_counters_alone() -> None:
    """Sums are rounded up (exact products stay); a counter without a correction has factor 1."""
    counter = CalibratedTokenCounter()
    counter.observe(8_000, 9_000)
    assert counter.adopt_correction().factor == 1.1
    assert corrected(counter, 10) == 11
    assert corrected(counter, 11) == 13
    assert corrected(counter, 0) == 0
    assert corrected(HeuristicTokenCounter(), 7) == 7


def test_threads_lose_no_observation() -> None:
    usage = CalibratedTokenCounter()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(800):
            pool.submit(usage.observe, 10, 15)
    assert usage.adopt_correction().factor == round((2_000 + 12_000) / (2_000 + 8_000), 3)


def test_the_calibrated_counter_is_correcting() -> None:
    assert isinstance(CalibratedTokenCounter(), Correcting)
    assert not isinstance(HeuristicTokenCounter(), Correcting)
