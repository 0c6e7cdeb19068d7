"""The display fits its console, says the same with and without colour, and shows every verdict."""

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from arc_common.demo.display import Display
from arc_common.demo.run import DemoRun, TurnRecord
from arc_common.demo.script import support_script
from arc_common.testing import ScriptedChatModel
from tests.arc_common.demo.halves import FIRST, SECOND

script = support_script()
pytestmark = pytest.mark.xdist_group("demo display")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[TurnRecord]:
    run = DemoRun(
        f"sqlite:///{tmp_path_factory.mktemp('demo')}/demo.db", script, [FIRST, SECOND], ScriptedChatModel(), "local"
    )
    played = list(run.play())
    run.close()
    return played


def shown(records: list[TurnRecord], width: int, *, encoding: str = "utf-8", colour: bool = False) -> str:
    stream = io.BytesIO()
    output = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
    console = Console(file=output, width=width, force_terminal=colour, color_system="standard" if colour else None)
    display = Display(console, script, full_bar=1_800)
    display.title([("file", "demo.db")])
    for record in records:
        if record.number in (1, script.handover + 1):
            display.half(record.framework, "goes on")
        display.turn(script.turns[record.number - 1], record)
    display.comparison(records, context_window=4_096)
    output.flush()
    return stream.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [40, 63, 64, 80, 99, 100, 120, 200])
def test_no_line_is_wider_than_the_console(records: list[TurnRecord], width: int) -> None:
    """Korean letters take two cells each."""
    assert max(map(cell_len, shown(records, width).splitlines())) <= width


@pytest.mark.parametrize("width", [40, 64, 80, 120])
def test_every_number_is_whole_at_any_width(records: list[TurnRecord], width: int) -> None:
    """Tokens, verdicts and the values that arc kept are never cut off."""
    text = shown(records, width)
    comparison = text.split("in the end")[-1]
    for record in records:
        assert f"{record.arc.tokens:,}" in text
    for side in ([record.arc.tokens for record in records], [record.whole for record in records]):
        assert f"{max(side):,}" in comparison
        assert f"{sum(side):,}" in comparison
    for turn, question in script.questions:
        value = question.value_in(records[turn.number - 1].arc.answer)
        assert value is not None
        assert value in comparison
    for part in ("facts", "summary", "history"):
        assert f"{records[-1].arc.parts[part]:,}" in comparison
    assert "9 of 9" in text
    assert "1 of 9" in text


def test_it_needs_no_colour(records: list[TurnRecord]) -> None:
    """Without colour there are no control characters, and the words are the same."""
    plain, coloured = shown(records, 100), shown(records, 100, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[" in coloured


def test_it_needs_no_unicode(records: list[TurnRecord]) -> None:
    """Where the output can't show block characters, only the conversation's own letters are replaced."""
    text = shown(records, 80, encoding="ascii")
    assert "+ 1,284,000" in text
    assert "x " in text
    assert "9 of 9" in text
    assert text.isascii()


@pytest.mark.parametrize("width", [*range(64, 84), 100, 120])
def test_only_what_the_customer_says_is_shortened(records: list[TurnRecord], width: int) -> None:
    """Answers are wrapped and never cut, Korean ones neither."""
    cut = [line for line in shown(records, width).splitlines() if "…" in line]
    assert cut
    assert all(line[:3].strip().isdigit() for line in cut)


@pytest.mark.parametrize("width", [64, 80, 120])
def test_a_turn_shows_the_tokens_of_its_parts(records: list[TurnRecord], width: int) -> None:
    """Facts, summary, messages and the whole request, each as it was measured."""
    lines = {int(line[:3]): line for line in shown(records, width).splitlines() if line[:3].strip().isdigit()}
    for record in records:
        if script.turns[record.number - 1].question is None:
            parts = record.arc.parts
            numbers = [f"{n:,}" if n else "-" for n in (parts["facts"], parts["summary"], parts["history"])]
            assert re.search(r" +".join([*numbers, f"{record.arc.tokens:,}"]), lines[record.number])


def test_the_map_tells_what_was_seen_from_what_was_only_quoted(records: list[TurnRecord]) -> None:
    """A cell is full where messages were shown, shaded where facts or summary quote them, and a dot elsewhere."""
    last = records[-1]
    line = next(line for line in shown(records, 120).splitlines() if line.startswith(" arc") and "█" in line)
    cells = line.split()[1]
    assert len(cells) == last.number - 1
    for turn, cell in enumerate(cells, 1):
        messages = {2 * turn - 1, 2 * turn}
        expected = "█" if messages & {*last.arc.seen} else "▒" if messages & {*last.arc.noted} else "·"
        assert cell == expected
    assert "▒" in cells
    bare = [*records[:-1], replace(last, arc=replace(last.arc, noted=()))]
    assert "▒" not in shown(bare, 120)


@pytest.mark.parametrize(
    ("whole", "words"),
    [(2.0, "50 % less than sending everything"), (1.0, "as much as sending"), (0.5, "100 % more than sending")],
    ids=["less", "equal", "more"],
)
def test_the_cost_is_told_as_it_was_measured(records: list[TurnRecord], whole: float, words: str) -> None:
    """Also where arc costs more than what stands beside it."""
    scaled = [replace(record, whole=int(record.arc.tokens * whole)) for record in records]
    said = " ".join(shown(scaled, 120).split())
    assert words in said
    ratio = sum(record.arc.tokens for record in records) / sum(record.window.tokens for record in records)
    assert f"cost {ratio:.1f} times the window's tokens" in said
