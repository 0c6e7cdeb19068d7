"""Requests that the default counter fills to a limit stay within it, by a real vocabulary, in 1,000 mixed cases."""

import inspect
import json
import random
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import pytest

from arc_common import ContextEngine, Document, TokenBudget
from arc_common.engine.session import Session
from arc_common.messages import Message, Role
from arc_common.rag import ContextBuilder
from arc_common.settings import ArcSettings
from arc_common.tokens import budget, selection
from arc_common.tokens.budget import usable_tokens
from arc_common.tokens.calibration import CalibratedTokenCounter
from arc_common.tokens.counters import HeuristicTokenCounter, TiktokenCounter

LANGUAGES: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "support/data/languages.json").read_text())[
    "texts"
]
REQUEST, MESSAGE = 3, 4
"""Tokens that OpenAI adds to each request and to each message."""


EXACT = TiktokenCounter("o200k_base")


def texts_by_kind(rng: random.Random) -> dict[str, list[str]]:
    """Return texts of 60 languages, composed and decomposed, short messages, code, JSON, emoji and identifiers."""
    code = [inspect.getsource(module) for module in (budget, selection)]
    faces = "😀😂😅🙏👍🏽❤️🔥✅🎉🚀👩‍💻🇰🇷🇩🇪☀️🤔😭💡📦🧾"
    generated = {
        "code": [text[i : i + 700] for text in code for i in range(0, len(text), 700)],
        "json": [
            json.dumps({"id": rng.randint(1, 10**6), "sku": f"A{rng.randint(10, 99)}", "total": rng.random()})
            for _ in range(40)
        ],
        "emoji": ["".join(rng.choices(faces, k=12)) for _ in range(40)],
        "hexadecimal": [rng.randbytes(24).hex() for _ in range(40)],
        "short Japanese": [
            "はい。",
            "了解です！",
            "ありがとうございます。",
            "今どこ？",
            "明日行きます。",
            "大丈夫です",
        ],
        "short Korean": ["네", "알겠습니다.", "지금 어디야?", "고마워요!", "내일 봐요 ㅋㅋㅋ", "괜찮아요"],
        "short Turkish": ["Teşekkürler!", "Görüşürüz.", "Nasılsın?", "Siparişim nerede?", "Çok güzel, sağ ol."],
        "short Vietnamese": ["Cảm ơn bạn!", "Đơn hàng của tôi ở đâu?", "Hẹn gặp lại.", "Được rồi ạ."],
    }
    decomposed = {
        f"{name} decomposed": [unicodedata.normalize("NFD", text) for text in texts]
        for name, texts in LANGUAGES.items()
    }
    return {**LANGUAGES, **decomposed, **generated}


def requests(number: int, seed: int) -> list[tuple[int, list[Message]]]:
    """Return limits from 500 to 16,000 tokens, each with a longer conversation of one to five kinds of text."""
    rng = random.Random(seed)
    kinds = texts_by_kind(rng)
    made: list[tuple[int, list[Message]]] = []
    for _ in range(number):
        limit = int(500 * 32 ** rng.random())
        chosen = rng.choices(sorted(kinds), k=rng.randint(1, 5))
        said: list[Message] = []
        size = 0
        while size < 1.3 * limit:
            text = " ".join(rng.choices(kinds[rng.choice(chosen)], k=rng.choice((1, 1, 2, 4))))
            said.append(Message(Role.ASSISTANT if len(said) % 2 else Role.USER, text))
            size += EXACT.count(text) + MESSAGE
        made.append((limit, [*said[: len(said) // 2 * 2], Message(Role.USER, "And now?")]))
    return made


def real_tokens(messages: Sequence[Message]) -> int:
    """Count a request's tokens with the vocabulary."""
    return REQUEST + sum(MESSAGE + EXACT.count(message.text) for message in messages)


@pytest.mark.parametrize("number", [200, pytest.param(1_000, marks=pytest.mark.torture)])
def test_at_most_one_of_a_thousand_requests_exceeds_its_limit(number: int) -> None:
    settings = ArcSettings(conversation={"max_turns": 1_000_000})
    with ContextEngine.open(settings=settings) as engine:
        session = engine.session(None)
        shares = []
        for limit, said in requests(number, seed=14):
            made = session.context(history=said, budget=TokenBudget(limit, 0))
            receipt = made.receipt
            assert receipt.input_tokens == limit
            assert made.total_tokens <= limit - receipt.error_reserve
            assert sum(section.tokens for section in made.sections) == made.total_tokens
            shares.append(real_tokens(made.messages) / limit)
    assert sum(share > 1 for share in shares) <= number // 1_000
    assert median(shares) >= 0.75


@pytest.mark.parametrize(
    "fill",
    [
        pytest.param(lambda engine, said, limit: stored(engine, said).window(max_tokens=limit), id="view"),
        pytest.param(
            lambda engine, said, limit: stored(engine, said).window(max_tokens=limit, include_summary=False), id="log"
        ),
        pytest.param(lambda engine, said, limit: packed(engine, said, limit - MESSAGE), id="documents"),
    ],
)
def test_whatever_fills_a_limit_keeps_the_error_free(
    fill: Callable[[ContextEngine, list[Message], int], list[Message]],
) -> None:
    """Views and documents stay within the usable tokens, as requests do.

    The test above compares counts with real tokens. Documents in several languages are counted as one text, which
    gives up to a fifth fewer tokens than separate counts.
    """
    shares = []
    for limit, said in requests(12, seed=7):
        with ContextEngine.open() as engine:
            counter = engine.token_counter
            shown = fill(engine, said, limit)
            counted = sum(counter.count(message.text) + MESSAGE for message in shown)
            assert counted <= usable_tokens(limit, counter) < limit
            shares.append(counted / limit)
    assert median(shares) >= 0.75


def stored(engine: ContextEngine, said: list[Message]) -> Session:
    """Return a session with these messages."""
    session = engine.session("s")
    session.append(said)
    return session


def packed(engine: ContextEngine, said: list[Message], limit: int) -> list[Message]:
    """Return a message with the texts as documents."""
    documents = [Document(message.text) for message in said]
    packed = ContextBuilder(engine.token_counter, max_tokens=limit).build(documents)
    return [Message(Role.USER, packed.context)]


def test_an_exact_counter_has_all_of_a_limit() -> None:
    """Only a counter that states its error keeps tokens free; an exact counter and a plain heuristic don't."""
    assert usable_tokens(1_000, EXACT) == usable_tokens(1_000, HeuristicTokenCounter()) == 1_000
    assert usable_tokens(1_000, CalibratedTokenCounter()) < 900
    with ContextEngine.open(token_counter=EXACT) as engine:
        made = engine.session(None).context("hello", budget=TokenBudget(1_000, 0))
        assert (made.receipt.input_tokens, made.receipt.error_reserve) == (1_000, 0)


def test_decomposed_text_is_counted_as_it_is_sent() -> None:
    """Decomposed text has up to twice the tokens of composed text; it is counted as such and sent unchanged."""
    for name in ("vi", "cs", "tr", "el"):
        text = unicodedata.normalize("NFD", " ".join(LANGUAGES[name]))
        assert EXACT.count(text) <= 1.13 * CalibratedTokenCounter().count(text)
