"""The display fits its console, says the same with and without colour, and shows every verdict."""

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from arc_common.cli.demo.display import Display
from arc_common.cli.demo.run import TurnRecord
from tests.arc_common.demo.halves import script

pytestmark = pytest.mark.xdist_group("demo run")  # with `test_run`, which needs the same run
LIMIT = 3_072


def shown(records: list[TurnRecord], width: int, *, encoding: str = "utf-8", colour: bool = False) -> str:
    stream = io.BytesIO()
    output = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
    console = Console(file=output, width=width, force_terminal=colour, color_system="standard" if colour else None)
    display = Display(console, script, limit=LIMIT)
    display.title([("file", "demo.db")])
    for record in records:
        if record.number in (1, script.handover + 1):
            display.half(record.framework, "goes on")
        display.turn(script.turns[record.number - 1], record)
    display.comparison(records)
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
    tokens = zip(*((record.arc.tokens, record.newest.tokens, record.whole) for record in records), strict=True)
    for side in tokens:
        assert f"{max(side):,}" in comparison
        assert f"{sum(side):,}" in comparison
    for turn, question in script.questions:
        if value := question.value_in(records[turn.number - 1].arc.answer):
            assert value in comparison
    for part in ("facts", "summary", "history"):
        assert f"{records[-1].arc.parts[part]:,}" in comparison
    asked = [(question, records[turn.number - 1]) for turn, question in script.questions]
    taken = [one for one in asked if one[1].whole <= LIMIT]
    for answered in (
        sum(question.value_in(record.arc.answer) is not None for question, record in asked),
        sum(question.value_in(record.newest.answer) is not None for question, record in asked),
        sum(question.value_in(record.whole_answer) is not None for question, record in taken),
    ):
        assert f"{answered} of {len(asked)}" in comparison


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
    assert text.isascii()


@pytest.mark.parametrize("width", [*range(64, 84), 100, 120])
def test_only_what_the_customer_says_is_shortened(records: list[TurnRecord], width: int) -> None:
    """Answers are wrapped and never cut, Korean ones neither."""
    cut = [line for line in shown(records, width).splitlines() if "…" in line]
    assert cut
    assert all(line[:3].strip().isdigit() for line in cut)


@pytest.mark.parametrize("width", [64, 80, 120])
def test_a_turn_shows_the_tokens_and_the_mark_of_each_way(records: list[TurnRecord], width: int) -> None:
    """A right answer is ticked; a wrong one, and a request that the model refuses, are crossed."""
    played = shown(records, width).split("in the end, and")[0].splitlines()
    lines = {int(line[:3]): line for line in played if line[:3].strip().isdigit()}
    for turn, record in zip(script.turns, records, strict=True):
        cells = []
        for answer, tokens in (
            (record.arc.answer, record.arc.tokens),
            (record.newest.answer, record.newest.tokens),
            (record.whole_answer, record.whole),
        ):
            is_wrong = turn.question is not None and turn.question.value_in(answer) is None
            cells.append(f"{tokens:,}{' ✗' if is_wrong or tokens > LIMIT else ' ✓' if turn.question else ''}")
        assert re.search(r"\s+".join(map(re.escape, cells)) + r"\s*$", lines[turn.number])


def test_the_map_tells_what_was_seen_from_what_was_only_quoted(records: list[TurnRecord]) -> None:
    """A cell is full where messages were shown, shaded where arc only quotes some, and a dot elsewhere."""
    last = records[-1]
    lines = shown(records, 120).splitlines()
    line = next(line for line in lines if line.startswith(" arc") and "█" in line)
    cells = line.split()[1]
    step = -(-(last.number - 1) // len(cells))
    for place, cell in enumerate(cells):
        turns = range(place * step + 1, min((place + 1) * step, last.number - 1) + 1)
        messages = {number for turn in turns for number in (2 * turn - 1, 2 * turn)}
        expected = "█" if messages & {*last.arc.seen} else "▒" if messages & {*last.arc.noted} else "·"
        assert cell == expected
    assert "▒" in cells
    whole = next(line for line in lines if line.startswith(" everything") and "·" in line)
    assert "none" in whole
    assert f"{last.whole:,}" in whole
    everything = [*records[:-1], replace(last, whole=LIMIT)]
    whole = next(line for line in shown(everything, 120).splitlines() if line.startswith(" everything") and "█" in line)
    assert "·" not in whole


@pytest.mark.parametrize("times", [4.0, 1.0, 0.5], ids=["more", "as much", "less"])
def test_the_cost_of_everything_is_told_as_it_was_measured(records: list[TurnRecord], times: float) -> None:
    """Also where sending everything costs less than arc."""
    scaled = [replace(record, whole=int(record.arc.tokens * times)) for record in records]
    assert f"for {times:.1f} times arc's tokens" in " ".join(shown(scaled, 120).split())
