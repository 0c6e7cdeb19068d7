"""Draw the README's pictures of a context window: as HTML and in the inspector, light and dark, and by `arc inspect`.

This needs Chromium (Debian: apt install chromium fonts-nanum) and Pillow, which comes with matplotlib. The same
conversation, clock and ids give the same pictures.

python docs/make_pictures.py [FOLDER]
"""
# ruff: noqa: INP001 - a script, in no package

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Thread

import uvicorn
from PIL import Image
from render_demo import DARK, as_html

from arc_common import ArcSettings, ContextEngine, Document, ScoredDocument, TokenBudget
from arc_common.cli.demo import SESSION, demo_settings, support_script
from arc_common.context import ContextWindow
from arc_common.context.display import render_html
from arc_common.server import build_inspector

TURNS = 30
PLAYED = 70
WIDTH = 100
QUESTION = "When does the sand chair come, and is the standing desk's motor still under warranty?"
ANSWER = "It comes on 26 March, and the motor's warranty lasts five years."
DOCUMENTS = [
    ScoredDocument(
        Document(
            "Frames have a warranty of 10 years, motors of 5 years, and covers of 2 years. The warranty begins on the "
            "day of delivery. Marks of use and damage from moisture are not covered by it.",
            id="warranty",
            source="handbook, page 6",
        ),
        0.91,
        {"lexical": 0.83, "dense": 0.94},
    ),
    ScoredDocument(
        Document(
            "Parcels arrive within 3 days, furniture within 2 weeks. The carrier agrees on a day with the customer.",
            id="delivery",
            source="handbook, page 4",
        ),
        0.78,
        {"lexical": 0.71, "dense": 0.80},
    ),
    ScoredDocument(
        Document(
            "Oiled wood wants new oil once a year, and never a wet cloth. " * 60, id="care", source="handbook, page 9"
        ),
        0.22,
        {"lexical": 0.05, "dense": 0.31},
    ),
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "track",
            "description": "Where a parcel is, and on which day it is delivered.",
            "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
        },
    }
]
PAGE = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<style>body {{ margin: 12px; background: {background}; }}</style>{window}"""


def main() -> None:
    """Draw all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    with tempfile.TemporaryDirectory() as scratch:
        address = f"sqlite:///{Path(scratch, 'support.db').as_posix()}"
        with opened(address) as engine:
            window = talked(engine)
        html = unfolded(render_html(window), "arc-of-documents", "arc-omissions")
        page = Path(scratch, "window.html")
        for scheme, ground in (("light", "#ffffff"), ("dark", "#0d1117")):
            page.write_text(PAGE.format(window=html, background=ground), "utf-8")
            size = 920, 659
            draw(page.as_uri(), folder / f"context_window_{scheme}.png", size=size, is_dark=scheme == "dark")
        text = inspected(address)
        page.write_text(as_html(text, WIDTH, DARK), "utf-8")
        size = WIDTH * 9 + 62, text.count("\n") * 20 + 40
        draw(page.as_uri(), folder / "inspect.png", size=size, is_dark=True)
        with opened(f"sqlite:///{Path(scratch, 'demo.db').as_posix()}", demo_settings()) as engine, pages(engine) as at:
            play(engine)
            for scheme in ("light", "dark"):
                png = folder / f"inspector_{scheme}.png"
                draw(f"{at}/conversation?id={SESSION}", png, size=(1_100, 860), is_dark=scheme == "dark")


@contextmanager
def pages(engine: ContextEngine) -> Iterator[str]:
    """Serve the inspector to this machine, and yield its address."""
    config = uvicorn.Config(build_inspector(engine, [], anonymous=True), host="127.0.0.1", port=0, log_level="warning")
    server, listening = uvicorn.Server(config), config.bind_socket()
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()


def play(engine: ContextEngine) -> None:
    """Play the first turns of the demo's conversation."""
    script = support_script()
    session = engine.session(SESSION)
    for turn in script.turns[:PLAYED]:
        session.context(turn.user, system_prompt=script.system, tools=TOOLS)
        session.save_turn(turn.user, turn.reply or "I will look it up.")
        session.summarize()
    session.pin("Never leave a parcel with the neighbour in 302.")
    engine.flush()


def opened(address: str, settings: ArcSettings | None = None) -> ContextEngine:
    """Open an engine with the same clock and ids in every run."""
    numbers, ticks = count(1), count()
    start = datetime(2026, 3, 9, 9, tzinfo=UTC)
    clock: Callable[[], datetime] = lambda: start + timedelta(seconds=20 * next(ticks))  # noqa: E731
    return ContextEngine.open(
        address, settings=settings or ArcSettings(), clock=clock, new_id=lambda: f"m{next(numbers)}"
    )


def talked(engine: ContextEngine) -> ContextWindow:
    """Return the window of a question after a conversation with a furniture shop's support."""
    script = support_script()
    session = engine.session("support-1")
    for turn in script.turns[:TURNS]:
        session.context(turn.user)
        reply = turn.reply or f"That is {turn.question.accepts[0]}." if turn.question else turn.reply or ""
        session.save_turn(turn.user, reply)
        session.summarize()
    window = session.context(
        QUESTION,
        system_prompt=script.system,
        documents=DOCUMENTS,
        tools=TOOLS,
        budget=TokenBudget(context_window=1_600, output_reserve=400),
    )
    session.save_turn(QUESTION, ANSWER)
    return window


def unfolded(html: str, *parts: str) -> str:
    """Open these parts of the page."""
    for part in parts:
        html = html.replace(f'<details class="{part}">', f'<details class="{part}" open>')
    return html


def inspected(address: str) -> str:
    """Return the output of `arc inspect` on a colour terminal."""
    command = [str(Path(sys.executable).with_name("arc")), "inspect", "support-1", "--tokens", "700"]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ARC_")},
        "ARC_DATABASE_URL": address,
        "COLUMNS": str(WIDTH),
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "TTY_INTERACTIVE": "0",
    }
    run = subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: S603 - our own arguments
    return f"$ {' '.join(['arc', *command[1:]])}\n{run.stdout.decode()}"


def draw(page: str, png: Path, *, size: tuple[int, int], is_dark: bool) -> None:
    """Take a browser's picture of the page, and reduce its colours for the README."""
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    look = [f"--blink-settings=preferredColorScheme={0 if is_dark else 1}", f"--window-size={size[0]},{size[1]}"]
    shot = [f"--screenshot={png.resolve()}", page]
    subprocess.run([*browser, *look, *shot], check=True, stderr=subprocess.DEVNULL)  # noqa: S603 - the same
    with Image.open(png) as picture:
        reduced = picture.convert("RGB").quantize(128)
    reduced.save(png, optimize=True)


if __name__ == "__main__":
    main()
