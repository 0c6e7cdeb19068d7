"""A real browser for tests: Chromium without a window, if it is installed."""

import base64
import json
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["CHROMIUM", "measured"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Where it is, or `None`."""

_PAGE = """<!doctype html><meta charset="utf-8">{frames}<pre id="measured"></pre><script>
addEventListener("load", () => {{
  const measure = {measure};
  const found = [...document.querySelectorAll("iframe")].map(frame => measure(frame.contentWindow));
  document.getElementById("measured").textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
}});
</script>"""


def measured(pages: list[tuple[str, int]], measure: str, *, folder: Path, is_dark: bool) -> list[Any]:
    """What a JavaScript function finds in each page.

    Args:
        pages: HTML documents, and how many pixels wide the window of each is.
        measure: A JavaScript function from a page's window to a JSON value.
        folder: Where the page that holds them may be written.
        is_dark: Whether the system's colour scheme is dark.
    """
    assert CHROMIUM is not None
    frames = "".join(
        f'<iframe style="width:{width}px;height:600px;border:0" srcdoc="{escape(html)}"></iframe>'
        for html, width in pages
    )
    page = folder / "page.html"
    page.write_text(_PAGE.format(frames=frames, measure=measure), "utf-8")
    look = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1200,800",
        f"--user-data-dir={folder}/profile",
    ]
    scheme = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
    command = [CHROMIUM, *look, scheme, "--virtual-time-budget=10000", "--dump-dom", page.as_uri()]
    dump = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    answer = dump.rpartition('<pre id="measured">')[2].partition("</pre>")[0]
    return list(json.loads(base64.b64decode(answer)))
