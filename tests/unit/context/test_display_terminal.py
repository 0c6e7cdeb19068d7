"""A window on a terminal: everything is there, nothing is obeyed, nothing is wider than the screen."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from arc_common.context import ContextWindow, LeftOut, Omission, Receipt, Section, receipt_of
from arc_common.context.display import LOOKS, render_terminal, visible
from tests.support.context_windows import CONTROLS, MARKUP, SCRIPTS, TITLES, window_of, window_saying

SENT_BY_RICH = re.compile(r"\x1b\[[0-9;]*m")


def printed(window, *, width=100, full=False, color_system=None, encoding="utf-8"):
    class File(StringIO):
        @property
        def encoding(self):
            return encoding

    file = File()
    terminal = color_system is not None
    console = Console(file=file, width=width, color_system=color_system, force_terminal=terminal, legacy_windows=False)
    console.print(render_terminal(window, full=full))
    return file.getvalue()


@pytest.mark.parametrize("full", [False, True], ids=["overview", "full"])
@given(
    text=st.text(st.characters(), min_size=1, max_size=60) | st.sampled_from([MARKUP, CONTROLS, SCRIPTS]),
    width=st.integers(12, 120),
)
def test_nothing_is_obeyed_and_nothing_is_too_wide(full, text, width):
    """Besides rich's own colours no control character is sent, whatever the text; no line is wider than the screen."""
    sent = printed(window_saying(text), width=width, full=full, color_system="truecolor")
    left = SENT_BY_RICH.sub("", sent)
    assert not {*left} & {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066"} - {"\n"}
    assert max(map(cell_len, left.split("\n"))) <= width


def test_markup_is_shown_and_not_read():
    out = printed(window_saying("[bold red]hi[/bold red] [link=file:x]y[/link] :smile:"), full=True)
    assert out.count("[bold red]hi[/bold red] [link=file:x]y[/link] :smile:") >= len(TITLES)


@pytest.mark.parametrize("full", [False, True], ids=["overview", "full"])
def test_every_section_and_omission_is_there(full):
    out = printed(window_saying("said"), full=full)
    for name in TITLES.values():
        assert re.search(rf"{name} +10  of 20, \d items?\n", out)
    assert "93 of 200 tokens  46% used, 107 free, 6 messages" in out
    assert re.search(r"left out or shortened  7 items, 55 tokens\n", out)
    assert len(re.findall(r"said · said · said 1 +said +5\n", out)) == 2
    assert re.search(r"5 more +said +45\n", out)
    assert "note  said" in out


def test_the_overview_shows_the_first_words_of_what_matters_most():
    out = printed(window_of([f"question {n}\nsecond line" for n in range(50)], input_tokens=1_000))
    assert "  47 more, then\n  assistant  question 47 second line\n" in out
    assert "question 46" not in out


def test_the_overview_names_a_few_of_what_was_left_out():
    window = window_of([], input_tokens=1_000)
    omissions = [Omission("message", f"m{n}", 10, "older" if n % 2 else "shortened") for n in range(12)]
    receipt = receipt_of([], omissions, rest={"older": LeftOut(100, 1_000)}, total_tokens=9, input_tokens=1_000)
    window = replace(window, receipt=receipt)
    rows = [" ".join(line.split()) for line in printed(window).partition("what")[2].splitlines()[1:]]
    assert rows == [
        *("message · m0 shortened 10", "message · m1 older 10", "message · m2 shortened 10"),
        *("message · m3 older 10", "message · m4 shortened 10", "104 more older 1,040", "3 more shortened 30"),
    ]
    assert printed(window, full=True).count("message · m") == 12


def test_what_is_used_is_not_rounded_up():
    cases = [(0, 0, "0%"), (0, 9, "0%"), (1, 1_000, "under 1%"), (999, 1_000, "99%"), (5, 5, "100%")]
    for used, limit, said in cases:
        window = ContextWindow((), (), used, Receipt((), total_tokens=used, input_tokens=limit))
        assert f"{said} used" in printed(window)


def test_full_shows_everything():
    out = printed(window_of([f"question {n}\nsecond line" for n in range(50)], input_tokens=1_000), full=True)
    assert all(re.search(rf"question {n} *\n +second line", out) for n in range(50))
    assert "  user · m0 · 5 tokens" in out


def test_without_colour_letters_tell_sections_apart():
    bar = printed(window_saying("x"), width=100).split("\n")[1]
    assert re.fullmatch("s+t+f+n+h+q+r+d+a+░+", bar)
    assert len(bar) == 100
    assert len({look.letter for look in LOOKS.values()}) == len(TITLES)


def test_without_unicode_ascii_draws_it():
    out = printed(window_saying("x"), encoding="ascii", color_system="standard")
    assert "█" not in out
    assert "■" not in out
    assert re.search(r"\.{50,}", SENT_BY_RICH.sub("", out))


def test_the_bar_is_as_wide_as_the_screen_or_a_hundred_columns():
    for width in [12, 40, 100, 300]:
        for count in [0, 1, 100, 19_000]:
            out = printed(window_of(["x"] * count, input_tokens=100_000), width=width)
            bar = next(line for line in out.split("\n") if "q" in line and set(line) <= set("hq░"))
            assert len(bar) == min(width, 100)


def test_an_empty_window_and_unknown_sections_are_shown():
    assert "0 of 0 tokens" in printed(ContextWindow((), (), 0, Receipt(())))
    odd = ContextWindow((), (Section("\x1b[2Jodd", 1, 1),), 1, Receipt((), total_tokens=1, input_tokens=1))
    assert visible("\x1b[2Jodd") in printed(odd)


def test_rich_prints_a_window_by_itself():
    window = window_saying("x")
    file = StringIO()
    Console(file=file, width=100).print(window)
    assert file.getvalue() == printed(window)
