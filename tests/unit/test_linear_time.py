"""Hostile texts are processed in linear time; a quadratic algorithm would take many times the limit."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from arc_common.documents import Document
from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.facts.fidelity import is_grounded
from arc_common.memory.long_term.contradictions import contradicts
from arc_common.memory.long_term.deduplication import folded, may_be_the_same
from arc_common.memory.own_words import own_words
from arc_common.messages import Message
from arc_common.prompts.context import parse_fences, render_passage
from arc_common.prompts.memories import without_memories
from arc_common.prompts.summary import SummaryFormatError, parse_summary
from arc_common.rag.chunking import Chunker
from arc_common.retrieval.query_transformers import is_standalone, topic_words
from arc_common.text.analyzer import analyze, analyze_query
from arc_common.text.sentences import seeks
from arc_common.text.thesaurus import alternatives
from arc_common.tokens.calibration import CalibratedTokenCounter


def _numbered(text: str) -> str:
    """Replace each pair of braces by a new number, so that no label occurs twice."""
    first, *others = text.split("{}")
    return first + "".join(f"{number}{other}" for number, other in enumerate(others))


def _summary(text: str) -> None:
    for start in ("", '{"narrative":"', '{"facts":['):
        with suppress(SummaryFormatError):
            parse_summary(start + text)


COUNTER = CalibratedTokenCounter()
READERS: dict[str, tuple[Callable[[str], Any], int, list[str]]] = {
    "own words": (
        lambda text: own_words(f"{text}x"),
        15_000,
        [
            "forget ",
            "please ",
            "Translate ",
            "번역",
            "'I a",
            '"I a',
            "「나는",
            "잊어줘 ",
            "Translate:\n",
            "fix the ",
            "delete ",
            "no ",
            "다음 ",
        ],
    ),
    "likeness": (
        lambda text: (folded(f"a{text}"), may_be_the_same(f"a{text}x", f"a{text}x0")),
        20_000,
        [" ", ". ", " .", "1,", "1-", "A ", "a'", "+", "가 ", "is of "],
    ),
    "grounding": (
        lambda text: is_grounded("Hana pays 12 for the kiln", text) or is_grounded("사용자는 부산에서 온다", text),
        50_000,
        ["1,", "a.", "A-", "한 ", "x@"],
    ),
    "questions": (seeks, 30_000, ["and ", "a?b", "please\n", "가나다 ", ", ", "un-", "그는 "]),
    "follow-ups": (
        lambda text: (is_standalone(text), topic_words(text, [Message("user", text), Message("assistant", text)])),
        150_000,
        ["it ", "that", "그 ", "A", " "],
    ),
    "facts": (
        lambda text: extract_facts([Message("user", text)]),
        15_000,
        ["1|", "a@", "A-", "If ", "“", "my x ", "never, ", "해요 ", "```", "(", "'I a", "forget "],
    ),
    "contradictions": (lambda text: contradicts(text, text[1:]), 2_000, ["가", "is in ", "moved to ", "User ", "a "]),
    "terms": (
        lambda text: (analyze(f"a{text}"), analyze_query(f"{text}s")),
        25_000,
        ["\u0301\u0323", "a", "1,234", "-'.", "가", "好", "a-", "\ufdfa", "'"],
    ),
    "thesaurus": (alternatives, 70_000, ["가나다라마바사", "x"]),
    "fences": (
        lambda text: parse_fences(_numbered(text)),
        100_000,
        ["<arc:x>\n", "<arc:x{}>\n", "<arc:", "\n</arc:x>", "<arc:x>\n</arc:x>", "<arc:x>\n\n</arc:x>"],
    ),
    "documents": (
        lambda text: render_passage(Document(f"a{text}a")),
        100_000,
        ["\n", "\n ", "\r\n", " ", "\u200b", "---\n\n", "[1", "[1]", "\n[source", "-"],
    ),
    "memories": (
        lambda text: (without_memories(f"[{text}x"), without_memories(f"- 2026-01-01, user: x{text}x")),
        50_000,
        ["\n", " \n", " ", "\t", "- 2026-01-01, user: ", "2026-01-01", "1", "[a", "> "],
    ),
    "summaries": (
        _summary,
        100_000,
        ["{", "[", '{"a":', '"', "\\", '{"a":[],', "[[],", "{}", '\\"', '[",', "{x}", "]", "{]"],
    ),
    "chunks": (
        Chunker(COUNTER).split,
        16_000,
        ["x", "word ", "한", "A sentence. ", "\n", "。", "```\n", "a\u0301", "- a\n"],
    ),
    "tokens": (COUNTER.count, 500_000, ["a", " ", "=", "한", "A1 b\n中"]),
}


@pytest.mark.parametrize("name", READERS)
def test_hostile_text_costs_linear_time(name: str) -> None:
    read, length, units = READERS[name]
    for unit in units:
        text = (unit * (length // len(unit) + 1))[:length]
        begin = time.thread_time()
        read(text)
        assert time.thread_time() - begin < 2, unit
