"""What is rendered around a conversation can be read back, whatever stands in it."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common.prompts.context import MEMORY_HEADING, parse_fences, parse_memory, render_fence, render_memory

texts = st.text(st.sampled_from("ab :\n<>/arc:memory-Facts Summary"), max_size=60) | st.text(max_size=40)
lines = texts.map(lambda text: "- k: " + " ".join(text.split()))


@given(texts, texts, texts)
def test_a_fence_is_found_and_ends_where_it_ends(before: str, inside: str, after: str) -> None:
    """Markers inside it don't end it, and the text around it is left."""
    plain = before.replace("<", ""), after.replace("<", "")
    outside, blocks = parse_fences(f"{plain[0]}\n{render_fence('notes', inside)}\n{plain[1]}")
    assert [name for name, _ in blocks] == ["notes"]
    assert render_fence("notes", blocks[0][1]) == render_fence("notes", inside)
    assert outside == "\n\n".join(plain).strip()


@given(st.lists(lines, max_size=4), texts.map(str.strip))
def test_facts_and_summary_are_read_back(facts: list[str], narrative: str) -> None:
    """Each line and the summary, apart from markers in them, which stay defused."""
    rendered = render_memory(facts, narrative)
    if not rendered:
        assert parse_fences(rendered) == ("", [])
        return
    ((name, inside),) = parse_fences(rendered)[1]
    read_facts, read_narrative = parse_memory(inside)
    assert name == "memory"
    assert len(read_facts) == len(facts)
    assert render_memory(read_facts, read_narrative) == rendered


def test_another_text_is_no_memory() -> None:
    """Facts are read from arc's own block only."""
    assert parse_memory("x" * len(MEMORY_HEADING) + "\n\nFacts:\n- a: b") == ([], "")


FENCED = re.compile(r"<arc:(\w+)>\n(.*?)\n</arc:\1>", re.DOTALL)
markers = st.lists(
    st.sampled_from(["<arc:a>\n", "\n</arc:a>", "<arc:b>\n", "\n</arc:b>", "<arc:", "\n", "x"]), max_size=20
)


@given(markers.map("".join))
def test_markers_in_any_order(text: str) -> None:
    """A block goes from the first opening marker that is closed to the first closing one of its name."""
    assert parse_fences(text) == (FENCED.sub("", text).strip(), FENCED.findall(text))


@pytest.mark.parametrize(
    "unit", ["<arc:x>\n", "<arc:x{}>\n", "<arc:", "\n</arc:x>", "<arc:x>\n</arc:x>", "<arc:x>\n\n</arc:x>"]
)
def test_hostile_markers_are_read_in_linear_time(unit: str) -> None:
    """Ten times the markers take no more than some ten times as long: one message must not hold a process up."""

    def seconds(count: int) -> float:
        text = "".join(unit.format(n) for n in range(count))
        taken = []
        for _ in range(3):
            start = time.thread_time()
            parse_fences(text)
            taken.append(time.thread_time() - start)
        return min(taken)

    assert seconds(20_000) < 40 * seconds(2_000) + 0.05
