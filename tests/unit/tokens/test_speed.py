"""What an exact count costs, beside tiktoken's own loop."""

import time
from collections.abc import Callable

import pytest

from arc_common.tokens.counters import TiktokenCounter, local_encoding

TEXTS = [
    f"{text} {number}"
    for number in range(150)
    for text in (
        "Where is my order, and when will it be here? I paid 49.90 EUR on 3 March.",
        "주문한 물건이 아직 도착하지 않았어요. 언제쯤 받을 수 있을까요?",
        '{"order": {"id": "A-4711", "items": [{"sku": "b1", "count": 2}], "paid": true}}',
        "def total(items):\n    return sum(item.price * item.count for item in items)\n",
        "ok",
    )
]


def test_a_batch_costs_what_a_plain_loop_costs() -> None:
    """At most 1.15 times the processor time, in the best of rounds taken in turns."""
    encoding = local_encoding("o200k_base", None)
    if encoding is None:
        pytest.skip("no vocabulary on this machine")
    counter = TiktokenCounter("o200k_base")

    def loop() -> list[int]:
        return [len(encoding.encode_ordinary(text)) for text in TEXTS]

    assert counter.count_batch(TEXTS) == loop()
    rounds = [(spent(lambda: counter.count_batch(TEXTS)), spent(loop)) for _ in range(25)]
    ours, plain = (min(times) for times in zip(*rounds, strict=True))
    assert ours <= 1.15 * plain


def spent(work: Callable[[], object]) -> float:
    """Seconds of processor time, of all threads."""
    begin = time.process_time()
    work()
    return time.process_time() - begin
