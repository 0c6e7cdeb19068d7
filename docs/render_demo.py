"""Draw docs/demo.png from the output of `arc demo`. This needs Chromium (Debian: apt install chromium fonts-nanum).

python docs/render_demo.py [--light] [--width COLUMNS] [--all] [PNG]
"""
# ruff: noqa: INP001 - a script, in no package

import argparse
import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, TerminalTheme

DARK = TerminalTheme(
    (24, 26, 31),
    (214, 218, 226),
    [
        (60, 64, 72),
        (240, 113, 120),
        (126, 196, 116),
        (229, 192, 103),
        (97, 159, 239),
        (198, 140, 230),
        (86, 194, 202),
        (214, 218, 226),
    ],
    [
        (120, 126, 138),
        (255, 140, 145),
        (150, 220, 140),
        (245, 212, 130),
        (130, 185, 255),
        (220, 165, 250),
        (115, 220, 228),
        (255, 255, 255),
    ],
)
PAGE = """<!doctype html><meta charset="utf-8"><style>
{stylesheet}
html, body {{ margin: 0; background: {background}; color: {foreground}; }}
pre {{ margin: 0; padding: 18px 22px; font: 15px/1.32 "DejaVu Sans Mono", monospace; width: max-content; }}
i {{ display: inline-block; width: 2ch; font-style: normal; line-height: 1; }}
</style><pre>{code}</pre>"""


def main() -> None:
    """Draw the picture."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("png", nargs="?", type=Path, default=Path(__file__).with_name("demo.png"))
    arguments.add_argument("--light", action="store_true")
    arguments.add_argument("--all", action="store_true", help="the whole run, and not only the comparison at its end")
    arguments.add_argument("--width", type=int, default=104)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = printed(Path(folder), given.width, whole=given.all)
        theme = DEFAULT_TERMINAL_THEME if given.light else DARK
        page = Path(folder, "demo.html")
        page.write_text(as_html(text, given.width, theme), "utf-8")
        size = f"{given.width * 9 + 62},{text.count(chr(10)) * 20 + 40}"
        browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        shot = [f"--window-size={size}", f"--screenshot={given.png.resolve()}", page.as_uri()]
        subprocess.run([*browser, *shot], check=True, stderr=subprocess.DEVNULL)  # noqa: S603 - our own arguments


def printed(folder: Path, width: int, *, whole: bool) -> str:
    """Return the output on a colour terminal of this width; without `whole`, only the comparison, from a second run."""
    command = [str(Path(sys.executable).with_name("arc")), "demo", "--local", "--file", "arc-demo.db"]
    colour = {"FORCE_COLOR": "1", "TTY_INTERACTIVE": "0", "TERM": "xterm-256color", "COLUMNS": str(width)}
    runs = [
        subprocess.run(command, check=True, capture_output=True, cwd=folder, env=os.environ | colour)  # noqa: S603 - the same
        for _ in range(2)
    ]
    shown = runs[0 if whole else 1].stdout.decode().replace(f"{folder.resolve()}{os.sep}", "")
    if not whole:
        lines = shown.splitlines(keepends=True)
        first, after = (next(n for n, line in enumerate(lines) if words in line) for words in ("What the ", "All "))
        shown = "$ arc demo\n" + "".join(lines[first:after])
    return re.sub(r"\S+/bin/arc\b", ".venv/bin/arc", shown)  # as `make demo` prints it


def as_html(text: str, width: int, theme: TerminalTheme) -> str:
    """Return a page that shows a terminal's output."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    for line in AnsiDecoder().decode(text):
        console.print(line, soft_wrap=True)
    html = console.export_html(theme=theme, code_format=PAGE)
    return re.sub("[가-힣]", r"<i>\g<0></i>", html)  # a terminal shows each in two cells, a browser's font does not


if __name__ == "__main__":
    main()
