"""The heuristic counter keeps the rates of its four classes, exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.protocols import TokenCounter
from arc_common.tokens.counters import HeuristicTokenCounter

COUNTER = HeuristicTokenCounter()
ANY_TEXT = st.text(st.characters(), max_size=60) | st.text(
    st.sampled_from("aZ9é .,\n\0中한あア🎉☀ж\ud800（"), max_size=60
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("hello", 2, id="latin"),
        pytest.param("안녕하세요", 4, id="hangul"),
        pytest.param("🎉", 1, id="emoji"),
        pytest.param("☀✂", 2, id="emoji in the basic plane"),
        pytest.param("12345678", 2, id="digits"),
        pytest.param("éàüñ", 1, id="accented latin"),
        pytest.param("あいアイ日本", 4, id="kana and han"),
        pytest.param("𠀀𪜀㐀", 2, id="han extensions"),
        pytest.param("「。」", 2, id="cjk punctuation"),
        pytest.param("ＡＢ！", 2, id="full width"),
        pytest.param("при", 1, id="other script"),
        pytest.param("." * 12, 4, id="punctuation"),
        pytest.param(" \n\t\0" * 3, 4, id="white space and control characters"),
        pytest.param("hello 안녕 🎉!", 5, id="rounded up once: 15 + 16 + 12 + 12 twelfths"),
    ],
)
def test_rates(text: str, tokens: int) -> None:
    """Each class costs what it should, and the sum is rounded up once."""
    assert COUNTER.count(text) == tokens


@given(ANY_TEXT, ANY_TEXT)
def test_joining_costs_no_more_and_at_most_one_less(first: str, second: str) -> None:
    """Two texts joined cost what they cost apart, less at most the one rounding that is saved."""
    apart = COUNTER.count(first) + COUNTER.count(second)
    assert apart - 1 <= COUNTER.count(first + second) <= apart


@given(ANY_TEXT)
def test_each_character_counts_by_itself(text: str) -> None:
    """The order doesn't matter, and twelve times a text is a whole number of tokens on the ASCII path and the other."""
    assert COUNTER.count(text) == COUNTER.count("".join(sorted(text)))
    assert COUNTER.count(text * 12 + "é" * 12) == COUNTER.count(text * 12) + 3


@given(st.lists(ANY_TEXT, max_size=5))
def test_a_batch_is_its_texts(texts: list[str]) -> None:
    """A batch counts what its texts count."""
    assert COUNTER.count_batch(texts) == [COUNTER.count(text) for text in texts]


def test_it_is_a_token_counter() -> None:
    """It has the protocol's members and a versioned name."""
    assert isinstance(COUNTER, TokenCounter)
    assert COUNTER.name == "heuristic/1"
