"""The display fits its console, says the same with and without colour, and shows every verdict."""

import io
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
    display.title([("file", "demo.db"), ("bars", display.legend())])
    for record in records:
        if record.number in (1, script.handover + 1):
            display.half(record.framework, "goes on")
        display.turn(script.turns[record.number - 1], record)
    display.comparison(records, budget=7_168)
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
    for turn, question in script.questions:
        value = question.value_in(records[turn.number - 1].arc.answer)
        assert value is not None
        assert value in comparison
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


def test_it_says_when_nothing_had_to_be_left_out(records: list[TurnRecord]) -> None:
    """A budget that never bound is no achievement: the comparison says that all of it was sent and paid for."""
    said = "left nothing out, and paid for all of it"
    assert said in " ".join(shown(records, 120).split())
    last = records[-1]
    shorter = [*records[:-1], replace(last, arc=replace(last.arc, seen=last.arc.seen[1:]))]
    assert said not in " ".join(shown(shorter, 120).split())
