"""Hostile texts are read in linear time: a quadratic reading of so many characters takes minutes."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from arc_common.memory.facts.fidelity import is_grounded
from arc_common.memory.long_term.deduplication import folded, may_be_the_same
from arc_common.memory.own_words import own_words
from arc_common.text.sentences import seeks

READERS: dict[str, tuple[Callable[[str], Any], int, str]] = {
    "own words": (
        lambda text: own_words(f"{text}x"),
        30_000,
        "forget |please |Translate |번역|'I a|\"I a|「나는|잊어줘 |Translate:\n|fix the |delete |no |다음 ",
    ),
    "likeness": (
        lambda text: (folded(f"a{text}"), may_be_the_same(f"a{text}x", f"a{text}x0")),
        40_000,
        " |. | .|1,|1-|A |a'|+|가 |is of ",
    ),
    "grounding": (
        lambda text: is_grounded("Hana pays 12 for the kiln", text) or is_grounded("사용자는 부산에서 온다", text),
        100_000,
        "1,|a.|A-|한 |x@",
    ),
    "questions": (seeks, 60_000, "and |a?b|please\n|가나다 |, |un-|그는 "),
}


@pytest.mark.parametrize("name", READERS)
def test_hostile_text_costs_linear_time(name: str) -> None:
    read, length, units = READERS[name]
    for unit in units.split("|"):
        text = (unit * (length // len(unit) + 1))[:length]
        begin = time.thread_time()
        read(text)
        assert time.thread_time() - begin < 3, unit
